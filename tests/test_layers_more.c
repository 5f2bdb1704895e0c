/* Layers beyond the first set: shapes, what they say of definitions that make no sense, and what
 * the net does with them - statistics, in-place chains, gradients that are cut off or forced. */
#include "tests/test_net_common.h"

#include <math.h>
#include <unistd.h>

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
    {X TWO("Filter", ""), NULL},
    {X Z TWO("Filter", ""),
     "layer type Filter is not supported: its tops' shapes depend on the data"},
    {X ONE("Permute", ""),
     "layer type Permute is not supported: it belongs to a fork of Caffe for object"},
    {X ONE("BatchNormal", ""), "unknown layer type: BatchNormal (known types: AbsVal, "},
    /* one element */
    {X ONE("Clip", ""), "clip_param min is missing"},
    {X ONE("Clip", "clip_param { min: 1 }"), "clip_param max is missing"},
    {X ONE("Exp", "exp_param { base: 0 }"),
     "exp_param base is 0; expected -1 (for e) or a number above 0"},
    {X ONE("Exp", "exp_param { base: -2 }"), "exp_param base is -2"},
    {X ONE("Log", "log_param { base: 1 }"), "log_param base is 1; expected -1 (for e) or"},
    {X "layer { name: 'l' type: 'AbsVal' bottom: 'x' top: 'x' }",
     "top 'x' is also the bottom; a AbsVal layer cannot work in place"},
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
     "offset 0 plus size 7 of 'z' exceed axis 2 of 'x', which has 6"},
    {PAIR("Crop", "2,4,6,5", "2,4,5,5", "crop_param { offset: 2 }"),
     "offset 2 plus size 5 of 'z' exceed axis 2"},
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
     "a Reshape layer cannot work in place"},
    {X ONE("Reshape",
           "reshape_param { axis: 4 num_axes: 0 shape { dim: [1, 1, 1, 1, 1, 1, 1, 1, 1] } }"),
     "the top would have more than 12 axes"},
    {PAIR("BatchReindex", "2,4", "3,1", ""), "found 'z' of 2 axes: 3 1 (3)"},
    {X ONE("ShuffleChannel", "shuffle_channel_param { group: 3 }"),
     "shuffle_channel_param group 3 does not divide the 4 channels of 'x'"},
    {INPUT("x", "3") ONE("ShuffleChannel", ""), "expected a bottom with channels (N,C)"},
    {X ONE("Embed", ""), "embed_param num_output is missing"},
    {X ONE("Embed", "embed_param { num_output: 3 }"), "embed_param input_dim is missing"},
    {"layer { name: 'l' type: 'Parameter' top: 'y' }", "parameter_param shape is missing"},
    {"layer { name: 'l' type: 'Parameter' top: 'y' parameter_param { shape { dim: "
     "[1,1,1,1,1,1,1,1,1,1,1,1,1] } } }",
     "parameter_param shape has 13 axes; at most 12 are possible"},
    {"layer { name: 'l' type: 'Silence' }", "takes at least 1 bottom blob(s), found 0"},
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
     "num_output 3 is not divisible by group 2"},
    {X ONE("Deconvolution", "convolution_param { num_output: 3 kernel_size: 1 pad: 3 }"),
     "pad 3 leaves nothing of the top: height 1 * (6 - 1) + 1 - 2 * 3"},
    {X ONE("ConvolutionDepthwise", "convolution_param { num_output: 3 kernel_size: 1 }"),
     "num_output is 3; expected the bottom's channels, 4, or nothing"},
    {X ONE("DepthwiseConvolution", "convolution_param { num_output: 3 kernel_size: 1 }"),
     "num_output 3 is not divisible by group 4"},
    {X ONE("Im2col", ""), "convolution_param is missing; it must give kernel_size"},
    {X ONE("Im2col", "convolution_param { kernel_size: 9 }"), "larger than the padded input"},
    {INPUT("x", "3,4") ONE("Im2col", "convolution_param { kernel_size: 1 }"),
     "expected a bottom of 4 axes"},
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
     "pool: STOCHASTIC is not supported"},
    {X ONE("SPP", "spp_param { pyramid_height: 4 }"),
     "level 2 of the pyramid needs 4 bins, too many for axis 3 of size 5: pad 2 must be smaller "
     "than the "
     "kernel 2"},
    /* losses */
    {PAIR("EuclideanLoss", "2,3", "2,4", ""),
     "expected two bottoms with as many samples and elements: 'x' is 2 3 (6), 'z' is 2 4 (8)"},
    {PAIR("EuclideanLoss", "2,3", "3,2", ""), "expected two bottoms with as many samples"},
    {PAIR("SigmoidCrossEntropyLoss", "2,3", "2", ""), "expected two bottoms with as many samples"},
    {PAIR("HingeLoss", "2,3", "3", ""),
     "expected 2 labels, one per sample, for 'x' of shape 2 3 (6), found 'z' of shape 3 (3)"},
    {PAIR("MultinomialLogisticLoss", "2,3", "2,3", ""), "expected 2 labels, one per sample,"},
    {PAIR("ContrastiveLoss", "2,3", "2,3", ""), "takes 3 bottom blob(s), found 2"},
    {INPUT("x", "2,3") INPUT("z", "2,3") INPUT(
         "s",
         "3") "layer { name: 'l' type: 'ContrastiveLoss' bottom: 'x' bottom: 'z' bottom: 's' }",
     "expected 2 similarities, one per pair,"},
    {PAIR("InfogainLoss", "2,3", "2", ""),
     "infogain_loss_param source is missing; the matrix comes from"},
    {PAIR("InfogainLoss", "2,3", "3", "infogain_loss_param { source: 'm' }"), "expected 2 labels"},
    {PAIR("InfogainLoss", "2,3", "2", "infogain_loss_param { source: '/nowhere' }"),
     "infogain_loss_param source '/nowhere': No such file"},
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

