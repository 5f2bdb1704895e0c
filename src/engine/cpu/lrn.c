/* Local response normalisation: y = x s^-beta, s = k + alpha/count * sum of squares in the window.
 *
 * Across channels or within, windows are `half` steps to either side in one flat array: channels x
 * pixels, where a channel is `step` floats away from the next, or a plane, where a row is. The
 * compiler vectorises that in every format: one loop takes the window's sum, the power and the
 * product. Backward recomputes s, which is less work than to load it. Where channels lie side by
 * side, several pixels make one flat array with zeros between them: a shifted load soon after the
 * store of what it reads would wait for the cache. The windows and the exponent of all known nets
 * have code of their own there (lrn_blocked.c). */
#include "engine/cpu/cpu_internal.h"
#include "engine/cpu/lrn_blocked.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#define PIXELS 16   /* plain format: pixels taken together across the channels */
#define TILE   1024 /* other formats: floats of the pixels taken together, at most 16 of them */
#define ARRAYS 4    /* work arrays of a thread */

struct lrn {
    struct cpu_op op;
    struct cpu_planes planes;
    int64_t half; /* window reaches that far on either side */
    float scale, beta, k;
    bool quick_power; /* s and s^-beta are normal floats > 0, or as good as infinite */
    int64_t together; /* across, channels side by side: pixels of a tile */
    int64_t tile;     /* floats of one work array */
    bool usual;       /* by lrn_blocked.c, as these say */
    struct lrn_blocked blocked;
};

static int lrn_create(struct cpu_op *op)
{
    struct lrn *lrn = (struct lrn *)op;
    const struct lrn_args *a = &op->args.u.lrn;
    const struct tensor *bottom = &op->args.bottoms[0]->value;
    struct cpu_planes *p = &lrn->planes;

    *p = cpu_planes_of(&bottom->shape, cpu_tensor_format(bottom));
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
    lrn->quick_power = lrn->k > 1e-6f && lrn->k < 1e6f && lrn->scale >= 0 && fabsf(a->beta) <= 2;
    lrn->usual = lrn->quick_power && !a->within_channel && lrn->half == 2 && a->beta == 0.75f &&
                 p->block % 8 == 0;
    if (lrn->usual) {
        lrn->together = LRN_TILE;
        lrn->blocked = (struct lrn_blocked){.octets = p->groups * p->block / 8,
                                            .block = p->block,
                                            .pixels = p->pixels,
                                            .scale = lrn->scale,
                                            .k = lrn->k};
        return 0;
    }
    return cpu_work_reserve(op->engine, WORK_SCRATCHPAD,
                            (size_t)(lrn->tile * ARRAYS * op->engine->threads) * sizeof(float));
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

INLINE float lrn_power(float s, float exponent, bool quick)
{
    return quick ? lrn_power_one(s, exponent) : powf(s, exponent);
}

/* The sum of at[j * step] over j = -half..half, of the usual windows: in the loop that wants it. */
INLINE float lrn_window(const float *at, int64_t half, int64_t step)
{
    return half == 0   ? at[0]
           : half == 1 ? at[-step] + at[0] + at[step]
                       : at[-2 * step] + at[-step] + at[0] + at[step] + at[2 * step];
}

/* The same of n windows of any width, apart: compilers make no vectors of a sum in a loop. */
INLINE const float *lrn_windows(const float *from, int64_t half, int64_t step, float *restrict sum,
                                int64_t n)
{
    memcpy(sum, from - half * step, (size_t)n * sizeof *sum);
    for (int64_t j = 1 - half; j <= half; j++) {
        const float *restrict shifted = from + j * step;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += shifted[i];
    }
    return sum;
}

/* What the loops over numbers are told. half: of windows that they are to sum; 0: none are left. */
struct norm {
    float scale, k, exponent;
    bool quick;
    int64_t half, step;
};

INLINE struct norm lrn_norm(const struct lrn *lrn, int64_t half, bool quick, int64_t step)
{
    return (struct norm){lrn->scale, lrn->k, -lrn->beta, quick, half, step};
}

/* y = x s^-beta of n numbers, from the squares to be summed. */
INLINE void lrn_scale(struct norm norm, const float *x, const float *square, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = norm.k + norm.scale * lrn_window(square + i, norm.half, norm.step);
        y[i] = x[i] * lrn_power(s, norm.exponent, norm.quick);
    }
}

/* dx = dy s^-beta - 2 scale beta x * sum over the window of dy x s^(-beta-1): what is summed, and
 * s^-beta, for which dx has room. */
