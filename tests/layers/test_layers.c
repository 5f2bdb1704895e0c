/* Layers: the shapes they give, and what they say of definitions that make no sense. No engine. */
#include "tests/net/test_net_common.h"
#include "tests/suite.h"

struct shape_case {
    const char *dims;  /* of bottom "x" */
    const char *layer; /* its top is "y" */
    const char *shape;
    double flops;
};

#define CONV(param)                                                                                \
    "layer { name: 'l' type: 'Convolution' bottom: 'x' top: 'y' convolution_param { " param " } }"
#define POOL(param)                                                                                \
    "layer { name: 'l' type: 'Pooling' bottom: 'x' top: 'y' pooling_param { " param " } }"
#define IP(param)                                                                                  \
    "layer { name: 'l' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { " param     \
    " } }"
#define PLAIN(type, rest) "layer { name: 'l' type: '" type "' bottom: 'x' top: 'y' " rest " }"

static const struct shape_case shape_cases[] = {
    /* convolution rounds down */
    {"2,3,227,227", CONV("num_output: 96 kernel_size: 11 stride: 4"), "2 96 55 55",
     2.0 * 2 * 96 * 55 * 55 * 3 * 121},
    {"1,3,6,4", CONV("num_output: 4 kernel_size: 3 stride: 2"), "1 4 2 1", 2.0 * 8 * 27},
    {"1,4,6,5", CONV("num_output: 4 kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0 group: 2"), "1 4 6 5",
     2.0 * 120 * 2 * 3},
    {"1,4,6,5", CONV("num_output: 4 kernel_size: 3 pad_h: 1"), "1 4 6 3", 2.0 * 72 * 36},
    {"1,4,6,5", CONV("num_output: 4 kernel_size: 3 pad_w: 1"), "1 4 4 5", 2.0 * 80 * 36},
    {"1,1,9,9", CONV("num_output: 1 kernel_size: 3 dilation: 2"), "1 1 5 5", 2.0 * 25 * 9},
    {"1,1,9,9", CONV("num_output: 1 kernel_size: [3, 5] stride: [2, 1] pad: [0, 2]"), "1 1 4 9",
     2.0 * 36 * 15},
    {"1,1,9,9", CONV("num_output: 1 kernel_size: 1 axis: -3"), "1 1 9 9", 2.0 * 81},
    /* one spatial axis; three: the first layers of C3D; and other windows on each axis */
    {"2,3,20", CONV("num_output: 4 kernel_size: 5 stride: 2 pad: 1"), "2 4 9", 2.0 * 72 * 15},
    {"1,3,16,112,112", CONV("num_output: 64 kernel_size: 3 pad: 1"), "1 64 16 112 112",
     2.0 * 64 * 16 * 112 * 112 * 81},
    {"1,4,9,9,9",
     CONV("num_output: 2 kernel_size: [1, 3, 5] stride: [1, 2, 1] pad: [0, 1, 2] dilation: [1, 2, "
          "1] group: 2"),
     "1 2 9 4 9", 2.0 * 2 * 9 * 4 * 9 * 2 * 15},
    {"1,64,16,112,112", POOL("kernel_size: [1, 2, 2] stride: [1, 2, 2]"), "1 64 16 56 56",
     64.0 * 16 * 56 * 56 * 4},
    {"1,2,5,6,7", POOL("kernel_size: 3 stride: 2 pad: [0, 1, 0]"), "1 2 2 4 3", 48.0 * 27},
    {"1,2,5,6,7", POOL("kernel_size: 2 stride: 2 round_mode: FLOOR pool: AVE"), "1 2 2 3 3",
     36.0 * 8},
    {"2,3,20", POOL("kernel_size: 3 stride: 2"), "2 3 10", 60.0 * 3},
    {"2,3,4,5,6", POOL("global_pooling: true pool: AVE"), "2 3 1 1 1", 6.0 * 120},
    {"2,3,6,5", POOL("kernel_size: [3, 2] stride: [2, 1]"), "2 3 3 4", 72.0 * 6},
    /* pooling rounds up: Caffe's TestSetup, TestSetupPadded, TestSetupGlobalPooling */
    {"2,3,6,5", POOL("kernel_size: 3 stride: 2"), "2 3 3 2", 36.0 * 9},
    {"2,3,6,5", POOL("kernel_size: 3 stride: 2 pad: 1 pool: AVE"), "2 3 4 3", 72.0 * 9},
    {"2,3,6,5", POOL("global_pooling: true pool: AVE"), "2 3 1 1", 6.0 * 30},
    {"2,3,6,5", POOL("kernel_size: 3 stride: 2 pool: STOCHASTIC"), "2 3 3 2", 36.0 * 9},
    {"2,3,6,5", POOL("kernel_size: 3 stride: 2 round_mode: FLOOR"), "2 3 2 2", 24.0 * 9},
    {"2,3,6,5", POOL("kernel_size: 3 stride: 2 ceil_mode: false"), "2 3 2 2", 24.0 * 9},
    {"2,3,6,5", POOL("kernel_size: 3 stride: 2 ceil_mode: true"), "2 3 3 2", 36.0 * 9},
    /* the last window would begin at 4 >= 3 + 1 and is dropped */
    {"1,1,3,3", POOL("kernel_size: 2 stride: 2 pad: 1"), "1 1 2 2", 4.0 * 4},
    {"1,1,3,3", POOL("kernel_size: 3 stride: 2 pad: 2"), "1 1 3 3", 9.0 * 9},
    {"1,1,4,4", POOL("kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1"), "1 1 2 2", 4.0 * 6},
    {"1,1,4,4", POOL("kernel_size: 2 stride: 2 pad_w: 1"), "1 1 2 3", 6.0 * 4},
    /* it overhangs by less than a stride: one clipped window */
    {"1,1,1,1", POOL("kernel_size: 2 stride: 2"), "1 1 1 1", 4},
    {"2,3,4,5", IP("num_output: 7"), "2 7", 2.0 * 14 * 60},
    {"2,3,4,5", IP("num_output: 7 axis: 2 transpose: true"), "2 3 7", 2.0 * 42 * 20},
    {"2,3,4,5", IP("num_output: 7 axis: -1 bias_term: false"), "2 3 4 7", 2.0 * 168 * 5},
    {"2,3,4,5", IP("num_output: 7 axis: 0"), "7", 2.0 * 7 * 120},
    {"2,3,4,5", PLAIN("ReLU", ""), "2 3 4 5", 120},
    {"2,3", PLAIN("Dropout", "dropout_param { dropout_ratio: 0.2 }"), "2 3", 6},
    {"2,3,4,5", PLAIN("LRN", "lrn_param { local_size: 3 }"), "2 3 4 5", 120.0 * 10},
    {"2,3,4,5", PLAIN("LRN", "lrn_param { local_size: 3 norm_region: WITHIN_CHANNEL }"), "2 3 4 5",
     120.0 * 22},
    {"2,3,4,5", PLAIN("Softmax", ""), "2 3 4 5", 600},
    {"2,3,4,5", PLAIN("Flatten", ""), "2 60", 0},
    {"2,3,4,5", PLAIN("Flatten", "flatten_param { axis: 0 end_axis: 1 }"), "6 4 5", 0},
    {"2,3,4,5", PLAIN("Flatten", "flatten_param { axis: 2 end_axis: -1 }"), "2 3 20", 0},
    {"2,3,4,5", PLAIN("Flatten", "flatten_param { axis: 2 end_axis: 1 }"), "2 3 1 4 5", 0},
    {"2,3,4,5", PLAIN("Split", ""), "2 3 4 5", 0},
    {"2,3,4,5", PLAIN("Concat", ""), "2 3 4 5", 0},
    {"2,3,4,5", "layer { name: 'l' type: 'Concat' bottom: 'x' bottom: 'x' top: 'y' }", "2 6 4 5",
     0},
    {"2,3,4,5",
     "layer { name: 'l' type: 'Concat' bottom: 'x' bottom: 'x' top: 'y' concat_param { concat_dim: "
     "3 } }",
     "2 3 4 10", 0},
    {"2,3,4,5",
     "layer { name: 'l' type: 'Concat' bottom: 'x' bottom: 'x' top: 'y' concat_param { axis: -4 } "
     "}",
     "4 3 4 5", 0},
    {"2,3,4,5", "layer { name: 'l' type: 'Eltwise' bottom: 'x' bottom: 'x' top: 'y' }", "2 3 4 5",
     240},
    /* Caffe passes over them */
    {"2,3,4,5",
     "layer { name: 'l' type: 'Eltwise' bottom: 'x' bottom: 'x' top: 'y' eltwise_param { "
     "operation: "
     "MAX coeff: [1, 2] } }",
     "2 3 4 5", 240},
};