static struct engine engine;

static void open_engine(void)
{
    const struct engine_options options = {.threads = 1};

    ck_assert_int_eq(engine_open("cpu", &options, &engine), 0);
}

static void close_engine(void)
{
    engine_close(&engine);
}

static void make_built(struct made *made, const char *text, bool train, const struct net *share)
{
    ck_assert_msg(make_net(made, text, train, NULL, share) == 0, "%s", error_text());
    ck_assert_msg(net_build(made->net, &engine, 3) == 0, "%s", error_text());
}

/* 0.1, 0.2, ... with alternating signs */
static void write_ramp(const struct net *net, const char *blob, float first)
{
    struct blob *to = net_find_blob(net, blob);
    float values[256];

    for (size_t i = 0; i < shape_elems(&to->value.shape); i++)
        values[i] = first + 0.1f * (float)(i * i % 23) * (i % 2 ? -1 : 1);
    ck_assert_int_eq(engine.i->write(engine.context, &to->value, values), 0);
}

static void write_values(const struct net *net, const char *blob, const float *values)
{
    ck_assert_int_eq(engine.i->write(engine.context, &net_find_blob(net, blob)->value, values), 0);
}

static float read_one(const struct net *net, const char *blob, int at)
{
    float values[256];

    ck_assert_int_eq(net_read_blob(net, net_find_blob(net, blob), values), 0);
    return values[at];
}

static void forward(struct net *net, double *loss)
{
    const struct run run = {.seed = 1};

    ck_assert_msg(net_forward(net, &run, NULL, loss) == 0, "%s", error_text());
}

static void backward(struct net *net)
{
    const struct run run = {.seed = 1};

    ck_assert_msg(net_backward(net, &run, true, NULL) == 0, "%s", error_text());
}

#define NORM(rest) "layer { name: 'n' type: 'BatchNorm' bottom: 'x' top: 'y' " rest " }"

