/* What a net does with gradients besides computing them: which it computes at all, how they add up
 * over passes and layers, and that what Dropout and STOCHASTIC pooling draw is the same both ways.
 */
#include "tests/layers/case_net.h"
#include "tests/suite.h"

#include <math.h>

#define FC(name, bottom, top, n, more)                                                             \
    "layer { name: '" name "' type: 'InnerProduct' bottom: '" bottom "' top: '" top "' " more      \
    " inner_product_param { num_output: " #n " weight_filler { type: 'gaussian' std: 0.5 } } }\n"
#define CONV(name, bottom, top, n, more)                                                           \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' top: '" top "' " more       \
    " convolution_param { num_output: " #n " kernel_size: 3 pad: 1"                                \
    " weight_filler { type: 'gaussian' std: 0.5 } } }\n"
#define LOSS                                                                                       \
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'loss' }\n"
#define INPUTS INPUT("x", "4, 3, 5, 5") INPUT("label", "4")

static void draw(struct case_net *n, const char *blob, enum draw_kind kind, int b, int salt)
{
    const struct draw draw = {.kind = kind, .b = b, .salt = salt};
    size_t count = shape_elems(&net_find_blob(n->net, blob)->value.shape);
    float *values = calloc(count, sizeof *values);

    draw_values(&draw, count, values);
    case_net_write_blob(n, blob, values);
    free(values);
}

static void pass(struct case_net *n, int salt, bool first)
{
    draw(n, "x", DRAW_UNIT, 0, salt);
    draw(n, "label", DRAW_INTEGERS, 2, salt + 1);
    case_net_forward(n);
    case_net_backward(n, first);
}

static const char small[] = INPUTS CONV("c1", "x", "c1", 8, "") CONV("c2", "c1", "c2", 8, "")
    FC("f1", "c2", "y", 3, "") LOSS;

START_TEST(gradients_of_later_passes_are_added)
{
    struct case_net n;
    float *one[6], *two[6], *sum[6];

    case_net_open_text(&n, small, 2);
    ck_assert_int_eq(n.net->nparams, 6);
    pass(&n, 10, true);
    for (int p = 0; p < 6; p++)
        one[p] = case_net_param_grad(&n, p);
    pass(&n, 20, true);
    for (int p = 0; p < 6; p++)
        two[p] = case_net_param_grad(&n, p);
    pass(&n, 10, true);
    pass(&n, 20, false);
    for (int p = 0; p < 6; p++) {
        size_t elems = shape_elems(&n.net->params[p].shape);
        float most = 0;
        sum[p] = case_net_param_grad(&n, p);
        for (size_t i = 0; i < elems; i++)
            most = fmaxf(most, fabsf(sum[p][i]));
        ck_assert_float_gt(most, 1e-3f);
        for (size_t i = 0; i < elems; i++)
            ck_assert_float_eq_tol(sum[p][i], one[p][i] + two[p][i], 1e-6f * most);
        free(one[p]);
        free(two[p]);
        free(sum[p]);
    }
    case_net_close(&n);
}
END_TEST

/* Two passes of half the batch each and one of the whole, with a loss that is not normalised. */
START_TEST(two_half_batches_give_the_gradient_of_the_whole)
{
#define NET(batch)                                                                                 \
    INPUT("x", batch ", 3, 5, 5")                                                                  \
    INPUT("label", batch)                                                                          \
    CONV("c1", "x", "c1", 8, "")                                                                   \
    FC("f1", "c1", "y", 3, "")                                                                     \
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'loss'"         \
    " loss_param { normalization: NONE } }"
    struct case_net whole, half;
    float x[4 * 75], label[4] = {0, 2, 1, 1};
    const struct draw spec = {.kind = DRAW_UNIT, .salt = 3};

    draw_values(&spec, 4 * 75, x);
    case_net_open_text(&whole, NET("4"), 1);
    case_net_open_text(&half, NET("2"), 1);
    case_net_write_blob(&whole, "x", x);
    case_net_write_blob(&whole, "label", label);
    double loss = case_net_forward(&whole), halves = 0;
    case_net_backward(&whole, true);
    for (int i = 0; i < 2; i++) {
        case_net_write_blob(&half, "x", x + i * 2 * 75);
        case_net_write_blob(&half, "label", label + i * 2);
        halves += case_net_forward(&half);
        case_net_backward(&half, i == 0);
    }
    ck_assert_double_eq_tol(loss, halves, 1e-5);
    for (int p = 0; p < 4; p++) {
        float *a = case_net_param_grad(&whole, p), *b = case_net_param_grad(&half, p);
        for (size_t i = 0; i < shape_elems(&whole.net->params[p].shape); i++)
            ck_assert_float_eq_tol(a[i], b[i], 2e-5f);
        free(a);
        free(b);
    }
    case_net_close(&half);
    case_net_close(&whole);
