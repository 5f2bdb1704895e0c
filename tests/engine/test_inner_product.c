/* Inner products of few rows against sums in double: the shapes that go by loops of our own, whole
 * strips of inputs and a rest, and neighbours of them that go by oneDNN. */
#include "tests/engine/engine_rig.h"
#include "tests/engine/draw.h"
#include "tests/suite.h"
#include "util/error.h"

#include <math.h>
#include <string.h>

static const struct {
    int64_t rows, inputs, outputs;
} cases[] = {
    {16, 1040, 24}, {1, 16, 8},     {5, 2064, 32},  {13, 832, 16},
    {17, 1040, 24}, {16, 1039, 24}, {16, 1040, 23},
};

static float *draw(int64_t n, uint32_t which)
{
    return draw_values((size_t)n, 31, which);
}

struct values {
    float *x, *w, *bias, *dy; /* given */
    float *y[2], *dx[2];      /* made by one thread, and by two */
    bool streams;             /* forward */
};

static void values_draw(int which, struct values *v)
{
    int64_t rows = cases[which].rows, k = cases[which].inputs, o = cases[which].outputs;

    *v = (struct values){
        .x = draw(rows * k, 0), .w = draw(o * k, 1), .bias = draw(o, 2), .dy = draw(rows * o, 3)};
    for (int t = 0; t < 2; t++) {
        v->y[t] = draw(rows * o, 4);
        v->dx[t] = draw(rows * k, 4);
    }
}

static void values_free(struct values *v)
{
    free(v->x), free(v->w), free(v->bias), free(v->dy);
    for (int t = 0; t < 2; t++)
        free(v->y[t]), free(v->dx[t]);
}

static void run(int which, int threads, struct values *v)
{
    int64_t rows = cases[which].rows, k = cases[which].inputs, o = cases[which].outputs;
    const struct engine_options options = {.threads = threads};
    struct engine engine;
    char words[ENGINE_OP_WORDS];
    struct rig rig;

    ck_assert_msg(engine_open("cpu", &options, &engine) == 0, "%s", error_text());
    rig_start(&rig, &engine, OP_INNER_PRODUCT);
    rig.args.u.inner_product = (struct inner_product_args){.axis = 1, .bias = true};
    rig_bottom(&rig, 2, (int64_t[]){rows, k});
    rig_top(&rig, 2, (int64_t[]){rows, o});
    rig_param(&rig, 2, (int64_t[]){o, k});
    rig_param(&rig, 1, (int64_t[]){o});
    ck_assert_msg(rig_create(&rig) == 0, "%s", error_text());
    engine.i->describe(rig.op, words);
    v->streams = strstr(words, "streaming forward") != NULL;
    ck_assert(rig_write(&rig, &rig.bottom[0].value, v->x) == 0 &&
              rig_param_write(&rig, 0, v->w) == 0 && rig_param_write(&rig, 1, v->bias) == 0 &&
              rig_forward(&rig) == 0 && rig_write(&rig, &rig.tops[0]->grad, v->dy) == 0 &&
              rig_backward(&rig) == 0 &&
              rig_read(&rig, &rig.tops[0]->value, v->y[threads - 1]) == 0 &&
              rig_read(&rig, &rig.bottom[0].grad, v->dx[threads - 1]) == 0);
    rig_finish(&rig);
    engine_close(&engine);
}

/* a b: n products of numbers `a_step` and `b_step` apart, and `add`. n u / (1 - n u) times the sum
 * of absolute terms bounds sums of n terms in any order. */
static void check(const float *a, int64_t a_step, const float *b, int64_t b_step, int64_t n,
                  float add, const float found[2], bool same)
{
    double u = (double)(n + 2) * 0x1p-24, sum = (double)add, absolute = fabs(sum);

    for (int64_t i = 0; i < n; i++) {
        double term = (double)a[i * a_step] * (double)b[i * b_step];
        sum += term;
        absolute += fabs(term);
    }
    for (int t = 0; t < 2; t++)
        ck_assert_double_le(fabs((double)found[t] - sum), u / (1 - u) * absolute);
    if (same)
        ck_assert(found[0] == found[1]);
}

START_TEST(products_of_few_rows_match_sums_in_double_on_any_threads)
{
    int64_t rows = cases[_i].rows, inputs = cases[_i].inputs, outputs = cases[_i].outputs;
    bool ours = _i < 4;
    struct values v;

    values_draw(_i, &v);
    run(_i, 1, &v);
    run(_i, 2, &v);
    for (int64_t i = 0; i < rows * outputs; i++)
        check(v.x + i / outputs * inputs, 1, v.w + i % outputs * inputs, 1, inputs,
              v.bias[i % outputs], (float[]){v.y[0][i], v.y[1][i]}, v.streams);
    for (int64_t i = 0; i < rows * inputs; i++)
        check(v.dy + i / inputs * outputs, 1, v.w + i % inputs, inputs, outputs, 0,
              (float[]){v.dx[0][i], v.dx[1][i]}, ours);
    values_free(&v);
}
END_TEST

SUITE("inner_product")
{
    TCase *tcase = suite_case(suite, "inner_product");

    tcase_add_loop_test(tcase, products_of_few_rows_match_sums_in_double_on_any_threads, 0,
                        (int)(sizeof cases / sizeof *cases));
}
