/* The matrix products of an inner product: every way against sums in double, and which way is
 * taken: by rule, as the file of choices says, and as another rank chose. */
#include "engine/cpu/fastest.h"
#include "engine/cpu/product.h"
#include "tests/engine/engine_rig.h"
#include "tests/suite.h"
#include "util/error.h"
#include "util/rng.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

static char folder[] = "/tmp/product_XXXXXX";

static float *draw(size_t n, uint32_t which)
{
    struct rng rng = rng_make(37, RNG_DUMMY, which, 0);
    float *values = malloc(n * sizeof(float));

    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < n; i++)
        values[i] = 2 * rng_uniform(&rng, i) - 1;
    return values;
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
    struct product p;
    bool has;

    ck_assert_msg(product_create_as(engine->context, args, way, &p, &has) == 0, "%s", error_text());
    check_form(&p);
    if (has) {
        ck_assert_int_eq(p.way, way);
        check_product(&p, false);
        if (args->pass != PRODUCT_FORWARD)
            check_product(&p, true);
    }
    product_destroy(&p);
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

/* Just more than what is measured, and just less. */
static const struct op_product large = {20, 1616, 1000}, small = {16, 1520, 1000};

static void use_cache(const char *name, char *file, size_t size)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert(mkdir(path, 0777) == 0);
    setenv("POSEIDON_CACHE", path, 1);
    snprintf(file, size, "%s/convolutions", path);
}

static void write_choices(const char *file, const int ways[PRODUCT_PASSES])
{
    static const char *const names[] = {"forward", "backward_data", "backward_weights"};
    FILE *out = fopen(file, "w");

    ck_assert_ptr_nonnull(out);
    for (int pass = 0; pass < PRODUCT_PASSES; pass++)
        fprintf(out, "inner_product_%s,v1,n20,k1616,o1000,t0,b%d %d\n", names[pass], pass == 0,
                ways[pass]);
    fclose(out);
}

static long file_bytes(const char *file)
{
    struct stat status;

    return stat(file, &status) == 0 ? (long)status.st_size : 0;
}

static void open_engine(struct engine *engine)
{
    const struct engine_options options = {.threads = 2};

    ck_assert_msg(engine_open("cpu", &options, engine) == 0, "%s", error_text());
}

static void make_op(struct rig *rig, struct engine *engine, const struct op_product *size,
                    char words[ENGINE_OP_WORDS])
{
    rig_start(rig, engine, OP_INNER_PRODUCT);
    rig->args.u.inner_product = (struct inner_product_args){.axis = 1, .bias = true};
    rig_bottom(rig, 2, (int64_t[]){size->rows, size->inputs});
    rig_top(rig, 2, (int64_t[]){size->rows, size->outputs});
    rig_param(rig, 2, (int64_t[]){size->outputs, size->inputs});
    rig_param(rig, 1, (int64_t[]){size->outputs});
    ck_assert_msg(rig_create(rig) == 0, "%s", error_text());
    engine_describe(engine, rig->op, words);
}

/* Whether matmul is among the large one's ways here. */
static bool has_matmul(struct engine *engine, enum product_pass pass)
{
    const struct product_args args = {.pass = pass, .size = large, .bias = pass == PRODUCT_FORWARD};
    struct product p;
    bool has;

    ck_assert(product_create_as(engine->context, &args, PRODUCT_MATMUL, &p, &has) == 0);
    product_destroy(&p);
    return has;
}

/* What single precision may be off by in a sum of n terms of at most 1 (see exact). */
static double bound_of_ones(int64_t n)
{
    return (double)(n + 2) * 0x1p-24 * (double)(n + 1);
}

/* The last element of each pass is what the definition says. */
static void check_op(struct rig *rig)
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
        sums[0] += (double)x[row * large.inputs + i] * (double)w[output * large.inputs + i];
    for (int64_t o = 0; o < large.outputs; o++)
        sums[1] += (double)dy[row * large.outputs + o] * (double)w[o * large.inputs + input];
    for (int64_t r = 0; r < large.rows; r++)
        sums[2] += (double)dy[r * large.outputs + output] * (double)x[r * large.inputs + input];
    ck_assert_double_le(fabs((double)y[20 * 1000 - 1] - sums[0] - (double)b[output]),
                        bound_of_ones(large.inputs));
    ck_assert_double_le(fabs((double)dx[20 * 1616 - 1] - sums[1]), bound_of_ones(large.outputs));
    ck_assert_double_le(fabs((double)dw[1616 * 1000 - 1] - sums[2]), bound_of_ones(large.rows));
    free(x), free(w), free(b), free(dy), free(y), free(dx), free(dw);
}