INLINE void lrn_ratio(struct norm norm, const float *x, const float *dy, const float *square,
                      float *ratio, float *dx, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = norm.k + norm.scale * lrn_window(square + i, norm.half, norm.step);
        dx[i] = lrn_power(s, norm.exponent, norm.quick);
        ratio[i] = dy[i] * x[i] * dx[i] / s;
    }
}

INLINE void lrn_finish(struct norm norm, const float *x, const float *dy, const float *ratio,
                       float *dx, int64_t n)
{
    float factor = -2 * norm.scale * norm.exponent;

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * dx[i] - factor * x[i] * lrn_window(ratio + i, norm.half, norm.step);
}

static float *lrn_work(const struct lrn *lrn)
{
    return lrn->op.engine->work[WORK_SCRATCHPAD].data + omp_get_thread_num() * lrn->tile * ARRAYS;
}

/* ---- across channels ---- */

/* Some pixels and all of their channels: outer x inner runs of `length` floats each, where they lie
 * in the tensor and in a tile. */
struct strip {
    int64_t outer, inner, length;
    int64_t tensor_outer, tensor_inner, tile_outer, tile_inner;
    int64_t step; /* in the tile, from one channel to the next */
    int64_t n;    /* floats in the tile */
};

/* `width` pixels of a plane of `pixels`. */
static struct strip lrn_strip(const struct lrn *lrn, int64_t pixels, int64_t width)
{
    const struct cpu_planes *p = &lrn->planes;

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
                          .tile_inner = p->groups * p->block + lrn->half,
                          .step = 1,
                          .n = width * (p->groups * p->block + lrn->half)};
}

/* Loops over runs: at, of a run in the tensor; in, in the tile. */
#define EACH_RUN(strip, at, in)                                                                    \
    for (int64_t o = 0; o < (strip)->outer; o++)                                                   \
        for (int64_t i = 0, at = o * (strip)->tensor_outer, in = o * (strip)->tile_outer;          \
             i < (strip)->inner; i++, at += (strip)->tensor_inner, in += (strip)->tile_inner)

/* dy NULL: forward, to = y; else backward, to = dx. length: the strip's; half: of windows that are
 * summed on the way, 0: before. */
INLINE void lrn_strip_run(const struct lrn *lrn, const struct strip *strip, int64_t length,
                          int64_t half, bool quick, const float *x, const float *dy, float *to)
{
    const struct norm norm = lrn_norm(lrn, half, quick, strip->step);
    float *work = lrn_work(lrn), *sum = work + 2 * lrn->tile;
    float *square = work + lrn->half * strip->step, *ratio = square + lrn->tile;
    const float *sums = square;

    memset(work, 0, (size_t)(dy ? 2 * lrn->tile : lrn->tile) * sizeof *work);
    EACH_RUN(strip, at, in)
    {
#pragma omp simd
        for (int64_t j = 0; j < length; j++)
            square[in + j] = x[at + j] * x[at + j];
    }
    if (half == 0)
        sums = lrn_windows(square, lrn->half, strip->step, sum, strip->n);
    if (!dy) {
        EACH_RUN(strip, at, in)
        lrn_scale(norm, x + at, sums + in, to + at, length);
        return;
    }
    EACH_RUN(strip, at, in)
    lrn_ratio(norm, x + at, dy + at, sums + in, ratio + in, to + at, length);
    sums = half == 0 ? lrn_windows(ratio, lrn->half, strip->step, sum, strip->n) : ratio;
    EACH_RUN(strip, at, in)
    lrn_finish(norm, x + at, dy + at, sums + in, to + at, length);
}

CPU_KERNEL static void lrn_across(const struct lrn *lrn, const struct strip *strip, const float *x,
                                  const float *dy, float *to)
{
    int64_t length = strip->length;

    if (!lrn->quick_power)
        lrn_strip_run(lrn, strip, length, 0, false, x, dy, to);
    else if (lrn->half != 2)
        lrn_strip_run(lrn, strip, length, 0, true, x, dy, to);
    else if (length == PIXELS)
        lrn_strip_run(lrn, strip, PIXELS, 2, true, x, dy, to);
    else
        lrn_strip_run(lrn, strip, length, 2, true, x, dy, to);
}

