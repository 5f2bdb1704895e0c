/* Adds up products of a few rows each in the order of a tree, in registers: memory gets the sum
 * alone. A strip of columns stays in a thread's caches and multiplies four outputs at a time. */
#include "engine/cpu/cpu_internal.h"

#include <assert.h>
#include <omp.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

enum { LANES = 16, VECTORS = 2, OUTPUTS = 4, WIDTH = VECTORS * LANES, LEVELS = 20 };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

/* Vectors of sums; they fill the registers. */
enum { SUMS = OUTPUTS * VECTORS };

/* Computes to += x. */
INLINE void add(lanes *to, const lanes *x)
{
#pragma GCC unroll 8
    for (int i = 0; i < SUMS; i++)
        to[i] += x[i];
}

/* Sums over all parts in the order of device/tree_sum.h: each low 1 bit of a part's number adds the
 * waiting sum of that level. right: rows of WIDTH; left: rows of OUTPUTS; to: OUTPUTS x WIDTH. */
INLINE void sum_block(const float *right, const float *left, int parts, int64_t k, lanes *to)
{
    lanes waiting[LEVELS][SUMS], s[SUMS];

    for (int part = 0, level = 0; part < parts; part++, level = 0) {
#pragma GCC unroll 8
        for (int i = 0; i < SUMS; i++)
            s[i] = (lanes){0};
        for (int64_t r = 0; r < k; r++, right += WIDTH, left += OUTPUTS) {
#pragma GCC unroll 8
            for (int i = 0; i < SUMS; i++)
                s[i] += left[i / VECTORS] * *(const lanes *)(right + i % VECTORS * LANES);
        }
        for (; 1 << level < parts; level++)
            if (part >> level & 1)
                add(s, waiting[level]);
            else if (part < parts - 1)
                break;
        memcpy(part < parts - 1 ? waiting[level] : to, s, sizeof s);
    }
}

/* A strip of `count` columns from `first` on. rows: all parts' rows of the first WIDTH columns,
 * then of the next WIDTH, and so on. */
struct columns {
    int64_t first, count;
    float *rows;
};

/* Computes `outputs` outputs from `first` on; left: these outputs' gathered values. */
CPU_KERNEL static void sum_outputs(const struct engine_products *p, const struct columns *columns,
                                   const float *left, int64_t first, int64_t outputs)
{
    float *to = p->out + first * p->n + columns->first;
    int64_t all = p->parts * p->k;
    lanes s[SUMS];

    for (int64_t c = 0; c < columns->count; c += WIDTH, to += WIDTH) {
        size_t width = (size_t)cpu_least(WIDTH, columns->count - c);
        sum_block(columns->rows + c * all, left, p->parts, p->k, s);
        for (int64_t i = 0; i < outputs; i++)
            if (width == WIDTH)
                memcpy(to + i * p->n, s + i * VECTORS, WIDTH * sizeof(float));
            else
                memcpy(to + i * p->n, s + i * VECTORS, width * sizeof(float));
    }
}

/* Copies n floats of each row into rows of `most` floats, zeros behind the n-th. */
INLINE void gather(const float *from, int64_t rows, int64_t stride, int64_t n, int64_t most,
                   float *to)
{
    for (int64_t r = 0; r < rows; r++, from += stride, to += most) {
        memcpy(to, from, (size_t)n * sizeof *to);
        memset(to + n, 0, (size_t)(most - n) * sizeof *to);
    }
}

static void columns_gather(const struct engine_products *p, const struct columns *columns)
{
    int64_t all = p->parts * p->k;

    for (int64_t c = 0; c < columns->count; c += WIDTH)
        gather(p->right + columns->first + c, all, p->n, cpu_least(WIDTH, columns->count - c),
               WIDTH, columns->rows + c * all);
}

/* Computes outputs `begin` to `end`; left: room for OUTPUTS values of all rows. */
static void columns_sum(const struct engine_products *p, const struct columns *columns,
                        int64_t begin, int64_t end, float *left)
{
    int64_t all = p->parts * p->k;

    for (int64_t o = begin; o < end; o += OUTPUTS) {
        int64_t outputs = cpu_least(OUTPUTS, end - o);
        if (outputs == OUTPUTS)
            gather(p->left + o, all, p->m, OUTPUTS, OUTPUTS, left);
        else
            gather(p->left + o, all, p->m, outputs, OUTPUTS, left);
        sum_outputs(p, columns, left, o, outputs);
    }
}

/* Returns the columns of a strip: all rows of a strip stay in a second-level cache. */
static int64_t strip_of(int64_t rows)
{
    const int64_t floats = 65536, most = 1024, strip = floats / rows / WIDTH * WIDTH;

    return strip > most ? most : strip > WIDTH ? strip : WIDTH;
}

/* Returns the floats of scratchpad that one thread needs. */
static size_t room_of(int64_t rows)
{
    return (size_t)((rows * (strip_of(rows) + OUTPUTS) + LANES - 1) / LANES * LANES);
}

size_t cpu_sum_products_bytes(const struct cpu_engine *engine, int64_t rows)
{
    return (size_t)engine->threads * room_of(rows) * sizeof(float);
}

int cpu_sum_products(void *context, const struct engine_products *p)
{
    const struct cpu_engine *engine = context;
    const struct cpu_work *work = &engine->work[WORK_SCRATCHPAD];
    const int64_t piece = 1024; /* outputs that a thread takes at a time */
    const int64_t all = p->parts * p->k, strip = strip_of(all);

    assert(p->parts < 1 << (LEVELS - 1) && work->bytes >= cpu_sum_products_bytes(engine, all));
#pragma omp parallel for collapse(2)
    for (int64_t c = 0; c < p->n; c += strip)
        for (int64_t o = 0; o < p->m; o += piece) {
            struct columns columns = {c, cpu_least(strip, p->n - c),
                                      work->data + room_of(all) * (size_t)omp_get_thread_num()};
            columns_gather(p, &columns);
            columns_sum(p, &columns, o, cpu_least(o + piece, p->m), columns.rows + all * strip);
        }
    return 0;
}
