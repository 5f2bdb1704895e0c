/* Update rules against numpy and PyTorch, learning rates against closed forms. */
#include "job/policy.h"
#include "device/rule.h"
#include "tests/suite.h"
#include "util/error.h"

#include "tests/device/rule_cases.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_near(double found, double expected, double tolerance, const char *what, int i)
{
    ck_assert_msg(fabs(found - expected) <= tolerance * fmax(fabs(expected), 1e-2),
                  "%s[%d] is %.9g, expected %.9g", what, i, found, expected);
}

START_TEST(rule_gives_the_values_of_numpy_and_pytorch)
{
    const struct rule_case *c = &rule_cases[_i];
    struct rule rule = rule_of(c);
    struct device_update update;
    float w[CASE_N], g[CASE_N], history[2 * CASE_N] = {0};
    char what[64];

    for (int i = 0; i < CASE_N; i++)
        w[i] = (float)c->w0[i];
    for (int t = 0; t < CASE_STEPS; t++) {
        for (int i = 0; i < CASE_N; i++)
            g[i] = (float)c->grads[t][i];
        rule_describe(&rule, t, (float)c->rates[t], (float)c->scale, (float)c->lr_mult,
                      (float)c->decay_mult, &update);
        rule_update(&update, w, g, history, CASE_N, CASE_N);
    }
    snprintf(what, sizeof what, "%s %s %s w", c->source, c->type, c->regularization);
    for (int i = 0; i < CASE_N; i++)
        assert_near(w[i], c->w[i], 2e-5, what, i);
    for (int h = 0; h < c->nhistories && h < rule.nhistory; h++)
        for (int i = 0; i < CASE_N; i++)
            assert_near(history[h * CASE_N + i], c->history[h][i], 2e-5, "history", i);
}
END_TEST

START_TEST(every_rule_is_compared_with_both_sources)
{
    for (int type = RULE_SGD; type < RULE_KINDS; type++) {
        int numpy = 0, torch = 0;

        for (int i = 0; i < COUNT(rule_cases); i++) {
            if (strcmp(rule_cases[i].type, rule_kind_name((enum rule_kind)type)) != 0)
                continue;
            numpy += strcmp(rule_cases[i].source, "numpy") == 0;
            torch += strcmp(rule_cases[i].source, "torch") == 0;
        }
        ck_assert_int_eq(numpy, type == RULE_ADAMW ? 2 : 3); /* it has no L1 */
        ck_assert_int_eq(torch, 1);
    }
}
END_TEST

START_TEST(momentum_keeps_the_rate_it_was_made_with)
{
    /* h = r g with the old rate; a lower rate later does not shrink what is in h. */
    struct rule rule = {.kind = RULE_SGD, .momentum = 0.5f, .nhistory = 1};
    struct device_update update;
    float w = 0, h = 0, g = 1;

    rule_describe(&rule, 0, 1.0f, 1, 1, 1, &update);
    rule_update(&update, &w, &g, &h, 1, 1);
    rule_describe(&rule, 1, 0.25f, 1, 1, 1, &update);
    rule_update(&update, &w, &g, &h, 1, 1);
    ck_assert(h == 0.75f);
    ck_assert(w == -1.75f);
}
END_TEST

/* Random floats of many magnitudes, and some zeros. */
static void fill_random(float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = rand() % 16 == 0 ? 0 : ldexpf((float)(rand() % 20001 - 10000), rand() % 20 - 20);
}

#define N 5000

START_TEST(any_cut_into_stretches_gives_the_same_bits)
{
    static float w0[N], g[N], h0[2 * N], whole_w[N], whole_h[2 * N], w[N], h[2 * N];
    struct device_update update;
    struct rule rule = {.kind = (enum rule_kind)(_i / 3),
                        .regularization = _i % 3 == 1 ? RULE_L1 : RULE_L2,
                        .momentum = 0.9f,
                        .momentum2 = 0.999f,
                        .rms_decay = 0.98f,
                        .delta = 1e-6f,
                        .weight_decay = _i % 3 == 2 ? 0 : 5e-4f};

    rule_describe(&rule, 7, 0.01f, 0.3f, 2, 1, &update);
    srand(1701);
    fill_random(w0, N);
    fill_random(g, N);
    fill_random(h0, 2 * N);
    for (int i = 0; i < 2 * N; i++)
        h0[i] = fabsf(h0[i]);
    memcpy(whole_w, w0, sizeof w0);
    memcpy(whole_h, h0, sizeof h0);
    rule_update(&update, whole_w, g, whole_h, N, N);
    for (int trial = 0; trial < 20; trial++) {
        size_t begin = 0, largest = trial < 5 ? 5 : 3000;

        memcpy(w, w0, sizeof w0);
        memcpy(h, h0, sizeof h0);
        while (begin < N) {
            size_t n = 1 + (size_t)rand() % largest;

            n = n < N - begin ? n : N - begin;
            rule_update(&update, w + begin, g + begin, h + begin, N, n);
            begin += n;
        }
        ck_assert_int_eq(memcmp(w, whole_w, sizeof w), 0);
        ck_assert_int_eq(memcmp(h, whole_h, sizeof h), 0);
    }
}
END_TEST