START_TEST(layer_gives_the_shape_and_the_work)
{
    const struct shape_case *c = &shape_cases[_i];
    struct made made;
    char text[2048];

    snprintf(text, sizeof text,
             "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: [%s] } } }\n%s",
             c->dims, c->layer);
    ck_assert_msg(make_net(&made, text, true, NULL, NULL) == 0, "%s: %s", c->layer, error_text());
    ck_assert_msg(strcmp(shape_of(made.net, "y"), c->shape) == 0, "%s: expected %s, found %s",
                  c->layer, c->shape, shape_of(made.net, "y"));
    ck_assert_msg(net_find_layer(made.net, "l")->flops == c->flops, "%s: expected %g, found %g",
                  c->layer, c->flops, net_find_layer(made.net, "l")->flops);
    unmake_net(&made);
}
END_TEST

struct label_case {
    const char *scores, *labels, *axis;
};

static const struct label_case label_cases[] = {
    {"4,5", "4", "1"},           {"4,5", "4,1", "1"},       {"4,5,1,1", "4,1,1,1", "1"},
    {"2,5,3,4", "2,1,3,4", "1"}, {"2,5,3,4", "2,3,4", "1"}, {"2,3,5", "6", "-1"},
};

START_TEST(softmax_loss_and_accuracy_accept_one_label_per_place)
{
    const struct label_case *c = &label_cases[_i];
    struct made made;
    char text[2048];

    snprintf(text, sizeof text,
             "layer { name: 'd' type: 'Input' top: 'x' top: 't' input_param { shape { dim: [%s] } "
             "shape { dim: [%s] } } }\n"
             "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 't' top: 'loss' top: "
             "'p' softmax_param { axis: %s } }\n"
             "layer { name: 'a' type: 'Accuracy' bottom: 'x' bottom: 't' top: 'a' top: 'per_class' "
             "accuracy_param { axis: %s } }\n",
             c->scores, c->labels, c->axis, c->axis);
    ck_assert_msg(make_net(&made, text, true, NULL, NULL) == 0, "%s", error_text());
    ck_assert_int_eq(net_find_blob(made.net, "loss")->value.shape.naxes, 0);
    ck_assert_int_eq(net_find_blob(made.net, "a")->value.shape.naxes, 0);
    ck_assert(shape_equal(&net_find_blob(made.net, "p")->value.shape,
                          &net_find_blob(made.net, "x")->value.shape));
    ck_assert_str_eq(shape_of(made.net, "per_class"), "5");
    unmake_net(&made);
}
END_TEST

