/* When the CPU engine's convolutions go by Winograd's algorithm, with what memory, and what they
 * keep from pass to pass. */
#include "tests/engine/winograd_case.h"
#include "tests/suite.h"
#include "util/error.h"

#include <math.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <string.h>

static const struct winograd_shape_case plain = {2, 16, 32, 14, 14, 1, 1, false},
                                        grouped = {2, 64, 32, 13, 13, 1, 2, false},
                                        large = {4, 64, 64, 28, 28, 1, 1, true},
                                        biased = {3, 32, 48, 9, 21, 1, 1, true};

static const char all_own[] = "own Winograd forward data weights";

static double farthest(const float *a, const float *b, size_t n)
{
    double most = 0;

    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static void run_direct(struct winograd_case *d)
{
    winograd_case_run(d, CONVOLUTION_DIRECT);
    ck_assert_str_eq(d->words, "");
}

/* Where the processor has AVX-512 and oneDNN is of generation 2, Winograd is there. */
START_TEST(avx512_has_winograd)
{
#if defined(__x86_64__) && defined(__GNUC__)
    struct winograd_case d;

    if (!__builtin_cpu_supports("avx512dq") || getenv("ONEDNN_MAX_CPU_ISA"))
        return;
    winograd_case_make(&d, &plain);
#if DNNL_VERSION_MAJOR == 2 /* 3 dropped it */
    ck_assert(winograd_case_run(&d, CONVOLUTION_WINOGRAD));
#endif
    run_direct(&d);
    winograd_case_free(&d);
    winograd_case_make(&d, &grouped);
#if DNNL_VERSION_MAJOR == 2
    ck_assert(winograd_case_run(&d, CONVOLUTION_WINOGRAD));
#endif
    winograd_case_free(&d);
#endif
}
END_TEST

START_TEST(avx2_has_our_own)
{
    struct winograd_case d;

    if (!winograd_case_has_avx2())
        return;
    winograd_case_be("AVX2");
    for (int i = 0; i < 2; i++) {
        winograd_case_make(&d, i ? &grouped : &plain);
        winograd_case_run(&d, CONVOLUTION_WINOGRAD);
        ck_assert_str_eq(d.words, all_own);
        run_direct(&d);
        winograd_case_free(&d);
    }
}
END_TEST

/* By CONVOLUTION_AUTO, without a place for choices. */
static void run_auto(const struct winograd_shape_case *s, bool repeatable, size_t workspace,
                     const char *words)
{
    struct winograd_case d;

    setenv("POSEIDON_CACHE", "/proc/no/such/place", 1);
    winograd_case_make(&d, s);
    d.options.repeatable = repeatable;
    d.options.workspace = workspace;
    winograd_case_run(&d, CONVOLUTION_AUTO);
    ck_assert_str_eq(d.words, words);
    winograd_case_free(&d);
}

/* 64 million operations, whole blocks, 16 channels: without a clock, so the same at every run. On
 * AVX2, where oneDNN has no code of its own for blocks, and everywhere where that is asked for. */
START_TEST(the_shape_decides)
{
    static const struct winograd_shape_case small = {1, 32, 32, 28, 28, 1, 1, true},
                                            thin = {64, 8, 64, 28, 28, 1, 1, true},
                                            one = {64, 1, 128, 28, 28, 1, 1, true},
                                            uneven = {16, 60, 64, 28, 28, 1, 1, true};

    if (!winograd_case_has_avx2())
        return;
    if (_i < 2)
        winograd_case_be(_i ? "AVX" : "AVX2");
    run_auto(&large, _i == 2, 0, all_own);
    run_auto(&small, _i == 2, 0, "");
    run_auto(&thin, _i == 2, 0, "");
    run_auto(&one, _i == 2, 0, "");
    run_auto(&uneven, _i == 2, 0, "");
    run_auto(&large, _i == 2, 1 << 20, ""); /* more than this takes */
}
END_TEST

/* Where that is asked for, what was chosen before does not matter, and nobody is told. */
START_TEST(repeatable_choices_are_not_kept)
{
    struct winograd_case d;
    struct strbuf told = {.data = NULL};

    winograd_case_make(&d, &large);
    d.options.repeatable = true;
    winograd_case_open(&d, CONVOLUTION_AUTO);
    ck_assert_int_eq(d.engine.i->choices->tell(d.engine.context, &told), 0);
    ck_assert_str_eq(strbuf_text(&told), "");
    strbuf_free(&told);
    winograd_case_close(&d);
    winograd_case_free(&d);
}
END_TEST

/* Scratch that is not there leaves the direct algorithm, by every word, and its sums. */
START_TEST(without_scratch_it_is_direct)
{
    const enum engine_convolution ways[] = {CONVOLUTION_AUTO, CONVOLUTION_WINOGRAD,
                                            CONVOLUTION_OWN};
    struct winograd_case d, direct;

    winograd_case_make(&direct, &large);
    run_direct(&direct);
    for (int i = 0; i < 3; i++) {
        winograd_case_make(&d, &large);
        d.options.workspace = 4096;
        winograd_case_run(&d, ways[i]);
        ck_assert_str_eq(d.words, "");
        ck_assert_double_eq(farthest(d.y, direct.y, winograd_case_count(4, 64, 28, 28)), 0);
        ck_assert_double_eq(farthest(d.dx, direct.dx, winograd_case_count(4, 64, 28, 28)), 0);
        winograd_case_free(&d);
    }
    winograd_case_free(&direct);
}
END_TEST

/* ---- what is kept from pass to pass ---- */

static const enum engine_convolution kept_ways[] = {CONVOLUTION_DIRECT, CONVOLUTION_WINOGRAD,
                                                    CONVOLUTION_OWN};

enum { KEPT_WAYS = sizeof kept_ways / sizeof *kept_ways };

static void pass_gives(struct winograd_case *d, const struct winograd_case *expected)
{
    winograd_case_pass(d);
    ck_assert_double_eq(farthest(d->y, expected->y, winograd_case_count(3, 48, 9, 21)), 0);
    if (!d->test)
        ck_assert_double_eq(farthest(d->dx, expected->dx, winograd_case_count(3, 32, 9, 21)), 0);
}

/* In TEST, and in training of several passes an update: weights that change behind the op's back
 * are not seen, those that are said to have changed are, and no pass in between lays them out. */
START_TEST(weights_are_laid_out_again_when_they_change)
{
    const enum engine_convolution way = kept_ways[_i / 2];
    struct winograd_case d, first, second;
    size_t n = winograd_case_count(48, 32, 3, 3);

    winograd_case_make(&first, &biased);
    winograd_case_make(&second, &biased);
    for (size_t i = 0; i < n; i++)
        second.w[i] = -2 * first.w[i];
    winograd_case_make(&d, &biased);
    d.options.passes = 3;
    first.test = second.test = d.test = _i % 2;
    winograd_case_run(&first, way);
    winograd_case_run(&second, way);
    winograd_case_open(&d, way);
    pass_gives(&d, &first);
    memcpy(d.rig.param[0].value, second.w, n * sizeof(float));
    pass_gives(&d, &first);
    pass_gives(&d, &first);
    d.rig.param[0].version++;
    pass_gives(&d, &second);
    pass_gives(&d, &second);
    winograd_case_close(&d);
    winograd_case_free(&d);
    winograd_case_free(&first);
    winograd_case_free(&second);
}
END_TEST

/* What an op that keeps weights holds beside scratch is counted, until it goes. */
START_TEST(kept_weights_are_counted)
{
    const size_t elems = winograd_case_count(48, 32, 3, 3) * sizeof(float);
    size_t held[2];
    struct winograd_case d;

    winograd_case_make(&d, &biased);
    for (int keeps = 0; keeps < 2; keeps++) {
        d.options.passes = 1 + keeps;
        winograd_case_open(&d, CONVOLUTION_OWN);
        if (strcmp(d.words, all_own) != 0)
            return; /* oneDNN has no blocks here */
        held[keeps] = d.engine.i->held(d.engine.context);
        winograd_case_pass(&d);
        ck_assert_uint_eq(d.engine.i->held(d.engine.context), held[keeps]);
        rig_finish(&d.rig);
        if (keeps) /* forward's and the bottom's, of 36 points instead of 9 weights */
            ck_assert_uint_ge(held[1], d.engine.i->held(d.engine.context) + 2 * 4 * elems);
        engine_close(&d.engine);
    }
    ck_assert_uint_gt(held[1], held[0]);
    winograd_case_free(&d);
}
END_TEST

/* ---- a fused ReLU ---- */

/* By every way: to the bit what comes out without it, but cut; and NaN stays NaN. */
START_TEST(a_fused_relu_cuts_and_hands_nan_on)
{
    struct winograd_case cut, whole;
    size_t n = winograd_case_count(3, 48, 9, 21), lost = 0;

    winograd_case_make(&cut, &biased);
    winograd_case_make(&whole, &biased);
    cut.x[100] = whole.x[100] = NAN;
    cut.relu = true;
    winograd_case_run(&whole, kept_ways[_i]);
    for (size_t i = 0; i < n; i++) /* as a layer of its own would cut them */
        whole.dy[i] = whole.y[i] > 0 ? whole.dy[i] : 0 * whole.dy[i];
    winograd_case_run(&cut, kept_ways[_i]);
    winograd_case_run(&whole, kept_ways[_i]);
    for (size_t i = 0; i < n; i++) {
        float expected = whole.y[i] < 0 ? 0 : whole.y[i];
        lost += isnan(expected);
        ck_assert(isnan(expected) ? isnan(cut.y[i])
                                  : memcmp(&expected, &cut.y[i], sizeof expected) == 0);
    }
    ck_assert_uint_gt(lost, 0);
    ck_assert_int_eq(memcmp(cut.dx, whole.dx, winograd_case_count(3, 32, 9, 21) * sizeof(float)),
                     0);
    ck_assert_int_eq(memcmp(cut.db, whole.db, 48 * sizeof(float)), 0);
    winograd_case_free(&cut);
    winograd_case_free(&whole);
}
END_TEST

/* ---- little memory for oneDNN's ---- */

/* The least memory, in steps of so many MiB, with which the passes go by Winograd's algorithm, and
 * what comes out in d; 0 where they never do. */
static size_t least_workspace(const struct winograd_shape_case *s, const char *words, size_t step,
                              struct winograd_case *d)
{
    for (size_t mib = step; mib <= 128; mib += step) {
        winograd_case_make(d, s);
        d->options.workspace = mib << 20;
        winograd_case_run(d, CONVOLUTION_WINOGRAD);
        if (strncmp(d->words, words, strlen(words)) == 0)
            return mib;
        winograd_case_free(d);
    }
    return 0;
}

/* Eight images need no more memory than one does: they take turns. */
START_TEST(images_take_turns_in_little_memory)
{
    static const struct winograd_shape_case some[] = {{8, 128, 128, 28, 28, 1, 1, true},
                                                      {1, 128, 128, 28, 28, 1, 1, true}};
    struct winograd_case d[2], direct;
    size_t least[2], n = winograd_case_count(8, 128, 28, 28);

    for (int i = 0; i < 2; i++) {
        least[i] = least_workspace(&some[i], "Winograd forward data", 1, &d[i]);
        if (!least[i])
            return; /* oneDNN has no Winograd here */
    }
    printf("MiB for 8 images, for 1: %zu, %zu\n", least[0], least[1]);
    ck_assert_uint_le(least[0], least[1]);
    winograd_case_make(&direct, &some[0]);
    run_direct(&direct);
    ck_assert_double_lt(farthest(d[0].y, direct.y, n), 4e-4);
    ck_assert_double_lt(farthest(d[0].dx, direct.dx, n), 4e-4);
    for (int i = 0; i < 2; i++)
        winograd_case_free(&d[i]);
    winograd_case_free(&direct);
}
END_TEST

/* The weights' pass of eight images may be two of four, whose gradients are added: it needs no more
 * memory than that of five, of which no half can be made. (Where oneDNN works through blocks of
 * tiles, both need as much: memory does not grow with the images.) */
START_TEST(gradients_of_halves_are_added)
{
    static const struct winograd_shape_case some[] = {{8, 256, 256, 28, 28, 1, 1, true},
                                                      {5, 256, 256, 28, 28, 1, 1, true}};
    static const char words[] = "Winograd forward data weights";
    struct winograd_case d[2], direct;
    size_t least[2];

    for (int i = 0; i < 2; i++) {
        least[i] = least_workspace(&some[i], words, 1, &d[i]);
        if (!least[i])
            return; /* oneDNN has no Winograd here */
    }
    printf("MiB for 8 images, for 5: %zu, %zu\n", least[0], least[1]);
    ck_assert_uint_le(least[0], least[1]);
    winograd_case_make(&direct, &some[0]);
    run_direct(&direct);
    ck_assert_double_lt(farthest(d[0].dw, direct.dw, winograd_case_count(256, 256, 3, 3)), 2e-3);
    ck_assert_double_lt(farthest(d[0].db, direct.db, 256), 2e-3);
    for (int i = 0; i < 2; i++)
        winograd_case_free(&d[i]);
    winograd_case_free(&direct);
}
END_TEST

SUITE("winograd choice")
{
    TCase *tcase = suite_case(suite, "winograd choice");

    tcase_add_test(tcase, avx512_has_winograd);
    tcase_add_test(tcase, avx2_has_our_own);
    tcase_add_loop_test(tcase, the_shape_decides, 0, 3);
    tcase_add_test(tcase, repeatable_choices_are_not_kept);
    tcase_add_test(tcase, without_scratch_it_is_direct);
    tcase_add_loop_test(tcase, weights_are_laid_out_again_when_they_change, 0, 2 * KEPT_WAYS);
    tcase_add_test(tcase, kept_weights_are_counted);
    tcase_add_loop_test(tcase, a_fused_relu_cuts_and_hands_nan_on, 0, KEPT_WAYS);
    tcase_add_test(tcase, images_take_turns_in_little_memory);
    tcase_add_test(tcase, gradients_of_halves_are_added);
}
