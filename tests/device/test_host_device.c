/* The engine of the host's memory: products against sums in double, of every transposition, with
 * sizes that are no multiples of its tiles, strides, and what is added to. */
#include <math.h>
#include <string.h>

#include "engine/engine.h"
#include "tests/suite.h"

enum { PAD = 3 };

static const struct product_case {
    int m, n, k;
    float alpha, beta;
} cases[] = {{1, 1, 1, 1, 0},
             {6, 16, 256, 1, 0},
             {7, 17, 257, 1, 1},
             {5, 513, 3, -1, 1},
             {13, 1, 40, 1, 0},
             {1, 40, 600, 2, 0.5f},
             {20, 30, 10, 1, 0},
             {31, 1030, 4, 1, 0},
             {40, 70, 300, 1, 1},
             /* thin, and longer than a panel */
             {300, 4, 50, 1, 0},
             {9, 5, 33000, 2, 1},
             {33000, 3, 9, -1, 0.5f},
             {4, 33000, 6, -1, 1},
             {20, 70, 8, 1, 0},
             {2, 8, 8, 1, 1}};

static float value(int i)
{
    return sinf((float)(i % 9973) * 0.37f);
}

static float *filled(int rows, int columns)
{
    float *out = malloc((size_t)rows * (size_t)(columns + PAD) * sizeof *out);

    ck_assert_ptr_nonnull(out);
    for (int i = 0; i < rows * (columns + PAD); i++)
        out[i] = value(i + 17 * rows);
    return out;
}

START_TEST(products_are_sums_of_products)
{
    const struct product_case *c = &cases[_i / 4];
    bool ta = _i % 2, tb = _i / 2 % 2;
    int lda = (ta ? c->m : c->k) + PAD, ldb = (tb ? c->k : c->n) + PAD, ldc = c->n + PAD;
    float *a = filled(ta ? c->k : c->m, ta ? c->m : c->k);
    float *b = filled(tb ? c->n : c->k, tb ? c->k : c->n);
    float *got = filled(c->m, c->n), *before = filled(c->m, c->n);
    void *context;

    if (c->beta == 0)
        got[0] = NAN; /* what is not added to is not looked at */
    ck_assert_int_eq(device_host.open(0, &context), 0);
    ck_assert_int_eq(device_host.gemm(context, ta, tb, c->m, c->n, c->k, c->alpha, a, lda, b, ldb,
                                      c->beta, got, ldc),
                     0);
    device_host.close(context);
    for (int i = 0; i < c->m; i++)
        for (int j = 0; j < ldc; j++) {
            double sum = 0, old = (double)before[i * ldc + j];
            for (int k = 0; k < c->k && j < c->n; k++)
                sum += (double)a[ta ? k * lda + i : i * lda + k] *
                       (double)b[tb ? j * ldb + k : k * ldb + j];
            sum = j < c->n ? (double)c->alpha * sum + (c->beta != 0 ? (double)c->beta * old : 0)
                           : old; /* between the rows nothing changes */
            ck_assert_double_eq_tol((double)got[i * ldc + j], sum, 1e-6 * (10 + c->k + fabs(sum)));
        }
    free(a);
    free(b);
    free(got);
    free(before);
}
END_TEST

SUITE("host engine")
{
    TCase *tcase = suite_case(suite, "products");

    tcase_add_loop_test(tcase, products_are_sums_of_products, 0,
                        4 * (int)(sizeof cases / sizeof *cases));
}