START_TEST(test_net_normalises_with_the_training_nets_running_statistics)
{
    static const char text[] = INPUT("x", "3,2,2,2") NORM("batch_norm_param { eps: 0 }");
    struct made train, test;
    double mean = 0, variance = 0;
    float x[24];

    make_built(&train, text, true, NULL);
    make_built(&test, text, false, train.net);
    ck_assert_ptr_eq(test.net->layers[1].params[0], train.net->layers[1].params[0]);
    ck_assert_uint_eq(test.net->nlearnable, 0);
    write_ramp(train.net, "x", 1);
    forward(train.net, NULL);
    forward(train.net, NULL); /* as often as forward runs */
    net_read_blob(train.net, net_find_blob(train.net, "x"), x);
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < 4; i++)
            mean += (double)x[n * 8 + i] / 12;
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < 4; i++)
            variance += ((double)x[n * 8 + i] - mean) * ((double)x[n * 8 + i] - mean) / 11;
    ck_assert_double_eq_tol(train.net->layers[1].params[2]->value[0], 1.999, 1e-6);
    ck_assert_double_eq_tol(train.net->layers[1].params[0]->value[0], 1.999 * mean, 1e-5);
    write_ramp(test.net, "x", 0);
    forward(test.net, NULL);
    ck_assert_double_eq_tol((double)read_one(test.net, "y", 1),
                            ((double)read_one(test.net, "x", 1) - mean) / sqrt(variance), 1e-5);
    ck_assert_double_eq_tol(train.net->layers[1].params[2]->value[0], 1.999, 1e-6);
    unmake_net(&test);
    unmake_net(&train);
}
END_TEST

START_TEST(statistics_are_marked_and_do_not_learn)
{
    struct made made;

    make_built(&made,
               INPUT("x", "3,2,2,2") NORM(
                   "") "layer { name: 's' type: 'Scale' bottom: 'y' top: 'y' } "
                       "layer { name: 'r' type: 'Reduction' bottom: 'y' top: 'r' loss_weight: 1 }",
               true, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert(made.net->params[i].statistic);
        ck_assert(made.net->params[i].lr_mult == 0);
        ck_assert(!made.net->params[i].wants_grad);
    }
    ck_assert(!made.net->params[3].statistic);
    ck_assert(made.net->params[3].wants_grad);
    ck_assert(!made.net->groups[0].trains);
    ck_assert(made.net->groups[1].trains);
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

START_TEST(frozen_statistics_in_training_are_said_aloud)
{
    struct made made;

    ck_assert_int_eq(
        make_net(&made, X NORM("batch_norm_param { use_global_stats: true }"), true, NULL, NULL),
        0);
    ck_assert_ptr_nonnull(strstr(made.notices, "layer 'n': use_global_stats: true in training"));
    unmake_net(&made);
    ck_assert_int_eq(
        make_net(&made, X NORM("batch_norm_param { use_global_stats: true }"), false, NULL, NULL),
        0);
    ck_assert_ptr_null(made.notices);
    unmake_net(&made);
}
END_TEST

/* conv, BatchNorm, Scale, ReLU under one name: two blobs in TRAIN, one in TEST. */
#define BLOCK                                                                                      \
    INPUT("x", "2,3,4,4")                                                                          \
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: "  \
    "8 "                                                                                           \
    "kernel_size: 3 weight_filler { type: 'xavier' } } } "                                         \
    "layer { name: 'n' type: 'BatchNorm' bottom: 'c' top: 'c' } "                                  \
    "layer { name: 's' type: 'Scale' bottom: 'c' top: 'c' scale_param { bias_term: true } } "      \
    "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' } "

START_TEST(a_scale_behind_a_batch_norm_is_one_op_with_it)
{
    struct made made;

    make_built(&made, BLOCK, true, NULL);
    ck_assert(net_find_layer(made.net, "n")->idle);
    ck_assert_ptr_null(net_find_layer(made.net, "n")->op);
    ck_assert_ptr_eq(net_find_layer(made.net, "s")->merged, net_find_layer(made.net, "n"));
    ck_assert_int_eq(made.net->nblobs, 3);
    unmake_net(&made);
    make_built(&made, BLOCK, false, NULL);
    ck_assert_int_eq(made.net->nblobs, 2);
    unmake_net(&made);
}
END_TEST

static const char *const apart[] = {
    /* another name: both tops can be looked at */
    NORM("") "layer { name: 's' type: 'Scale' bottom: 'y' top: 'z' }",
    /* other axes */
    NORM("") "layer { name: 's' type: 'Scale' bottom: 'y' top: 'y' scale_param { axis: 0 } }",
    NORM("") "layer { name: 's' type: 'Scale' bottom: 'y' top: 'y' scale_param { num_axes: 2 } }",
    /* two readers */
    NORM("") "layer { name: 's' type: 'Scale' bottom: 'y' top: 'z' } layer { name: 'p' type: "
             "'Power' bottom: "
             "'y' top: 'v' }",
};

