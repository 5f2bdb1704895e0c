/* Convolutions by Winograd's algorithm on the CPU engine against sums in double: errors stay within
 * a bound that is derived, and are small on their own as well. */
#include "tests/engine/winograd_bound.h"
#include "tests/suite.h"

#include <math.h>

static const struct winograd_shape_case cases[] = {
    {2, 16, 32, 14, 14, 1, 1, false}, {1, 64, 16, 13, 13, 1, 1, false},
    {3, 32, 48, 9, 21, 1, 1, true},   {2, 16, 16, 12, 12, 0, 1, false},
    {1, 32, 32, 7, 7, 1, 1, false},   {2, 48, 16, 28, 28, 1, 1, true},
    {2, 64, 32, 13, 13, 1, 2, false}, {3, 96, 48, 13, 9, 1, 3, true},
};

enum { CASES = sizeof cases / sizeof *cases };

/* The signed transforms would give the convolution itself; the absolute ones bound it. */
START_TEST(transforms_bound_a_sum_of_ones)
{
    for (int o = 0; o < 4; o++)
        ck_assert_double_ge(winograd_bound_of_ones(o), 3);
}
END_TEST

/* The bias's gradient; takes the bias out of y, which it moved by at most two roundings of y. */
static void check_bias(struct winograd_case *d)
{
    int64_t pixels = d->oh * d->ow;

    for (int64_t o = 0; o < d->s.o; o++) {
        double sum = 0;
        for (int64_t n = 0; n < d->s.n; n++)
            for (int64_t i = 0; i < pixels; i++) {
                sum += (double)d->dy[(n * d->s.o + o) * pixels + i];
                d->y[(n * d->s.o + o) * pixels + i] -= d->b[o];
            }
        ck_assert_double_lt(fabs((double)d->db[o] - sum), 1e-3);
    }
}

START_TEST(all_passes_stay_within_the_bound)
{
    struct winograd_case d;
    double y, dx, dw;

    if (_i >= CASES)
        winograd_case_be("AVX2");
    winograd_case_make(&d, &cases[_i % CASES]);
    ck_assert(winograd_case_run(&d, CONVOLUTION_WINOGRAD));
    if (d.s.bias)
        check_bias(&d);
    y = winograd_bound_check_y(&d);
    dx = winograd_bound_check_dx(&d);
    dw = winograd_bound_check_dw(&d);
    printf("%lldx%lldx%lldx%lld to %lld: off by %.1e, %.1e, %.1e\n", (long long)d.s.n,
           (long long)d.s.c, (long long)d.s.h, (long long)d.s.w, (long long)d.s.o, y, dx, dw);
    /* what is usual at these sizes; a wrong tile is off by 0.1 and more */
    ck_assert_double_lt(y, 2e-4);
    ck_assert_double_lt(dx, 2e-4);
    ck_assert_double_lt(dw, 2e-3);
    winograd_case_free(&d);
}
END_TEST

SUITE("winograd")
{
    TCase *tcase = suite_case(suite, "winograd");

    tcase_add_test(tcase, transforms_bound_a_sum_of_ones);
    tcase_add_loop_test(tcase, all_passes_stay_within_the_bound, 0, 2 * CASES);
}