struct error_case {
    const char *text;
    const char *message; /* part of it */
};

#define X      INPUT("x", "2,4,6,5")
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

static const struct error_case error_cases[] = {
    {X "layer { name: 'l' type: 'Relu' bottom: 'x' top: 'y' }",
     "test.prototxt:2: layer 'l' (Relu): unknown layer type: Relu; did you mean "
     "ReLU?\n('poseidon help layers' lists all types; "},
    {X "layer { name: 'l' type: 'Flip' bottom: 'x' top: 'y' }",
     "layer type Flip is not supported: it belongs to a fork of Caffe for mirrored maps; "},
    {X "layer { name: 'l' type: 'Mystery' bottom: 'x' top: 'y' }",
     "test.prototxt:2: layer 'l' (Mystery): unknown layer type: Mystery\n"},
    {X "layer { name: 'l' type: 'IMAGE_SEG_DATA' bottom: 'x' top: 'y' }",
     "layer type IMAGE_SEG_DATA is not supported: it belongs to a fork of Caffe for segmentation; "
     "two Data layers, one of them for labels, or HDF5Data do the same"},
    {X "layer { name: 'a' type: 'Reorg' bottom: 'x' top: 'y' }\n"
       "layer { name: 'b' type: 'BN' bottom: 'y' top: 'z' }\n"
       "layer { name: 'c' type: 'Reorg' bottom: 'z' top: 'u' }",
     "test.prototxt:2: layer 'a' (Reorg): layer type Reorg is not supported: it belongs to a fork "
     "of "
     "Caffe for object detection (Darknet's YOLO) (2 times)\n"
     "test.prototxt:3: layer 'b' (BN): layer type BN is not supported: it belongs to a fork of "
     "Caffe "
     "for segmentation; BatchNorm and Scale do the same\n('poseidon help layers'"},
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
     "width 5 > 1 + 2 * 0; expected N,C,H,W: this looks like N,H,W,C"},
    /* maps are no images */
    {INPUT("x", "2,28,28,1") "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'r' }\n"
                             "layer { name: 'l' type: 'Convolution' bottom: 'r' top: 'y' "
                             "convolution_param { num_output: 4 kernel_size: 5 } }",
     "width 5 > 1 + 2 * 0; the net's input is too small for it: expected at least 5 x 5"},
    /* the least input is counted back through convolution, pooling and deconvolution */
    {INPUT("x",
           "2,3,9,20") "layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' "
                       "convolution_param { num_output: 2 kernel_size: 3 stride: 2 pad: 1 } }\n"
                       "layer { name: 'b' type: 'Pooling' bottom: 'a' top: 'b' "
                       "pooling_param { kernel_size: 3 stride: 2 } }\n"
                       "layer { name: 'd' type: 'Deconvolution' bottom: 'b' top: 'd' "
                       "convolution_param { num_output: 2 kernel_size: 2 stride: 2 } }\n"
                       "layer { name: 'l' type: 'Convolution' bottom: 'd' top: 'y' "
                       "convolution_param { num_output: 4 kernel_size: 6 } }",
     "height 6 > 4 + 2 * 0; the net's input is too small for it: expected at least 11 x 11"},
    {INPUT("x", "2,3,9,20") "layer { name: 'f' type: 'Flatten' bottom: 'x' top: 'f' }\n"
                            "layer { name: 'r' type: 'Reshape' bottom: 'f' top: 'r' "
                            "reshape_param { shape { dim: 0 dim: 3 dim: 9 dim: 20 } } }\n"
                            "layer { name: 'l' type: 'Convolution' bottom: 'r' top: 'y' "
                            "convolution_param { num_output: 4 kernel_size: 10 } }",
     "height 10 > 9 + 2 * 0; the net's input is too small for it"},
    {INPUT("x", "2,28,28,1") "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'r' }\n"
                             "layer { name: 'l' type: 'Convolution' bottom: 'x' top: 'y' "
                             "convolution_param { num_output: 4 kernel_size: 5 } }",
     "width 5 > 1 + 2 * 0; expected N,C,H,W: this looks like N,H,W,C"},
    {INPUT("x", "4") "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'y' top: 'z' }",
     "is out of range for bottom 'x' of 1 axis: 4 (4); several labels a record: label_size of "
     "ImageData, or HDF5Data"},
    {X CONV("num_output: 4 kernel_size: 3 axis: 2"), "axis is 2; only channels at axis 1"},
    {INPUT("x", "2,4") CONV("num_output: 4 kernel_size: 3"),
     "expected a bottom of 3, 4 or 5 axes (N,C, and one to three spatial ones), found 'x' of 2: 2 "
     "4 "
     "(8)"},
    {INPUT("x", "2,3,4,5,6,2")
         PLAIN("Deconvolution", "convolution_param { num_output: 1 kernel_size: 1 }"),
     "(Deconvolution): expected a bottom of 3, 4 or 5 axes (N,C, and one to three spatial ones), "
     "found 'x' of 6: 2 3 4 5 6 2 (1440)"},
    {INPUT("x", "20") PLAIN("Im2col", "convolution_param { kernel_size: 1 }"),
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
     "kernel_h and kernel_w are for bottoms of height and width alone, and 'x' has depth, height, "
     "width: give kernel_size once, or once for each axis"},
    {LINE CONV("num_output: 4 kernel_size: 3 pad_h: 1 pad_w: 1"),
     "pad_h and pad_w are for bottoms of height and width alone, and 'x' has length: give pad "
     "once"},
    {VOLUME CONV("num_output: 4 kernel_size: [1, 0, 1]"),
     "kernel_size must be at least 1 and at most 16777216, but it is 1 x 0 x 1"},
    {VOLUME CONV("num_output: 4 kernel_size: [3, 3, 9]"),
     "kernel 3 x 3 x 9 (dilation 1 x 1 x 1) is larger than the padded input: width 9 > 6 + 2 * 0"},
    {VOLUME CONV("num_output: 4 kernel_size: 3 dilation: [2, 1, 1]"),
     "kernel 3 x 3 x 3 (dilation 2 x 1 x 1) is larger than the padded input: depth 5 > 4 + 2 * 0"},
    {LINE CONV("num_output: 4 kernel_size: 30"),
     "kernel 30 (dilation 1) is larger than the padded input: length 30 > 20 + 2 * 0"},
    {VOLUME PLAIN("Deconvolution", "convolution_param { num_output: 1 kernel_size: 1 pad: 3 }"),
     "pad 3 leaves nothing of the top: depth 1 * (4 - 1) + 1 - 2 * 3"},
    {VOLUME PLAIN("Im2col", "convolution_param { kernel_size: 16777216 pad: 16777216 }"),
     "blob size exceeds INT_MAX"},
    {X PLAIN("NdConvolution", ""),
     "layer type NdConvolution is not supported: it belongs to a fork of Caffe for video; "
     "Convolution "
     "with kernel_size, stride and pad once for each axis does the same"},
    {X PLAIN("NdPooling", ""), "for video; Pooling with kernel_size, stride and pad once"},
    {X PLAIN("Convolution3D", ""), "(C3D); Convolution over a bottom of 5 axes, with kernel_size"},
    {X PLAIN("Pooling3D", ""), "(C3D); Pooling over a bottom of 5 axes, with kernel_size"},
    {X PLAIN("Conv3d", ""), "unknown layer type: Conv3d; did you mean Convolution?"},
    {X PLAIN("AvgPool1d", ""), "unknown layer type: AvgPool1d; did you mean Pooling?"},
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
     "global_pooling takes the whole plane (6 x 5): kernel_size, kernel_h, kernel_w must not"},
    {X POOL("global_pooling: true stride: 2"), "global_pooling needs pad 0 and stride 1"},
    {X POOL("kernel_size: 2 pad: 1 pool: STOCHASTIC"),
     "pool: STOCHASTIC takes no padding (as in Caffe), found pad 1 x 1"},
    {X "layer { name: 'l' type: 'Pooling' bottom: 'x' top: 'y' top: 'm' pooling_param { pool: "
       "STOCHASTIC kernel_size: 2 } }",
     "found 2 tops; only pool: MAX has a second one"},
    {X POOL("kernel_size: 8"),
     "kernel 8 x 8 is larger than the padded input: height 8 > 6 + 2 * 0"},
    {INPUT("x", "2,28,28,3") POOL("kernel_size: 5"),
     "width 5 > 3 + 2 * 0; expected N,C,H,W: this looks like N,H,W,C"},
    {X POOL("kernel_h: 6 kernel_w: 6 round_mode: FLOOR"), "width 6 > 5 + 2 * 0"},
    {X "layer { name: 'l' type: 'Pooling' bottom: 'x' top: 'y' top: 'm' pooling_param { pool: AVE "
       "kernel_size: 2 } }",
     "found 2 tops; only pool: MAX has a second one"},
    {INPUT("x", "2,4") POOL("kernel_size: 1"), "(Pooling): expected a bottom of 3, 4 or 5 axes "
                                               "(N,C, and one to three spatial ones), found 'x' "
                                               "of 2: 2 4 (8)"},
    {X POOL("kernel_size: [1, 2, 3]"),
     "kernel_size has 3 values; expected one for all, or one for each spatial axis of 'x' (height, "
     "width)"},
    {VOLUME POOL("pool: AVE"), "(Pooling): kernel_size is missing"},
    {VOLUME POOL("kernel_size: [2, 2]"), "kernel_size has 2 values"},
    {VOLUME POOL("kernel_h: 2 kernel_w: 2"),
     "kernel_h and kernel_w are for bottoms of height and width alone, and 'x' has depth, height, "
     "width"},
    {VOLUME POOL("kernel_size: 2 stride_h: 2 stride_w: 2"), "give stride once, or once for each"},
    {VOLUME POOL("kernel_size: [1, 2, 2] pad: [1, 0, 0]"),
     "pad 1 x 0 x 0 must be smaller than the kernel 1 x 2 x 2"},
    {VOLUME POOL("kernel_size: [2, 2, 8]"),
     "kernel 2 x 2 x 8 is larger than the padded input: width 8 > 6 + 2 * 0"},
    {VOLUME POOL("global_pooling: true kernel_size: 2"),
     "global_pooling takes the whole plane (4 x 5 x 6): kernel_size, kernel_h, kernel_w must not"},
    {VOLUME POOL("global_pooling: true stride: [1, 1, 2]"),
     "global_pooling needs pad 0 and stride 1, found pad 0 x 0 x 0, stride 1 x 1 x 2"},
    {VOLUME POOL("kernel_size: 2 pad: [1, 0, 0] pool: STOCHASTIC"),
     "pool: STOCHASTIC takes no padding (as in Caffe), found pad 1 x 0 x 0"},
    {LINE POOL("kernel_size: 30"),
     "kernel 30 is larger than the padded input: length 30 > 20 + 2 * 0"},
    /* the rest */
    {X PLAIN("Dropout", "dropout_param { dropout_ratio: 1 }"),
     "dropout_ratio is 1; expected at least 0 and less than 1"},
    {X PLAIN("Dropout", "dropout_param { dropout_ratio: nan }"), "dropout_ratio is nan"},
    {X PLAIN("LRN", "lrn_param { local_size: 4 }"),
     "local_size is 4; only odd sizes have a middle"},
    {INPUT("x", "2,4") PLAIN("LRN", ""), "expected a bottom of 4 axes"},
    {X PLAIN("Softmax", "softmax_param { axis: 4 }"), "softmax_param axis 4 is out of range"},
    {X PLAIN("Flatten", "flatten_param { axis: 3 end_axis: 1 }"), "end_axis 1 lies before axis 3"},
    {X PLAIN("Flatten", "flatten_param { axis: -5 }"), "axis -5 is out of range"},
    {X PLAIN("Concat", "concat_param { axis: 1 concat_dim: 1 }"),
     "axis 1 and the old concat_dim 1 are both given"},
    {X PLAIN("Concat", "concat_param { concat_dim: 4 }"), "concat_dim 4 is out of range"},
    {X PLAIN("Concat", "concat_param { concat_dim: 4294967295 }"), "concat_dim 4294967295 is out"},
    {X INPUT("z", "2,4,6,6") "layer { name: 'l' type: 'Concat' bottom: 'x' bottom: 'z' top: 'y' }",
     "bottom 1, 'z' of shape 2 4 6 6 (288), is no piece of 2 8 6 5 (480) along axis 1: they may "
     "differ there alone"},
    {X INPUT("z", "2,4") "layer { name: 'l' type: 'Concat' bottom: 'x' bottom: 'z' top: 'y' }",
     "bottom 1, 'z' of shape 2 4 (8), is no piece of 2 8 6 5 (480) along axis 1"},
    {X INPUT("z", "2,4,5,6") "layer { name: 'l' type: 'Eltwise' bottom: 'x' bottom: 'z' top: 'y' }",
     "bottoms must have one shape: 'x' is 2 4 6 5 (240), 'z' is 2 4 5 6 (240)"},
    {X "layer { name: 'l' type: 'Eltwise' bottom: 'x' bottom: 'x' top: 'y' eltwise_param { coeff: "
       "1 } }",
     "found 1 value of coeff for 2 bottoms"},
    {X "layer { name: 'l' type: 'Eltwise' bottom: 'x' bottom: 'x' top: 'y' eltwise_param { coeff: "
       "[1, "
       "2] operation: PROD } }",
     "coeff goes with operation: SUM only"},
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
     "transform_param is not for HDF5Data"},
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