START_TEST(a_scale_that_does_other_things_stands_alone)
{
    struct made made;
    char text[2048];

    snprintf(text, sizeof text, "%s%s", X, apart[_i]);
    make_built(&made, text, true, NULL);
    ck_assert(!net_find_layer(made.net, "n")->idle);
    ck_assert_ptr_nonnull(net_find_layer(made.net, "n")->op);
    unmake_net(&made);
}
END_TEST

START_TEST(loss_weight_scales_the_loss_and_the_gradient)
{
    static const char text[] = "force_backward: true\n" INPUT("a", "2,3")
        INPUT("b", "2,3") "layer { name: 'l' type: 'EuclideanLoss' bottom: 'a' bottom: 'b' top: "
                          "'l' loss_weight: 3 }";
    const float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 1, 1, 1, 1, 1};
    struct made made;
    float grad[6];
    double loss;

    make_built(&made, text, true, NULL);
    write_values(made.net, "a", a);
    write_values(made.net, "b", b);
    forward(made.net, &loss);
    ck_assert_double_eq_tol((double)read_one(made.net, "l", 0), 55.0 / 4, 1e-5);
    ck_assert_double_eq_tol(loss, 3 * 55.0 / 4, 1e-4);
    backward(made.net);
    engine.i->read(engine.context, &net_find_blob(made.net, "a")->grad, grad);
    ck_assert_double_eq_tol((double)grad[5], 3 * 5.0 / 2, 1e-5);
    engine.i->read(engine.context, &net_find_blob(made.net, "b")->grad, grad);
    ck_assert_double_eq_tol((double)grad[5], -3 * 5.0 / 2, 1e-5);
    unmake_net(&made);
}
END_TEST

#define FC(name, from, to, rest)                                                                   \
    "layer { name: '" name "' type: 'InnerProduct' bottom: '" from "' top: '" to                   \
    "' inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } " rest " }\n"

START_TEST(propagate_down_stops_one_side_of_a_loss)
{
    static const char text[] = INPUT("x", "2,4") FC("f", "x", "f", "") FC(
        "g", "x", "g",
        "") "layer { name: 'l' type: 'EuclideanLoss' bottom: 'f' bottom: 'g' propagate_down: true "
            "propagate_down: false }";
    struct made made;

    make_built(&made, text, true, NULL);
    ck_assert(net_find_layer(made.net, "f")->needs_backward);
    ck_assert(!net_find_layer(made.net, "g")->needs_backward);
    write_ramp(made.net, "x", 0);
    forward(made.net, NULL);
    backward(made.net);
    unmake_net(&made);
}
END_TEST

START_TEST(labels_that_learn_are_refused_by_every_loss_that_has_labels)
{
    static const char *const kinds[] = {"SigmoidCrossEntropyLoss", "HingeLoss",
                                        "MultinomialLogisticLoss"};
    static const char *const labels[] = {"", "num_output: 1", "num_output: 1"};
    struct made made;
    char text[2048];

    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof text,
                 "%s%s layer { name: 'g' type: 'InnerProduct' bottom: 'x' top: 'g' "
                 "inner_product_param { %s "
                 "} } layer { name: 'l' type: '%s' bottom: 'f' bottom: 'g' }",
                 INPUT("x", "2,4"), FC("f", "x", "f", ""), i ? labels[i] : "num_output: 3",
                 kinds[i]);
        ck_assert_int_ne(make_net(&made, text, true, NULL, NULL), 0);
        ck_assert_msg(strstr(error_text(), "comes from layers that learn, but a") != NULL, "%s",
                      error_text());
        unmake_net(&made);
    }
}
END_TEST

START_TEST(a_silenced_branch_adds_nothing)
{
    static const char text[] = INPUT("x", "2,4")
        FC("f", "x", "f",
           "") "layer { name: 'q' type: 'Silence' bottom: 'f' } "
               "layer { name: 'r' type: 'Reduction' bottom: 'f' top: 'r' loss_weight: 1 }";
    struct made made;

    make_built(&made, text, true, NULL);
    ck_assert_int_eq(made.net->noutputs, 1);
    write_ramp(made.net, "x", 0);
    forward(made.net, NULL);
    backward(made.net);
    ck_assert_double_eq_tol(net_find_layer(made.net, "f")->params[1]->grad[0], 2, 1e-6);
    unmake_net(&made);
}
END_TEST