#undef NET
}
END_TEST

#define FROZEN "param { lr_mult: 0 } param { lr_mult: 0 }"

static void expect_same_grad(struct case_net *a, struct case_net *b, int param)
{
    float *x = case_net_param_grad(a, param), *y = case_net_param_grad(b, param);

    for (size_t i = 0; i < shape_elems(&a->net->params[param].shape); i++)
        ck_assert_msg(x[i] == y[i], "parameter %d, element %zu: %g and %g", param, i, (double)x[i],
                      (double)y[i]);
    free(x);
    free(y);
}

START_TEST(layers_below_the_first_that_learns_have_no_backward)
{
    struct case_net frozen, free_net;

    case_net_open_text(&frozen,
                       INPUTS CONV("c1", "x", "c1", 8, FROZEN) CONV("c2", "c1", "c2", 8, "")
                           FC("f1", "c2", "y", 3, "") LOSS,
                       1);
    case_net_open_text(&free_net, small, 1);
    pass(&frozen, 1, true);
    pass(&free_net, 1, true);
    ck_assert(!net_find_layer(frozen.net, "c1")->needs_backward);
    ck_assert(!net_find_layer(frozen.net, "c2")->propagate[0]);
    ck_assert(!net_find_blob(frozen.net, "c1")->wants_grad);
    ck_assert_ptr_null(net_find_blob(frozen.net, "c1")->grad.data);
    ck_assert_ptr_null(frozen.net->params[0].grad);
    for (int p = 2; p < 6; p++)
        expect_same_grad(&frozen, &free_net, p);
    case_net_close(&frozen);
    case_net_close(&free_net);
}
END_TEST

START_TEST(the_gradient_passes_through_a_frozen_layer)
{
    struct case_net frozen, free_net;

    case_net_open_text(&frozen,
                       INPUTS CONV("c1", "x", "c1", 8, "") CONV("c2", "c1", "c2", 8, FROZEN)
                           FC("f1", "c2", "y", 3, "param { lr_mult: 0 } param { lr_mult: 1 }") LOSS,
                       1);
    case_net_open_text(&free_net, small, 1);
    pass(&frozen, 1, true);
    pass(&free_net, 1, true);
    for (int p = 2; p < 5; p++)
        ck_assert_ptr_null(frozen.net->params[p].grad);
    expect_same_grad(&frozen, &free_net, 0);
    expect_same_grad(&frozen, &free_net, 1);
    expect_same_grad(&frozen, &free_net, 5);
    case_net_close(&frozen);
    case_net_close(&free_net);
}
END_TEST

