/* Gradients of weights where engine_options.steady asks for the same bits at any number of threads:
 * of convolutions by slices of the images, and of inner products from the factors of several passes
 * at once; against sums in double. */
#include "tests/engine/draw.h"
#include "tests/engine/winograd_case.h"
#include "tests/suite.h"

#include "device/tree_sum.h"
#include <oneapi/dnnl/dnnl.h>
#include "util/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 8 slices, 2, none of an odd number, groups, and images too small for more than 4 */
static const struct winograd_shape_case convs[] = {
    {16, 16, 32, 14, 14, 1, 1, true}, {6, 3, 20, 20, 18, 0, 1, true},
    {5, 16, 16, 12, 12, 1, 1, false}, {8, 32, 48, 17, 16, 1, 2, true},
    {16, 32, 16, 8, 8, 1, 1, true},
};
enum { CONVS = sizeof convs / sizeof *convs, TAPS = 9 };

static void define_weights(const struct winograd_case *d, double *dw, double *db)
{
    int64_t inputs = d->s.c / d->s.group, outputs = d->s.o / d->s.group;

    for (int64_t to = 0; to < d->s.n * d->s.o * d->oh * d->ow; to++) {
        int64_t column = to % d->ow, row = to / d->ow % d->oh, o = to / d->ow / d->oh % d->s.o,
                n = to / d->ow / d->oh / d->s.o;
        db[o] += (double)d->dy[to];
        for (int64_t tap = 0; tap < inputs * TAPS; tap++) {
            int64_t c = o / outputs * inputs + tap / TAPS, i = row - d->s.pad + tap / 3 % 3,
                    j = column - d->s.pad + tap % 3;
            if (i >= 0 && i < d->s.h && j >= 0 && j < d->s.w)
                dw[o * inputs * TAPS + tap] +=
                    (double)d->x[((n * d->s.c + c) * d->s.h + i) * d->s.w + j] * (double)d->dy[to];
        }
    }
}

START_TEST(convolutions_have_the_same_bits_on_any_threads)
{
    struct winograd_case d;
    size_t nw, nb;
    double *sums;
    float *first;

    if (_i >= CONVS)
        winograd_case_be("AVX2");
    winograd_case_make(&d, &convs[_i % CONVS]);
    nw = winograd_case_count(d.s.o, d.s.c / d.s.group, 3, 3), nb = (size_t)d.s.o;
    sums = calloc(nw + nb, sizeof *sums);
    first = malloc((nw + nb) * sizeof *first);
    ck_assert(sums && first);
    define_weights(&d, sums, sums + nw);
    d.options.steady = true;
    for (d.threads = 1; d.threads <= 5; d.threads += 2) {
        winograd_case_run(&d, CONVOLUTION_DIRECT);
        winograd_case_check("weights", d.dw, sums, nw);
        if (d.s.bias)
            winograd_case_check("biases", d.db, sums + nw, nb);
        if (d.threads == 1) {
            memcpy(first, d.dw, nw * sizeof *first);
            memcpy(first + nw, d.db, nb * sizeof *first);
        }
        ck_assert_msg(!memcmp(first, d.dw, nw * sizeof *first), "%d threads", d.threads);
        ck_assert_msg(!d.s.bias || !memcmp(first + nw, d.db, nb * sizeof *first), "%d threads",
                      d.threads);
    }
    free(sums);
    free(first);
    winograd_case_free(&d);
}
END_TEST

/* m and n end within a block of the kernel; the second has several strips and pieces */
static const struct product_case {
    int64_t k, m, n;
} products[] = {{5, 37, 70}, {1, 1030, 2100}, {16, 4, 32}, {3, 3, 1}};
enum { PRODUCTS = sizeof products / sizeof *products, PARTS = 7 };