START_TEST(a_parameter_layer_learns_what_its_reader_passes_back)
{
    static const char text[] =
        INPUT("x", "2,3") "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { "
                          "dim: 2 dim: 3 } } } "
                          "layer { name: 'l' type: 'EuclideanLoss' bottom: 'x' bottom: 'p' }";
    const float x[6] = {1, 2, 3, 4, 5, 6};
    struct made made;

    make_built(&made, text, true, NULL);
    write_values(made.net, "x", x);
    forward(made.net, NULL);
    backward(made.net);
    ck_assert_double_eq_tol(made.net->params[0].grad[5], -3, 1e-6);
    unmake_net(&made);
}
END_TEST

START_TEST(old_forms_of_the_new_layers_are_understood)
{
    static const char text[] =
        INPUT("x", "2,4,2,2") "layer { name: 's' type: 'Slice' bottom: 'x' top: 'a' top: 'b' "
                              "slice_param { slice_dim: 1 slice_point: 1 } } "
                              "layer { name: 'l' type: 'SigmoidCrossEntropyLoss' bottom: 'b' "
                              "bottom: 't' loss_param { normalize: "
                              "true } }";
    struct made made;
    char all[2048];

    snprintf(all, sizeof all, "%s%s", INPUT("t", "2,3,2,2"), text);
    make_built(&made, all, true, NULL);
    ck_assert_str_eq(shape_of(made.net, "a"), "2 1 2 2");
    unmake_net(&made);
}
END_TEST

static const struct {
    const char *text;
    float label;
    const char *message;
} value_cases[] = {
    {INPUT("x", "2,3") INPUT("z", "2") TWO("HingeLoss", ""), 3,
     "label 3 at place 0 is outside 0..2"},
    {INPUT("x", "2,3") INPUT("z", "2") TWO("MultinomialLogisticLoss", ""), -1,
     "label -1 at place 0"},
    {INPUT("x", "2,3") INPUT("z", "2") TWO("BatchReindex", ""), 2,
     "index 2 at place 0 is outside 0..1"},
    {INPUT("z",
           "2") "layer { name: 'l' type: 'Embed' bottom: 'z' top: 'y' embed_param { input_dim: 3 "
                "num_output: 2 } }",
     NAN, "index nan at place 0 is outside 0..2"},
};

START_TEST(values_out_of_range_are_refused_when_they_come)
{
    const struct run run = {.seed = 1};
    float values[2] = {value_cases[_i].label, 0};
    struct made made;

    make_built(&made, value_cases[_i].text, false, NULL);
    write_values(made.net, "z", values);
    ck_assert_int_ne(net_forward(made.net, &run, NULL, NULL), 0);
    ck_assert_msg(strstr(error_text(), value_cases[_i].message) != NULL,
                  "expected '...%s...', found '%s'", value_cases[_i].message, error_text());
    ck_assert_ptr_nonnull(strstr(error_text(), "layer 'l'"));
    unmake_net(&made);
}
END_TEST

/* BlobProto: `data` (field 5) packed floats. */
static void write_matrix(const char *path, int n)
{
    FILE *out = fopen(path, "wb");

    ck_assert_ptr_nonnull(out);
    fputc(5 << 3 | 2, out);
    fputc(n * (int)sizeof(float), out);
    for (int i = 0; i < n; i++) {
        float value = i % 4 == 0 ? 1 : 0; /* the identity, for 3 classes */
        fwrite(&value, sizeof value, 1, out);
    }
    fclose(out);
}

