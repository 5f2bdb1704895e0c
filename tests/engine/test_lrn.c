/* LRN's blocked code: the same bits for every set of instructions, block and number of pixels taken
 * together, near a sum in double; and values that are none stay so. */
#include "tests/engine/lrn_set.h"
#include "tests/suite.h"
#include "util/rng.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 48, PIXELS = 150, ALL = CHANNELS * PIXELS };

static const float scale = 0.05F, k = 2;

/* Channel after channel. */
struct data {
    float x[ALL], dy[ALL], y[ALL], dx[ALL];
};

static struct data *data_make(void)
{
    struct data *d = calloc(1, sizeof *d);
    struct rng rng = rng_make(3, RNG_FILLER, 1, 0);

    ck_assert(d);
    for (size_t i = 0; i < ALL; i++) {
        d->x[i] = 20 * rng_uniform(&rng, i) - 10;
        d->dy[i] = rng_uniform(&rng, ALL + i) - 0.5F;
    }
    return d;
}

static size_t place(int64_t block, int64_t c, int64_t p)
{
    return (size_t)((c / block * PIXELS + p) * block + c % block);
}

/* Through memory in blocks, so many pixels at a time. */
static void data_run(struct data *d, const struct lrn_set *set, int64_t block, int64_t together)
{
    const struct lrn_blocked a = {CHANNELS / 8, block, PIXELS, scale, k};
    struct data *b = calloc(1, sizeof *b);

    ck_assert(b);
    for (int64_t i = 0; i < ALL; i++) {
        size_t to = place(block, i / PIXELS, i % PIXELS);
        b->x[to] = d->x[i];
        b->dy[to] = d->dy[i];
    }
    for (int64_t p = 0; p < PIXELS; p += together) {
        int64_t n = PIXELS - p < together ? PIXELS - p : together, at = p * block;
        set->forward(&a, n, b->x + at, b->y + at);
        set->backward(&a, n, b->x + at, b->dy + at, b->dx + at);
    }
    for (int64_t i = 0; i < ALL; i++) {
        size_t from = place(block, i / PIXELS, i % PIXELS);
        d->y[i] = b->y[from];
        d->dx[i] = b->dx[from];
    }
    free(b);
}

static const struct lrn_set *const *sets(void)
{
    static const struct lrn_set linked = {"the loader's choice", lrn_blocked_forward,
                                          lrn_blocked_backward};
    static const struct lrn_set *found[4];
    const struct lrn_set *all[] = {&linked, lrn_set_avx2(), lrn_set_avx512()};
    int n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            found[n++] = all[i];
    return found;
}

START_TEST(instructions_blocks_and_pieces_change_no_bit)
{
    static const int64_t blocks[] = {8, 16, CHANNELS}, pieces[] = {LRN_TILE, 1, 7};
    struct data *first = data_make(), *other = data_make();

    for (int s = 0; sets()[s]; s++) {
        /* without FMA sums are rounded more often: a set is held against itself, those with it
         * against each other */
        if (s < 2)
            data_run(first, sets()[s], 8, LRN_TILE);
        for (int i = 0; i < 9; i++) {
            data_run(other, sets()[s], blocks[i / 3], pieces[i % 3]);
            ck_assert_msg(memcmp(first, other, sizeof *first) == 0, "%s, block %d, %d pixels",
                          sets()[s]->name, (int)blocks[i / 3], (int)pieces[i % 3]);
        }
    }
    free(first);
    free(other);
}
END_TEST

/* The window around a channel of x or of the ratios dy x s^-1.75. */
static double window(const struct data *d, int64_t c, int64_t p, bool ratios)
{
    double sum = 0;

    for (int64_t j = c - 2; j <= c + 2; j++) {
        if (j < 0 || j >= CHANNELS)
            continue;
        double x = (double)d->x[j * PIXELS + p];
        if (ratios)
            sum += (double)d->dy[j * PIXELS + p] * x *
                   pow((double)k + (double)scale * window(d, j, p, false), -1.75);
        else
            sum += x * x;
    }
    return sum;
}

START_TEST(values_are_near_a_sum_in_double)
{
    struct data *d = data_make();

    data_run(d, sets()[0], 16, LRN_TILE);
    for (int64_t i = 0; i < ALL; i++) {
        int64_t c = i / PIXELS, p = i % PIXELS;
        double power = pow((double)k + (double)scale * window(d, c, p, false), -0.75);
        double y = (double)d->x[i] * power;
        double dx = (double)d->dy[i] * power -
                    1.5 * (double)scale * (double)d->x[i] * window(d, c, p, true);
        ck_assert_msg(fabs((double)d->y[i] - y) <= 5e-7 * fabs(y), "value %d: %g, expected %g",
                      (int)i, (double)d->y[i], y);
        ck_assert_msg(fabs((double)d->dx[i] - dx) <= 1e-6, "gradient %d: %g, expected %g", (int)i,
                      (double)d->dx[i], dx);
    }
    free(d);
}
END_TEST

START_TEST(infinity_and_nan_reach_their_window_and_no_further)
{
    static const float lost[] = {INFINITY, -INFINITY, NAN};
    struct data *d = data_make();
    const int64_t c = 16, p = 70; /* the first channel of a block */

    d->x[c * PIXELS + p] = lost[_i];
    data_run(d, sets()[0], 8, LRN_TILE);
    for (int64_t i = 0; i < ALL; i++) {
        bool near = i % PIXELS == p;
        int64_t away = llabs(i / PIXELS - c);
        ck_assert_msg(isnan(d->y[i]) == (near && away <= 2), "value %d: %g", (int)i,
                      (double)d->y[i]);
        ck_assert_msg(isnan(d->dx[i]) == (near && away <= 4), "gradient %d: %g", (int)i,
                      (double)d->dx[i]);
    }
    free(d);
}
END_TEST

/* Roots of roots do not overflow before s does. */
START_TEST(great_values_become_small_ones)
{
    struct data *d = data_make();

    for (int64_t i = 0; i < ALL; i++)
        d->x[i] = 1e18F;
    data_run(d, sets()[0], 8, LRN_TILE);
    double s = (double)scale * 5e36, y = 1e18 * pow(s, -0.75);
    ck_assert_double_eq_tol((double)d->y[8 * PIXELS], y, 1e-6 * y);
    free(d);
}
END_TEST

SUITE("lrn")
{
    TCase *tcase = suite_case(suite, "lrn");

    tcase_add_test(tcase, instructions_blocks_and_pieces_change_no_bit);
    tcase_add_test(tcase, values_are_near_a_sum_in_double);
    tcase_add_loop_test(tcase, infinity_and_nan_reach_their_window_and_no_further, 0, 3);
    tcase_add_test(tcase, great_values_become_small_ones);
}