#define LOOK                                                                                       \
    "layer { name: 'd' type: 'Data' top: 'x' top: 't' data_param { source: '/nowhere' "            \
    "batch_size: 8 } "

START_TEST(looking_only_takes_the_shape_from_crop_size_with_a_notice)
{
    const struct layer_env env = {.look_only = true};
    struct made made;

    ck_assert_int_eq(make_net(&made, LOOK "transform_param { crop_size: 227 } }", true, &env, NULL),
                     0);
    ck_assert_str_eq(shape_of(made.net, "x"), "8 3 227 227");
    ck_assert_str_eq(shape_of(made.net, "t"), "8");
    ck_assert_ptr_nonnull(
        strstr(made.notices, "layer 'd': assuming images of 3 channels, 227 x 227"));
    unmake_net(&made);
}
END_TEST

/* Some tools fill in the sources of nets later. */
START_TEST(looking_only_needs_no_source)
{
    static const char *const texts[] = {
        "layer { name: 'd' type: 'Data' top: 'x' data_param { batch_size: 8 } }",
        "layer { name: 'd' type: 'ImageData' top: 'x' top: 't' image_data_param { batch_size: 8 } "
        "}",
        "layer { name: 'd' type: 'HDF5Data' top: 'x' hdf5_data_param { batch_size: 8 } }"};
    const struct layer_env look = {.look_only = true}, run = {.nranks = 1};
    struct made made;

    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(make_net(&made, texts[i], true, &look, NULL), 0);
        ck_assert_str_eq(shape_of(made.net, "x"), "8 3 224 224");
        unmake_net(&made);
        ck_assert_int_ne(make_net(&made, texts[i], true, &run, NULL), 0);
        ck_assert_ptr_nonnull(strstr(error_text(), "source is missing"));
        unmake_net(&made);
    }
}
END_TEST

