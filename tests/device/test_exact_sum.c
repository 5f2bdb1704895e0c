/* Exact sums of squares against closed forms, and of one set of floats cut in many ways. */
#include "tests/device/codec_rows.h"
#include "tests/suite.h"

#include "device/exact_sum.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <string.h>

static double sum_of(const float *x, size_t n)
{
    double words[EXACT_SUM_WORDS] = {0};

    exact_sum_squares(x, n, words);
    return exact_sum_read(words);
}

START_TEST(parts_in_any_order_give_the_bits_of_the_whole)
{
    enum { MANY = 5000 };
    static float x[MANY];

    rows_fill(x, MANY, 7);
    for (size_t i = 0; i < MANY; i++) /* 60 orders of magnitude */
        x[i] = ldexpf(x[i], (int)(i * 37 % 200) - 100);
    const double whole = sum_of(x, MANY);
    for (size_t part = 1; part <= MANY; part = 3 * part + 1) {
        double words[2][EXACT_SUM_WORDS] = {{0}}, sum;
        size_t end = MANY;

        for (int which = 0; end > 0; which ^= 1) { /* from behind, in turns by two ranks */
            size_t begin = end > part ? end - part : 0;
            exact_sum_squares(x + begin, end - begin, words[which]);
            end = begin;
        }
        for (int w = 0; w < EXACT_SUM_WORDS; w++)
            words[0][w] += words[1][w];
        sum = exact_sum_read(words[0]);
        ck_assert_msg(memcmp(&sum, &whole, sizeof sum) == 0, "parts of %zu: %a, not %a", part, sum,
                      whole);
    }
}
END_TEST

START_TEST(sums_are_those_of_closed_forms)
{
    enum { N = 100000 };
    static float x[N + 1];
    const float least = nextafterf(0, 1), most = FLT_MAX;

    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 2 ? -i : i);
    /* 0 + 1 + 4 + ... */
    ck_assert_double_eq(sum_of(x, N), (double)(N - 1) * N * (2 * N - 1) / 6);
    x[N] = least; /* far below the last bit */
    ck_assert_double_eq(sum_of(x, N + 1), sum_of(x, N));
    ck_assert_double_eq(sum_of(&least, 1), ldexp(1, -298));
    ck_assert_double_eq(sum_of(&most, 1), (double)most * (double)most);
    ck_assert_double_eq(sum_of(x, 0), 0);
}
END_TEST

SUITE("exact_sum")
{
    TCase *tcase = suite_case(suite, "exact_sum");

    tcase_add_test(tcase, parts_in_any_order_give_the_bits_of_the_whole);
    tcase_add_test(tcase, sums_are_those_of_closed_forms);
}
