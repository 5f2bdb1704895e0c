/* What layers say of definitions that make no sense. No engine. */
#include "tests/layers/layer_texts.h"
#include "tests/suite.h"

#define VOLUME INPUT("x", "2,4,4,5,6")
#define LINE   INPUT("x", "2,4,20")
#define LOSS(scores, labels, rest)                                                                 \
    INPUT("s", scores)                                                                             \
    INPUT("t", labels)                                                                             \
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 's' bottom: 't' top: 'y' " rest " }"
#define ACCURACY(rest)                                                                             \
    INPUT("s", "4,5")                                                                              \
    INPUT("t", "4")                                                                                \
    "layer { name: 'l' type: 'Accuracy' bottom: 's' bottom: 't' top: 'y' " rest " }"

#define PAIR(type, a, b, rest) INPUT("x", a) INPUT("z", b) TWO(type, rest)

struct error_case {
    const char *text;
    const char *message; /* part of it */
};

static const struct error_case error_cases[] = {
    {X "layer { name: 'l' type: 'Relu' bottom: 'x' top: 'y' }",
     "test.prototxt:2: layer 'l' (Relu): unknown layer type: Relu; did you mean "
     "ReLU?\n('poseidon help layers' lists all types; "},
    {X "layer { name: 'l' type: 'Flip' bottom: 'x' top: 'y' }",
     "layer type Flip is not supported: it belongs to a fork of Caffe for mirrored maps; "},
    {X "layer { name: 'l' type: 'Mystery' bottom: 'x' top: 'y' }",
     "test.prototxt:2: layer 'l' (Mystery): unknown layer type: Mystery\n"},
    {X "layer { name: 'l' type: 'IMAGE_SEG_DATA' bottom: 'x' top: 'y' }",
     "unknown layer type: IMAGE_SEG_DATA; did you mean ImageSegData?"},
    {X "layer { name: 'a' type: 'Reorg' bottom: 'x' top: 'y' }\n"
       "layer { name: 'b' type: 'BN' bottom: 'y' top: 'z' }\n"
       "layer { name: 'c' type: 'Reorg' bottom: 'z' top: 'u' }",
     "test.prototxt:2: layer 'a' (Reorg): layer type Reorg is not supported: it belongs to a fork "
     "of "
     "Caffe for object detection (Darknet's YOLO) (2 times)\n"
     "test.prototxt:3: layer 'b' (BN): layer type BN is not supported: it belongs to a fork of "
     "Caffe "
     "for segmentation; tools/from_forks.py makes it BatchNorm and Scale\n('poseidon help layers'"},
    {X "layer { name: 'roi' type: 'Python' bottom: 'x' top: 'y' }",
     "layer 'roi' (Python): layer type Python is not supported: it needs Caffe's Python layers"},
    {X "layer { name: 'l' type: 'ReLU' top: 'y' }", "takes 1 bottom, not 0"},
    {X "layer { name: 'l' type: 'ReLU' bottom: 'x' top: 'y' top: 'z' }", "takes 1 top, not 2"},
    {X "layer { name: 'l' type: 'Eltwise' bottom: 'x' top: 'y' }",
     "takes at least 2 bottoms, not 1"},
    {X "layer { name: 'l' type: 'Pooling' bottom: 'x' top: 'a' top: 'b' top: 'c' pooling_param { "
       "kernel_size: 2 } }",
     "takes 1 to 2 tops, not 3"},
    {X "layer { name: 'l' type: 'Pooling' bottom: 'x' top: 'x' }",
     "top 'x' is also the bottom; layers of type Pooling cannot work in place"},
    /* convolution */
    {X "layer { name: 'l' type: 'Convolution' bottom: 'x' top: 'y' }",
     "convolution_param is missing"},
    {X CONV("kernel_size: 3"), "num_output is missing; expected at least 1"},
    {X CONV("num_output: 0 kernel_size: 3"), "num_output is out of range"},
    {X CONV("num_output: 4"), "kernel_size (or kernel_h and kernel_w) is missing"},
    {X CONV("num_output: 4 kernel_size: 3 kernel_h: 3"),
     "give either kernel_size or kernel_h and kernel_w, not both"},
    {X CONV("num_output: 4 kernel_h: 3"), "kernel_h is given without kernel_w; both are needed"},
    {X CONV("num_output: 4 kernel_size: 3 pad: 1 pad_w: 1"),
     "give either pad or pad_h and pad_w, not both"},
    {X CONV("num_output: 4 kernel_size: 3 stride_w: 1"), "stride_w is given without stride_h"},
    {X CONV("num_output: 4 kernel_size: [3, 3, 3]"), "kernel_size has 3 values"},
    {X CONV("num_output: 4 kernel_size: 0"), "kernel_size must be at least 1"},
    {X CONV("num_output: 4 kernel_size: 3 stride: 0"), "stride must be at least 1"},
    {X CONV("num_output: 4 kernel_size: 3 dilation: 0"), "dilation must be at least 1"},
    {X CONV("num_output: 4 kernel_size: 4294967295"), "kernel_size must be at least 1"},
    {X CONV("num_output: 4 kernel_size: 3 group: 3"),
     "group 3 does not divide the 4 channels of 'x' and the 4 outputs"},
    {X CONV("num_output: 3 kernel_size: 3 group: 2"),
     "group 2 does not divide the 4 channels of 'x' and the 3 outputs"},
    {X CONV("num_output: 3 kernel_size: 3 group: 0"), "group is 0"},
    {X CONV("num_output: 4 kernel_size: 7"),
     "kernel 7 x 7 (dilation 1 x 1) is larger than the padded input: height 7 > 6 + 2 * 0"},
    {X CONV("num_output: 4 kernel_size: 3 dilation: 3 pad: 0"), "height 7 > 6 + 2 * 0"},
    {INPUT("x", "2,28,28,1") CONV("num_output: 4 kernel_size: 5"),
     "width 5 > 1 + 2 * 0; expected a larger input, channels first, or a smaller kernel"},
    {INPUT("x", "4") "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'y' top: 'z' }",
     "is out of range for bottom 'x' of 1 axis: 4 (4); several labels a record: label_size of "
     "ImageData, or HDF5Data"},
    {X CONV("num_output: 4 kernel_size: 3 axis: 2"), "axis is 2; expected 1"},
    {INPUT("x", "2,4") CONV("num_output: 4 kernel_size: 3"),
     "expected a bottom of 3, 4 or 5 axes (N,C, and one to three spatial ones), found 'x' of 2: 2 "
     "4 "
     "(8)"},
    {INPUT("x", "2,3,4,5,6,2")
         ONE("Deconvolution", "convolution_param { num_output: 1 kernel_size: 1 }"),
     "(Deconvolution): expected a bottom of 3, 4 or 5 axes (N,C, and one to three spatial ones), "
     "found 'x' of 6: 2 3 4 5 6 2 (1440)"},
    {INPUT("x", "20") ONE("Im2col", "convolution_param { kernel_size: 1 }"),
     "(Im2col): expected a bottom of 3, 4 or 5 axes"},
    /* over one or three spatial axes */
    {VOLUME CONV("num_output: 4"), "(Convolution): kernel_size is missing"},
    {VOLUME CONV("num_output: 4 kernel_size: [3, 3]"),
     "kernel_size has 2 values; expected one for all, or one for each spatial axis of 'x' (depth, "
     "height, width)"},
    {VOLUME CONV("num_output: 4 kernel_size: 3 stride: [1, 1, 1, 1]"),
     "stride has 4 values; expected one for all, or one for each spatial axis of 'x' (depth, "
     "height, "
     "width)"},
    {VOLUME CONV("num_output: 4 kernel_size: 3 dilation: [1, 2]"), "dilation has 2 values"},
    {LINE CONV("num_output: 4 kernel_size: 3 pad: [1, 1]"),
     "pad has 2 values; expected one, or one for each spatial axis of 'x' (length)"},
    {X CONV("num_output: 4 kernel_size: [1, 2, 3]"),
     "expected one for all, or one for each spatial axis of 'x' (height, width)"},
    {VOLUME CONV("num_output: 4 kernel_h: 3 kernel_w: 3"),
     "kernel_h and kernel_w need a bottom of height and width alone, but 'x' has depth, height, "
     "width: give kernel_size once, or once for each axis"},
    {LINE CONV("num_output: 4 kernel_size: 3 pad_h: 1 pad_w: 1"),
     "pad_h and pad_w need a bottom of height and width alone, but 'x' has length: give pad "
     "once"},
    {VOLUME CONV("num_output: 4 kernel_size: [1, 0, 1]"),
     "kernel_size must be at least 1 and at most 16777216, but it is 1 x 0 x 1"},
    {VOLUME CONV("num_output: 4 kernel_size: [3, 3, 9]"),
     "kernel 3 x 3 x 9 (dilation 1 x 1 x 1) is larger than the padded input: width 9 > 6 + 2 * 0"},
    {VOLUME CONV("num_output: 4 kernel_size: 3 dilation: [2, 1, 1]"),
     "kernel 3 x 3 x 3 (dilation 2 x 1 x 1) is larger than the padded input: depth 5 > 4 + 2 * 0"},
    {LINE CONV("num_output: 4 kernel_size: 30"),
     "kernel 30 (dilation 1) is larger than the padded input: length 30 > 20 + 2 * 0"},
    {VOLUME ONE("Deconvolution", "convolution_param { num_output: 1 kernel_size: 1 pad: 3 }"),
     "pad 3 leaves nothing of the top: depth 1 * (4 - 1) + 1 - 2 * 3"},
    {VOLUME ONE("Im2col", "convolution_param { kernel_size: 16777216 pad: 16777216 }"),
     "blob size exceeds INT_MAX"},
    {X ONE("NdConvolution", ""),
     "layer type NdConvolution is not supported: it belongs to a fork of Caffe for video; "
     "tools/from_forks.py makes it Convolution or Pooling"},
    {X ONE("NdPooling", ""), "for video; tools/from_forks.py makes it"},
    {X ONE("Convolution3D", ""), "for video; tools/from_forks.py makes it"},
    {X ONE("Pooling3D", ""), "for video; tools/from_forks.py makes it"},
    {X ONE("Conv3d", ""), "unknown layer type: Conv3d; did you mean Convolution?"},
    {X ONE("AvgPool1d", ""), "unknown layer type: AvgPool1d; did you mean Pooling?"},
    {X INPUT("z",
             "2,4,6,6") "layer { name: 'l' type: 'Convolution' bottom: 'x' bottom: 'z' top: 'a' "
                        "top: 'b' convolution_param { num_output: 1 kernel_size: 1 } }",
     "all bottoms must have one shape: 'x' is 2 4 6 5 (240), 'z' is 2 4 6 6 (288)"},
    {X "layer { name: 'l' type: 'Convolution' bottom: 'x' top: 'a' top: 'b' convolution_param { "
       "num_output: 1 kernel_size: 1 } }",
     "expected one top per bottom, found 1 bottom and 2 tops"},
    {X CONV("num_output: 1000000000 kernel_size: 1"), "blob size exceeds INT_MAX"},
    /* inner product */
    {X "layer { name: 'l' type: 'InnerProduct' bottom: 'x' top: 'y' }",
     "inner_product_param is missing"},
    {X IP("bias_term: false"), "num_output is missing; expected at least 1"},
    {X IP("num_output: 3 axis: 4"),
     "axis 4 is out of range for bottom 'x' of 4 axes: 2 4 6 5 (240)"},
    /* pooling */
    {X "layer { name: 'l' type: 'Pooling' bottom: 'x' top: 'y' }", "pooling_param is missing"},
    {X POOL("pool: MAX"), "kernel_size (or kernel_h and kernel_w) is missing"},
    {X POOL("kernel_size: 2 kernel_w: 2"), "give either kernel_size or kernel_h and kernel_w"},
    {X POOL("kernel_w: 2"), "kernel_w is given without kernel_h"},
    {X POOL("kernel_size: 0"), "kernel_size must be at least 1"},
    {X POOL("kernel_size: 2 stride: 1 stride_h: 2"), "give either stride or stride_h and stride_w"},
    {X POOL("kernel_size: 2 stride: 0"), "stride must be at least 1"},
    {X POOL("kernel_size: 2 stride_h: 1"), "stride_h is given without stride_w; both are needed"},
    {X POOL("kernel_size: 2 pad: 2"), "pad 2 x 2 must be smaller than the kernel 2 x 2"},
    {X POOL("kernel_size: 2 global_pooling: true"),
     "global_pooling takes the whole plane (6 x 5): remove kernel_size, kernel_h and kernel_w"},
    {X POOL("global_pooling: true stride: 2"), "global_pooling needs pad 0 and stride 1"},
    {X POOL("kernel_size: 2 pad: 1 pool: STOCHASTIC"),
     "pool: STOCHASTIC takes no padding (as in Caffe), found pad 1 x 1"},
    {X "layer { name: 'l' type: 'Pooling' bottom: 'x' top: 'y' top: 'm' pooling_param { pool: "
       "STOCHASTIC kernel_size: 2 } }",
     "found 2 tops; only pool: MAX has a second top"},
    {X POOL("kernel_size: 8"),
     "kernel 8 x 8 is larger than the padded input: height 8 > 6 + 2 * 0"},
    {INPUT("x", "2,28,28,3") POOL("kernel_size: 5"),
     "width 5 > 3 + 2 * 0; expected a larger input, channels first, or a smaller kernel"},
    {X POOL("kernel_h: 6 kernel_w: 6 round_mode: FLOOR"), "width 6 > 5 + 2 * 0"},
    {X "layer { name: 'l' type: 'Pooling' bottom: 'x' top: 'y' top: 'm' pooling_param { pool: AVE "
       "kernel_size: 2 } }",
     "found 2 tops; only pool: MAX has a second top"},
    {INPUT("x", "2,4") POOL("kernel_size: 1"), "(Pooling): expected a bottom of 3, 4 or 5 axes "
                                               "(N,C, and one to three spatial ones), found 'x' "
                                               "of 2: 2 4 (8)"},
    {X POOL("kernel_size: [1, 2, 3]"),
     "kernel_size has 3 values; expected one for all, or one for each spatial axis of 'x' (height, "
     "width)"},
    {VOLUME POOL("pool: AVE"), "(Pooling): kernel_size is missing"},
    {VOLUME POOL("kernel_size: [2, 2]"), "kernel_size has 2 values"},
    {VOLUME POOL("kernel_h: 2 kernel_w: 2"),
     "kernel_h and kernel_w need a bottom of height and width alone, but 'x' has depth, height, "
     "width"},
    {VOLUME POOL("kernel_size: 2 stride_h: 2 stride_w: 2"), "give stride once, or once for each"},
    {VOLUME POOL("kernel_size: [1, 2, 2] pad: [1, 0, 0]"),
     "pad 1 x 0 x 0 must be smaller than the kernel 1 x 2 x 2"},
    {VOLUME POOL("kernel_size: [2, 2, 8]"),
     "kernel 2 x 2 x 8 is larger than the padded input: width 8 > 6 + 2 * 0"},
    {VOLUME POOL("global_pooling: true kernel_size: 2"),
     "global_pooling takes the whole plane (4 x 5 x 6): remove kernel_size, kernel_h and kernel_w"},
    {VOLUME POOL("global_pooling: true stride: [1, 1, 2]"),
     "global_pooling needs pad 0 and stride 1, found pad 0 x 0 x 0, stride 1 x 1 x 2"},
    {VOLUME POOL("kernel_size: 2 pad: [1, 0, 0] pool: STOCHASTIC"),
     "pool: STOCHASTIC takes no padding (as in Caffe), found pad 1 x 0 x 0"},
    {LINE POOL("kernel_size: 30"),
     "kernel 30 is larger than the padded input: length 30 > 20 + 2 * 0"},
    /* the rest */
    {X ONE("Dropout", "dropout_param { dropout_ratio: 1 }"),
     "dropout_ratio is 1; expected at least 0 and less than 1"},
    {X ONE("Dropout", "dropout_param { dropout_ratio: nan }"), "dropout_ratio is nan"},
    {X ONE("LRN", "lrn_param { local_size: 4 }"), "local_size is 4; expected an odd number"},
    {INPUT("x", "2,4") ONE("LRN", ""), "expected a bottom of 4 axes"},
    {X ONE("Softmax", "softmax_param { axis: 4 }"), "softmax_param axis 4 is out of range"},
    {X ONE("Flatten", "flatten_param { axis: 3 end_axis: 1 }"), "end_axis 1 lies before axis 3"},
    {X ONE("Flatten", "flatten_param { axis: -5 }"), "axis -5 is out of range"},
    {X ONE("Concat", "concat_param { axis: 1 concat_dim: 1 }"),
     "axis 1 and the old concat_dim 1 are both given"},
    {X ONE("Concat", "concat_param { concat_dim: 4 }"), "concat_dim 4 is out of range"},
    {X ONE("Concat", "concat_param { concat_dim: 4294967295 }"), "concat_dim 4294967295 is out"},
    {X INPUT("z", "2,4,6,6") "layer { name: 'l' type: 'Concat' bottom: 'x' bottom: 'z' top: 'y' }",
     "bottom 1, 'z' of shape 2 4 6 6 (288), does not fit 2 8 6 5 (480): only the "
     "sizes of axis 1 may differ"},
    {X INPUT("z", "2,4") "layer { name: 'l' type: 'Concat' bottom: 'x' bottom: 'z' top: 'y' }",
     "bottom 1, 'z' of shape 2 4 (8), does not fit 2 8 6 5 (480)"},
    {X INPUT("z", "2,4,5,6") "layer { name: 'l' type: 'Eltwise' bottom: 'x' bottom: 'z' top: 'y' }",
     "bottoms must have one shape: 'x' is 2 4 6 5 (240), 'z' is 2 4 5 6 (240)"},
    {X "layer { name: 'l' type: 'Eltwise' bottom: 'x' bottom: 'x' top: 'y' eltwise_param { coeff: "
       "1 } }",
     "found 1 value of coeff for 2 bottoms"},
    {X "layer { name: 'l' type: 'Eltwise' bottom: 'x' bottom: 'x' top: 'y' eltwise_param { coeff: "
       "[1, "
       "2] operation: PROD } }",
     "coeff needs operation: SUM"},
    {LOSS("4,5", "3", ""),
     "expected 4 labels, one for each place, for 's' of shape 4 5 (20), found 't' of shape 3 (3)"},
    {LOSS("4,5,2,2", "4", ""), "expected 16 labels"},
    {LOSS("4,5", "4", "softmax_param { axis: 2 }"), "softmax_param axis 2 is out of range"},
    {ACCURACY("accuracy_param { top_k: 6 }"), "top_k is 6; expected 1 to the number of classes, 5"},
    {ACCURACY("accuracy_param { top_k: 0 }"), "top_k is 0"},
    {ACCURACY("accuracy_param { axis: 2 }"), "accuracy_param axis 2 is out of range"},
    {ACCURACY("accuracy_param { axis: 0 }"), "expected 5 labels"},
    {ACCURACY("loss_weight: 1"), "top 'y' has loss_weight 1, but no gradient can come from it"},
    /* data */
    {"layer { name: 'l' type: 'Input' top: 'a' }", "input_param has 0 shapes for 1 top;"},
    {"layer { name: 'l' type: 'Input' top: 'a' top: 'b' top: 'c' input_param { shape { dim: 1 } "
     "shape { "
     "dim: 1 } } }",
     "input_param has 2 shapes for 3 tops"},
    {"layer { name: 'l' type: 'Input' top: 'a' input_param { shape { dim: [1, 0] } } }",
     "the shape of 'a' has size 0 on axis 1"},
    {"layer { name: 'l' type: 'Input' top: 'a' input_param { shape { dim: "
     "[1,1,1,1,1,1,1,1,1,1,1,1,1] } "
     "} }",
     "the shape of 'a' has 13 axes; at most 12"},
    {"layer { name: 'l' type: 'Data' top: 'x' }", "data_param source is missing"},
    {"layer { name: 'l' type: 'Data' top: 'x' data_param { source: 'x' } }",
     "batch_size is missing"},
    {"layer { name: 'l' type: 'Data' top: 'x' data_param { source: 'x' batch_size: 0 } }",
     "batch_size is out of range"},
    {"layer { name: 'l' type: 'Data' top: 'x' data_param { source: '/nowhere' batch_size: 1 } }",
     "/nowhere"},
    {"layer { name: 'l' type: 'HDF5Data' top: 'x' }", "hdf5_data_param source is missing"},
    {"layer { name: 'l' type: 'HDF5Data' top: 'x' hdf5_data_param { source: 'x' } }",
     "batch_size is missing"},
    {"layer { name: 'l' type: 'HDF5Data' top: 'x' hdf5_data_param { source: 'x' batch_size: 1 } "
     "transform_param { scale: 2 } }",
     "transform_param does not apply to HDF5Data"},
    /* refused by name */
    {X ONE("LSTM", ""), "layer 'l' (LSTM): layer type LSTM is not supported: this program does not "
                        "train recurrent layers"},
    {X ONE("RNN", ""),
     "layer type RNN is not supported: this program does not train recurrent layers"},
    {X ONE("Recurrent", ""), "layer type Recurrent is not supported"},
    {X ONE("Python", ""), "layer type Python is not supported: it needs Caffe's Python layers"},
    {"layer { name: 'w' type: 'WindowData' top: 'x' top: 'l' }",
     "layer 'w' (WindowData): layer type WindowData is not supported: it reads the window lists"},
    {X TWO("Filter", ""), "layer 'l': Unknown bottom blob 'z'"},
    {X Z TWO("Filter", ""),
     "layer type Filter is not supported: its tops' shapes depend on the data"},
    {X ONE("Permute", ""), "layer type Permute is not supported: it belongs to a fork of Caffe for "
                           "object detection (SSD) and others; Reshape does not do the same"},
    {X ONE("BatchNormal", ""),
     "unknown layer type: BatchNormal; did you mean BatchNorm?\n('poseidon help"},
    /* one element */
    {X ONE("Clip", ""), "clip_param min is missing"},
    {X ONE("Clip", "clip_param { min: 1 }"), "clip_param max is missing"},
    {X ONE("Exp", "exp_param { base: 0 }"),
     "exp_param base is 0; expected -1 (for e) or a number above 0"},
    {X ONE("Exp", "exp_param { base: -2 }"), "exp_param base is -2"},
    {X ONE("Log", "log_param { base: 1 }"), "log_param base is 1; expected -1 (for e) or"},
    {X "layer { name: 'l' type: 'AbsVal' bottom: 'x' top: 'x' }",
     "top 'x' is also the bottom; layers of type AbsVal cannot work in place"},
    {INPUT("x", "3") ONE("PReLU", ""),
     "expected a bottom of at least 2 axes (N,C), found 'x' of 1: 3 (3)"},
    /* BatchNorm, Scale, Bias */
    {X ONE("BatchNorm", "param { lr_mult: 1 }"),
     "parameter 0 has lr_mult 1; expected 0: batch statistics"},
    {X ONE("BatchNorm", "param { lr_mult: 0 } param { }"), "parameter 1 has lr_mult 1; expected 0"},
    {X ONE("BatchNorm", "batch_norm_param { eps: -1 }"), "eps is -1; expected at least 0"},
    {X ONE("BatchNorm", "batch_norm_param { moving_average_fraction: 2 }"),
     "moving_average_fraction is 2; expected 0 to 1"},
    {X ONE("Scale", "scale_param { axis: 4 }"), "axis 4 is out of range for bottom 'x' of 4 axes"},
    {X ONE("Scale", "scale_param { axis: 3 num_axes: 2 }"),
     "axis 3 and num_axes 2 go beyond bottom 'x' of 4"},
    {X ONE("Scale", "scale_param { num_axes: -2 }"),
     "num_axes is -2; expected -1 (to the end) or more"},
    {X INPUT("z", "3") TWO("Scale", ""),
     "'z' of shape 3 (3) does not fit axes 1 and following of 'x': 2 4 6 5 (240)"},
    {X INPUT("z", "5,5") TWO("Bias", "bias_param { axis: 3 }"),
     "'z' of shape 5 5 (25) does not fit axes 3"},
    /* pieces */
    {X "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'a' top: 'b' top: 'c' }",
     "3 tops do not divide axis 1 of size 4 evenly"},
    {X "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'a' top: 'b' slice_param { slice_point: 1 "
       "slice_point: 2 } }",
     "found 2 values of slice_point for 2 tops; expected 1, or none"},
    {X "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'a' top: 'b' slice_param { slice_point: 4 "
       "} }",
     "top 'b' would be empty: it goes from 4 to 4"},
    {X "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'a' top: 'b' slice_param { slice_point: 9 "
       "} }",
     "slice_point 9 is beyond the axis of size 4"},
    {X "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'a' top: 'b' top: 'c' slice_param { "
       "slice_point: 3 slice_point: 2 } }",
     "top 'b' would be empty: it goes from 3 to 2"},
    {X "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'a' top: 'b' slice_param { axis: 1 "
       "slice_dim: 1 } }",
     "axis 1 and the old slice_dim 1 are both given; expected one"},
    {X
     "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'a' top: 'b' slice_param { slice_dim: 9 } }",
     "slice_dim 9 is out of range"},
    {PAIR("Crop", "2,4,6,5", "2,4,7,5", ""),
     "offset 0 and size 7 do not fit axis 2 of 'x', which has 6"},
    {PAIR("Crop", "2,4,6,5", "2,4,5,5", "crop_param { offset: 2 }"),
     "offset 2 and size 5 do not fit axis 2 of 'x', which has 6"},
    {PAIR("Crop", "2,4,6,5", "2,4,5,5", "crop_param { offset: [1, 1, 1] }"),
     "found 3 values of offset for axes 2 to 3; expected one, or one each"},
    {PAIR("Crop", "2,4,6,5", "2,4", ""), "'z' has 2 axes; expected 4, as 'x' has"},
    {X ONE("Tile", ""), "tile_param tiles is missing; expected at least 1"},
    {X ONE("Tile", "tile_param { tiles: 0 }"), "tile_param tiles is out of range"},
    {X ONE("Tile", "tile_param { tiles: 2000000000 }"), "blob size exceeds INT_MAX"},
    {X ONE("Reshape", "reshape_param { shape { dim: 7 dim: -1 } }"),
     "shape has 7 elements times a whole number; expected 240, as the replaced axes of bottom 'x' "
     "have: 2 4 6 5 (240)"},
    {X ONE("Reshape", "reshape_param { shape { dim: 7 } }"), "shape has 7 elements; expected 240"},
    {X ONE("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }"), "more than one dim of -1"},
    {X ONE("Reshape", "reshape_param { shape { dim: -2 } }"), "shape has a dim of -2"},
    {X ONE("Reshape", "reshape_param { axis: 3 shape { dim: 5 dim: 0 } }"),
     "dim 0 at place 1 of shape copies axis 4, but bottom 'x' has 4 axes"},
    {X ONE("Reshape", "reshape_param { axis: 6 }"),
     "axis 6 is out of range for bottom 'x' of 4 axes"},
    {X ONE("Reshape", "reshape_param { axis: 3 num_axes: 2 }"), "axis 3 and num_axes 2 go beyond"},
    {X ONE("Reshape", "reshape_param { num_axes: -2 }"), "num_axes is -2"},
    {X
     "layer { name: 'l' type: 'Reshape' bottom: 'x' top: 'x' reshape_param { shape { dim: -1 } } }",
     "layers of type Reshape cannot work in place"},
    {X ONE("Reshape",
           "reshape_param { axis: 4 num_axes: 0 shape { dim: [1, 1, 1, 1, 1, 1, 1, 1, 1] } }"),
     "the top would have more than 12 axes"},
    {PAIR("BatchReindex", "2,4", "3,1", ""), "found 'z' of 2 axes: 3 1 (3)"},
    {X ONE("ShuffleChannel", "shuffle_channel_param { group: 3 }"),
     "group 3 does not divide the 4 channels of 'x'"},
    {INPUT("x", "3") ONE("ShuffleChannel", ""),
     "expected a bottom of at least 2 axes (N,C), found 'x' of 1: 3 (3)"},
    {X ONE("Embed", ""), "embed_param num_output is missing"},
    {X ONE("Embed", "embed_param { num_output: 3 }"), "embed_param input_dim is missing"},
    {"layer { name: 'l' type: 'Parameter' top: 'y' }", "parameter_param shape is missing"},
    {"layer { name: 'l' type: 'Parameter' top: 'y' parameter_param { shape { dim: "
     "[1,1,1,1,1,1,1,1,1,1,1,1,1] } } }",
     "the shape of 'y' has 13 axes; at most 12 are possible"},
    {"layer { name: 'l' type: 'Silence' }", "takes at least 1 bottom, not 0"},
    /* reductions */
    {X ONE("Reduction", "reduction_param { axis: 4 }"), "axis 4 is out of range"},
    {X ONE("ArgMax", "argmax_param { top_k: 121 }"),
     "top_k is 121; expected 1 to the number of values, 120"},
    {X ONE("ArgMax", "argmax_param { axis: 1 top_k: 5 }"),
     "top_k is 5; expected 1 to the number of values, 4"},
    {INPUT("x", "1,1,1,1,1") ONE("MVN", ""), "expected a bottom of at most 4 axes"},
    /* windows */
    {X ONE("Deconvolution", ""), "convolution_param is missing"},
    {X ONE("Deconvolution", "convolution_param { num_output: 3 kernel_size: 3 group: 2 }"),
     "group 2 does not divide the 4 channels of 'x' and the 3 outputs"},
    {X ONE("Deconvolution", "convolution_param { num_output: 3 kernel_size: 1 pad: 3 }"),
     "pad 3 leaves nothing of the top: height 1 * (6 - 1) + 1 - 2 * 3"},
    {X ONE("ConvolutionDepthwise", "convolution_param { num_output: 3 kernel_size: 1 }"),
     "num_output is 3; expected the bottom's number of channels, 4, or no num_output"},
    {X ONE("DepthwiseConvolution", "convolution_param { num_output: 3 kernel_size: 1 }"),
     "group 4 does not divide the 4 channels of 'x' and the 3 outputs"},
    {X ONE("ConvolutionDepthwise", "convolution_param { group: 2 kernel_size: 1 }"),
     "group is 2; expected the bottom's number of channels, 4, or no group field"},
    {X ONE("Im2col", ""), "convolution_param is missing; it must give kernel_size"},
    {X ONE("Im2col", "convolution_param { kernel_size: 1 axis: 2 }"),
     "axis is 2; expected 1: one batch axis, then channels (a Reshape layer"},
    {X ONE("Im2col", "convolution_param { kernel_size: 9 }"), "larger than the padded input"},
    {INPUT("x", "3,4") ONE("Im2col", "convolution_param { kernel_size: 1 }"),
     "expected a bottom of 3, 4 or 5 axes"},
    {X ONE("Interp", ""), "interp_param must give height and width, zoom_factor, or shrink_factor"},
    {X ONE("Interp", "interp_param { height: 3 }"), "interp_param must give height and width"},
    {X ONE("Interp", "interp_param { height: 3 width: 3 zoom_factor: 2 }"),
     "interp_param height 3 and width 3: expected at least 1 for both, without zoom_factor"},
    {X ONE("Interp", "interp_param { zoom_factor: 0 }"),
     "zoom_factor 0, shrink_factor 1: expected at least 1"},
    {X ONE("Interp", "interp_param { zoom_factor: 2 pad_beg: 1 }"),
     "pad_beg 1, pad_end 0: only cutting"},
    {X ONE("Interp", "interp_param { zoom_factor: 2 pad_beg: -5 }"),
     "leave nothing of axis 3 of size 5"},
    {X UPSAMPLE("upsample_h: 4"),
     "needs upsample_h and upsample_w, or scale_h and scale_w, or scale"},
    {X UPSAMPLE("scale: 3"), "the top would be 9 x 9 (height x width), but the mask is of layer "
                             "'p', which pools planes of "},
    {X UPSAMPLE("upsample_h: 0 upsample_w: 5"),
     "the shape of 'y' has size 0 on axis 2; expected at least 1"},
    {X POOLED "layer { name: 'l' type: 'Upsample' bottom: 'x' bottom: 'm' top: 'y' }",
     "'m' is 2 4 3 3 (72), but 'x' is 2 4 6 5 (240); expected the second top of the pooling that"},
    {X ONE("Upsample", ""), "takes 2 bottoms, not 1"},
    {X ONE("SPP", ""), "spp_param pyramid_height is missing; expected 1 to 12"},
    {X ONE("SPP", "spp_param { pyramid_height: 13 }"), "spp_param pyramid_height is out of range"},
    {X ONE("SPP", "spp_param { pyramid_height: 2 pool: STOCHASTIC }"),
     "pool: STOCHASTIC is not supported in a pyramid"},
    {X ONE("SPP", "spp_param { pyramid_height: 4 }"), "axis 3 of size 5 is too small for 4 bins"},
    /* losses */
    {PAIR("EuclideanLoss", "2,3", "2,4", ""),
     "expected two bottoms of equally many samples and elements: 'x' is 2 3 (6), 'z' is 2 4 (8)"},
    {PAIR("EuclideanLoss", "2,3", "3,2", ""), "expected two bottoms of equally many samples"},
    {PAIR("SigmoidCrossEntropyLoss", "2,3", "2", ""),
     "expected two bottoms of equally many samples"},
    {PAIR("HingeLoss", "2,3", "3", ""),
     "expected 2 labels, one per sample, for 'x' of shape 2 3 (6), found 'z' of shape 3 (3)"},
    {PAIR("SoftmaxWithLoss", "2,3", "2", "loss_param { label_smoothing: 1 }"),
     "label_smoothing is 1; expected 0 to below 1"},
    {PAIR("HingeLoss", "2,3", "2", "loss_param { label_smoothing: 0.1 }"),
     "label_smoothing is for SoftmaxWithLoss, not for HingeLoss"},
    {PAIR("MultinomialLogisticLoss", "2,3", "2,3", ""), "expected 2 labels, one per sample,"},
    {PAIR("ContrastiveLoss", "2,3", "2,3", ""), "takes 3 bottoms, not 2"},
    {INPUT("x", "2,3") INPUT("z", "2,3") INPUT(
         "s",
         "3") "layer { name: 'l' type: 'ContrastiveLoss' bottom: 'x' bottom: 'z' bottom: 's' }",
     "expected 2 similarities, one per pair,"},
    {PAIR("InfogainLoss", "2,3", "2", ""),
     "infogain_loss_param source is missing; give the matrix's file"},
    {INPUT("x", "2,3") INPUT("z", "3") INPUT(
         "h", "3,3") "layer { name: 'l' type: 'InfogainLoss' bottom: 'x' bottom: 'z' bottom: 'h' }",
     "expected 2 labels, one for each place, for 'x' of shape 2 3 (6), found 'z' of shape 3 (3)"},
    {PAIR("InfogainLoss", "2,3", "2", "infogain_loss_param { source: '/nowhere' }"),
     "infogain_loss_param source '/nowhere': /nowhere: no such file"},
    {PAIR("InfogainLoss", "2,3", "2", "infogain_loss_param { source: '.' }"), "source '.'"},
    {PAIR("InfogainLoss", "2,3", "2", "infogain_loss_param { axis: 2 source: 'm' }"),
     "infogain_loss_param axis 2 is out of range"},
    {INPUT("x", "2,3") INPUT("z", "2") INPUT(
         "h", "2,2") "layer { name: 'l' type: 'InfogainLoss' bottom: 'x' bottom: 'z' bottom: 'h' }",
     "expected 9 values of a classes x classes matrix"},
};

START_TEST(error_says_what_was_expected_and_found)
{
    const struct error_case *c = &error_cases[_i];
    struct made made;

    ck_assert_msg(make_net(&made, c->text, true, NULL, NULL) != 0, "accepted: %s", c->text);
    ck_assert_msg(strstr(error_text(), c->message) != NULL, "expected '...%s...', found '%s'",
                  c->message, error_text());
    ck_assert_msg(strncmp(error_text(), "test.prototxt:", 14) == 0, "no place: %s", error_text());
    unmake_net(&made);
}
END_TEST

START_TEST(one_place_of_many_maps_is_no_image)
{
    struct made made;

    ck_assert_int_ne(make_net(&made, INPUT("x", "2,256,1,1") CONV("num_output: 4 kernel_size: 5"),
                              true, NULL, NULL),
                     0);
    ck_assert_msg(!strstr(error_text(), "N,H,W,C"), "%s", error_text());
    unmake_net(&made);
}
END_TEST

SUITE("layer errors")
{
    TCase *tcase = suite_case(suite, "errors");

    suite_table(tcase, error_says_what_was_expected_and_found, error_cases);
    tcase_add_test(tcase, one_place_of_many_maps_is_no_image);
}