START_TEST(histories_keep_to_their_stride)
{
    struct rule rule = {
        .kind = RULE_ADAM, .momentum = 0.9f, .momentum2 = 0.999f, .delta = 1e-8f, .nhistory = 2};
    struct device_update update;
    float w[2] = {1, 2}, g[2] = {1, -1}, h[8] = {0, 0, 77, 77, 0, 0, 77, 77};

    rule_describe(&rule, 0, 0.1f, 1, 1, 1, &update);
    rule_update(&update, w, g, h, 4, 2);
    ck_assert(h[2] == 77 && h[3] == 77 && h[6] == 77 && h[7] == 77);
    ck_assert_float_eq_tol(h[0], 0.1f, 1e-6f);
    ck_assert_float_eq_tol(h[5], 0.001f, 1e-6f);
    ck_assert_float_eq_tol(w[0], 0.9f, 1e-6f); /* the first step of Adam is the rate itself */
    ck_assert_float_eq_tol(w[1], 2.1f, 1e-6f);
}
END_TEST

START_TEST(unknown_solver_type_lists_the_known_ones)
{
    enum rule_kind kind;

    ck_assert_int_ne(rule_kind_from_name("Adagrad", &kind), 0);
    ck_assert_str_eq(
        error_text(),
        "Unknown solver type: Adagrad; did you mean AdaGrad? (known types: SGD, Nesterov, "
        "AdaGrad, RMSProp, AdaDelta, Adam, AdamW)");
}
END_TEST

static void assert_rate(const struct policy *policy, int64_t t, double expected)
{
    float rate = policy_rate(policy, t, policy_step(policy, 0, 0, t));

    ck_assert_float_le(fabsf(rate - (float)expected), 1e-6f * (float)expected);
}

START_TEST(policy_rates_follow_their_formulas)
{
    Caffe__SolverParameter s = {.base_lr = 0.01f, .gamma = 0.1f, .power = 0.75f, .stepsize = 100};
    struct policy p = {.type = POLICY_FIXED, .solver = &s, .max_iter = 1000};

    assert_rate(&p, 123456, 0.01);
    p.type = POLICY_STEP;
    assert_rate(&p, 99, 0.01);
    assert_rate(&p, 100, 0.001);
    assert_rate(&p, 299, 0.0001);
    p.type = POLICY_POLY;
    assert_rate(&p, 0, 0.01);
    assert_rate(&p, 500, 0.005946035575);
    assert_rate(&p, 1000, 0);
    assert_rate(&p, 2000, 0);
    s.power = 0;
    assert_rate(&p, 500, 0.01);
    p.type = POLICY_EXP;
    s.gamma = 0.5f;
    assert_rate(&p, 3, 0.00125);
    p.type = POLICY_INV;
    s.gamma = 0.0001f;
    s.power = 0.75f;
    assert_rate(&p, 100, 0.00992565);
    assert_rate(&p, 10000, 0.00594604);
    p.type = POLICY_SIGMOID;
    s.gamma = 0.1f;
    assert_rate(&p, 100, 0.005);
    assert_rate(&p, 110, 0.01 / (1 + 0.36787944117));
}
END_TEST

START_TEST(step_policy_leaves_its_step_for_the_snapshot)
{
    const Caffe__SolverParameter s = {.base_lr = 1, .gamma = 0.5f, .stepsize = 10};
    struct policy p = {.type = POLICY_STEP, .solver = &s};

    ck_assert_int_eq(policy_step(&p, 0, 0, 37), 3);
    ck_assert_int_eq(policy_step(&p, 30, 1, 37), 3);
    p.warmup = 40;
    ck_assert_int_eq(policy_step(&p, 30, 1, 37), 1);
}
END_TEST