/* The input of the first layer: the costliest gradient that nobody needs. */
START_TEST(data_gets_no_gradient_unless_forced)
{
    struct case_net n;

    case_net_open_text(&n, small, 1);
    ck_assert(!net_find_layer(n.net, "c1")->propagate[0]);
    ck_assert_ptr_null(net_find_blob(n.net, "x")->grad.data);
    case_net_close(&n);
    /* the label is split between loss and accuracy: forcing must not reach it */
    char *text = calloc(1, sizeof small + 256);
    strcpy(text, "force_backward: true\n");
    strcat(text, small);
    strcat(text, "layer { name: 'acc' type: 'Accuracy' bottom: 'y' bottom: 'label' top: 'acc' }");
    case_net_open_text(&n, text, 1);
    ck_assert(net_find_layer(n.net, "c1")->propagate[0]);
    ck_assert_ptr_nonnull(net_find_blob(n.net, "x")->grad.data);
    ck_assert(!net_find_blob(n.net, "label")->wants_grad);
    pass(&n, 1, true);
    case_net_close(&n);
    free(text);
}
END_TEST

/* A net in the manner of U-nets: what learns below gives the size of what is cropped, and is added.
 */
#define CROPPED(size, propagate)                                                                   \
    INPUTS CONV("c1", "x", "c1", 8, "") CONV(                                                      \
        "c2", "x", "c2", 8,                                                                        \
        "") "layer { name: 'up' type: 'Deconvolution' bottom: 'c1' top: 'up' convolution_param {"  \
            " num_output: 8 kernel_size: 4 weight_filler { type: 'gaussian' std: 0.1 } } }\n"      \
            "layer { name: 'cut' type: 'Crop' bottom: 'up' bottom: '" size                         \
            "' top: 'cut' " propagate " crop_param { offset: 1 } }\n"                              \
            "layer { name: 'sum' type: 'Eltwise' bottom: 'cut' bottom: 'c1' top: 'sum' }\n" FC(    \
                "f1", "sum", "y", 3, "") LOSS

START_TEST(crop_gives_no_gradient_to_what_it_takes_the_size_from)
{
    static const char *const told[] = {CROPPED("c1", "propagate_down: true propagate_down: false"),
                                       CROPPED("c1", "propagate_down: true propagate_down: true")};
    struct case_net plain, other;

    case_net_open_text(&plain, CROPPED("c1", ""), 2);
    case_net_open_text(&other, told[_i], 2);
    ck_assert_int_eq(plain.net->nparams, 8);
    ck_assert(net_find_layer(plain.net, "cut")->propagate[0]);
    ck_assert(!net_find_layer(plain.net, "cut")->propagate[1]);
    pass(&plain, 1, true);
    pass(&other, 1, true);
    for (int p = 0; p < 8; p++)
        if (p != 2 && p != 3) /* c2, which nobody reads */
            expect_same_grad(&plain, &other, p);
    case_net_close(&plain);
    case_net_close(&other);
}
END_TEST

START_TEST(what_only_gives_a_size_does_not_learn)
{
    struct case_net sized, plain;

    case_net_open_text(&sized, CROPPED("c2", ""), 2);
    case_net_open_text(&plain, CROPPED("c1", ""), 2);
    ck_assert(!net_find_layer(sized.net, "c2")->needs_backward);
    ck_assert_ptr_null(sized.net->params[2].grad);
    pass(&sized, 1, true);
    pass(&plain, 1, true);
    for (int p = 0; p < 8; p++)
        if (p != 2 && p != 3)
            expect_same_grad(&sized, &plain, p);
    case_net_close(&sized);
    case_net_close(&plain);
}
END_TEST

#define DROPOUT(top, ratio)                                                                        \
    "force_backward: true\n" INPUT("x", "6, 40, 5, 5")                                             \
        INPUT("r", "6, 40, 5, 5") "layer { name: 'd' type: 'Dropout' bottom: 'x' top: '" top       \
                                  "' dropout_param { dropout_ratio: " ratio " } }\n"               \
                                  "layer { name: 'z' type: 'Eltwise' bottom: '" top                \
                                  "' bottom: 'r' top: 'z'"                                         \
                                  " eltwise_param { operation: PROD } loss_weight: 1 }\n"
enum { DROPPED = 6 * 1000 };