START_TEST(looking_only_assumes_3x224x224_and_says_so)
{
    const struct layer_env env = {.look_only = true};
    struct made made;

    ck_assert_int_eq(make_net(&made, LOOK "}", true, &env, NULL), 0);
    ck_assert_str_eq(shape_of(made.net, "x"), "8 3 224 224");
    ck_assert_ptr_nonnull(strstr(made.notices, "assuming images of 3 channels, 224 x 224 pixels"));
    unmake_net(&made);
}
END_TEST

START_TEST(looking_only_takes_the_given_input_shape_silently)
{
    const int64_t chw[3] = {1, 28, 30};
    const struct layer_env env = {.look_only = true, .input_chw = chw};
    struct made made;

    ck_assert_int_eq(make_net(&made, LOOK "}", true, &env, NULL), 0);
    ck_assert_str_eq(shape_of(made.net, "x"), "8 1 28 30");
    ck_assert_ptr_null(made.notices);
    unmake_net(&made);
    ck_assert_int_eq(make_net(&made, LOOK "transform_param { crop_size: 20 } }", true, &env, NULL),
                     0);
    ck_assert_str_eq(shape_of(made.net, "x"), "8 1 20 20");
    unmake_net(&made);
    ck_assert_int_ne(make_net(&made, LOOK "transform_param { crop_size: 29 } }", true, &env, NULL),
                     0);
    ck_assert_ptr_nonnull(strstr(error_text(), "crop_size 29 is larger than the input of 28 x 30"));
    unmake_net(&made);
}
END_TEST