START_TEST(multistep_passes_at_most_one_step_an_iteration)
{
    static int32_t steps[] = {3, 3, 5};
    static const double rates[] = {1, 1, 1, 0.5, 0.25, 0.125, 0.125};
    const Caffe__SolverParameter s = {
        .base_lr = 1, .gamma = 0.5f, .stepvalue = steps, .n_stepvalue = 3};
    const struct policy p = {.type = POLICY_MULTISTEP, .solver = &s};

    for (int t = 0; t < 7; t++)
        ck_assert(policy_rate(&p, t, policy_step(&p, 0, 0, t)) == rates[t]);
    ck_assert_int_eq(policy_step(&p, 0, 0, 6), 3);
    ck_assert_int_eq(policy_step(&p, 0, 0, INT32_MAX), 3);
    /* resumed from a file without current_step: catches up one by one */
    ck_assert_int_eq(policy_step(&p, 100, 0, 100), 1);
    ck_assert_int_eq(policy_step(&p, 100, 0, 101), 2);
    ck_assert_int_eq(policy_step(&p, 5, 2, 5), 3);
}
END_TEST

/* The values are Python's, of the formulas: min_lr + (base - min_lr) (1 + cos(pi t / T)) / 2, and
 * so on.
 */
START_TEST(policies_of_forks_follow_their_formulas)
{
    static int32_t ends[] = {10, 20, 30};
    static float rates[] = {0.5f, 0.25f, 0.125f};
    Caffe__SolverParameter s = {
        .base_lr = 0.1f, .stageiter = ends, .n_stageiter = 3, .stagelr = rates, .n_stagelr = 3};
    struct policy p = {.type = POLICY_COSINE, .solver = &s, .max_iter = 1000};

    assert_rate(&p, 0, 0.1);
    assert_rate(&p, 250, 0.08535533905932738);
    assert_rate(&p, 500, 0.05);
    assert_rate(&p, 900, 0.0024471741852423234);
    assert_rate(&p, 1000, 0);
    assert_rate(&p, 1100, 0);
    s.min_lr = 0.01f;
    assert_rate(&p, 250, 0.08681980515339465);
    assert_rate(&p, 2000, 0.01);
    p.type = POLICY_POLY;
    s.power = 2;
    assert_rate(&p, 500, 0.0325);
    assert_rate(&p, 1000, 0.01);
    p.type = POLICY_MULTIFIXED;
    assert_rate(&p, 10, 0.5);
    assert_rate(&p, 11, 0.25);
    assert_rate(&p, 20, 0.25);
    assert_rate(&p, 99, 0.125);
}
END_TEST

START_TEST(warm_up_comes_before_any_policy_and_counts_no_step)
{
    static int32_t steps[] = {3, 5};
    const Caffe__SolverParameter s = {
        .base_lr = 0.4f, .gamma = 0.5f, .stepvalue = steps, .n_stepvalue = 2};
    const struct policy p = {
        .type = POLICY_MULTISTEP, .solver = &s, .warmup = 4, .warmup_lr = 0.08f};
    static const double rates[] = {0.08, 0.16, 0.24, 0.32, 0.2, 0.1, 0.1};

    for (int t = 0; t < 7; t++) {
        int32_t step = policy_step(&p, 0, 0, t);
        ck_assert_double_eq_tol((double)policy_rate(&p, t, step), rates[t], 1e-8);
        ck_assert_int_eq(step, t < 4 ? 0 : t < 5 ? 1 : 2);
    }
}
END_TEST

START_TEST(plateau_drops_after_a_window_without_a_new_minimum)
{
    static int32_t windows[] = {2, 3};
    static const double losses[] = {5, 4, 4, 4, 3, 3.5, NAN, 9, 2, 8, 8, 8, 8};
    static const int drops[] = {0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2};
    const Caffe__SolverParameter s = {
        .base_lr = 1, .gamma = 0.5f, .plateau_winsize = windows, .n_plateau_winsize = 2};
    struct policy p = {.type = POLICY_PLATEAU, .solver = &s};
    struct policy_memory memory = {.least = INFINITY};
    int32_t step = 0;

    for (int t = 0; t < 13; t++) {
        int before = step;
        ck_assert_int_eq(policy_follow(&p, t, losses[t], &memory, &step), drops[t] > before);
        ck_assert_int_eq(step, drops[t]);
        ck_assert(policy_rate(&p, t + 1, step) == 1.0f / (float)(1 << drops[t]));
    }
    ck_assert(memory.least == 2 && memory.event == 8);
    p.warmup = 20;
    ck_assert(!policy_follow(&p, 19, 1, &memory, &step) && memory.least == 2);
}
END_TEST

