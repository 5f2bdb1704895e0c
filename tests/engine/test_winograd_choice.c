/* When the CPU engine's convolutions go by Winograd's algorithm, that the processor changes no bit
 * of them, and what they keep from pass to pass. */
#include "tests/engine/winograd_case.h"
#include "tests/suite.h"
#include "util/error.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct winograd_shape_case plain = {2, 16, 32, 14, 14, 1, 1, false},
                                        grouped = {2, 64, 32, 13, 13, 1, 2, false},
                                        odd = {3, 24, 40, 9, 13, 1, 1, true},
                                        biased = {3, 32, 48, 9, 21, 1, 1, true};

static double farthest(const float *a, const float *b, size_t n)
{
    double most = 0;

    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* Of instructions that oneDNN may use; NULL: as it is. */
static const char *const levels[] = {NULL, "AVX2", "AVX", "SSE41"};
enum { LEVELS = sizeof levels / sizeof *levels };

static void be(int level)
{
    if (levels[level])
        winograd_case_be(levels[level]);
}

static bool is_wide(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#else
    return false;
#endif
}

static void goes_by(const struct winograd_shape_case *s, enum engine_convolution convolution,
                    const char *words)
{
    struct winograd_case d;

    winograd_case_make(&d, s);
    winograd_case_open(&d, convolution);
    ck_assert_msg(strcmp(d.words, words) == 0, "%lldx%lldx%lldx%lld to %lld goes by '%s', not '%s'",
                  (long long)s->n, (long long)s->c, (long long)s->h, (long long)s->w,
                  (long long)s->o, d.words, words);
    winograd_case_close(&d);
    winograd_case_free(&d);
}

START_TEST(what_is_asked_for_by_name_is_taken)
{
    static const struct winograd_shape_case uneven = {2, 20, 30, 14, 14, 1, 1, true},
                                            halves = {2, 24, 32, 13, 13, 1, 2, false},
                                            pixel = {1, 8, 8, 1, 1, 1, 1, true};
    const struct winograd_shape_case *const can[] = {&plain, &grouped, &odd, &pixel, &uneven};

    be(_i);
    for (size_t i = 0; i < sizeof can / sizeof *can; i++) {
        goes_by(can[i], CONVOLUTION_WINOGRAD, "Winograd");
        goes_by(can[i], CONVOLUTION_DIRECT, "");
    }
    goes_by(&halves, CONVOLUTION_WINOGRAD, ""); /* a group's channels do not fill blocks of 8 */
}
END_TEST

/* On every processor alike; but vectors of 16 floats take what does not fill blocks of 8 directly.
 */
START_TEST(the_shape_decides)
{
    static const struct winograd_shape_case uneven = {16, 60, 64, 28, 28, 1, 1, true};
    static const struct winograd_shape_case yes[] = {{1, 64, 64, 30, 30, 1, 1, true},
                                                     {16, 24, 64, 28, 28, 1, 1, true},
                                                     {64, 256, 256, 3, 3, 1, 1, true},
                                                     {4, 64, 64, 28, 28, 1, 2, true}},
                                            no[] = {{1, 32, 32, 28, 28, 1, 1, true},
                                                    {64, 8, 64, 28, 28, 1, 1, true},
                                                    {64, 1, 128, 28, 28, 1, 1, true},
                                                    {4, 64, 64, 28, 28, 1, 8, true},
                                                    {128, 256, 256, 2, 2, 1, 1, true},
                                                    {128, 256, 256, 2, 9, 1, 1, true},
                                                    {15, 512, 512, 4, 4, 1, 1, true}};

    be(_i);
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        goes_by(&yes[i], CONVOLUTION_AUTO, "Winograd");
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        goes_by(&no[i], CONVOLUTION_AUTO, "");
    goes_by(&uneven, CONVOLUTION_AUTO, _i == 0 && is_wide() ? "" : "Winograd");
}
END_TEST

/* ---- the processor and the threads ---- */

static const struct winograd_shape_case same[] = {{2, 16, 32, 14, 14, 1, 1, true},
                                                  {2, 64, 32, 13, 13, 1, 2, true},
                                                  {3, 24, 40, 9, 13, 1, 1, true},
                                                  {3, 20, 50, 9, 13, 1, 1, true}};
enum { SAME = sizeof same / sizeof *same };

/* All that comes out, one behind the other. */
static size_t results(const struct winograd_case *d, float *to)
{
    const struct winograd_shape_case *s = &d->s;
    const float *const from[] = {d->y, d->dx, d->dw, d->db};
    const size_t n[] = {winograd_case_count(s->n, s->o, d->oh, d->ow),
                        winograd_case_count(s->n, s->c, s->h, s->w),
                        winograd_case_count(s->o, s->c / s->group, 3, 3), (size_t)s->o};
    size_t at = 0;

    for (int i = 0; i < 4; at += n[i++])
        if (to)
            memcpy(to + at, from[i], n[i] * sizeof *to);
    return at;
}

static void run_into(struct winograd_case *d, int threads, float *to)
{
    d->threads = threads;
    ck_assert(winograd_case_run(d, CONVOLUTION_WINOGRAD));
    results(d, to);
}

/* oneDNN asks for its instructions once in a process, so the others' is a child. */
START_TEST(avx2_and_avx512_and_any_threads_give_the_same_bits)
{
    struct winograd_case d;
    float *wide, *narrow;
    size_t n;
    int status;
    pid_t child;

    if (!winograd_case_has_avx2())
        return;
    winograd_case_make(&d, &same[_i]);
    n = results(&d, NULL);
    narrow =
        mmap(NULL, n * sizeof *narrow, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    wide = malloc(n * sizeof *wide);
    ck_assert(narrow != MAP_FAILED && wide);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        winograd_case_be("AVX2");
        run_into(&d, 3, narrow);
        _exit(0);
    }
    ck_assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    run_into(&d, 1, wide);
    ck_assert_int_eq(memcmp(wide, narrow, n * sizeof *wide), 0);
    munmap(narrow, n * sizeof *narrow);
    free(wide);
    winograd_case_free(&d);
}
END_TEST

/* ---- what is kept from pass to pass ---- */

static const enum engine_convolution ways[] = {CONVOLUTION_DIRECT, CONVOLUTION_WINOGRAD};

enum { WAYS = sizeof ways / sizeof *ways };

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
    const enum engine_convolution way = ways[_i / 2];
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
        winograd_case_open(&d, CONVOLUTION_WINOGRAD);
        ck_assert_str_eq(d.words, "Winograd");
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
    winograd_case_run(&whole, ways[_i]);
    for (size_t i = 0; i < n; i++) /* as a layer of its own would cut them */
        whole.dy[i] = whole.y[i] > 0 ? whole.dy[i] : 0 * whole.dy[i];
    winograd_case_run(&cut, ways[_i]);
    winograd_case_run(&whole, ways[_i]);
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

SUITE("winograd choice")
{
    TCase *tcase = suite_case(suite, "winograd choice");

    tcase_add_loop_test(tcase, what_is_asked_for_by_name_is_taken, 0, LEVELS);
    tcase_add_loop_test(tcase, the_shape_decides, 0, LEVELS);
    tcase_add_loop_test(tcase, avx2_and_avx512_and_any_threads_give_the_same_bits, 0, SAME);
    tcase_add_loop_test(tcase, weights_are_laid_out_again_when_they_change, 0, 2 * WAYS);
    tcase_add_test(tcase, kept_weights_are_counted);
    tcase_add_loop_test(tcase, a_fused_relu_cuts_and_hands_nan_on, 0, WAYS);
}
