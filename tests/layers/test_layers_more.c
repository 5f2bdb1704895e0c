/* Layers beyond the first set: their shapes and parameters, and what they say of definitions that
 * make no sense. No engine. */
#include "tests/net/test_net_common.h"
#include "tests/suite.h"

struct shape_case {
    const char *dims, *layer, *shape;
};

#define ONE(type, rest) "layer { name: 'l' type: '" type "' bottom: 'x' top: 'y' " rest " }"
#define TWO(type, rest)                                                                            \
    "layer { name: 'l' type: '" type "' bottom: 'x' bottom: 'z' top: 'y' " rest " }"
#define X INPUT("x", "2,4,6,5")
#define Z INPUT("z", "2,4,6,5")

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

struct error_case {
    const char *text, *message;
};

#define PAIR(type, a, b, rest) INPUT("x", a) INPUT("z", b) TWO(type, rest)

static const struct error_case error_cases[] = {
    /* refused by name */
    {X ONE("LSTM", ""), "layer 'l' (LSTM): layer type LSTM is not supported: recurrent layers"},
    {X ONE("RNN", ""), "layer type RNN is not supported: recurrent layers"},
    {X ONE("Recurrent", ""), "layer type Recurrent is not supported"},
    {X ONE("Python", ""), "layer type Python is not supported: it needs Caffe's Python layers"},
    {"layer { name: 'w' type: 'WindowData' top: 'x' top: 'l' }",
     "layer 'w' (WindowData): layer type WindowData is not supported: it reads the window lists"},
    {X TWO("Filter", ""), NULL},
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
     "slice_point 9 is beyond the axis of 4"},
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
     "shape makes 7 elements times a whole number of 240 of bottom 'x': 2 4 6 5 (240)"},
    {X ONE("Reshape", "reshape_param { shape { dim: 7 } }"), "shape makes 7 elements of 240"},
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
     "num_output is 3; expected the bottom's channels, 4, or nothing"},
    {X ONE("DepthwiseConvolution", "convolution_param { num_output: 3 kernel_size: 1 }"),
     "group 4 does not divide the 4 channels of 'x' and the 3 outputs"},
    {X ONE("ConvolutionDepthwise", "convolution_param { group: 2 kernel_size: 1 }"),
     "group is 2; expected the bottom's channels, 4, or nothing"},
    {X ONE("Im2col", ""), "convolution_param is missing; it must give kernel_size"},
    {X ONE("Im2col", "convolution_param { kernel_size: 1 axis: 2 }"),
     "axis is 2; only channels at axis 1, behind the batch, are supported (a Reshape layer"},
    {X ONE("Im2col", "convolution_param { kernel_size: 9 }"), "larger than the padded input"},
    {INPUT("x", "3,4") ONE("Im2col", "convolution_param { kernel_size: 1 }"),
     "expected a bottom of 3, 4 or 5 axes"},
    {X ONE("Interp", ""), "interp_param must give height and width, zoom_factor, or shrink_factor"},
    {X ONE("Interp", "interp_param { height: 3 }"), "interp_param must give height and width"},
    {X ONE("Interp", "interp_param { height: 3 width: 3 zoom_factor: 2 }"),
     "interp_param height 3 and width 3: expected both, at least 1, and no zoom_factor"},
    {X ONE("Interp", "interp_param { zoom_factor: 0 }"),
     "zoom_factor 0, shrink_factor 1: expected at least 1"},
    {X ONE("Interp", "interp_param { zoom_factor: 2 pad_beg: 1 }"),
     "pad_beg 1, pad_end 0: only cutting"},
    {X ONE("Interp", "interp_param { zoom_factor: 2 pad_beg: -5 }"),
     "leave nothing of axis 3 of size 5"},
    {X ONE("SPP", ""), "spp_param pyramid_height is missing; expected 1 to 12"},
    {X ONE("SPP", "spp_param { pyramid_height: 13 }"), "spp_param pyramid_height is out of range"},
    {X ONE("SPP", "spp_param { pyramid_height: 2 pool: STOCHASTIC }"),
     "pool: STOCHASTIC is not supported in a pyramid"},
    {X ONE("SPP", "spp_param { pyramid_height: 4 }"), "axis 3 of size 5 is too small for 4 bins"},
    /* losses */
    {PAIR("EuclideanLoss", "2,3", "2,4", ""),
     "expected two bottoms with as many samples and elements: 'x' is 2 3 (6), 'z' is 2 4 (8)"},
    {PAIR("EuclideanLoss", "2,3", "3,2", ""), "expected two bottoms with as many samples"},
    {PAIR("SigmoidCrossEntropyLoss", "2,3", "2", ""), "expected two bottoms with as many samples"},
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
     "infogain_loss_param source is missing; the matrix comes from"},
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
    if (c->message)
        ck_assert_msg(strstr(error_text(), c->message) != NULL, "expected '...%s...', found '%s'",
                      c->message, error_text());
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

SUITE("more layers")
{
    TCase *shapes = suite_case(suite, "shapes"), *errors = suite_case(suite, "errors");

    suite_table(shapes, layer_gives_the_shape, shape_cases);
    suite_table(shapes, layer_has_as_many_parameters_as_in_caffe, param_cases);
    tcase_add_test(shapes, three_param_entries_of_a_batch_norm_are_set_to_rest);
    suite_table(errors, error_says_what_was_expected_and_found, error_cases);
}