static void expect_policy_error(const char *type, Caffe__SolverParameter solver,
                                const char *message)
{
    struct policy policy;

    solver.has_base_lr = 1;
    solver.lr_policy = (char *)(uintptr_t)type;
    ck_assert_int_ne(policy_from_solver(&solver, &policy), 0);
    ck_assert_str_eq(error_text(), message);
}

START_TEST(policy_check_says_what_is_missing)
{
    static int32_t falling[] = {100, 200, 150}, negative[] = {-1};
    const Caffe__SolverParameter none = {.base_lr = 0},
                                 good = {.has_base_lr = 1,
                                         .lr_policy = (char *)(uintptr_t) "multistep",
                                         .stepvalue = falling,
                                         .n_stepvalue = 2};
    struct policy policy;

    ck_assert_int_eq(policy_from_solver(&good, &policy), 0);
    expect_policy_error("step", none, "lr_policy \"step\" needs a positive stepsize, found 0");
    expect_policy_error("sigmoid", (Caffe__SolverParameter){.stepsize = -5},
                        "lr_policy \"sigmoid\" needs a positive stepsize, found -5");
    expect_policy_error("poly", (Caffe__SolverParameter){.max_iter = -1},
                        "lr_policy \"poly\" needs a max_iter of at least 0, found -1");
    expect_policy_error("multistep",
                        (Caffe__SolverParameter){.stepvalue = falling, .n_stepvalue = 3},
                        "lr_policy \"multistep\" needs ascending stepvalues, found 150 after 200");
    expect_policy_error("multistep",
                        (Caffe__SolverParameter){.stepvalue = negative, .n_stepvalue = 1},
                        "lr_policy \"multistep\" needs ascending stepvalues, found -1 after 0");
    policy.solver = &none;
    policy.type = POLICY_MULTISTEP;
    ck_assert_str_eq(policy_doubt(&policy), "stepvalue is not set: the rate never falls");
    expect_policy_error(
        "plateau", none,
        "lr_policy \"plateau\" needs plateau_winsize for each drop of the rate: iterations "
        "without a new minimum of the loss");
    expect_policy_error(
        "plateau",
        (Caffe__SolverParameter){.plateau_winsize = (int32_t[]){5, 0}, .n_plateau_winsize = 2},
        "lr_policy \"plateau\" needs positive plateau_winsize, found 0");
    expect_policy_error("multifixed", none,
                        "lr_policy \"multifixed\" needs stagelr and stageiter: rate and last "
                        "iteration of each stage");
    expect_policy_error(
        "multifixed",
        (Caffe__SolverParameter){
            .stageiter = falling, .n_stageiter = 3, .stagelr = (float[]){1, 1, 1}, .n_stagelr = 3},
        "lr_policy \"multifixed\" needs ascending stageiter, found 150 after 200");
    expect_policy_error("fixed", (Caffe__SolverParameter){.has_warmup_iter = 1, .warmup_iter = -1},
                        "a warm-up takes at least 0 iterations, found -1");
    expect_policy_error("magic", none,
                        "Unknown learning rate policy: magic (known policies: fixed, step, exp, "
                        "inv, multistep, poly, sigmoid, cosine, multifixed, plateau)");
}
END_TEST

SUITE("solver")
{
    TCase *tcase = suite_case(suite, "solver");

    suite_table(tcase, rule_gives_the_values_of_numpy_and_pytorch, rule_cases);
    tcase_add_test(tcase, every_rule_is_compared_with_both_sources);
    tcase_add_test(tcase, momentum_keeps_the_rate_it_was_made_with);
    tcase_add_loop_test(tcase, any_cut_into_stretches_gives_the_same_bits, 0, 3 * RULE_KINDS);
    tcase_add_test(tcase, histories_keep_to_their_stride);
    tcase_add_test(tcase, unknown_solver_type_lists_the_known_ones);
    tcase_add_test(tcase, policy_rates_follow_their_formulas);
    tcase_add_test(tcase, step_policy_leaves_its_step_for_the_snapshot);
    tcase_add_test(tcase, multistep_passes_at_most_one_step_an_iteration);
    tcase_add_test(tcase, policies_of_forks_follow_their_formulas);
    tcase_add_test(tcase, warm_up_comes_before_any_policy_and_counts_no_step);
    tcase_add_test(tcase, plateau_drops_after_a_window_without_a_new_minimum);
    tcase_add_test(tcase, policy_check_says_what_is_missing);
}
