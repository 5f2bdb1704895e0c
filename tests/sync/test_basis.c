/* Orthonormal columns, judged by products in long double. */
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "sync/basis.h"
#include "tests/suite.h"

enum { ROWS = 50, COLUMNS = 4 };

static void fill(float x[ROWS * COLUMNS], uint64_t seed)
{
    struct rng rng = rng_make(seed, RNG_DUMMY, 0, 0);

    for (uint64_t i = 0; i < ROWS * COLUMNS; i++)
        x[i] = rng_normal(&rng, i);
}

static double product(const float *x, int a, const float *y, int b)
{
    long double sum = 0;

    for (int r = 0; r < ROWS; r++)
        sum += (long double)x[r * COLUMNS + a] * (long double)y[r * COLUMNS + b];
    return (double)sum;
}

static void expect_orthonormal(const float *x)
{
    for (int a = 0; a < COLUMNS; a++)
        for (int b = 0; b <= a; b++)
            ck_assert_double_eq_tol(product(x, a, x, b), a == b ? 1 : 0, 1e-6);
}

/* How much of y's column the columns of the basis x leave, of its length. */
static double left_of(const float *x, const float *y, int column)
{
    double all = product(y, column, y, column), inside = 0;

    for (int c = 0; c < COLUMNS; c++)
        inside += pow(product(x, c, y, column), 2);
    return sqrt(fabs(all - inside) / all);
}

static const struct rng *draws(uint64_t seed)
{
    static struct rng rng;

    rng = rng_make(seed, RNG_LOW_RANK, 3, 14);
    return &rng;
}

START_TEST(columns_are_orthonormal_and_span_what_they_did)
{
    float x[ROWS * COLUMNS], y[ROWS * COLUMNS];

    fill(x, 1);
    for (int r = 0; r < ROWS; r++) /* nearly the first one */
        x[r * COLUMNS + 2] = x[r * COLUMNS] + 1e-3f * x[r * COLUMNS + 2];
    memcpy(y, x, sizeof x);
    basis_make(x, ROWS, COLUMNS, draws(1));
    expect_orthonormal(x);
    for (int c = 0; c < COLUMNS; c++)
        ck_assert_double_le(left_of(x, y, c), 1e-3);
}
END_TEST

START_TEST(what_the_others_span_becomes_a_draw)
{
    float x[ROWS * COLUMNS], y[ROWS * COLUMNS], zero[ROWS * COLUMNS] = {0};

    fill(x, 2);
    for (int r = 0; r < ROWS; r++)
        x[r * COLUMNS + 3] = 2 * x[r * COLUMNS] - x[r * COLUMNS + 1];
    memcpy(y, x, sizeof x);
    basis_make(x, ROWS, COLUMNS, draws(1));
    basis_make(y, ROWS, COLUMNS, draws(2));
    expect_orthonormal(x);
    expect_orthonormal(y);
    ck_assert_double_le(fabs(product(x, 3, y, 3)), 0.9);
    ck_assert_double_ge(product(x, 2, y, 2), 1 - 1e-6);
    basis_make(zero, ROWS, COLUMNS, draws(1));
    expect_orthonormal(zero);
    memset(y, 0, sizeof y);
    basis_make(y, ROWS, COLUMNS, draws(1));
    ck_assert_mem_eq(zero, y, sizeof y);
}
END_TEST

START_TEST(what_is_not_finite_stays_so)
{
    float x[ROWS * COLUMNS];

    fill(x, 3);
    x[7 * COLUMNS + 1] = NAN;
    basis_make(x, ROWS, COLUMNS, draws(1));
    for (int c = 0; c < COLUMNS; c++)
        ck_assert_int_eq(isfinite(x[9 * COLUMNS + c]), c < 1);
}
END_TEST

SUITE("basis")
{
    TCase *tcase = suite_case(suite, "basis");

    tcase_add_test(tcase, columns_are_orthonormal_and_span_what_they_did);
    tcase_add_test(tcase, what_the_others_span_becomes_a_draw);
    tcase_add_test(tcase, what_is_not_finite_stays_so);
}
