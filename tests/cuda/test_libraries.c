/* How the engine uses cuDNN and cuBLASLt, over libraries that are emulated (emulated_cudnn.cpp):
 * which of the candidates run, which choices are kept for the next run, and operands that begin
 * anywhere. */
#include "cuda/execution_plan.h"
#include "tests/suite.h"
#include "util/error.h"

#include <math.h>
#include <string.h>

static char folder[] = "/tmp/poseidon_libraries_XXXXXX";

enum { CANDIDATES = 30, KEPT = CANDIDATES - 4 };

static const struct kernel_conv even = {.samples = 2,
                                        .channels = 4,
                                        .size = {1, 5, 5},
                                        .outputs = 6,
                                        .places = {1, 3, 3},
                                        .group = 1,
                                        .kernel = {1, 3, 3},
                                        .stride = {1, 1, 1},
                                        .dilation = {1, 1, 1}};

static struct cuda_engine *engine_start(struct engine *engine, enum engine_math math,
                                        bool deterministic)
{
    const struct engine_options options = {.math = math, .deterministic = deterministic};

    setenv("POSEIDON_EMULATED_CUDNN", "30", 1);
    ck_assert_msg(engine_open("cuda", &options, engine) == 0, "%s", error_text());
    return engine->context;
}

static int candidates(enum engine_math math, bool deterministic)
{
    struct engine engine;
    struct cuda_engine *cuda = engine_start(&engine, math, deterministic);
    struct cuda_configs configs;
    int count;

    ck_assert_int_eq(cuda_configs_list(cuda, PLAN_FORWARD, &even, &configs), 0);
    count = configs.count;
    cuda_configs_drop(cuda, &configs);
    engine_close(&engine);
    return count;
}

/* The library's first 26 round: in single precision none of them may hide the exact ones behind. */
START_TEST(forbidden_candidates_do_not_hide_the_others)
{
    ck_assert_int_eq(candidates(MATH_FP32, true), 2);
    ck_assert_int_eq(candidates(MATH_FP32, false), 3);
    ck_assert_int_eq(candidates(MATH_TF32, false), CUDA_CONFIGS);
}
END_TEST

/* Its kernels for that never end on a GPU. */
START_TEST(tensor_cores_are_not_asked_for_a_dilated_and_strided_gradient)
{
    static const enum engine_math maths[] = {MATH_FP32, MATH_TF32, MATH_BF16};

    for (size_t i = 0; i < sizeof maths / sizeof *maths; i++)
        for (int strided = 1; strided <= 2; strided++) {
            struct engine engine;
            struct cuda_engine *cuda = engine_start(&engine, maths[i], true);
            struct kernel_conv conv = even;
            struct cuda_plan *plan;

            conv.kernel[1] = conv.dilation[1] = 2; /* as far as the kernel of 3 */
            conv.stride[1] = strided;
            conv.places[1] = strided == 1 ? 3 : 2;
            ck_assert_int_eq(cuda_plan_create(cuda, PLAN_BACK_DATA, &conv, &plan), 0);
            ck_assert_int_eq(plan != NULL, maths[i] == MATH_FP32 || strided == 1);
            cuda_plan_destroy(cuda, plan);
            engine_close(&engine);
        }
}
END_TEST

/* How long each takes, and which cannot be built, is in emulated_cudnn.cpp. */
START_TEST(the_fastest_is_chosen_and_kept)
{
    static const enum engine_math maths[] = {MATH_TF32, MATH_FP32};

    for (size_t i = 0; i < sizeof maths / sizeof *maths; i++) {
        struct engine engine;
        struct cuda_engine *cuda = engine_start(&engine, maths[i], true);
        struct cuda_plan *plan;
        int choice, expected = -1;
        double least = INFINITY;

        ck_assert_int_eq(cuda_choice_find(cuda, PLAN_BACK_DATA, &even), -1);
        ck_assert_int_eq(cuda_plan_create(cuda, PLAN_BACK_DATA, &even, &plan), 0);
        ck_assert_ptr_nonnull(plan);
        cuda_plan_destroy(cuda, plan);
        choice = cuda_choice_find(cuda, PLAN_BACK_DATA, &even);
        for (int c = maths[i] == MATH_FP32 ? KEPT : 0, at = 0, timed = 0;
             timed < 12 && at < CUDA_CONFIGS && c < CANDIDATES - 2; c++, at++) {
            double ms = 1 + (c * 5 + 3) % CANDIDATES;
            if (c % 4 == 1 || c % 5 == 2)
                continue;
            timed++;
            if (ms < least) {
                least = ms;
                expected = at;
            }
        }
        ck_assert_int_eq(choice, expected);
        engine_close(&engine);
        cuda = engine_start(&engine, maths[i], true); /* the next run */
        ck_assert_int_eq(cuda_choice_find(cuda, PLAN_BACK_DATA, &even), expected);
        engine_close(&engine);
    }
}
END_TEST