START_TEST(the_identity_makes_infogain_a_softmax_loss)
{
    static const char text[] = "force_backward: true\n" INPUT("x", "2,3") INPUT(
        "t", "2") "layer { name: 'i' type: 'InfogainLoss' bottom: 'x' bottom: 't' top: 'i' "
                  "infogain_loss_param { "
                  "source: 'infogain.binaryproto' } } "
                  "layer { name: 's' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 't' top: 's' }";
    const float labels[2] = {2, 0};
    struct made made;

    write_matrix("infogain.binaryproto", 9);
    make_built(&made, text, true, NULL);
    write_ramp(made.net, "x", 0);
    write_values(made.net, "t", labels);
    forward(made.net, NULL);
    ck_assert_double_eq_tol((double)read_one(made.net, "i", 0), (double)read_one(made.net, "s", 0),
                            1e-6);
    unmake_net(&made);
    write_matrix("infogain.binaryproto", 8);
    ck_assert_int_ne(make_net(&made, text, true, NULL, NULL), 0);
    ck_assert_ptr_nonnull(strstr(error_text(), "has 8 values; expected 3 x 3"));
    unmake_net(&made);
    FILE *out = fopen("infogain.binaryproto", "wb");
    fputs("\xff\xff\xff", out);
    fclose(out);
    ck_assert_int_ne(make_net(&made, text, true, NULL, NULL), 0);
    ck_assert_ptr_nonnull(strstr(error_text(), "is not a binaryproto"));
    unmake_net(&made);
    unlink("infogain.binaryproto");
    const struct layer_env look = {.look_only = true};
    ck_assert_int_eq(make_net(&made, text, true, &look, NULL), 0);
    unmake_net(&made);
}
END_TEST

START_TEST(a_bilinear_deconvolution_enlarges_a_ramp_evenly)
{
    static const char text[] =
        INPUT("x", "1,2,3,3") "layer { name: 'd' type: 'Deconvolution' bottom: 'x' top: 'd' param "
                              "{ lr_mult: 0 } convolution_param { "
                              "num_output: 2 group: 2 kernel_size: 4 stride: 2 pad: 1 bias_term: "
                              "false weight_filler { type: "
                              "'bilinear' } } }";
    float x[18];
    struct made made;

    for (int i = 0; i < 18; i++)
        x[i] = (float)(i % 3);
    make_built(&made, text, false, NULL);
    write_values(made.net, "x", x);
    forward(made.net, NULL);
    /* inside, steps of one half */
    for (int i = 1; i < 4; i++)
        ck_assert_double_eq_tol((double)read_one(made.net, "d", 12 + i + 1) -
                                    (double)read_one(made.net, "d", 12 + i),
                                0.5, 1e-6);
    unmake_net(&made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("more layers");
    TCase *shapes = tcase_create("shapes"), *errors = tcase_create("errors"),
          *nets = tcase_create("nets");
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, shapes);
    suite_add_tcase(suite, errors);
    suite_add_tcase(suite, nets);
    tcase_add_checked_fixture(nets, open_engine, close_engine);
    tcase_add_loop_test(shapes, layer_gives_the_shape, 0,
                        sizeof shape_cases / sizeof shape_cases[0]);
    tcase_add_loop_test(shapes, layer_has_as_many_parameters_as_in_caffe, 0,
                        sizeof param_cases / sizeof param_cases[0]);
    tcase_add_test(shapes, three_param_entries_of_a_batch_norm_are_set_to_rest);
    tcase_add_test(shapes, frozen_statistics_in_training_are_said_aloud);
    tcase_add_loop_test(errors, error_says_what_was_expected_and_found, 0,
                        sizeof error_cases / sizeof error_cases[0]);
    tcase_add_test(errors, labels_that_learn_are_refused_by_every_loss_that_has_labels);
    tcase_add_test(nets, test_net_normalises_with_the_training_nets_running_statistics);
    tcase_add_test(nets, statistics_are_marked_and_do_not_learn);
    tcase_add_test(nets, a_scale_behind_a_batch_norm_is_one_op_with_it);
    tcase_add_loop_test(nets, a_scale_that_does_other_things_stands_alone, 0,
                        sizeof apart / sizeof apart[0]);
    tcase_add_test(nets, loss_weight_scales_the_loss_and_the_gradient);
    tcase_add_test(nets, propagate_down_stops_one_side_of_a_loss);
    tcase_add_test(nets, a_silenced_branch_adds_nothing);
    tcase_add_test(nets, a_parameter_layer_learns_what_its_reader_passes_back);
    tcase_add_test(nets, old_forms_of_the_new_layers_are_understood);
    tcase_add_loop_test(nets, values_out_of_range_are_refused_when_they_come, 0,
                        sizeof value_cases / sizeof value_cases[0]);
    tcase_add_test(nets, the_identity_makes_infogain_a_softmax_loss);
    tcase_add_test(nets, a_bilinear_deconvolution_enlarges_a_ramp_evenly);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
