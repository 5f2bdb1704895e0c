"""The net of test_to_onnx.py: every layer that goes into ONNX, from one input of 8 x 13 x 11."""

# tops: type bottoms | parameters; a top with "!" was made before, and is worked on in place
LAYERS = """
conv: Convolution data | convolution_param { num_output: 6 kernel_size: 3 stride: 2 pad: 1 }
conv_odd: Convolution data | convolution_param { num_output: 4 kernel_h: 2 kernel_w: 5 stride_h: 3 stride_w: 1 pad_h: 1 pad_w: 0 bias_term: false }
conv_groups: Convolution data | convolution_param { num_output: 8 kernel_size: 3 group: 4 dilation: 2 pad: 2 }
depthwise: DepthwiseConvolution data | convolution_param { num_output: 8 kernel_size: 3 pad: 1 }
deconv: Deconvolution conv | convolution_param { num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 2 }
ip: InnerProduct data | inner_product_param { num_output: 7 }
ip_ip: InnerProduct ip | inner_product_param { num_output: 5 transpose: true bias_term: false }
ip_axis: InnerProduct data | inner_product_param { num_output: 3 axis: -1 }
relu: ReLU data |
leaky: ReLU data | relu_param { negative_slope: 0.1 }
prelu: PReLU data | prelu_param { filler { type: "gaussian" std: 0.3 } }
prelu_shared: PReLU ip | prelu_param { channel_shared: true filler { value: 0.2 } }
elu: ELU data | elu_param { alpha: 0.7 }
sigmoid: Sigmoid data |
tanh: TanH data |
absval: AbsVal data |
bnll: BNLL data |
clip: Clip data | clip_param { min: -0.3 max: 0.9 }
relu6: ReLU6 data |
gelu: GELU data |
gelu_tanh: GELU data | gelu_param { approximate: true }
swish: Swish data | swish_param { beta: 1.5 }
threshold: Threshold data | threshold_param { threshold: 0.25 }
power: Power sigmoid | power_param { power: 1.7 scale: 0.5 shift: 1.25 }
power_same: Power data |
power_line: Power data | power_param { scale: -2 }
exp: Exp data | exp_param { base: 2 scale: 0.5 shift: 0.1 }
log: Log power | log_param { base: 10 scale: 3 shift: 0.5 }
max: Pooling data | pooling_param { kernel_size: 3 stride: 2 }
max_pad: Pooling data | pooling_param { kernel_size: 3 stride: 2 pad: 1 }
max_drop: Pooling data | pooling_param { kernel_size: 2 stride: 2 pad: 1 }
max_floor: Pooling data | pooling_param { kernel_size: 3 stride: 3 round_mode: FLOOR }
max_odd: Pooling data | pooling_param { kernel_h: 5 kernel_w: 2 stride_h: 2 stride_w: 3 pad_h: 2 pad_w: 1 }
ave: Pooling data | pooling_param { pool: AVE kernel_size: 3 stride: 2 }
ave_pad: Pooling data | pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }
ave_same: Pooling data | pooling_param { pool: AVE kernel_size: 3 pad: 1 }
ave_drop: Pooling data | pooling_param { pool: AVE kernel_size: 4 stride: 3 pad: 2 }
ave_odd: Pooling data | pooling_param { pool: AVE kernel_h: 2 kernel_w: 5 stride_h: 4 stride_w: 4 pad_h: 1 pad_w: 0 }
ave_floor: Pooling data | pooling_param { pool: AVE kernel_size: 5 stride: 4 pad: 2 round_mode: FLOOR }
ave_over: Pooling max_pad | pooling_param { pool: AVE kernel_size: 8 stride: 2 pad: 1 }
ave_global: Pooling data | pooling_param { pool: AVE global_pooling: true }
max_global: Pooling data | pooling_param { pool: MAX global_pooling: true }
lrn: LRN data | lrn_param { local_size: 5 alpha: 0.9 beta: 0.75 k: 2 }
lrn_within: LRN data | lrn_param { local_size: 3 alpha: 0.9 beta: 0.75 norm_region: WITHIN_CHANNEL }
softmax: Softmax ip |
softmax_places: Softmax data | softmax_param { axis: -3 }
concat: Concat relu data tanh |
concat_rows: Concat relu data | concat_param { axis: 2 }
slice_a,slice_b,slice_c: Slice data | slice_param { axis: 1 slice_point: 3 slice_point: 4 }
half_a,half_b: Slice concat_rows | slice_param { axis: 2 }
sum: Eltwise relu data tanh |
weighted: Eltwise relu tanh | eltwise_param { coeff: 1.5 coeff: -0.5 }
product: Eltwise relu data tanh | eltwise_param { operation: PROD }
larger: Eltwise data tanh sigmoid | eltwise_param { operation: MAX }
norm: BatchNorm data | batch_norm_param { eps: 0.001 }
norm_scaled: BatchNorm conv |
norm_scaled!: Scale norm_scaled | scale_param { bias_term: true filler { type: "gaussian" std: 1 } bias_filler { type: "gaussian" std: 1 } }
norm_scaled!: ReLU norm_scaled |
norm_ip: BatchNorm ip |
scale: Scale data | scale_param { filler { type: "gaussian" std: 1 } }
scale_rows: Scale data | scale_param { axis: 2 num_axes: 2 bias_term: true filler { type: "gaussian" std: 1 } bias_filler { type: "gaussian" std: 1 } }
scale_one: Scale data | scale_param { num_axes: 0 filler { value: 1.5 } }
flat_mean: Flatten ave_global |
scale_given: Scale data flat_mean | scale_param { axis: 0 }
bias: Bias data | bias_param { filler { type: "gaussian" std: 1 } }
bias_given: Bias data flat_mean | bias_param { axis: 0 }
dropout: Dropout data |
flatten: Flatten data |
flatten_middle: Flatten data | flatten_param { axis: 1 end_axis: 2 }
reshape: Reshape data | reshape_param { shape { dim: 0 dim: 4 dim: -1 dim: 11 } }
volume: Reshape data | reshape_param { shape { dim: 0 dim: 2 dim: 4 dim: 13 dim: 11 } }
conv_volume: Convolution volume | convolution_param { num_output: 3 kernel_size: 3 stride: 2 pad: 1 }
ave_volume: Pooling volume | pooling_param { pool: AVE kernel_size: 2 stride: 3 pad: 1 }
line: Reshape data | reshape_param { shape { dim: 0 dim: 8 dim: 143 } }
conv_line: Convolution line | convolution_param { num_output: 3 kernel_size: 4 stride: 3 }
max_line: Pooling line | pooling_param { kernel_size: 4 stride: 3 pad: 2 }
crop: Crop data conv | crop_param { axis: 2 offset: 3 offset: 2 }
tile: Tile ip | tile_param { axis: 1 tiles: 3 }
shuffle: ShuffleChannel data | shuffle_channel_param { group: 4 }
"""


def net():
    """The text of all of them behind an input `data`, and the names of their tops."""
    text, tops = "", []
    for number, line in enumerate(LAYERS.strip().splitlines()):
        name, rest = line.split(":", 1)
        words, param = rest.split("|")
        kind, *bottoms = words.split()
        names = name.rstrip("!").split(",")
        text += 'layer { name: "l%d" type: "%s" %s %s %s }\n' % (
            number, kind, " ".join('bottom: "%s"' % b for b in bottoms), " ".join('top: "%s"' % t for t in names), param)
        tops += [t for t in names if t not in tops]
    return text, tops
