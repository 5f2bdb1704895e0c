/* Fillers against closed forms: bounds, mean, variance and, by Kolmogorov and Smirnov, the whole
 * distribution. n draws of variance v have a mean within 5 sqrt(v / n) and a variance within
 * 5 sqrt((kurtosis - 1) / n) v of the truth, but for once in a million; the seed is fixed. */
#include "tests/net/test_net_common.h"
#include "tests/suite.h"

#include <math.h>

enum { MOST = 1 << 16 };

static float drawn[MOST];

/* Draws into `drawn`; returns how many. */
static int draw(const Caffe__FillerParameter *filler, int naxes, const int64_t *dims)
{
    struct shape shape;

    ck_assert_int_eq(shape_set(&shape, naxes, dims, "parameter"), 0);
    ck_assert_uint_le(shape_elems(&shape), MOST);
    ck_assert_msg(filler_fill(filler, &shape, 1701, 4, drawn) == 0, "%s", error_text());
    return (int)shape_elems(&shape);
}

static Caffe__FillerParameter filler_make(const char *type)
{
    Caffe__FillerParameter filler = CAFFE__FILLER_PARAMETER__INIT;

    filler.type = (char *)(uintptr_t)type;
    return filler;
}

static void expect_moments(int n, double mean, double variance, double kurtosis)
{
    double sum = 0, squares = 0;

    for (int i = 0; i < n; i++)
        sum += (double)drawn[i];
    ck_assert_double_eq_tol(sum / n, mean, 5 * sqrt(variance / n));
    for (int i = 0; i < n; i++)
        squares += ((double)drawn[i] - mean) * ((double)drawn[i] - mean);
    ck_assert_double_eq_tol(squares / n, variance, 5 * sqrt((kurtosis - 1) / n) * variance);
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static double uniform_cdf(double x, double low, double high)
{
    return fmin(fmax((x - low) / (high - low), 0), 1);
}

static double normal_cdf(double x, double mean, double std)
{
    return 0.5 * erfc((mean - x) / (std * 1.4142135623730951));
}

/* The greatest distance of the distributions is below 2.7 / sqrt(n) but for once in a million. */
static void expect_distribution(int n, double (*cdf)(double, double, double), double a, double b)
{
    qsort(drawn, (size_t)n, sizeof *drawn, ascending);
    for (int i = 0; i < n; i++)
        ck_assert_double_eq_tol(cdf((double)drawn[i], a, b), (i + 0.5) / n, 2.7 / sqrt(n));
}

static void expect_uniform(int n, double low, double high)
{
    double width = high - low, most = -INFINITY, least = INFINITY;

    for (int i = 0; i < n; i++) {
        most = fmax(most, (double)drawn[i]);
        least = fmin(least, (double)drawn[i]);
    }
    ck_assert_double_ge(least, low - 1e-6 * width);
    ck_assert_double_le(most, high + 1e-6 * width);
    ck_assert_double_le(least, low + 20 * width / n);
    ck_assert_double_ge(most, high - 20 * width / n);
    expect_moments(n, (low + high) / 2, width * width / 12, 1.8);
    expect_distribution(n, uniform_cdf, low, high);
}

static void expect_normal(int n, double mean, double std)
{
    expect_moments(n, mean, std * std, 3);
    expect_distribution(n, normal_cdf, mean, std);
}

static const int64_t weight[] = {40, 24, 5, 3}; /* fan in 24 * 15 = 360, fan out 40 * 15 = 600 */

START_TEST(constant_is_its_value_and_the_default_is_zero)
{
    Caffe__FillerParameter filler = CAFFE__FILLER_PARAMETER__INIT;

    filler.value = -0.25f;
    int n = draw(&filler, 4, weight);
    for (int i = 0; i < n; i++)
        ck_assert_float_eq(drawn[i], -0.25f);
    n = draw(NULL, 4, weight);
    for (int i = 0; i < n; i++)
        ck_assert_float_eq(drawn[i], 0);
}
END_TEST

START_TEST(uniform_lies_between_min_and_max)
{
    Caffe__FillerParameter filler = filler_make("uniform");

    expect_uniform(draw(&filler, 4, weight), 0, 1);
    filler.min = -3;
    filler.max = 0.5f;
    expect_uniform(draw(&filler, 4, weight), -3, 0.5);
    filler.min = filler.max;
    ck_assert_int_gt(draw(&filler, 4, weight), 0);
    ck_assert_float_eq(drawn[0], 0.5f);
}
END_TEST

START_TEST(gaussian_has_its_mean_and_std)
{
    Caffe__FillerParameter filler = filler_make("gaussian");

    expect_normal(draw(&filler, 4, weight), 0, 1);
    filler.mean = 2;
    filler.std = 0.01f;
    expect_normal(draw(&filler, 4, weight), 2, 0.01);
}
END_TEST

/* `sparse` inputs per output are meant to stay: each weight with probability sparse / outputs. */
START_TEST(sparse_gaussian_keeps_sparse_over_outputs_of_its_weights)
{
    Caffe__FillerParameter filler = filler_make("gaussian");
    const int64_t dims[] = {100, 500};
    int kept = 0;

    filler.std = 0.5f;
    filler.sparse = 15;
    int n = draw(&filler, 2, dims);
    for (int i = 0; i < n; i++)
        if (drawn[i] != 0)
            drawn[kept++] = drawn[i];
    ck_assert_double_eq_tol(kept, 0.15 * n, 5 * sqrt(0.15 * 0.85 * n));
    expect_normal(kept, 0, 0.5);
    filler.sparse = 0;
    n = draw(&filler, 2, dims);
    for (int i = 0; i < n; i++)
        ck_assert_float_eq(drawn[i], 0);
}
END_TEST

struct fan_case {
    Caffe__FillerParameter__VarianceNorm norm;
    int naxes;
    int64_t dims[4];
    double n;
};

static const struct fan_case fans[] = {
    {CAFFE__FILLER_PARAMETER__VARIANCE_NORM__FAN_IN, 4, {40, 24, 5, 3}, 360},
    {CAFFE__FILLER_PARAMETER__VARIANCE_NORM__FAN_OUT, 4, {40, 24, 5, 3}, 600},
    {CAFFE__FILLER_PARAMETER__VARIANCE_NORM__AVERAGE, 4, {40, 24, 5, 3}, 480},
    {CAFFE__FILLER_PARAMETER__VARIANCE_NORM__FAN_IN, 2, {200, 50, 0, 0}, 50},
    {CAFFE__FILLER_PARAMETER__VARIANCE_NORM__FAN_OUT, 2, {200, 50, 0, 0}, 200},
    {CAFFE__FILLER_PARAMETER__VARIANCE_NORM__AVERAGE, 2, {200, 50, 0, 0}, 125},
};

START_TEST(xavier_is_uniform_with_variance_one_over_n)
{
    const struct fan_case *c = &fans[_i];
    Caffe__FillerParameter filler = filler_make("xavier");
    double limit = sqrt(3 / c->n);

    filler.variance_norm = c->norm;
    int n = draw(&filler, c->naxes, c->dims);
    expect_moments(n, 0, 1 / c->n, 1.8);
    expect_uniform(n, -limit, limit);
}
END_TEST

START_TEST(msra_is_normal_with_variance_two_over_n)
{
    const struct fan_case *c = &fans[_i];
    Caffe__FillerParameter filler = filler_make("msra");

    filler.variance_norm = c->norm;
    expect_normal(draw(&filler, c->naxes, c->dims), 0, sqrt(2 / c->n));
}
END_TEST

START_TEST(unitball_rows_sum_to_one)
{
    Caffe__FillerParameter filler = filler_make("positive_unitball");

    draw(&filler, 4, weight);
    for (int row = 0; row < 40; row++) {
        double sum = 0;
        for (int i = 0; i < 360; i++) {
            ck_assert_float_ge(drawn[row * 360 + i], 0);
            sum += (double)drawn[row * 360 + i];
        }
        ck_assert_double_eq_tol(sum, 1, 1e-4);
    }
}
END_TEST

/* k = 4: f = 2, c = 3/4: 1 - |x/2 - 3/4| = 1/4, 3/4, 3/4, 1/4. */
START_TEST(bilinear_interpolates)
{
    Caffe__FillerParameter filler = filler_make("bilinear");
    const float line[] = {0.25f, 0.75f, 0.75f, 0.25f};

    draw(&filler, 4, (const int64_t[]){3, 1, 4, 4});
    for (int i = 0; i < 48; i++)
        ck_assert_float_eq_tol(drawn[i], line[i % 4] * line[i / 4 % 4], 1e-6f);
}
END_TEST

START_TEST(draws_depend_on_seed_and_parameter_only)
{
    Caffe__FillerParameter filler = filler_make("xavier");
    struct shape shape;
    float a[64], b[64];

    ck_assert_int_eq(shape_set(&shape, 2, (const int64_t[]){8, 8}, "parameter"), 0);
    filler_fill(&filler, &shape, 1, 2, a);
    filler_fill(&filler, &shape, 1, 2, b);
    ck_assert_mem_eq(a, b, sizeof a);
    filler_fill(&filler, &shape, 1, 3, b);
    ck_assert_mem_ne(a, b, sizeof a);
    filler_fill(&filler, &shape, 2, 2, b);
    ck_assert_mem_ne(a, b, sizeof a);
}
END_TEST

struct wrong_case {
    const char *type;
    float min, max, std;
    int sparse;
    int64_t kernel_w;
    const char *message;
};

static const struct wrong_case wrong[] = {
    {"Xavier", 0, 1, 1, -1, 3,
     "unknown filler name: Xavier (known fillers: bilinear, constant, gaussian, msra, "
     "positive_unitball, uniform, xavier)"},
    {"uniform", 2, 1, 1, -1, 3, "filler 'uniform' has min 2 above max 1"},
    {"gaussian", 0, 1, -1, -1, 3, "filler 'gaussian' has std -1; expected at least 0"},
    {"gaussian", 0, 1, 1, -2, 3,
     "filler 'gaussian' has sparse -2; expected -1 (dense) or the number of non-zero inputs per "
     "output"},
    {"bilinear", 0, 1, 1, -1, 4,
     "filler 'bilinear' needs a 4-axis parameter with a square kernel, found 4 axes, kernel 3 x 4"},
};

START_TEST(wrong_fillers_are_refused)
{
    const struct wrong_case *c = &wrong[_i];
    Caffe__FillerParameter filler = filler_make(c->type);
    struct shape shape;

    filler.min = c->min;
    filler.max = c->max;
    filler.std = c->std;
    filler.sparse = c->sparse;
    ck_assert_int_eq(shape_set(&shape, 4, (const int64_t[]){2, 2, 3, c->kernel_w}, "parameter"), 0);
    ck_assert_int_ne(filler_fill(&filler, &shape, 1, 1, drawn), 0);
    ck_assert_str_eq(error_text(), c->message);
}
END_TEST

SUITE("fillers")
{
    TCase *tests = suite_case(suite, "fillers");
    const int nfans = sizeof fans / sizeof fans[0];

    tcase_add_test(tests, constant_is_its_value_and_the_default_is_zero);
    tcase_add_test(tests, uniform_lies_between_min_and_max);
    tcase_add_test(tests, gaussian_has_its_mean_and_std);
    tcase_add_test(tests, sparse_gaussian_keeps_sparse_over_outputs_of_its_weights);
    tcase_add_loop_test(tests, xavier_is_uniform_with_variance_one_over_n, 0, nfans);
    tcase_add_loop_test(tests, msra_is_normal_with_variance_two_over_n, 0, nfans);
    tcase_add_test(tests, unitball_rows_sum_to_one);
    tcase_add_test(tests, bilinear_interpolates);
    tcase_add_test(tests, draws_depend_on_seed_and_parameter_only);
    suite_table(tests, wrong_fillers_are_refused, wrong);
}