START_TEST(mean_values_tell_the_number_of_channels)
{
    const struct layer_env env = {.look_only = true};
    struct made made;

    ck_assert_int_eq(make_net(&made,
                              LOOK "transform_param { crop_size: 9 mean_value: [1, 2, 3, 4] } }",
                              true, &env, NULL),
                     0);
    ck_assert_str_eq(shape_of(made.net, "x"), "8 4 9 9");
    ck_assert_ptr_null(made.notices);
    unmake_net(&made);
}
END_TEST

START_TEST(the_given_batch_replaces_that_of_data)
{
    const struct layer_env env = {.look_only = true, .batch = 5};
    struct made made;

    ck_assert_int_eq(make_net(&made, LOOK "}", true, &env, NULL), 0);
    ck_assert_str_eq(shape_of(made.net, "t"), "5");
    unmake_net(&made);
    ck_assert_int_eq(make_net(&made, LOOK "}", false, &env, NULL), 0);
    ck_assert_str_eq(shape_of(made.net, "t"), "5");
    unmake_net(&made);
}
END_TEST

static const struct {
    const char *layer, *x, *y, *z;
} batch_cases[] = {
    {"layer { name: 'i' type: 'Input' top: 'x' top: 'y' top: 'z' input_param { shape { dim: [10, "
     "3, 4, 4] } "
     "shape { dim: 10 } shape { dim: [7, 3] } } }",
     "5 3 4 4", "5", "7 3"},
    {"layer { name: 'i' type: 'Input' top: 'x' top: 'y' top: 'z' input_param { shape { dim: [10, "
     "2] } } }",
     "5 2", "5 2", "5 2"},
    /* a scalar is no batch, neither as the first top nor behind it */
    {"layer { name: 'i' type: 'Input' top: 'x' top: 'y' top: 'z' input_param { shape { } shape { "
     "dim: 1 } "
     "shape { dim: [1, 2] } } }",
     "", "1", "1 2"},
    {"layer { name: 'i' type: 'Input' top: 'x' top: 'y' top: 'z' input_param { shape { dim: [1, 2] "
     "} "
     "shape { } shape { dim: 2 } } }",
     "5 2", "", "2"},
    {"layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' top: 'z' dummy_data_param { shape { "
     "dim: [10, 2] } "
     "shape { dim: 10 } shape { dim: [7, 3] } } }",
     "5 2", "5", "7 3"},
};

