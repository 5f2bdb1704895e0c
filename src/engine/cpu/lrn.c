/* Local response normalisation: y = x s^-beta, s = k + alpha/count * sum of squares in the window.
 *
 * Across channels or within, sums are over shifts of one flat array: channels x pixels, where a
 * channel is `step` floats away from the next, or a plane's row, where a pixel is. The compiler
 * vectorises that in every format; backward recomputes s rather than storing it. Where channels lie
 * side by side, several pixels make one flat array with zeros between them: a shifted load soon
 * after the store of what it reads would wait for the cache. */
#include "engine/cpu/cpu_internal.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#define PIXELS 16   /* plain format: pixels taken together across the channels */
#define TILE   1024 /* other formats: floats of the pixels taken together, at most 16 of them */

struct lrn {
    struct cpu_op op;
    struct cpu_planes planes;
    int64_t half; /* window reaches that far on either side */
    float scale, beta, k;
    bool quick_power; /* s and s^-beta are normal floats > 0, or as good as infinite */
    int64_t together; /* across, channels side by side: pixels of a tile */
    int64_t tile;     /* floats of one work array */
    int arrays;       /* of them per thread */
};

static int lrn_create(struct cpu_op *op)
{
    struct lrn *lrn = (struct lrn *)op;
    const struct lrn_args *a = &op->args.u.lrn;
    const struct tensor *bottom = &op->args.bottoms[0]->value;
    const struct cpu_format *format = cpu_tensor_format(bottom);
    struct cpu_planes *p = &lrn->planes;

    cpu_top_set(op->args.tops[0], format);
    *p = cpu_planes_of(&bottom->shape, format);
    lrn->half = a->local_size / 2;
    lrn->beta = a->beta;
    lrn->k = a->within_channel ? 1 : a->k;
    lrn->scale = a->alpha / (float)a->local_size;
    if (a->within_channel) {
        lrn->scale /= (float)a->local_size;
        lrn->tile = (p->height + 2 * lrn->half) * (p->width + 2 * lrn->half) * p->block;
    } else if (p->block == 1) {
        lrn->tile = (p->groups + 2 * lrn->half) * PIXELS;
    } else {
        lrn->together = TILE / (p->groups * p->block);
        lrn->together = lrn->together < 1 ? 1 : lrn->together > 16 ? 16 : lrn->together;
        lrn->tile = lrn->together * (p->groups * p->block + lrn->half) + 2 * lrn->half;
    }
    lrn->tile = (lrn->tile + 15) / 16 * 16;
    lrn->arrays = 6;
    lrn->quick_power = lrn->k > 1e-6f && lrn->k < 1e6f && lrn->scale >= 0 && fabsf(a->beta) <= 2;
    return cpu_work_reserve(op->engine, WORK_SCRATCHPAD,
                            (size_t)(lrn->tile * lrn->arrays * op->engine->threads) *
                                sizeof(float));
}

#define INLINE     static inline __attribute__((always_inline))
#define NEAREST(x) ((x) + 0x1.8p23f - 0x1.8p23f) /* to the integer, where |x| < 2^22 */

/* s^exponent for normal s > 0, NaN for infinity and NaN. One that compilers make vectors of, unlike
 * powf; twice float's precision of it (1.3e-7 for exponent -0.75).
 * s = 2^e m, m within sqrt(1/2)..sqrt(2); exponent e and exponent log2(m) are split into whole and
 * fraction apart, since the first is exact for the usual exponents. Coefficients: least greatest
 * relative error of log2(1 + t) / t and of 2^x. */
INLINE float lrn_power_one(float s, float exponent)
{
    int32_t bits, scale_bits;
    float m, scale;

    memcpy(&bits, &s, sizeof bits);
    int32_t e = (bits - 0x3f3504f3) >> 23;
    bits -= e * (1 << 23);
    memcpy(&m, &bits, sizeof m);
    float t = m - 1, log = 0.1258370578289032f;
    log = log * t - 0.2072698175907135f;
    log = log * t + 0.21571561694145203f;
    log = log * t - 0.23894481360912323f;
    log = log * t + 0.28791624307632446f;
    log = log * t - 0.3607036769390106f;
    log = log * t + 0.48091062903404236f;
    log = log * t - 0.7213473320007324f;
    log = log * t + 1.4426950216293335f;
    float whole = NEAREST(exponent * (float)e);
    float x = exponent * (float)e - whole + exponent * (log * t);
    float rest = NEAREST(x), exp = 0.0001534581242594868f;
    x -= rest;
    exp = exp * x + 0.0013399930903688073f;
    exp = exp * x + 0.009618489071726799f;
    exp = exp * x + 0.05550328642129898f;
    exp = exp * x + 0.24022646248340607f;
    exp = exp * x + 0.6931471824645996f;
    exp = exp * x + 1;
    whole += rest;
    whole = whole < -126 ? -126 : whole; /* smaller than that is nothing */
    scale_bits = ((int32_t)whole + 127) * (1 << 23);
    memcpy(&scale, &scale_bits, sizeof scale);
    return exp * scale + 0 * s;
}