static void dropout_pass(struct case_net *n, uint64_t first_sample, const char *top, float **y,
                         float **dx)
{
    n->pass.first_sample = first_sample;
    draw(n, "x", DRAW_AWAY, 0, 1);
    draw(n, "r", DRAW_AWAY, 0, 2);
    case_net_forward(n);
    case_net_backward(n, true);
    *y = case_net_blob(n, top);
    *dx = case_net_blob_grad(n, "x");
}

/* By a 5-sigma bound; the share of 6000 values kept has a deviation of 0.006. */
START_TEST(dropout_keeps_scales_and_masks_the_gradient_alike)
{
    struct case_net n;
    float *y, *dx, x[DROPPED], r[DROPPED];
    const struct draw xs = {.kind = DRAW_AWAY, .salt = 1};
    const struct draw rs = {.kind = DRAW_AWAY, .salt = 2};
    const char *top = _i ? "x" : "y";
    int kept = 0;

    draw_values(&xs, DROPPED, x);
    draw_values(&rs, DROPPED, r);
    case_net_open_text(&n, _i ? DROPOUT("x", "0.3") : DROPOUT("y", "0.3"), 2);
    dropout_pass(&n, 0, top, &y, &dx);
    for (int i = 0; i < DROPPED; i++) {
        bool keep = y[i] != 0;
        kept += keep;
        ck_assert_float_eq_tol(y[i], keep ? x[i] / 0.7f : 0, 1e-6f);
        ck_assert_float_eq_tol(dx[i], keep ? r[i] / 0.7f : 0, 1e-6f);
    }
    ck_assert_double_eq_tol(kept / (double)DROPPED, 0.7, 5 * 0.006);
    free(y);
    free(dx);
    case_net_close(&n);
}
END_TEST

/* Sample 3 of a pass from 100 is sample 0 of a pass from 103, whoever computes it. */
START_TEST(dropout_mask_belongs_to_the_sample)
{
    struct case_net n;
    float *y[3], *dx[3];
    int same = 0;

    case_net_open_text(&n, DROPOUT("y", "0.3"), 1);
    dropout_pass(&n, 100, "y", &y[0], &dx[0]);
    dropout_pass(&n, 103, "y", &y[1], &dx[1]);
    n.pass.seed++;
    dropout_pass(&n, 100, "y", &y[2], &dx[2]);
    for (int i = 0; i < 3 * 1000; i++)
        ck_assert_int_eq(y[0][3 * 1000 + i] != 0, y[1][i] != 0);
    for (int i = 0; i < 1000; i++)
        same += (y[0][i] != 0) == (y[1][i] != 0);
    ck_assert_int_lt(same, 700); /* 0.7^2 + 0.3^2 = 0.58 of independent masks agree */
    same = 0;
    for (int i = 0; i < DROPPED; i++)
        same += (y[0][i] != 0) == (y[2][i] != 0);
    ck_assert_int_lt(same, 0.65 * DROPPED);
    for (int i = 0; i < 3; i++) {
        free(y[i]);
        free(dx[i]);
    }
    case_net_close(&n);
}
END_TEST

START_TEST(dropout_is_the_identity_in_test)
{
    static const char *const nets[] = {DROPOUT("y", "0.3"), DROPOUT("y", "0"), DROPOUT("y", "1")};
    struct engine engine;
    struct made made;
    float x[DROPPED], y[DROPPED];
    const struct draw xs = {.kind = DRAW_AWAY, .salt = 1};
    const struct pass pass = {.seed = 1};

    draw_values(&xs, 2 * 72, x);
    ck_assert_int_eq(engine_open("cpu", NULL, &engine), 0);
    ck_assert_int_eq(make_net(&made, nets[_i], false, NULL, NULL), 0);
    ck_assert_int_eq(net_build(made.net, &engine, 1), 0);
    ck_assert_int_eq(engine.i->write(engine.context, &net_find_blob(made.net, "x")->value, x), 0);
    ck_assert_int_eq(net_forward(made.net, &pass, NULL, NULL), 0);
    ck_assert_int_eq(engine.i->read(engine.context, &net_find_blob(made.net, "y")->value, y), 0);
    ck_assert_mem_eq(x, y, sizeof x);
    ck_assert_int_ne(net_backward(made.net, &pass, true, NULL), 0);
    ck_assert_str_eq(error_text(), "a net of the TEST phase has no backward pass");
    unmake_net(&made);
    ck_assert_int_ne(make_net(&made, DROPOUT("y", "1.5"), false, NULL, NULL), 0);
    ck_assert_ptr_nonnull(
        strstr(error_text(), "ratio is 1.5; expected at least 0 and no more than 1"));
    unmake_net(&made);
    engine_close(&engine);
}
END_TEST