START_TEST(the_given_batch_replaces_the_first_axis_of_inputs)
{
    const struct layer_env env = {.look_only = true, .batch = 5};
    struct made made;

    for (int train = 0; train < 2; train++) {
        ck_assert_int_eq(make_net(&made, batch_cases[_i].layer, train, &env, NULL), 0);
        ck_assert_str_eq(shape_of(made.net, "x"), batch_cases[_i].x);
        ck_assert_str_eq(shape_of(made.net, "y"), batch_cases[_i].y);
        ck_assert_str_eq(shape_of(made.net, "z"), batch_cases[_i].z);
        unmake_net(&made);
    }
}
END_TEST

SUITE("layers")
{
    TCase *shapes = suite_case(suite, "shapes"), *errors = suite_case(suite, "errors");

    suite_table(shapes, layer_gives_the_shape_and_the_work, shape_cases);
    suite_table(shapes, softmax_loss_and_accuracy_accept_one_label_per_place, label_cases);
    tcase_add_test(shapes, one_place_of_many_maps_is_no_image);
    tcase_add_test(shapes, looking_only_takes_the_shape_from_crop_size_with_a_notice);
    tcase_add_test(shapes, looking_only_assumes_3x224x224_and_says_so);
    tcase_add_test(shapes, looking_only_needs_no_source);
    tcase_add_test(shapes, looking_only_takes_the_given_input_shape_silently);
    tcase_add_test(shapes, mean_values_tell_the_number_of_channels);
    tcase_add_test(shapes, the_given_batch_replaces_that_of_data);
    suite_table(shapes, the_given_batch_replaces_the_first_axis_of_inputs, batch_cases);
    suite_table(errors, error_says_what_was_expected_and_found, error_cases);
}