/* Without room to time them the first guess runs, and the next run may do better. */
START_TEST(what_was_not_timed_is_not_kept)
{
    struct engine engine;
    struct cuda_engine *cuda = engine_start(&engine, MATH_TF32, true);
    struct cuda_plan *plan;
    struct kernel_conv large = even;

    ck_assert_int_eq(cuda_plan_create(cuda, PLAN_FORWARD, &even, &plan), 0); /* workspace */
    cuda_plan_destroy(cuda, plan);
    setenv("POSEIDON_EMULATED_BYTES", "1", 1);
    large.samples = 3;
    ck_assert_int_eq(cuda_plan_create(cuda, PLAN_FORWARD, &large, &plan), 0);
    ck_assert_ptr_nonnull(plan);
    cuda_plan_destroy(cuda, plan);
    ck_assert_int_eq(cuda_choice_find(cuda, PLAN_FORWARD, &large), -1);
    engine_close(&engine);
}
END_TEST

/* The emulated library takes longer over a bias where the outputs are odd in number. */
START_TEST(a_bias_is_added_by_whoever_is_faster)
{
    struct engine engine;
    struct cuda_engine *cuda = engine_start(&engine, MATH_TF32, true);

    for (int outputs = 6; outputs <= 7; outputs++)
        for (int run = 0; run < 2; run++) { /* measured, then remembered */
            struct kernel_conv conv = even;
            struct cuda_plan *plan;
            bool biased;
            conv.outputs = outputs;
            ck_assert_int_eq(cuda_plan_create_biased(cuda, &conv, false, &plan, &biased), 0);
            ck_assert_ptr_nonnull(plan);
            ck_assert(biased == (outputs % 2 == 0));
            cuda_plan_destroy(cuda, plan);
        }
    engine_close(&engine);
}
END_TEST

/* Every third candidate's ReLU makes 0 of NaN, the fastest among them. */
START_TEST(a_relu_that_loses_nan_is_not_taken)
{
    struct engine engine;
    struct cuda_engine *cuda = engine_start(&engine, MATH_TF32, true);
    struct kernel_conv conv = even;
    struct cuda_plan *plan;

    conv.outputs = 8;                   /* what no other test has measured */
    for (int run = 0; run < 2; run++) { /* measured, then remembered */
        int choice;
        ck_assert_int_eq(cuda_plan_create(cuda, PLAN_FORWARD_BIAS_RELU, &conv, &plan), 0);
        ck_assert_ptr_nonnull(plan);
        cuda_plan_destroy(cuda, plan);
        choice = cuda_choice_find(cuda, PLAN_FORWARD_BIAS_RELU, &conv);
        ck_assert_int_ge(choice, 0);
        ck_assert_int_ne(choice % 3, 0);
    }
    engine_close(&engine);
}
END_TEST

/* Factors of other ranks lie one behind the other, so that matrices begin at any multiple of four
 * bytes: the library is to be told, or loads of sixteen fault. */
START_TEST(products_take_operands_at_any_place)
{
    enum { M = 3, N = 5, K = 2, ROOM = M * K + K * N + M * N + 12 };
    struct engine engine;
    struct cuda_engine *cuda = engine_start(&engine, MATH_FP32, true);
    void *memory;

    ck_assert_int_eq(engine.device.i->alloc(cuda, ROOM * sizeof(float), "operands", &memory), 0);
    for (int skip = 0; skip < 5; skip++) {
        float *a = (float *)memory + skip, *b = a + M * K + skip, *c = b + K * N + skip;
        for (int i = 0; i < M * K; i++)
            a[i] = (float)(i + 1);
        for (int i = 0; i < K * N; i++)
            b[i] = (float)(2 * i - 3);
        for (int run = 0; run < 2; run++)
            ck_assert_msg(cuda_gemm(cuda, false, false, M, N, K, 1, a, K, b, N, 0, c, N) == 0, "%s",
                          error_text());
        ck_assert_int_eq(engine.device.i->finish(cuda), 0);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                float expected = 0;
                for (int k = 0; k < K; k++)
                    expected += a[i * K + k] * b[k * N + j];
                ck_assert_float_eq(c[i * N + j], expected);
            }
    }
    engine.device.i->free(cuda, memory);
    engine_close(&engine);
}
END_TEST

SUITE_IN(folder, "libraries of the CUDA engine")
{
    TCase *tcase = suite_case(suite, "libraries");

    setenv("POSEIDON_CACHE", folder, 1);
    tcase_add_test(tcase, forbidden_candidates_do_not_hide_the_others);
    tcase_add_test(tcase, tensor_cores_are_not_asked_for_a_dilated_and_strided_gradient);
    tcase_add_test(tcase, the_fastest_is_chosen_and_kept);
    tcase_add_test(tcase, what_was_not_timed_is_not_kept);
    tcase_add_test(tcase, a_bias_is_added_by_whoever_is_faster);
    tcase_add_test(tcase, a_relu_that_loses_nan_is_not_taken);
    tcase_add_test(tcase, products_take_operands_at_any_place);
}
