/* The host as a device; host.c has its copies and rules. A product keeps a tile of the result in
 * registers and reads packed parts of both factors. A product of thin (low-rank) matrices reads or
 * writes the large matrix once, in the order of memory.
 *
 * Multiplications and additions are not fused, and the shape alone decides the order of every sum:
 * all processors give the same bits. */
#include "device/codec.h"

#include <string.h>

#include "device/kernel.h"

enum { ROWS = 6, COLUMNS = 16, DEPTH = 256, PANELS = 32 };
enum {
    LANES = 8, /* floats in a vector */
    THIN = 8,  /* largest n or k of a thin product */
    FOUR = 4,  /* columns of a thin product that one pass takes */
    DEEP = 8,  /* rows of the large matrix that one pass adds up */
    /* Floats in a row of b: FOUR rows fit into panels. No power of two, so that rows do not share
     * one set of the cache. */
    LONG = PANELS * DEPTH * COLUMNS / FOUR - COLUMNS
};

/* Eight floats: for sixteen, a compiler for AVX2 would broadcast each number through memory. */
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef float loose __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* Packed parts of both factors: b has panels of the second factor's columns, a has one panel of the
 * first factor's rows. */
struct panels {
    float b[PANELS][DEPTH][COLUMNS];
    float a[DEPTH][ROWS];
};

KERNEL static void multiply_tile(const float (*restrict a)[ROWS],
                                 const float (*restrict b)[COLUMNS], int64_t depth,
                                 float (*restrict out)[COLUMNS])
{
    lanes left[ROWS] = {{0}}, right[ROWS] = {{0}};

    for (int64_t k = 0; k < depth; k++)
        for (int r = 0; r < ROWS; r++) {
            left[r] += a[k][r] * *(const loose *)b[k];
            right[r] += a[k][r] * *(const loose *)(b[k] + LANES);
        }
    for (int r = 0; r < ROWS; r++) {
        *(loose *)out[r] = left[r];
        *(loose *)(out[r] + LANES) = right[r];
    }
}

/* Packs part of a matrix into out (depth x width). down, across: elements from row to row and from
 * column to column of `from`. Columns from `columns` on become zeros. */
static void pack(const float *from, int64_t down, int64_t across, int64_t depth, int64_t columns,
                 int width, float *out)
{
    for (int64_t k = 0; k < depth; k++)
        for (int j = 0; j < width; j++)
            out[k * width + j] = j < columns ? from[k * down + j * across] : 0;
}

static void put(float alpha, float sum, float beta, float *c)
{
    *c = alpha * sum + (beta != 0 ? beta * *c : 0);
}

/* Sets C = alpha tile + beta C, cut to the rows and columns that are left of C. */
static void put_tile(float (*tile)[COLUMNS], int64_t rows, int64_t columns, float alpha, float beta,
                     float *c, int64_t ldc)
{
    for (int64_t r = 0; r < rows && r < ROWS; r++, c += ldc) {
        if (columns >= COLUMNS) /* a constant count becomes vector instructions */
            for (int j = 0; j < COLUMNS; j++)
                put(alpha, tile[r][j], beta, &c[j]);
        else
            for (int64_t j = 0; j < columns; j++)
                put(alpha, tile[r][j], beta, &c[j]);
    }
}

/* ---- thin products: b holds FOUR rows, LONG apart ---- */

/* Computes the products of one row of A (k long) with each row of b. */
KERNEL static void thin_dots(const float *restrict a, const float *restrict b, int64_t k,
                             float sum[FOUR])
{
    lanes part[FOUR] = {{0}};
    int64_t at = 0;

    for (; at + LANES <= k; at += LANES)
        for (int c = 0; c < FOUR; c++)
            part[c] += *(const loose *)(a + at) * *(const loose *)(b + c * LONG + at);
    for (int c = 0; c < FOUR; c++) {
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int j = 0; j < half; j++)
                part[c][j] += part[c][j + half];
        sum[c] = part[c][0];
        for (int64_t j = at; j < k; j++)
            sum[c] += a[j] * b[c * LONG + j];
    }
}