enum { WINDOWS = 4000 };

#define STOCHASTIC                                                                                 \
    "force_backward: true\n" INPUT("x", "4000, 1, 2, 2")                                           \
        INPUT("r", "4000, 1, 1, 1") "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'y'"       \
                                    " pooling_param { pool: STOCHASTIC kernel_size: 2 } }\n"       \
                                    "layer { name: 'z' type: 'Eltwise' bottom: 'y' bottom: 'r'"    \
                                    " top: 'z' eltwise_param { operation: PROD } loss_weight: 1 "  \
                                    "}\n"

/* Every window holds 1, 2, 3, 4, so that y names the place. */
static void pool_windows(struct case_net *n, uint64_t first_sample, float **y, float **dx)
{
    static float x[4 * WINDOWS];

    for (int i = 0; i < 4 * WINDOWS; i++)
        x[i] = (float)(i % 4 + 1);
    n->pass.first_sample = first_sample;
    case_net_write_blob(n, "x", x);
    draw(n, "r", DRAW_AWAY, 0, 2);
    case_net_forward(n);
    case_net_backward(n, true);
    *y = case_net_blob(n, "y");
    *dx = case_net_blob_grad(n, "x");
}

/* By a 5-sigma bound. */
START_TEST(stochastic_pooling_picks_by_share_and_the_gradient_goes_there)
{
    struct case_net n;
    float *y, *dx, r[WINDOWS];
    const struct draw rs = {.kind = DRAW_AWAY, .salt = 2};
    int times[4] = {0};

    draw_values(&rs, WINDOWS, r);
    case_net_open_text(&n, STOCHASTIC, 2);
    pool_windows(&n, 0, &y, &dx);
    for (int i = 0; i < WINDOWS; i++) {
        int picked = (int)y[i] - 1;
        ck_assert(y[i] == 1 || y[i] == 2 || y[i] == 3 || y[i] == 4);
        times[picked]++;
        for (int e = 0; e < 4; e++)
            ck_assert_float_eq(dx[4 * i + e], e == picked ? r[i] : 0);
    }
    for (int e = 0; e < 4; e++) {
        double share = (e + 1) / 10.0, sigma = sqrt(share * (1 - share) / WINDOWS);
        ck_assert_double_eq_tol(times[e] / (double)WINDOWS, share, 5 * sigma);
    }
    free(y);
    free(dx);
    case_net_close(&n);
}
END_TEST

/* Sample 3 of a pass from 100 is sample 0 of a pass from 103, whoever computes it. */
START_TEST(stochastic_pooling_draws_by_sample_and_seed)
{
    struct case_net n;
    float *y[3], *dx[3];
    int same[2] = {0};

    case_net_open_text(&n, STOCHASTIC, 1);
    pool_windows(&n, 100, &y[0], &dx[0]);
    pool_windows(&n, 103, &y[1], &dx[1]);
    n.pass.seed++;
    pool_windows(&n, 100, &y[2], &dx[2]);
    for (int i = 0; i < WINDOWS - 3; i++) {
        ck_assert_float_eq(y[0][i + 3], y[1][i]);
        same[0] += y[0][i] == y[1][i];
        same[1] += y[0][i] == y[2][i];
    }
    ck_assert_int_lt(same[0], 0.4 * WINDOWS); /* 0.3 of independent draws agree */
    ck_assert_int_lt(same[1], 0.4 * WINDOWS);
    for (int i = 0; i < 3; i++) {
        free(y[i]);
        free(dx[i]);
    }
    case_net_close(&n);
}
END_TEST

