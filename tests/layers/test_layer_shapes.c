/* The shapes that layers give, their work, and how many parameters they have. No engine. */
#include "tests/layers/layer_texts.h"
#include "tests/suite.h"

struct work_case {
    const char *dims;  /* shape of bottom "x" */
    const char *layer; /* its top is "y" */
    const char *shape;
    double flops;
};

static const struct work_case work_cases[] = {
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
    {"2,3,4,5", ONE("ReLU", ""), "2 3 4 5", 120},
    {"2,3", ONE("Dropout", "dropout_param { dropout_ratio: 0.2 }"), "2 3", 6},
    {"2,3,4,5", ONE("LRN", "lrn_param { local_size: 3 }"), "2 3 4 5", 120.0 * 10},
    {"2,3,4,5", ONE("LRN", "lrn_param { local_size: 3 norm_region: WITHIN_CHANNEL }"), "2 3 4 5",
     120.0 * 22},
    {"2,3,4,5", ONE("Softmax", ""), "2 3 4 5", 600},
    {"2,3,4,5", ONE("Flatten", ""), "2 60", 0},
    {"2,3,4,5", ONE("Flatten", "flatten_param { axis: 0 end_axis: 1 }"), "6 4 5", 0},
    {"2,3,4,5", ONE("Flatten", "flatten_param { axis: 2 end_axis: -1 }"), "2 3 20", 0},
    {"2,3,4,5", ONE("Flatten", "flatten_param { axis: 2 end_axis: 1 }"), "2 3 1 4 5", 0},
    {"2,3,4,5", ONE("Split", ""), "2 3 4 5", 0},
    {"2,3,4,5", ONE("Concat", ""), "2 3 4 5", 0},
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
    const struct work_case *c = &work_cases[_i];
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

struct shape_case {
    const char *dims, *layer, *shape; /* shape NULL: the layer is refused */
};

static const struct shape_case shape_cases[] = {
    {"2,3,4,5", ONE("AbsVal", ""), "2 3 4 5"},
    {"2,3", ONE("BNLL", ""), "2 3"},
    {"2,3", ONE("Clip", "clip_param { min: 0 max: 1 }"), "2 3"},
    {"7", ONE("ELU", ""), "7"},
    {"2,3,4,5,6", ONE("Sigmoid", ""), "2 3 4 5 6"},
    {"2,3", ONE("Threshold", ""), "2 3"},
    {"2,3,4,5", ONE("BatchNorm", ""), "2 3 4 5"},
    {"2,3,4,5", ONE("Scale", ""), "2 3 4 5"},
    {"2,3,4,5", ONE("PReLU", ""), "2 3 4 5"},
    {"2,3,4,5", ONE("MVN", ""), "2 3 4 5"},
    {"2,6,4,5", ONE("ShuffleChannel", "shuffle_channel_param { group: 3 }"), "2 6 4 5"},
    /* Caffe's TestSetup of Deconvolution: 6 x 4 becomes 13 x 9 */
    {"2,3,6,4",
     ONE("Deconvolution", "convolution_param { num_output: 4 kernel_size: 3 stride: 2 }"),
     "2 4 13 9"},
    {"2,3,6,4",
     ONE("Deconvolution",
         "convolution_param { num_output: 3 group: 3 kernel_size: 4 stride: 2 pad: 1 }"),
     "2 3 12 8"},
    {"1,2,5,5",
     ONE("Deconvolution", "convolution_param { num_output: 1 kernel_size: 3 dilation: 2 }"),
     "1 1 9 9"},
    {"2,6,5,5", ONE("DepthwiseConvolution", "convolution_param { num_output: 6 kernel_size: 3 }"),
     "2 6 3 3"},
    {"2,6,5,5",
     ONE("ConvolutionDepthwise", "convolution_param { kernel_size: 3 stride: 2 pad: 1 }"),
     "2 6 3 3"},
    {"2,3,5,6", ONE("Im2col", "convolution_param { kernel_size: 3 }"), "2 27 3 4"},
    {"2,3,5,6", ONE("Interp", "interp_param { height: 10 width: 7 }"), "2 3 10 7"},
    {"2,3,5,6", ONE("Interp", "interp_param { zoom_factor: 3 }"), "2 3 13 16"},
    {"2,3,9,9", ONE("Interp", "interp_param { shrink_factor: 4 pad_beg: -1 }"), "2 3 2 2"},
    {"2,3,8,8", ONE("SPP", "spp_param { pyramid_height: 3 }"), "2 63"},
    {"2,3,5,8", UPSAMPLE("upsample_h: 5 upsample_w: 8"), "2 3 5 8"},
    {"2,3,5,8", UPSAMPLE("scale: 2 pad_out_h: true"), "2 3 5 8"},
    {"2,3,5,8", UPSAMPLE(""), "2 3 6 8"}, /* a row more than the pooled plane */
    {"2,3,4,8", UPSAMPLE("scale_h: 2 scale_w: 2"), "2 3 4 8"},
    {"2,3,4,5", ONE("Tile", "tile_param { tiles: 4 }"), "2 12 4 5"},
    {"2,3,4,5", ONE("Reduction", ""), ""},
    {"2,3,4,5", ONE("Reduction", "reduction_param { axis: 2 }"), "2 3"},
    {"2,3,4,5", ONE("Reduction", "reduction_param { axis: -1 operation: MEAN }"), "2 3 4"},
    {"2,3,4,5", ONE("ArgMax", ""), "2 1 1 1"},
    {"2,7", ONE("ArgMax", "argmax_param { top_k: 3 }"), "2 1 3"},
    {"2,3,4,5", ONE("ArgMax", "argmax_param { top_k: 3 out_max_val: true }"), "2 2 3 1"},
    {"2,3,4,5", ONE("ArgMax", "argmax_param { top_k: 2 axis: 1 }"), "2 2 4 5"},
    {"2,3,4,5", ONE("Reshape", ""), NULL},
    {"2,3,4,5", ONE("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 10 } }"), "2 6 10"},
    {"2,3,4,5", ONE("Reshape", "reshape_param { axis: 1 shape { dim: -1 } }"), "2 60"},
    {"2,3,4,5", ONE("Reshape", "reshape_param { axis: -2 num_axes: 1 shape { dim: 2 dim: 2 } }"),
     NULL},
    {"2,3,4,5", ONE("Reshape", "reshape_param { axis: -3 num_axes: 1 shape { dim: 2 dim: 2 } }"),
     "2 3 2 2 5"},
    {"2,3,4,5", ONE("Embed", "embed_param { input_dim: 9 num_output: 8 }"), "2 3 4 5 8"},
    {"2,3,4,5",
     "layer { name: 'l' type: 'Parameter' top: 'y' parameter_param { shape { dim: 3 dim: 2 } } }",
     "3 2"},
    {"2,3,4,5", "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'y' top: 'v' top: 'w' }",
     "2 1 4 5"},
    {"2,3,4,5",
     "layer { name: 'l' type: 'Slice' bottom: 'x' top: 'v' top: 'y' slice_param { axis: -1 "
     "slice_point: 1 } }",
     "2 3 4 4"},
};

START_TEST(layer_gives_the_shape)
{
    const struct shape_case *c = &shape_cases[_i];
    struct made made;
    char text[2048];

    snprintf(text, sizeof text,
             "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: [%s] } } }\n%s",
             c->dims, c->layer);
    if (!c->shape) {
        ck_assert_msg(make_net(&made, text, true, NULL, NULL) != 0, "accepted: %s", c->layer);
        unmake_net(&made);
        return;
    }
    ck_assert_msg(make_net(&made, text, true, NULL, NULL) == 0, "%s: %s", c->layer, error_text());
    ck_assert_msg(strcmp(shape_of(made.net, "y"), c->shape) == 0, "%s: expected %s, found %s",
                  c->layer, c->shape, shape_of(made.net, "y"));
    unmake_net(&made);
}
END_TEST

/* Learnable elements as Caffe counts them. */
static const struct {
    const char *layer;
    size_t elems;
} param_cases[] = {
    {ONE("BatchNorm", ""), 4 + 4 + 1},
    {ONE("Scale", ""), 4},
    {ONE("Scale", "scale_param { bias_term: true }"), 8},
    {ONE("Scale", "scale_param { axis: 1 num_axes: -1 }"), 120},
    {ONE("Scale", "scale_param { num_axes: 0 }"), 1},
    {ONE("Bias", ""), 4},
    {ONE("PReLU", ""), 4},
    {ONE("PReLU", "prelu_param { channel_shared: true }"), 1},
    {ONE("Deconvolution", "convolution_param { num_output: 6 kernel_size: 3 group: 2 }"),
     4 * 3 * 9 + 6},
    {ONE("DepthwiseConvolution", "convolution_param { num_output: 4 kernel_size: 3 }"), 4 * 9 + 4},
    {ONE("DepthwiseConvolution", "convolution_param { num_output: 4 kernel_size: 3 group: 1 }"),
     16 * 9 + 4},
    {ONE("ConvolutionDepthwise", "convolution_param { kernel_size: 3 bias_term: false }"), 36},
    {ONE("Embed", "embed_param { input_dim: 9 num_output: 8 }"), 80},
};

START_TEST(layer_has_as_many_parameters_as_in_caffe)
{
    struct made made;
    char text[2048];

    snprintf(text, sizeof text, "%s%s", X, param_cases[_i].layer);
    ck_assert_msg(make_net(&made, text, true, NULL, NULL) == 0, "%s", error_text());
    ck_assert_uint_eq(made.net->nlearnable, param_cases[_i].elems);
    unmake_net(&made);
}
END_TEST

START_TEST(three_param_entries_of_a_batch_norm_are_set_to_rest)
{
    struct made made;

    ck_assert_msg(
        make_net(&made,
                 X ONE("BatchNorm", "param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 "
                                    "decay_mult: 0 }"),
                 true, NULL, NULL) == 0,
        "%s", error_text());
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

SUITE("layer shapes")
{
    TCase *tcase = suite_case(suite, "shapes");

    suite_table(tcase, layer_gives_the_shape_and_the_work, work_cases);
    suite_table(tcase, layer_gives_the_shape, shape_cases);
    suite_table(tcase, layer_has_as_many_parameters_as_in_caffe, param_cases);
    tcase_add_test(tcase, three_param_entries_of_a_batch_norm_are_set_to_rest);
    suite_table(tcase, softmax_loss_and_accuracy_accept_one_label_per_place, label_cases);
}
