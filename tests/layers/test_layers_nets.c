/* Layers at work in a net: statistics, chains of layers in place, gradients that are cut off or
 * forced, values that are out of range. */
#include "tests/layers/layer_texts.h"
#include "tests/suite.h"

#include <math.h>
#include <unistd.h>

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
    const struct pass pass = {.seed = 1};

    ck_assert_msg(net_forward(net, &pass, NULL, loss) == 0, "%s", error_text());
}

static void backward(struct net *net)
{
    const struct pass pass = {.seed = 1};

    ck_assert_msg(net_backward(net, &pass, true, NULL) == 0, "%s", error_text());
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

START_TEST(frozen_statistics_in_training_are_said_aloud)
{
    struct made made;

    ck_assert_int_eq(
        make_net(&made, X NORM("batch_norm_param { use_global_stats: true }"), true, NULL, NULL),
        0);
    ck_assert_ptr_nonnull(strstr(made.notices, "layer 'n': use_global_stats is true in training"));
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

/* Caffe divides 0 by 0 there, or leaves the least float, and says nothing (BVLC/caffe#6942). */
START_TEST(a_window_wholly_behind_the_image_is_said_aloud)
{
    static const struct {
        const char *param, *notice;
    } cases[] = {
        {"kernel_size: 1 stride: 2",
         "the last window of the height is empty, as it begins at 6 of 6 "
         "places: the top holds the least float"},
        {"kernel_h: 2 kernel_w: 2 stride_h: 1 stride_w: 4 pool: AVE",
         "the last window of the width is empty, as it begins at 8 of 8 places: the top holds 0 "},
        {"kernel_size: 1 stride: 2 round_mode: FLOOR", NULL},
        {"kernel_size: 2 stride: 3 pad: 1", NULL},
        {"kernel_size: 3 stride: 2", NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made made;
        char text[512];

        snprintf(text, sizeof text,
                 "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: [1, 1, 6, 8] "
                 "} } } layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'y' pooling_param { %s "
                 "} }",
                 cases[i].param);
        ck_assert_msg(make_net(&made, text, true, NULL, NULL) == 0, "%s", error_text());
        if (cases[i].notice)
            ck_assert_msg(made.notices && strstr(made.notices, cases[i].notice), "%s: '%s'",
                          cases[i].param, made.notices ? made.notices : "");
        else
            ck_assert_msg(!made.notices, "%s: '%s'", cases[i].param, made.notices);
        unmake_net(&made);
    }
}
END_TEST

START_TEST(a_scale_behind_a_batch_norm_is_one_op_with_it)
{
    struct made made;

    make_built(&made, BLOCK, true, NULL);
    ck_assert(net_find_layer(made.net, "n")->idle);
    ck_assert_ptr_null(net_find_layer(made.net, "n")->ops);
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
    ck_assert_ptr_nonnull(net_find_layer(made.net, "n")->ops);
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
        ck_assert_msg(strstr(error_text(), "comes from layers that learn") != NULL, "%s",
                      error_text());
        unmake_net(&made);
    }
    snprintf(text, sizeof text,
             "%s%s%s layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'f' bottom: 'y' "
             "propagate_down: true propagate_down: true }",
             INPUT("x", "2,4"), INPUT("y", "2"), FC("f", "x", "f", ""));
    ck_assert_int_ne(make_net(&made, text, true, NULL, NULL), 0);
    ck_assert_msg(strstr(error_text(),
                         "'y' (index 1) comes from layers that learn, or has "
                         "propagate_down: true, but layers of type SoftmaxWithLoss") != NULL,
                  "%s", error_text());
    unmake_net(&made);
}
END_TEST

/* As in Caffe, whose layer does not ask. */
START_TEST(similarities_that_learn_are_taken_as_they_are)
{
    static const char text[] = INPUT("x", "2,4") FC("f", "x", "f", "")
        FC("g", "x", "g",
           "") "layer { name: 's' type: 'InnerProduct' bottom: 'x' top: 's' inner_product_param { "
               "num_output: 1 bias_filler { value: 1 } } } "
               "layer { name: 'l' type: 'ContrastiveLoss' bottom: 'f' bottom: 'g' bottom: 's' }";
    struct made made;

    make_built(&made, text, true, NULL);
    ck_assert(net_find_layer(made.net, "f")->needs_backward);
    ck_assert(net_find_layer(made.net, "g")->needs_backward);
    ck_assert(!net_find_layer(made.net, "s")->needs_backward);
    write_ramp(made.net, "x", 0);
    forward(made.net, NULL);
    backward(made.net);
    unmake_net(&made);
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
     "label 3 of sample 0 of the batch is outside 0..2"},
    {INPUT("x", "2,3") INPUT("z", "2") TWO("MultinomialLogisticLoss", ""), -1,
     "label -1 of sample 0 of the batch"},
    {INPUT("x", "2,3") INPUT("z", "2") TWO("SoftmaxWithLoss", ""), 1.5F,
     "label 1.5 of sample 0 of the batch is not a whole number in 0..2"},
    {INPUT("x", "2,3") INPUT("z", "2") TWO("Accuracy", ""), -0.5F,
     "label -0.5 of sample 0 of the batch is not a whole number in 0..2"},
    {INPUT("x", "2,3") INPUT("z", "2") TWO("BatchReindex", ""), 2,
     "index 2 at place 0 is outside 0..1"},
    {INPUT("z",
           "2") "layer { name: 'l' type: 'Embed' bottom: 'z' top: 'y' embed_param { input_dim: 3 "
                "num_output: 2 } }",
     NAN, "index nan at place 0 is not a whole number in 0..2"},
};

START_TEST(values_out_of_range_are_refused_when_they_come)
{
    const struct pass pass = {.seed = 1};
    float values[2] = {value_cases[_i].label, 0};
    struct made made;

    make_built(&made, value_cases[_i].text, false, NULL);
    write_values(made.net, "z", values);
    ck_assert_int_ne(net_forward(made.net, &pass, NULL, NULL), 0);
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
    ck_assert_ptr_nonnull(strstr(error_text(), "expected a blob (.binaryproto), found"));
    unmake_net(&made);
    unlink("infogain.binaryproto");
    /* passes over blank input open no file and still run */
    const struct layer_env look = {.look_only = true};
    ck_assert_int_eq(make_net(&made, text, true, &look, NULL), 0);
    ck_assert_int_eq(net_build(made.net, &engine, 3), 0);
    forward(made.net, NULL);
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

/* Gradients of gamma, beta and slope after one pass by that many threads. */
static void sums_with_threads(int threads, float out[24])
{
    static const char text[] = INPUT("x", "3,8,70,90") NORM(
        "") "layer { name: 's' type: 'Scale' bottom: 'y' top: 'y' scale_param { bias_term: true } "
            "} "
            "layer { name: 'p' type: 'PReLU' bottom: 'y' top: 'y' } "
            "layer { name: 'r' type: 'Reduction' bottom: 'y' top: 'r' reduction_param { operation: "
            "SUMSQ } loss_weight: 1 }";
    const struct engine_options options = {.threads = threads};
    static float x[3 * 8 * 70 * 90];
    struct made made;

    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = sinf((float)i) * 3 + 1;
    close_engine();
    ck_assert_int_eq(engine_open("cpu", &options, &engine), 0);
    make_built(&made, text, true, NULL);
    write_values(made.net, "x", x);
    forward(made.net, NULL);
    backward(made.net);
    for (int p = 3; p < 6; p++)
        memcpy(out + 8 * (p - 3), made.net->params[p].grad, 8 * sizeof(float));
    unmake_net(&made);
}

START_TEST(sums_over_the_batch_have_the_same_bits_at_any_number_of_threads)
{
    float one[24], three[24];

    sums_with_threads(1, one);
    sums_with_threads(3, three);
    ck_assert_mem_eq(one, three, sizeof one);
    ck_assert(one[0] != 0 && one[8] != 0 && one[16] != 0);
}
END_TEST

SUITE("layers in nets")
{
    TCase *nets = suite_case(suite, "nets");

    tcase_add_checked_fixture(nets, open_engine, close_engine);
    tcase_add_test(nets, test_net_normalises_with_the_training_nets_running_statistics);
    tcase_add_test(nets, statistics_are_marked_and_do_not_learn);
    tcase_add_test(nets, frozen_statistics_in_training_are_said_aloud);
    tcase_add_test(nets, a_window_wholly_behind_the_image_is_said_aloud);
    tcase_add_test(nets, a_scale_behind_a_batch_norm_is_one_op_with_it);
    suite_table(nets, a_scale_that_does_other_things_stands_alone, apart);
    tcase_add_test(nets, loss_weight_scales_the_loss_and_the_gradient);
    tcase_add_test(nets, propagate_down_stops_one_side_of_a_loss);
    tcase_add_test(nets, labels_that_learn_are_refused_by_every_loss_that_has_labels);
    tcase_add_test(nets, similarities_that_learn_are_taken_as_they_are);
    tcase_add_test(nets, a_silenced_branch_adds_nothing);
    tcase_add_test(nets, a_parameter_layer_learns_what_its_reader_passes_back);
    tcase_add_test(nets, old_forms_of_the_new_layers_are_understood);
    suite_table(nets, values_out_of_range_are_refused_when_they_come, value_cases);
    tcase_add_test(nets, the_identity_makes_infogain_a_softmax_loss);
    tcase_add_test(nets, a_bilinear_deconvolution_enlarges_a_ramp_evenly);
    tcase_add_test(nets, sums_over_the_batch_have_the_same_bits_at_any_number_of_threads);
}
