/* The matrix products of an inner product: every way against sums in double, and which way is
 * taken. */
#include "engine/cpu/product.h"
#include "tests/engine/engine_rig.h"
#include "tests/engine/draw.h"
#include "tests/suite.h"
#include "util/error.h"

#include <math.h>
#include <string.h>

static float *draw(size_t n, uint32_t which)
{
    return draw_values(n, 37, which);
}

/* ---- every way ---- */

/* Whole vectors, blocks and strips, what lies beside them, and one of each. */
static const struct op_product sizes[] = {
    {16, 1040, 24}, {13, 96, 16}, {17, 131, 33}, {64, 77, 65}, {1, 33, 7}, {129, 20, 41}, {5, 1, 1},
};

enum { SIZES = sizeof sizes / sizeof *sizes };

struct given {
    float *a, *b, *bias, *c, *found;
};

/* Element (row, column) of the product, by the definition; *bound: what single precision may be off
 * by. n u / (1 - n u) times the sum of absolute terms bounds sums of n terms in any order. */
static double exact(const struct product *p, const struct given *g, bool add, int64_t row,
                    int64_t column, double *bound)
{
    double sum = 0, absolute, u = (double)(p->k + 2) * 0x1p-24;

    if (g->bias)
        sum = (double)g->bias[column];
    if (add)
        sum = (double)g->c[row * p->n + column];
    absolute = fabs(sum);
    for (int64_t i = 0; i < p->k; i++) {
        double a = (double)g->a[p->trans_a ? i * p->m + row : row * p->k + i];
        double b = (double)g->b[p->trans_b ? column * p->k + i : i * p->n + column];
        sum += a * b;
        absolute += fabs(a * b);
    }
    *bound = u / (1 - u) * absolute;
    return sum;
}

/* The shapes and the direction of operands are told here once more, from what inner products are:
 * they are not taken from the product. */
static void check_form(const struct product *p)
{
    const struct op_product *s = &p->args.size;
    bool transpose = p->args.transpose;

    switch (p->args.pass) {
    case PRODUCT_FORWARD: /* y = x w', w being outputs x inputs; y = x w where it is transposed */
        ck_assert(p->m == s->rows && p->n == s->outputs && p->k == s->inputs);
        ck_assert(!p->trans_a && p->trans_b == !transpose);
        break;
    case PRODUCT_DATA: /* dx = dy w */
        ck_assert(p->m == s->rows && p->n == s->inputs && p->k == s->outputs);
        ck_assert(!p->trans_a && p->trans_b == transpose);
        break;
    default: /* dw = dy' x, or x' dy */
        ck_assert(p->m == (transpose ? s->inputs : s->outputs));
        ck_assert(p->n == (transpose ? s->outputs : s->inputs) && p->k == s->rows);
        ck_assert(p->trans_a && !p->trans_b);
    }
}

static void check_product(struct product *p, bool add)
{
    size_t n = (size_t)(p->m * p->n);
    struct given g = {.a = draw((size_t)(p->m * p->k), 0),
                      .b = draw((size_t)(p->k * p->n), 1),
                      .bias = p->args.bias ? draw((size_t)p->n, 2) : NULL,
                      .c = draw(n, 3),
                      .found = draw(n, 3)};

    ck_assert_msg(product_run(p, g.a, g.b, g.bias, add, g.found) == 0, "%s", error_text());
    for (int64_t i = 0; i < p->m * p->n; i++) {
        double bound, wanted = exact(p, &g, add, i / p->n, i % p->n, &bound);
        ck_assert_msg(fabs((double)g.found[i] - wanted) <= bound,
                      "pass %d by %s, element %lld: %.9g, expected %.9g within %.3g",
                      (int)p->args.pass, product_way_name(p->way), (long long)i, (double)g.found[i],
                      wanted, bound);
    }
    free(g.a), free(g.b), free(g.bias), free(g.c), free(g.found);
}

static bool check_way(struct engine *engine, const struct product_args *args, enum product_way way)
{
    struct owner owner = {0};
    struct product p;
    bool has;

    ck_assert_msg(product_create(engine->context, &owner, args, way, &p) == 0, "%s", error_text());
    check_form(&p);
    has = p.way == way;
    if (has) {
        check_product(&p, false);
        if (args->pass != PRODUCT_FORWARD)
            check_product(&p, true);
    }
    owner_free(&owner);
    return has;
}