INLINE void lrn_power(const struct lrn *lrn, const float *restrict s, float *restrict out,
                      int64_t n)
{
    float exponent = -lrn->beta;

    if (lrn->quick_power) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = lrn_power_one(s[i], exponent);
    } else {
        for (int64_t i = 0; i < n; i++)
            out[i] = powf(s[i], exponent);
    }
}

/* sum[i] = over j = -half..half of from[i + j step]; from has half * step floats on either side.
 * Windows of five, which all nets have, in one pass: the same additions in the same order. */
INLINE void lrn_shift_sum(const float *from, int64_t half, int64_t step, float *restrict sum,
                          int64_t n)
{
    const float *a = from - 2 * step, *b = from - step, *d = from + step, *e = from + 2 * step;

    if (half == 2) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] = a[i] + b[i] + from[i] + d[i] + e[i];
        return;
    }
    memcpy(sum, from - half * step, (size_t)n * sizeof *sum);
    for (int64_t j = 1 - half; j <= half; j++) {
        const float *restrict shifted = from + j * step;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += shifted[i];
    }
}

/* Work arrays of one thread. padded: zeros on either side. */
struct tile {
    float *x, *dy, *padded, *s, *p, *t;
};

static struct tile lrn_tile_of(const struct lrn *lrn)
{
    float *at =
        lrn->op.engine->work[WORK_SCRATCHPAD].data + omp_get_thread_num() * lrn->tile * lrn->arrays;

    return (struct tile){at,
                         at + lrn->tile,
                         at + 2 * lrn->tile,
                         at + 3 * lrn->tile,
                         at + 4 * lrn->tile,
                         at + 5 * lrn->tile};
}

INLINE void lrn_finish_scale(float *restrict s, float scale, float k, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        s[i] = k + scale * s[i];
}

/* A tile of pixels and all of their channels: outer x inner runs of `length` floats each, where
 * they lie in the tensor and in the tile. */
struct strip {
    int64_t outer, inner, length;
    int64_t tensor_outer, tensor_inner, tile_outer, tile_inner;
    int64_t step; /* in the tile, from one channel to the next */
    int64_t n;    /* floats in the tile, gaps included */
    int64_t rows, row,
        gap; /* in the tile, that many times: `row` floats, then `gap` without meaning */
};

/* Lengths that occur often are told to the compiler: calls would cost more than the copies. */
INLINE void lrn_copy_runs(float *to, int64_t to_stride, const float *from, int64_t from_stride,
                          int64_t runs, int64_t length)
{
    for (int64_t r = 0; r < runs; r++)
        memcpy(to + r * to_stride, from + r * from_stride, (size_t)length * sizeof *to);
}

static void lrn_copy(float *to, int64_t to_stride, const float *from, int64_t from_stride,
                     const struct strip *strip)
{
    if (strip->length == 8)
        lrn_copy_runs(to, to_stride, from, from_stride, strip->inner, 8);
    else if (strip->length == 16)
        lrn_copy_runs(to, to_stride, from, from_stride, strip->inner, 16);
    else
        lrn_copy_runs(to, to_stride, from, from_stride, strip->inner, strip->length);
}

static void lrn_gather(float *to, const float *from, const struct strip *s)
{
    for (int64_t o = 0; o < s->outer; o++)
        lrn_copy(to + o * s->tile_outer, s->tile_inner, from + o * s->tensor_outer, s->tensor_inner,
                 s);
}

static void lrn_scatter(float *to, const float *from, const struct strip *s)
{
    for (int64_t o = 0; o < s->outer; o++)
        lrn_copy(to + o * s->tensor_outer, s->tensor_inner, from + o * s->tile_outer, s->tile_inner,
                 s);
}

