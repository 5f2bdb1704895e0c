/* Inner products of few rows against sums in double: the shapes that go by loops of our own, whole
 * strips of inputs and a rest, and neighbours of them that go by oneDNN. */
#include "tests/engine/engine_rig.h"
#include "tests/suite.h"
#include "util/error.h"
#include "util/rng.h"

#include <math.h>

static const struct {
    int64_t rows, inputs, outputs;
} cases[] = {
    {16, 1040, 24}, {1, 16, 8}, {5, 2064, 32}, {17, 1040, 24}, {16, 1039, 24}, {16, 1040, 23},
};

static float *draw(int64_t n, uint32_t which)
{
    struct rng rng = rng_make(31, RNG_DUMMY, which, 0);
    float *values = malloc((size_t)n * sizeof(float));

    ck_assert_ptr_nonnull(values);
    for (int64_t i = 0; i < n; i++)
        values[i] = 2 * rng_uniform(&rng, (size_t)i) - 1;
    return values;
}

/* dx, on that many threads. */
static void run(int which, int threads, const float *x, const float *w, const float *dy, float *dx)
{
    int64_t rows = cases[which].rows, k = cases[which].inputs, o = cases[which].outputs;
    const struct engine_options options = {.threads = threads};
    struct engine engine;
    struct rig rig;

    ck_assert_msg(engine_open("cpu", &options, &engine) == 0, "%s", error_text());
    rig_start(&rig, &engine, OP_INNER_PRODUCT);
    rig.args.u.inner_product = (struct inner_product_args){.axis = 1};
    rig_bottom(&rig, 2, (int64_t[]){rows, k});
    rig_top(&rig, 2, (int64_t[]){rows, o});
    rig_param(&rig, 2, (int64_t[]){o, k});
    ck_assert_msg(rig_create(&rig) == 0, "%s", error_text());
    ck_assert(rig_write(&rig, &rig.bottom[0].value, x) == 0 && rig_param_write(&rig, 0, w) == 0 &&
              rig_forward(&rig) == 0 && rig_write(&rig, &rig.tops[0]->grad, dy) == 0 &&
              rig_backward(&rig) == 0 && rig_read(&rig, &rig.bottom[0].grad, dx) == 0);
    rig_finish(&rig);
    engine_close(&engine);
}

/* n u / (1 - n u) times the sum of absolute products bounds sums of n products in any order. */
START_TEST(gradients_of_few_rows_match_sums_in_double_on_any_threads)
{
    int64_t rows = cases[_i].rows, inputs = cases[_i].inputs, outputs = cases[_i].outputs;
    float *x = draw(rows * inputs, 0), *w = draw(outputs * inputs, 1);
    float *dy = draw(rows * outputs, 2), *dx = draw(rows * inputs, 3);
    float *again = draw(rows * inputs, 4);
    double u = (double)(outputs + 1) * 0x1p-24;

    run(_i, 1, x, w, dy, dx);
    run(_i, 2, x, w, dy, again);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < inputs; k++) {
            double sum = 0, absolute = 0;
            for (int64_t o = 0; o < outputs; o++) {
                double term = (double)dy[r * outputs + o] * (double)w[o * inputs + k];
                sum += term;
                absolute += fabs(term);
            }
            ck_assert_double_le(fabs((double)dx[r * inputs + k] - sum), u / (1 - u) * absolute);
            ck_assert_double_le(fabs((double)again[r * inputs + k] - sum), u / (1 - u) * absolute);
            if (_i < 3) /* ours: the same bits */
                ck_assert(dx[r * inputs + k] == again[r * inputs + k]);
        }
    free(x), free(w), free(dy), free(dx), free(again);
}
END_TEST

SUITE("inner_product")
{
    TCase *tcase = suite_case(suite, "inner_product");

    tcase_add_loop_test(tcase, gradients_of_few_rows_match_sums_in_double_on_any_threads, 0,
                        (int)(sizeof cases / sizeof *cases));
}