/* Of three passes, plain and transposed, with a bias and without. How often that way was there. */
static int check_size(struct engine *engine, const struct op_product *size, enum product_way way)
{
    int found = 0;

    for (int i = 0; i < 4 * PRODUCT_PASSES; i++) {
        const struct product_args args = {
            .pass = i / 4, .size = *size, .transpose = i & 1, .bias = i & 2};
        if (!args.bias || args.pass == PRODUCT_FORWARD)
            found += check_way(engine, &args, way);
    }
    return found;
}

START_TEST(every_way_matches_sums_in_double_on_one_thread_and_on_two)
{
    enum product_way way = (enum product_way)_i;
    int found = 0;

    for (int threads = 1; threads <= 2; threads++) {
        const struct engine_options options = {.threads = threads};
        struct engine engine;

        ck_assert_msg(engine_open("cpu", &options, &engine) == 0, "%s", error_text());
        for (int s = 0; s < SIZES; s++)
            found += check_size(&engine, &sizes[s], way);
        engine_close(&engine);
    }
    printf("%s: %d products\n", product_way_name(way), found);
    if (way == PRODUCT_SGEMM)
        ck_assert_int_eq(found, 2 * SIZES * 8);
#if defined(__x86_64__) && defined(__GNUC__)
    /* two sizes that strips fit, each forward with and without a bias, and backward */
    if (way == PRODUCT_STREAM && __builtin_cpu_supports("avx512dq"))
        ck_assert_int_eq(found, 2 * 2 * 3);
    if (way == PRODUCT_MATMUL && __builtin_cpu_supports("avx512dq"))
        ck_assert_int_gt(found, 0);
#endif
}
END_TEST

/* ---- which way ---- */

static const struct op_product large = {20, 1616, 1000};

static void open_engine(struct engine *engine)
{
    const struct engine_options options = {.threads = 2};

    ck_assert_msg(engine_open("cpu", &options, engine) == 0, "%s", error_text());
}

static void make_op(struct rig *rig, struct engine *engine, bool transpose,
                    char words[ENGINE_OP_WORDS])
{
    const struct op_product *size = &large;

    rig_start(rig, engine, OP_INNER_PRODUCT);
    rig->args.u.inner_product =
        (struct inner_product_args){.axis = 1, .bias = true, .transpose = transpose};
    rig_bottom(rig, 2, (int64_t[]){size->rows, size->inputs});
    rig_top(rig, 2, (int64_t[]){size->rows, size->outputs});
    rig_param(rig, 2,
              (int64_t[]){transpose ? size->inputs : size->outputs,
                          transpose ? size->outputs : size->inputs});
    rig_param(rig, 1, (int64_t[]){size->outputs});
    ck_assert_msg(rig_create(rig) == 0, "%s", error_text());
    engine_describe(engine, rig->op, words);
}

/* What single precision may be off by in a sum of n terms of at most 1 (see exact). */
static double bound_of_ones(int64_t n)
{
    return (double)(n + 2) * 0x1p-24 * (double)(n + 1);
}