/* What lies between the rows must not reach into them. */
INLINE void lrn_clear_gaps(const struct strip *strip, float *at)
{
    for (int64_t r = 0; r < strip->rows; r++)
        for (int64_t i = 0; i < strip->gap; i++)
            at[r * (strip->row + strip->gap) + strip->row + i] = 0;
}

/* Of tile->x; leaves s and p = s^-beta */
INLINE void lrn_across_scale(const struct lrn *lrn, const struct tile *tile,
                             const struct strip *strip)
{
    const float *restrict x = tile->x;
    int64_t n = strip->n, margin = lrn->half * strip->step;
    float *restrict square = tile->padded + margin;

    memset(tile->padded, 0, (size_t)margin * sizeof(float));
    memset(square + n, 0, (size_t)margin * sizeof(float));
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        square[i] = x[i] * x[i];
    lrn_shift_sum(square, lrn->half, strip->step, tile->s, n);
    lrn_finish_scale(tile->s, lrn->scale, lrn->k, n);
    lrn_power(lrn, tile->s, tile->p, n);
}

/* The result is left in tile->t. */
CPU_KERNEL static void lrn_across_forward(const struct lrn *lrn, const struct tile *tile,
                                          const struct strip *strip)
{
    const float *restrict x = tile->x;
    float *restrict y = tile->t;

    lrn_clear_gaps(strip, tile->x);
    lrn_across_scale(lrn, tile, strip);
#pragma omp simd
    for (int64_t i = 0; i < strip->n; i++)
        y[i] = x[i] * tile->p[i];
}

/* dx = dy s^-beta - 2 scale beta x * sum over the window of dy x s^(-beta-1); left in tile->t */
CPU_KERNEL static void lrn_across_backward(const struct lrn *lrn, const struct tile *tile,
                                           const struct strip *strip)
{
    const float *restrict x = tile->x, *restrict dy = tile->dy, *restrict s = tile->s;
    const float *restrict p = tile->p;
    float *restrict ratio = tile->padded + lrn->half * strip->step, *restrict dx = tile->t;
    float factor = 2 * lrn->scale * lrn->beta;

    lrn_clear_gaps(strip, tile->x);
    lrn_across_scale(lrn, tile, strip);
#pragma omp simd
    for (int64_t i = 0; i < strip->n; i++)
        ratio[i] = dy[i] * x[i] * p[i] / s[i];
    lrn_clear_gaps(strip, ratio);
    lrn_shift_sum(ratio, lrn->half, strip->step, dx, strip->n);
#pragma omp simd
    for (int64_t i = 0; i < strip->n; i++)
        dx[i] = dy[i] * p[i] - factor * x[i] * dx[i];
}

/* `width` pixels of a plane of `pixels`. */
static struct strip lrn_strip(const struct lrn *lrn, int64_t pixels, int64_t width)
{
    const struct cpu_planes *p = &lrn->planes;
    int64_t row = p->groups * p->block;

    if (p->block == 1)
        return (struct strip){.outer = 1,
                              .inner = p->groups,
                              .length = width,
                              .tensor_inner = pixels,
                              .tile_inner = width,
                              .step = width,
                              .n = p->groups * width};
    return (struct strip){.outer = p->groups,
                          .inner = width,
                          .length = p->block,
                          .tensor_outer = pixels * p->block,
                          .tensor_inner = p->block,
                          .tile_outer = p->block,
                          .tile_inner = row + lrn->half,
                          .step = 1,
                          .n = width * (row + lrn->half),
                          .rows = width,
                          .row = row,
                          .gap = lrn->half};
}

/* dy NULL: forward, to = y; else backward, to = dx */
static void lrn_across_run(const struct lrn *lrn, const float *x, const float *dy, float *to)
{
    const struct cpu_planes *p = &lrn->planes;
    int64_t pixels = p->height * p->width, most = p->block == 1 ? PIXELS : lrn->together;
    int64_t strips = (pixels + most - 1) / most, samples = p->planes / p->groups;
    int64_t sample = p->groups * pixels * p->block;

#pragma omp parallel for
    for (int64_t i = 0; i < samples * strips; i++) {
        struct tile tile = lrn_tile_of(lrn);
        int64_t first = i % strips * most;
        int64_t width = pixels - first < most ? pixels - first : most;
        int64_t at = i / strips * sample + first * p->block;
        struct strip strip = lrn_strip(lrn, pixels, width);
        lrn_gather(tile.x, x + at, &strip);
        if (dy) {
            lrn_gather(tile.dy, dy + at, &strip);
            lrn_across_backward(lrn, &tile, &strip);
        } else {
            lrn_across_forward(lrn, &tile, &strip);
        }
        lrn_scatter(to + at, tile.t, &strip);
    }
}