/* Adds DEEP rows of A, weighted, to the rows of b. */
KERNEL static void thin_add(const float *const row[DEEP], float weight[DEEP][FOUR], int64_t columns,
                            float *restrict b)
{
    int64_t at = 0;

    for (; at + LANES <= columns; at += LANES)
        for (int c = 0; c < FOUR; c++) {
            lanes sum = *(loose *)(b + c * LONG + at);
            for (int q = 0; q < DEEP; q++)
                sum += *(const loose *)(row[q] + at) * weight[q][c];
            *(loose *)(b + c * LONG + at) = sum;
        }
    for (; at < columns; at++)
        for (int c = 0; c < FOUR; c++)
            for (int q = 0; q < DEEP; q++)
                b[c * LONG + at] += row[q][at] * weight[q][c];
}

/* Computes one row of C = alpha (weighted sum of the rows of b) + beta C. */
KERNEL static void thin_row(const float weight[FOUR], const float *restrict b, int64_t columns,
                            float alpha, float beta, float *restrict c)
{
    int64_t at = 0;

    for (; at + LANES <= columns; at += LANES) {
        lanes sum = weight[0] * *(const loose *)(b + at);
        for (int r = 1; r < FOUR; r++)
            sum += weight[r] * *(const loose *)(b + r * LONG + at);
        sum *= alpha;
        if (beta != 0)
            sum += beta * *(loose *)(c + at);
        *(loose *)(c + at) = sum;
    }
    for (; at < columns; at++) {
        float sum = weight[0] * b[at];
        for (int r = 1; r < FOUR; r++)
            sum += weight[r] * b[r * LONG + at];
        put(alpha, sum, beta, &c[at]);
    }
}

/* A matrix by its strides. data: the upper left element; down, across: elements from row to row and
 * column to column. */
struct matrix {
    const float *data;
    int64_t down, across;
};

static float matrix_at(const struct matrix *m, int64_t row, int64_t column)
{
    return m->data[row * m->down + column * m->across];
}

/* Copies up to FOUR rows of m, from `row` on, to b. Rows from `rows` on become zeros. */
static void thin_take(const struct matrix *m, int64_t row, int64_t rows, int64_t column,
                      int64_t columns, float *b)
{
    for (int c = 0; c < FOUR; c++)
        for (int64_t j = 0; j < columns; j++)
            b[c * LONG + j] = row + c < rows ? matrix_at(m, row + c, column + j) : 0;
}

/* C (m x n) = alpha A B + beta C, n <= THIN. A is row-major; bt is B transposed. */
static void thin_by_rows(float *b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                         int64_t lda, const struct matrix *bt, float beta, float *c, int64_t ldc)
{
    for (int64_t at = 0; at < k; at += LONG, beta = 1) {
        int64_t depth = k - at < LONG ? k - at : LONG;
        for (int64_t j = 0; j < n; j += FOUR) {
            thin_take(bt, j, n, at, depth, b);
            for (int64_t i = 0; i < m; i++) {
                float sum[FOUR];
                thin_dots(a + i * lda + at, b, depth, sum);
                for (int64_t q = 0; q < FOUR && j + q < n; q++)
                    put(alpha, sum[q], beta, &c[i * ldc + j + q]);
            }
        }
    }
}

/* C (m x n) = alpha A^T B + beta C, n <= THIN. A has k rows, row-major; bt is B transposed. */
static void thin_by_columns(float *b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                            int64_t lda, const struct matrix *bt, float beta, float *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i += LONG) {
        int64_t columns = m - i < LONG ? m - i : LONG;
        for (int64_t j = 0; j < n; j += FOUR) {
            for (int q = 0; q < FOUR; q++)
                memset(b + q * LONG, 0, (size_t)columns * sizeof *b);
            for (int64_t at = 0; at < k; at += DEEP) {
                const float *row[DEEP];
                float weight[DEEP][FOUR];
                for (int64_t q = 0; q < DEEP; q++) { /* beyond k: the last row, with weight 0 */
                    int64_t source = at + q < k ? at + q : k - 1;
                    row[q] = a + source * lda + i;
                    for (int64_t r = 0; r < FOUR; r++)
                        weight[q][r] = at + q < k && j + r < n ? matrix_at(bt, j + r, source) : 0;
                }
                thin_add(row, weight, columns, b);
            }
            for (int64_t t = 0; t < columns; t++)
                for (int64_t q = 0; q < FOUR && j + q < n; q++)
                    put(alpha, b[q * LONG + t], beta, &c[(i + t) * ldc + j + q]);
        }
    }
}

