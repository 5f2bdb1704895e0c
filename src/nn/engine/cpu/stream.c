/* Products of few rows with weights that are read once, at nearly the speed of memory.
 *
 * A block of weights, some inputs of a few outputs, comes from memory into the cache. All rows are
 * multiplied by the block, four at a time, with 4 x 4 vectors of sums in registers; each step
 * prefetches one line of the next block. Rows of 36 KB, as AlexNet's, all map to the same sets of
 * the cache: so gradients are gathered in rows of an odd number of lines. One thread makes each
 * sum, in an order that does not depend on the number of threads. */
#include "engine/cpu/cpu_internal.h"

#include <string.h>

/* TILE: rows, and vectors, whose sums are in registers. LANES: floats of a vector. */
enum { TILE = 4, LANES = 16 };

/* Inputs of a block. A forward block, its rows and its sums fit into the first-level cache. */
enum { FORWARD_INPUTS = 256, DATA_INPUTS = 512, DATA_STRIDE = DATA_INPUTS + LANES };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

bool cpu_stream_fits(const struct op_product *p)
{
    return cpu_is_wide() && p->rows <= CPU_STREAM_ROWS && p->inputs % LANES == 0 &&
           p->outputs % CPU_STREAM_OUTPUTS == 0;
}

/* ---- forward ---- */

/* Adds the products of TILE rows with TILE outputs over n inputs; w has rows of `inputs` floats.
 * next: one row of weights to prefetch. */
INLINE void forward_tile(const float *const x[TILE], const float *w, int64_t inputs,
                         const float *next, int64_t n, lanes sums[TILE * TILE])
{
    lanes sum[TILE * TILE]; /* in registers, since all loops over sum are unrolled */

    memcpy(sum, sums, sizeof sum);
    for (int64_t k = 0; k < n; k += LANES) {
        __builtin_prefetch(next + k);
#pragma GCC unroll 16
        for (int i = 0; i < TILE * TILE; i++)
            sum[i] +=
                *(const lanes *)(x[i / TILE] + k) * *(const lanes *)(w + i % TILE * inputs + k);
    }
    memcpy(sums, sum, sizeof sum);
}

static float lanes_sum(const lanes *v)
{
    const float *at = (const float *)v;
    float sum = 0;

    for (int i = 0; i < LANES; i++)
        sum += at[i];
    return sum;
}

/* Computes CPU_STREAM_OUTPUTS outputs. after: the next outputs' weights, to prefetch. */
CPU_KERNEL static void forward_outputs(const struct op_product *p, const float *x, const float *w,
                                       const float *after, const float *bias, float *y)
{
    enum { ACROSS = CPU_STREAM_OUTPUTS / TILE, TILES = CPU_STREAM_ROWS / TILE * ACROSS };
    lanes sums[TILES][TILE * TILE];
    int tiles = (int)((p->rows + TILE - 1) / TILE) * ACROSS;

    memset(sums, 0, sizeof sums);
    for (int64_t k = 0; k < p->inputs; k += FORWARD_INPUTS) {
        int64_t left = p->inputs - k, n = left < FORWARD_INPUTS ? left : FORWARD_INPUTS;
        const float *next = left > n ? w + k + n : after;
        for (int t = 0; t < tiles; t++) {
            const float *rows[TILE];
            for (int i = 0; i < TILE; i++) {
                int64_t r = t / ACROSS * TILE + i; /* repeats the last row to fill the tile */
                rows[i] = x + (r < p->rows ? r : p->rows - 1) * p->inputs + k;
            }
            forward_tile(rows, w + k + t % ACROSS * TILE * p->inputs, p->inputs,
                         next + t % CPU_STREAM_OUTPUTS * p->inputs, n, sums[t]);
        }
    }
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t o = 0; o < CPU_STREAM_OUTPUTS; o++)
            y[r * p->outputs + o] =
                lanes_sum(&sums[r / TILE * ACROSS + o / TILE][r % TILE * TILE + o % TILE]) +
                (bias ? bias[o] : 0);
}