/* Sums over square windows of a plane: along rows into `rows`, then along columns. `rows` has half
 * rows of zeros above and below; `row` is one row with half pixels of zeros on either side. */
INLINE void lrn_box_sum(const struct lrn *lrn, const float *from, float *row, float *rows,
                        float *restrict sum)
{
    const struct cpu_planes *p = &lrn->planes;
    int64_t n = p->width * p->block, edge = lrn->half * p->block;

    memset(row, 0, (size_t)(n + 2 * edge) * sizeof *row);
    memset(rows, 0, (size_t)(lrn->half * n) * sizeof *rows);
    memset(rows + (lrn->half + p->height) * n, 0, (size_t)(lrn->half * n) * sizeof *rows);
    for (int64_t h = 0; h < p->height; h++) {
        memcpy(row + edge, from + h * n, (size_t)n * sizeof *row);
        lrn_shift_sum(row + edge, lrn->half, p->block, rows + (lrn->half + h) * n, n);
    }
    lrn_shift_sum(rows + lrn->half * n, lrn->half, n, sum, p->height * n);
}

INLINE void lrn_within_scale(const struct lrn *lrn, const struct tile *tile, const float *x,
                             int64_t n)
{
    float *restrict square = tile->x;

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        square[i] = x[i] * x[i];
    lrn_box_sum(lrn, square, tile->dy, tile->padded, tile->s);
    lrn_finish_scale(tile->s, lrn->scale, lrn->k, n);
    lrn_power(lrn, tile->s, tile->p, n);
}

CPU_KERNEL static void lrn_within_forward(const struct lrn *lrn, const struct tile *tile,
                                          const float *restrict x, float *restrict y, int64_t n)
{
    lrn_within_scale(lrn, tile, x, n);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * tile->p[i];
}

CPU_KERNEL static void lrn_within_backward(const struct lrn *lrn, const struct tile *tile,
                                           const float *restrict x, const float *restrict dy,
                                           float *restrict dx, int64_t n)
{
    const float *restrict s = tile->s, *restrict p = tile->p;
    float *restrict ratio = tile->x;
    float factor = 2 * lrn->scale * lrn->beta;

    lrn_within_scale(lrn, tile, x, n);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        ratio[i] = dy[i] * x[i] * p[i] / s[i];
    lrn_box_sum(lrn, ratio, tile->dy, tile->padded, tile->t);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * p[i] - factor * x[i] * tile->t[i];
}

static void lrn_within_run(const struct lrn *lrn, const float *x, const float *dy, float *to)
{
    const struct cpu_planes *p = &lrn->planes;
    int64_t n = p->height * p->width * p->block;

#pragma omp parallel for
    for (int64_t i = 0; i < p->planes; i++) {
        struct tile tile = lrn_tile_of(lrn);
        if (dy)
            lrn_within_backward(lrn, &tile, x + i * n, dy + i * n, to + i * n, n);
        else
            lrn_within_forward(lrn, &tile, x + i * n, to + i * n, n);
    }
}

static int lrn_forward(struct cpu_op *op, const struct run *run)
{
    (void)run;
    (op->args.u.lrn.within_channel ? lrn_within_run : lrn_across_run)(
        (struct lrn *)op, op->args.bottoms[0]->value.data, NULL, op->args.tops[0]->value.data);
    return 0;
}

static int lrn_backward(struct cpu_op *op, const struct run *run)
{
    (void)run;
    if (cpu_op_propagates(op, 0))
        (op->args.u.lrn.within_channel ? lrn_within_run : lrn_across_run)(
            (struct lrn *)op, op->args.bottoms[0]->value.data, op->args.tops[0]->grad.data,
            op->args.bottoms[0]->grad.data);
    return 0;
}

const struct cpu_kind cpu_lrn = {
    .size = sizeof(struct lrn),
    .create = lrn_create,
    .forward = lrn_forward,
    .backward = lrn_backward,
};