/* C (m x n) = alpha A B + beta C, k <= THIN. */
static void thin_outer(float *b, int64_t m, int64_t n, int64_t k, float alpha,
                       const struct matrix *a, const struct matrix *from, float beta, float *c,
                       int64_t ldc)
{
    for (int64_t j = 0; j < n; j += LONG) {
        int64_t columns = n - j < LONG ? n - j : LONG;
        for (int64_t at = 0; at < k; at += FOUR) {
            thin_take(from, at, k, j, columns, b);
            for (int64_t i = 0; i < m; i++) {
                float weight[FOUR];
                for (int64_t r = 0; r < FOUR; r++)
                    weight[r] = at + r < k ? matrix_at(a, i, at + r) : 0;
                thin_row(weight, b, columns, alpha, at > 0 ? 1 : beta, c + i * ldc + j);
            }
        }
    }
}

static int host_gemm(void *context, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                     float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                     float beta, float *c, int64_t ldc)
{
    struct panels *p = context;
    int64_t a_down = trans_a ? 1 : lda, a_along = trans_a ? lda : 1;
    int64_t b_down = trans_b ? 1 : ldb, b_across = trans_b ? ldb : 1;
    const struct matrix left = {a, a_down, a_along}, right = {b, b_down, b_across},
                        right_turned = {b, b_across, b_down};

    if (n <= THIN && !trans_a) {
        thin_by_rows(p->b[0][0], m, n, k, alpha, a, lda, &right_turned, beta, c, ldc);
        return 0;
    }
    if (n <= THIN) {
        thin_by_columns(p->b[0][0], m, n, k, alpha, a, lda, &right_turned, beta, c, ldc);
        return 0;
    }
    if (k <= THIN) {
        thin_outer(p->b[0][0], m, n, k, alpha, &left, &right, beta, c, ldc);
        return 0;
    }
    for (int64_t at = 0; at < k; at += DEPTH, beta = 1) {
        int64_t depth = k - at < DEPTH ? k - at : DEPTH;
        for (int64_t j = 0; j < n; j += PANELS * COLUMNS) {
            int64_t end = n - j < PANELS * COLUMNS ? n : j + PANELS * COLUMNS;
            for (int64_t t = j; t < end; t += COLUMNS)
                pack(b + at * b_down + t * b_across, b_down, b_across, depth, n - t, COLUMNS,
                     p->b[(t - j) / COLUMNS][0]);
            for (int64_t i = 0; i < m; i += ROWS) {
                pack(a + i * a_down + at * a_along, a_along, a_down, depth, m - i, ROWS, p->a[0]);
                for (int64_t t = j; t < end; t += COLUMNS) {
                    float tile[ROWS][COLUMNS];
                    multiply_tile(p->a, p->b[(t - j) / COLUMNS], depth, tile);
                    put_tile(tile, m - i, n - t, alpha, beta, c + i * ldc + t, ldc);
                }
            }
        }
    }
    return 0;
}

static int host_alloc(void *context, size_t bytes, const char *what, void **out)
{
    return device_host_copies.host_alloc(context, bytes, what, out);
}

static void host_free(void *context, void *memory)
{
    device_host_copies.host_free(context, memory);
}

static int guest_expand(void *context, enum element_type type, const void *from, size_t n,
                        float *to)
{
    (void)context;
    if (from)
        elements_expand(type, from, n, to);
    else
        memset(to, 0, n * sizeof *to);
    return 0;
}

static int guest_take(void *context, enum element_type type, const float *from, size_t n, void *to)
{
    (void)context;
    elements_take(type, from, n, to);
    return 0;
}

static const struct device_guest_i host_guest = {.expand = guest_expand, .take = guest_take};

static int host_open(int number, void **context)
{
    (void)number;
    return host_alloc(NULL, sizeof(struct panels), "products", context);
}

static void host_close(void *context)
{
    host_free(NULL, context);
}

const struct device_i device_host = {.open = host_open,
                                     .close = host_close,
                                     .alloc = host_alloc,
                                     .free = host_free,
                                     .write = device_host_write,
                                     .read = device_host_read,
                                     .gemm = host_gemm,
                                     .copies = &device_host_copies,
                                     .services = &device_host_services,
                                     .guest = &host_guest};