static void lrn_across_run(const struct lrn *lrn, const float *x, const float *dy, float *to)
{
    const struct cpu_planes *p = &lrn->planes;
    int64_t pixels = p->height * p->width, most = p->block == 1 ? PIXELS : lrn->together;
    int64_t strips = (pixels + most - 1) / most, samples = p->planes / p->groups;
    int64_t sample = p->groups * pixels * p->block;

#pragma omp parallel for
    for (int64_t i = 0; i < samples * strips; i++) {
        int64_t first = i % strips * most;
        int64_t width = pixels - first < most ? pixels - first : most;
        int64_t at = i / strips * sample + first * p->block;
        struct strip strip = lrn_strip(lrn, pixels, width);
        if (lrn->usual && dy)
            lrn_blocked_backward(&lrn->blocked, width, x + at, dy + at, to + at);
        else if (lrn->usual)
            lrn_blocked_forward(&lrn->blocked, width, x + at, to + at);
        else
            lrn_across(lrn, &strip, x + at, dy ? dy + at : NULL, to + at);
    }
}

/* ---- within a channel ---- */

/* Sums of windows along rows; `rows` has half rows of zeros above and below, `row` is one row with
 * half pixels of zeros on either side. */
INLINE void lrn_row_sums(const struct lrn *lrn, const float *from, bool square, float *row,
                         float *rows)
{
    const struct cpu_planes *p = &lrn->planes;
    int64_t n = p->width * p->block, edge = lrn->half * p->block, above = lrn->half * n;

    memset(row, 0, (size_t)(n + 2 * edge) * sizeof *row);
    memset(rows, 0, (size_t)above * sizeof *rows);
    memset(rows + above + p->height * n, 0, (size_t)above * sizeof *rows);
    for (int64_t h = 0; h < p->height; h++, from += n) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            row[edge + i] = square ? from[i] * from[i] : from[i];
        lrn_windows(row + edge, lrn->half, p->block, rows + above + h * n, n);
    }
}

/* One plane; the windows' sums along rows are summed along columns. Arguments: lrn_strip_run. */
INLINE void lrn_plane_run(const struct lrn *lrn, int64_t half, bool quick, const float *x,
                          const float *dy, float *to)
{
    const struct cpu_planes *p = &lrn->planes;
    int64_t step = p->width * p->block, n = p->height * step;
    const struct norm norm = lrn_norm(lrn, half, quick, step);
    float *row = lrn_work(lrn), *rows = row + lrn->tile, *ratio = rows + lrn->tile;
    float *sum = ratio + lrn->tile;
    const float *sums = rows + lrn->half * step;

    lrn_row_sums(lrn, x, true, row, rows);
    if (half == 0)
        sums = lrn_windows(sums, lrn->half, step, sum, n);
    if (!dy) {
        lrn_scale(norm, x, sums, to, n);
        return;
    }
    lrn_ratio(norm, x, dy, sums, ratio, to, n);
    lrn_row_sums(lrn, ratio, false, row, rows);
    if (half == 0)
        lrn_windows(rows + lrn->half * step, lrn->half, step, sum, n);
    lrn_finish(norm, x, dy, sums, to, n);
}

CPU_KERNEL static void lrn_within(const struct lrn *lrn, const float *x, const float *dy, float *to)
{
    if (!lrn->quick_power)
        lrn_plane_run(lrn, 0, false, x, dy, to);
    else if (lrn->half == 1)
        lrn_plane_run(lrn, 1, true, x, dy, to);
    else
        lrn_plane_run(lrn, 0, true, x, dy, to);
}

static void lrn_within_run(const struct lrn *lrn, const float *x, const float *dy, float *to)
{
    const struct cpu_planes *p = &lrn->planes;
    int64_t n = p->height * p->width * p->block;

#pragma omp parallel for
    for (int64_t i = 0; i < p->planes; i++)
        lrn_within(lrn, x + i * n, dy ? dy + i * n : NULL, to + i * n);
}

/* dy NULL: forward. */
static void lrn_run(const struct cpu_op *op, const float *dy, float *to)
{
    (op->args.u.lrn.within_channel ? lrn_within_run : lrn_across_run)(
        (const struct lrn *)op, op->args.bottoms[0]->value.data, dy, to);
}

static int lrn_forward(struct cpu_op *op)
{
    lrn_run(op, NULL, cpu_op_y(op));
    return 0;
}

static int lrn_gradient(struct cpu_op *op, int bottom, float *dx)
{
    (void)bottom;
    lrn_run(op, cpu_op_dy(op), dx);
    return 0;
}

const struct cpu_kind cpu_lrn = {
    .size = sizeof(struct lrn),
    .blobs = CPU_AS_BOTTOM,
    .create = lrn_create,
    .forward = lrn_forward,
    .gradient = lrn_gradient,
};