/* By an engine of that many threads. */
static void sum_products(int threads, const struct engine_products *p)
{
    const struct engine_options options = {.threads = threads, .steady = true, .passes = p->parts};
    struct engine engine;
    struct rig rig;

    ck_assert_msg(engine_open("cpu", &options, &engine) == 0, "%s", error_text());
    rig_start(&rig, &engine, OP_INNER_PRODUCT);
    rig.args.u.inner_product.axis = 1;
    rig_bottom(&rig, 2, (int64_t[]){p->k, p->n});
    rig_top(&rig, 2, (int64_t[]){p->k, p->m});
    rig_param(&rig, 2, (int64_t[]){p->m, p->n});
    ck_assert_msg(rig_create(&rig) == 0, "%s", error_text());
    ck_assert_int_eq(engine.i->sum_products(engine.context, p), 0);
    rig_finish(&rig);
    engine_close(&engine);
}

/* The tree of each pass's own product has the bits of all of them at once. */
START_TEST(products_are_summed_by_the_tree)
{
    const struct product_case *c = &products[_i];
    size_t left = (size_t)(c->k * c->m), right = (size_t)(c->k * c->n), all = (size_t)(c->m * c->n);
    float *lefts = draw_values(PARTS * left, 3, 0), *rights = draw_values(PARTS * right, 3, 1);
    float *out = malloc(all * sizeof *out), *parts = malloc(PARTS * all * sizeof *parts);
    double *sums = calloc(all, sizeof *sums);

    ck_assert(out && parts && sums);
    for (int n = 1; n <= PARTS; n++) {
        struct engine_products p = {lefts, rights, n, c->k, c->m, c->n, out};
        struct tree_sum tree;
        size_t at = (size_t)(n - 1);
        for (int64_t r = 0; r < c->k; r++)
            for (size_t i = 0; i < all; i++)
                sums[i] += (double)lefts[at * left + (size_t)(r * c->m) + i / (size_t)c->n] *
                           (double)rights[at * right + (size_t)(r * c->n) + i % (size_t)c->n];
        ck_assert_int_eq(tree_sum_open(&tree, n, NULL, NULL), 0);
        tree_sum_begin(&tree, all, out);
        for (int i = 0; i < n; i++) {
            float *one = parts + (size_t)i * all;
            sum_products(1, &(struct engine_products){lefts + (size_t)i * left,
                                                      rights + (size_t)i * right, 1, c->k, c->m,
                                                      c->n, one});
            tree_sum_give(&tree, i, one);
        }
        memcpy(parts, tree.result, all * sizeof *parts);
        tree_sum_close(&tree);
        winograd_case_check("sum", parts, sums, all);
        for (int threads = 1; threads <= 3; threads += 2) {
            sum_products(threads, &p);
            ck_assert_msg(!memcmp(parts, out, all * sizeof *out), "%d parts, %d threads", n,
                          threads);
        }
    }
    free(lefts), free(rights), free(out), free(parts), free(sums);
}
END_TEST

#if DNNL_VERSION_MAJOR >= 3 || DNNL_VERSION_MINOR >= 4
START_TEST(products_are_of_floats_whatever_the_environment_says)
{
    struct engine engine;
    dnnl_fpmath_mode_t mode;

    setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16", 1);
    setenv("DNNL_DEFAULT_FPMATH_MODE", "BF16", 1);
    ck_assert_msg(engine_open("cpu", NULL, &engine) == 0, "%s", error_text());
    ck_assert_int_eq(dnnl_get_default_fpmath_mode(&mode), dnnl_success);
    ck_assert_int_eq(mode, dnnl_fpmath_mode_strict);
    engine_close(&engine);
}
END_TEST
#endif

SUITE("steady")
{
    TCase *tcase = suite_case(suite, "steady");

    tcase_add_loop_test(tcase, convolutions_have_the_same_bits_on_any_threads, 0, 2 * CONVS);
    tcase_add_loop_test(tcase, products_are_summed_by_the_tree, 0, PRODUCTS);
#if DNNL_VERSION_MAJOR >= 3 || DNNL_VERSION_MINOR >= 4
    tcase_add_test(tcase, products_are_of_floats_whatever_the_environment_says);
#endif
}