void cpu_stream_forward(const struct op_product *p, const float *x, const float *w,
                        const float *bias, float *y)
{
#pragma omp parallel for schedule(static)
    for (int64_t o = 0; o < p->outputs; o += CPU_STREAM_OUTPUTS) {
        bool last = o + CPU_STREAM_OUTPUTS == p->outputs;
        forward_outputs(p, x, w + o * p->inputs,
                        w + (last ? o : o + CPU_STREAM_OUTPUTS) * p->inputs, bias ? bias + o : NULL,
                        y + o);
    }
}

/* ---- the bottom's gradient ---- */

/* Computes dx += dy w for TILE rows and `vectors` vectors of inputs.
 * dy: each row's CPU_STREAM_OUTPUTS gradients, row after row. */
INLINE void data_tile(const float *dy, const float *w, const float *next, int64_t inputs,
                      int vectors, float *dx)
{
    lanes sum[TILE * TILE];

#pragma GCC unroll 16
    for (int i = 0; i < TILE * vectors; i++)
        sum[i] = *(const lanes *)(dx + i / vectors * DATA_STRIDE + i % vectors * LANES);
    for (int64_t o = 0; o < CPU_STREAM_OUTPUTS; o++) {
        __builtin_prefetch(next + o * inputs);
#pragma GCC unroll 16
        for (int i = 0; i < TILE * vectors; i++)
            sum[i] += dy[i / vectors * CPU_STREAM_OUTPUTS + o] *
                      *(const lanes *)(w + o * inputs + i % vectors * LANES);
    }
#pragma GCC unroll 16
    for (int i = 0; i < TILE * vectors; i++)
        *(lanes *)(dx + i / vectors * DATA_STRIDE + i % vectors * LANES) = sum[i];
}

/* Computes dx += dy w for CPU_STREAM_OUTPUTS outputs, n inputs. next: the next call's weights. */
CPU_KERNEL static void data_outputs(const float *dy, int64_t rows, const float *w,
                                    const float *next, int64_t inputs, int64_t n, float *dx)
{
    for (int64_t k = 0, step; k < n; k += step) {
        step = n - k < TILE * LANES ? LANES : TILE * LANES;
        for (int64_t r = 0; r < rows; r += TILE) {
            const float *ask = next + k + (step == LANES ? 0 : r / TILE * LANES);
            const float *g = dy + r * CPU_STREAM_OUTPUTS;
            if (step == LANES)
                data_tile(g, w + k, ask, inputs, 1, dx + r * DATA_STRIDE + k);
            else
                data_tile(g, w + k, ask, inputs, TILE, dx + r * DATA_STRIDE + k);
        }
    }
}

static void data_inputs(const struct op_product *p, const float *dy, const float *w, int64_t n,
                        float *dx)
{
    float sum[CPU_STREAM_ROWS * DATA_STRIDE] __attribute__((aligned(64)));
    float g[CPU_STREAM_ROWS * CPU_STREAM_OUTPUTS] = {0};

    memset(sum, 0, sizeof sum);
    for (int64_t o = 0; o < p->outputs; o += CPU_STREAM_OUTPUTS) {
        bool last = o + CPU_STREAM_OUTPUTS == p->outputs;
        const float *at = w + o * p->inputs;
        for (int64_t r = 0; r < p->rows; r++)
            memcpy(g + r * CPU_STREAM_OUTPUTS, dy + r * p->outputs + o,
                   CPU_STREAM_OUTPUTS * sizeof *g);
        data_outputs(g, p->rows, at, last ? at : at + CPU_STREAM_OUTPUTS * p->inputs, p->inputs, n,
                     sum);
    }
    for (int64_t r = 0; r < p->rows; r++)
        memcpy(dx + r * p->inputs, sum + r * DATA_STRIDE, (size_t)n * sizeof *dx);
}

void cpu_stream_data(const struct op_product *p, int threads, const float *dy, const float *w,
                     float *dx)
{
    const int64_t line = TILE * LANES; /* each thread gets a multiple of this many inputs */
    int64_t each = (p->inputs + threads - 1) / threads;
    int64_t pieces = (each + DATA_INPUTS - 1) / DATA_INPUTS;
    int64_t piece = ((each + pieces - 1) / pieces + line - 1) / line * line;

#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < p->inputs; k += piece)
        data_inputs(p, dy, w + k, p->inputs - k < piece ? p->inputs - k : piece, dx + k);
}