/* The last element of each pass is what the definition says. */
static void check_op(struct rig *rig, bool transpose)
{
    float *x = draw((size_t)(large.rows * large.inputs), 0),
          *w = draw((size_t)(large.inputs * large.outputs), 1), *b = draw((size_t)large.outputs, 2),
          *dy = draw((size_t)(large.rows * large.outputs), 3), *y = draw(20 * 1000, 4),
          *dx = draw(20 * 1616, 4), *dw = draw(1616 * 1000 + 1000, 4);
    double sums[3] = {0, 0, 0};
    int64_t row = 19, input = 1615, output = 999;

    ck_assert(rig_write(rig, &rig->bottom[0].value, x) == 0 && rig_param_write(rig, 0, w) == 0 &&
              rig_param_write(rig, 1, b) == 0 && rig_forward(rig) == 0 &&
              rig_write(rig, &rig->tops[0]->grad, dy) == 0 && rig_backward(rig) == 0 &&
              rig_read(rig, &rig->tops[0]->value, y) == 0 &&
              rig_read(rig, &rig->bottom[0].grad, dx) == 0 && rig_param_read_grad(rig, 0, dw) == 0);
    for (int64_t i = 0; i < large.inputs; i++)
        sums[0] += (double)x[row * large.inputs + i] *
                   (double)w[transpose ? i * large.outputs + output : output * large.inputs + i];
    for (int64_t o = 0; o < large.outputs; o++)
        sums[1] += (double)dy[row * large.outputs + o] *
                   (double)w[transpose ? input * large.outputs + o : o * large.inputs + input];
    for (int64_t r = 0; r < large.rows; r++)
        sums[2] += (double)dy[r * large.outputs + output] * (double)x[r * large.inputs + input];
    ck_assert_double_le(fabs((double)y[20 * 1000 - 1] - sums[0] - (double)b[output]),
                        bound_of_ones(large.inputs));
    ck_assert_double_le(fabs((double)dx[20 * 1616 - 1] - sums[1]), bound_of_ones(large.outputs));
    ck_assert_double_le(fabs((double)dw[1616 * 1000 - 1] - sums[2]), bound_of_ones(large.rows));
    free(x), free(w), free(b), free(dy), free(y), free(dx), free(dw);
}

/* Whether oneDNN has code of its own for the product here. */
static bool has_matmul(struct engine *engine, const struct product_args *args)
{
    struct owner owner = {0};
    struct product p;
    bool has;

    ck_assert(product_create(engine->context, &owner, args, PRODUCT_MATMUL, &p) == 0);
    has = p.way == PRODUCT_MATMUL;
    owner_free(&owner);
    return has;
}

/* Few rows stream where registers are wide; else matmul has the products by transposed memory, and
 * sgemm the others. */
START_TEST(the_shape_decides)
{
    static const int64_t rows[] = {1, 12, 13, 16, 17, 256};
    struct engine engine;

    open_engine(&engine);
    for (int i = 0; i < 6 * 2 * PRODUCT_PASSES; i++) {
        const struct product_args args = {.pass = i / 12,
                                          .size = {rows[i / 2 % 6], 64, 96},
                                          .transpose = i & 1,
                                          .bias = i / 12 == PRODUCT_FORWARD};
        bool forward = args.pass == PRODUCT_FORWARD, data = args.pass == PRODUCT_DATA;
        bool across = args.transpose ? data : forward, wide = cpu_is_wide();
        bool few = args.size.rows <= 16 && (data || (forward && args.size.rows >= 13));
        struct owner owner = {0};
        struct product p;

        ck_assert(product_create(engine.context, &owner, &args, PRODUCT_BY_SHAPE, &p) == 0);
        ck_assert_int_eq(p.way, wide && few && !args.transpose         ? PRODUCT_STREAM
                                : across && has_matmul(&engine, &args) ? PRODUCT_MATMUL
                                                                       : PRODUCT_SGEMM);
        owner_free(&owner);
    }
    engine_close(&engine);
}
END_TEST

START_TEST(an_operator_says_its_ways)
{
    bool transpose = _i;
    const struct product_args args = {.pass = transpose ? PRODUCT_DATA : PRODUCT_FORWARD,
                                      .size = large,
                                      .transpose = transpose,
                                      .bias = !transpose};
    char words[ENGINE_OP_WORDS];
    struct engine engine;
    struct rig rig;

    open_engine(&engine);
    make_op(&rig, &engine, transpose, words);
    ck_assert_str_eq(words, !has_matmul(&engine, &args) ? ""
                            : transpose                 ? "matmul data"
                                                        : "matmul forward");
    check_op(&rig, transpose);
    rig_finish(&rig);
    engine_close(&engine);
}
END_TEST

SUITE("product")
{
    TCase *tcase = suite_case(suite, "product");

    tcase_add_loop_test(tcase, every_way_matches_sums_in_double_on_one_thread_and_on_two, 0,
                        PRODUCT_WAYS);
    tcase_add_test(tcase, the_shape_decides);
    tcase_add_loop_test(tcase, an_operator_says_its_ways, 0, 2);
}
