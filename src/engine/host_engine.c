/* The engine of the host's memory: copies and rules are host.c's, and tiles of a product stay in
 * registers while a stretch of both factors runs by.
 *
 * Multiplications and additions are not fused, and every sum runs in an order that the shape alone
 * decides: unlike processors give the same bits. */
#include "engine/engine.h"

#include <string.h>

#include "engine/kernel.h"

enum { ROWS = 6, COLUMNS = 16, DEPTH = 256, PANELS = 32 };

typedef float lanes __attribute__((vector_size(COLUMNS * sizeof(float))));

/* Stretches of the second factor in panels of columns, and of one panel of the first one's rows. */
struct panels {
    lanes b[PANELS][DEPTH];
    float a[DEPTH][ROWS];
};

KERNEL static void multiply_tile(const float (*restrict a)[ROWS], const lanes *restrict b,
                                 int64_t depth, lanes *restrict out)
{
    lanes sum[ROWS] = {{0}};

    for (int64_t k = 0; k < depth; k++)
        for (int r = 0; r < ROWS; r++)
            sum[r] += a[k][r] * b[k];
    for (int r = 0; r < ROWS; r++)
        out[r] = sum[r];
}

/* out (depth x width) = from, whose elements are so far apart down and across; zeros behind the
 * `there` columns that it has. */
static void pack(const float *from, int64_t down, int64_t across, int64_t depth, int64_t there,
                 int width, float *out)
{
    for (int64_t k = 0; k < depth; k++)
        for (int j = 0; j < width; j++)
            out[k * width + j] = j < there ? from[k * down + j * across] : 0;
}

/* C = alpha tile + beta C, of C's rows and columns that are left. */
static void put_tile(const lanes *tile, int64_t rows, int64_t columns, float alpha, float beta,
                     float *c, int64_t ldc)
{
    for (int64_t r = 0; r < rows && r < ROWS; r++)
        for (int64_t j = 0; j < columns && j < COLUMNS; j++)
            c[r * ldc + j] = alpha * tile[r][j] + (beta != 0 ? beta * c[r * ldc + j] : 0);
}

static int host_gemm(void *context, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                     float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                     float beta, float *c, int64_t ldc)
{
    struct panels *p = context;
    int64_t a_down = trans_a ? 1 : lda, a_along = trans_a ? lda : 1;
    int64_t b_down = trans_b ? 1 : ldb, b_across = trans_b ? ldb : 1;

    for (int64_t at = 0; at < k; at += DEPTH, beta = 1) {
        int64_t depth = k - at < DEPTH ? k - at : DEPTH;
        for (int64_t j = 0; j < n; j += PANELS * COLUMNS) {
            int64_t end = n - j < PANELS * COLUMNS ? n : j + PANELS * COLUMNS;
            for (int64_t t = j; t < end; t += COLUMNS)
                pack(b + at * b_down + t * b_across, b_down, b_across, depth, n - t, COLUMNS,
                     (float *)p->b[(t - j) / COLUMNS]);
            for (int64_t i = 0; i < m; i += ROWS) {
                pack(a + i * a_down + at * a_along, a_along, a_down, depth, m - i, ROWS, p->a[0]);
                for (int64_t t = j; t < end; t += COLUMNS) {
                    lanes tile[ROWS];
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
    return engine_host_copies.host_alloc(context, bytes, what, out);
}

static void host_free(void *context, void *memory)
{
    engine_host_copies.host_free(context, memory);
}

static int host_write(void *context, struct tensor *to, const float *from)
{
    (void)context;
    memcpy(to->data, from, to->bytes);
    return 0;
}

static int host_read(void *context, const struct tensor *from, float *to)
{
    (void)context;
    memcpy(to, from->data, from->bytes);
    return 0;
}

static int host_open(const struct engine_options *options, void **context)
{
    (void)options;
    return host_alloc(NULL, sizeof(struct panels), "products", context);
}

static void host_close(void *context)
{
    host_free(NULL, context);
}

const struct engine_i engine_host = {.name = "host",
                                     .open = host_open,
                                     .close = host_close,
                                     .alloc = host_alloc,
                                     .free = host_free,
                                     .write = host_write,
                                     .read = host_read,
                                     .gemm = host_gemm,
                                     .copies = &engine_host_copies,
                                     .services = &engine_host_services};