static double slope_pass(struct case_net *n, const float *x, float **dx)
{
    double loss;

    case_net_write_blob(n, "x", x);
    draw(n, "r", DRAW_AWAY, 0, 2);
    loss = case_net_forward(n);
    case_net_backward(n, true);
    *dx = case_net_blob_grad(n, "x");
    return loss;
}

/* Where a small step changes no draw, the loss is linear. */
START_TEST(stochastic_pooling_passes_the_slope_back)
{
    const float h = 1.0f / 64;
    const struct draw xs = {.kind = DRAW_DISTINCT, .a = 37};
    struct case_net n;
    float x[2 * 72], *dx[3];
    int kept = 0;

    case_net_open_text(
        &n,
        "force_backward: true\n" INPUT("x", "2, 2, 6, 6") INPUT(
            "r", "2, 2, 3, 3") "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'y'"
                               " pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 } }\n"
                               "layer { name: 'z' type: 'Eltwise' bottom: 'y' bottom: 'r' top: 'z'"
                               " eltwise_param { operation: PROD } loss_weight: 1 }\n",
        1);
    draw_values(&xs, 2 * 72, x);
    for (int e = 0; e < 2 * 72; e++)
        x[e] = 1 + fabsf(x[e]);
    slope_pass(&n, x, &dx[0]);
    for (int e = 0; e < 2 * 72; e++) {
        float before = x[e];
        x[e] = before + h;
        double up = slope_pass(&n, x, &dx[1]);
        x[e] = before - h;
        double down = slope_pass(&n, x, &dx[2]);
        x[e] = before;
        if (memcmp(dx[0], dx[1], sizeof x) == 0 && memcmp(dx[0], dx[2], sizeof x) == 0) {
            ck_assert_double_eq_tol((up - down) / (2 * (double)h), (double)dx[0][e], 1e-4);
            kept++;
        }
        free(dx[1]);
        free(dx[2]);
    }
    ck_assert_int_gt(kept, 0.8 * 2 * 72);
    free(dx[0]);
    case_net_close(&n);
}
END_TEST

START_TEST(same_values_give_the_same_bits)
{
    struct case_net one, two;

    case_net_open_text(&one, small, 2);
    case_net_open_text(&two, small, 2);
    pass(&one, 1, true);
    pass(&two, 5, true); /* other values first */
    pass(&two, 1, true);
    for (int p = 0; p < 6; p++)
        expect_same_grad(&one, &two, p);
    case_net_close(&one);
    case_net_close(&two);
}
END_TEST

SUITE("gradients_net")
{
    TCase *tests = suite_case(suite, "nets");

    tcase_add_test(tests, gradients_of_later_passes_are_added);
    tcase_add_test(tests, two_half_batches_give_the_gradient_of_the_whole);
    tcase_add_test(tests, layers_below_the_first_that_learns_have_no_backward);
    tcase_add_test(tests, the_gradient_passes_through_a_frozen_layer);
    tcase_add_test(tests, data_gets_no_gradient_unless_forced);
    tcase_add_loop_test(tests, crop_gives_no_gradient_to_what_it_takes_the_size_from, 0, 2);
    tcase_add_test(tests, what_only_gives_a_size_does_not_learn);
    tcase_add_loop_test(tests, dropout_keeps_scales_and_masks_the_gradient_alike, 0, 2);
    tcase_add_test(tests, dropout_mask_belongs_to_the_sample);
    tcase_add_test(tests, stochastic_pooling_picks_by_share_and_the_gradient_goes_there);
    tcase_add_test(tests, stochastic_pooling_draws_by_sample_and_seed);
    tcase_add_test(tests, stochastic_pooling_passes_the_slope_back);
    tcase_add_loop_test(tests, dropout_is_the_identity_in_test, 0, 3);
    tcase_add_test(tests, same_values_give_the_same_bits);
}