START_TEST(large_products_follow_the_file_of_choices)
{
    static const struct {
        int ways[PRODUCT_PASSES];
        const char *words;
    } files[] = {{{0, 0, 0}, ""},
                 {{1, 1, 1}, "matmul forward data weights"},
                 {{1, 0, 1}, "matmul forward weights"},
                 {{0, 1, 0}, "matmul data"}};
    char name[16], file[256], words[ENGINE_OP_WORDS];
    struct engine engine;
    struct rig rig;
    long before;

    snprintf(name, sizeof name, "follow%d", _i);
    use_cache(name, file, sizeof file);
    write_choices(file, files[_i].ways);
    before = file_bytes(file);
    open_engine(&engine);
    make_op(&rig, &engine, &large, words);
    if (has_matmul(&engine, PRODUCT_FORWARD) && has_matmul(&engine, PRODUCT_DATA) &&
        has_matmul(&engine, PRODUCT_WEIGHTS))
        ck_assert_str_eq(words, files[_i].words);
    else
        ck_assert_str_eq(words, "");
    check_op(&rig);
    ck_assert_int_eq(file_bytes(file), before);
    rig_finish(&rig);
    engine_close(&engine);
}
END_TEST

/* What nobody knows: a number of a later program's, and a way that this product has not. */
START_TEST(a_choice_that_cannot_be_is_measured_again_or_left_to_the_rule)
{
    char file[256], words[ENGINE_OP_WORDS];
    struct engine engine;
    struct rig rig;

    use_cache("unknown", file, sizeof file);
    write_choices(file, (const int[]){99, PRODUCT_STREAM, PRODUCT_STREAM});
    open_engine(&engine);
    make_op(&rig, &engine, &large, words);
    ck_assert_ptr_null(strstr(words, "streaming"));
    ck_assert_ptr_null(strstr(words, "data"));
    ck_assert_ptr_null(strstr(words, "weights"));
    check_op(&rig);
    rig_finish(&rig);
    engine_close(&engine);
}
END_TEST

START_TEST(another_rank_computes_as_the_first_one_measured)
{
    struct strbuf told = {.data = NULL}, again = {.data = NULL};
    char file[256], words[2][ENGINE_OP_WORDS];
    struct engine engines[2];
    struct rig rigs[2];

    use_cache("one", file, sizeof file);
    open_engine(&engines[0]);
    make_op(&rigs[0], &engines[0], &large, words[0]);
    ck_assert(engines[0].i->choices->tell(engines[0].context, &told) == 0);
    if (has_matmul(&engines[0], PRODUCT_FORWARD))
        ck_assert_ptr_nonnull(strstr(strbuf_text(&told), "inner_product_forward,v1,n20,k1616,"));
    use_cache("two", file, sizeof file);
    open_engine(&engines[1]);
    ck_assert(engines[1].i->choices->take(engines[1].context, strbuf_text(&told)) == 0);
    make_op(&rigs[1], &engines[1], &large, words[1]);
    ck_assert_str_eq(words[1], words[0]);
    /* it measured nothing */
    ck_assert_int_eq(file_bytes(file), 0);
    ck_assert(engines[1].i->choices->tell(engines[1].context, &again) == 0);
    ck_assert_str_eq(strbuf_text(&again), strbuf_text(&told));
    for (int i = 0; i < 2; i++) {
        rig_finish(&rigs[i]);
        engine_close(&engines[i]);
    }
    strbuf_free(&told);
    strbuf_free(&again);
}
END_TEST

START_TEST(small_products_are_not_measured)
{
    struct strbuf told = {.data = NULL};
    char file[256], words[ENGINE_OP_WORDS];
    struct engine engine;
    struct rig rig;

    use_cache("small", file, sizeof file);
    open_engine(&engine);
    make_op(&rig, &engine, &small, words);
    ck_assert(engine.i->choices->tell(engine.context, &told) == 0);
    ck_assert_str_eq(strbuf_text(&told), "");
    ck_assert_int_eq(file_bytes(file), 0);
    rig_finish(&rig);
    engine_close(&engine);
    strbuf_free(&told);
}
END_TEST

SUITE_IN(folder, "product")
{
    TCase *tcase = suite_case(suite, "product");

    tcase_add_loop_test(tcase, every_way_matches_sums_in_double_on_one_thread_and_on_two, 0,
                        PRODUCT_WAYS);
    tcase_add_loop_test(tcase, large_products_follow_the_file_of_choices, 0, 4);
    tcase_add_test(tcase, a_choice_that_cannot_be_is_measured_again_or_left_to_the_rule);
    tcase_add_test(tcase, another_rank_computes_as_the_first_one_measured);
    tcase_add_test(tcase, small_products_are_not_measured);
}
