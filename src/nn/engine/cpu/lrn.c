/* Local response normalisation: y = x s^-beta, s = k + alpha/count * sum of squares in the window.
 *
 * lrn_blocked.c computes LRN across channels in the form that all known nets use. All other LRN
 * runs in pieces of rows. Within channels a piece is a plane in any format, whose windows reach
 * along rows and down. Across channels a piece is some pixels of all channels in plain memory,
 * whose windows reach down alone. Backward recomputes s, which is less work than loading it. */
#include "engine/cpu/element.h"
#include "engine/cpu/lrn_blocked.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#define PIXELS 64 /* pixels of a piece across the channels */

struct lrn {
    struct cpu_op op;
    struct cpu_planes planes;
    int64_t half; /* reach of the window on either side */
    float scale, beta, k;
    bool within;      /* windows within a channel; else across channels */
    bool quick_power; /* k, scale and beta allow lrn_power_one */
    int64_t tile;     /* floats of one of a thread's work arrays */
    int64_t floats;   /* a thread's floats for a tile of bfloat16; 0: elements are floats */
    bool usual;       /* lrn_blocked.c computes both passes */
    struct lrn_blocked blocked;
};

/* A thread's work arrays: row, rows, sums and ratios; its tiles of floats: x, dy and the result. */
enum { ARRAYS = 4, TILES = 3 };

static int lrn_create(struct cpu_op *op)
{
    struct lrn *lrn = (struct lrn *)op;
    const struct lrn_args *a = &op->args.u.lrn;
    const struct tensor *bottom = &op->args.bottoms[0]->value;
    const struct cpu_format *format = cpu_tensor_format(bottom);
    struct cpu_planes *p = &lrn->planes;

    *p = cpu_planes_of(&bottom->shape, format);
    lrn->within = a->within_channel;
    lrn->half = a->local_size / 2;
    lrn->beta = a->beta;
    lrn->k = lrn->within ? 1 : a->k;
    lrn->scale = a->alpha / (float)(lrn->within ? a->local_size * a->local_size : a->local_size);
    lrn->quick_power = lrn->k > 1e-6f && lrn->k < 1e6f && lrn->scale >= 0 && fabsf(a->beta) <= 2;
    lrn->usual =
        lrn->quick_power && !lrn->within && lrn->half == 2 && a->beta == 0.75f && p->block % 8 == 0;
    if (!lrn->usual) {
        format = lrn->within ? cpu_format_floats(format) : NULL;
        *p = cpu_planes_of(&bottom->shape, format);
    }
    lrn->floats = cpu_format_half(format) ? p->groups * p->block * LRN_TILE : 0;
    lrn->blocked = (struct lrn_blocked){.octets = p->groups * p->block / 8,
                                        .block = p->block,
                                        .pixels = p->pixels,
                                        .scale = lrn->scale,
                                        .k = lrn->k};
    cpu_top_set(op->args.tops[0], format);
    lrn->tile = lrn->within ? (p->height + 2 * lrn->half) * (p->width + 2 * lrn->half) * p->block
                            : (p->groups + 2 * lrn->half) * PIXELS;
    if (cpu_op_take(op, 0, format, WORK_OWN))
        return -1;
    return cpu_work_reserve(
        op->engine, WORK_SCRATCHPAD,
        (size_t)((lrn->usual ? lrn->floats * TILES : lrn->tile * ARRAYS) * op->engine->threads) *
            sizeof(float));
}

#define NEAREST(x) ((x) + 0x1.8p23f - 0x1.8p23f) /* nearest integer, where |x| < 2^22 */

/* Computes s^exponent for normal s > 0; NaN for infinity and NaN. Unlike powf, compilers vectorise
 * this code; its error is twice float's precision (1.3e-7 for exponent -0.75). s = 2^e m with m in
 * sqrt(1/2)..sqrt(2). Both exponent e and exponent log2(m) are split into whole and fraction,
 * separately because the first is exact for the usual exponents. Coefficients: least greatest
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
    whole = whole < -126 ? -126 : whole; /* smaller results become about 2^-126 */
    scale_bits = ((int32_t)whole + 127) * (1 << 23);
    memcpy(&scale, &scale_bits, sizeof scale);
    return exp * scale + 0 * s;
}

INLINE float lrn_power(float s, float exponent, bool quick)
{
    return quick ? lrn_power_one(s, exponent) : powf(s, exponent);
}

/* Sums from[j * step] over j = -half..half, for n places. */
INLINE void lrn_windows(const float *from, int64_t half, int64_t step, float *restrict sum,
                        int64_t n)
{
    memcpy(sum, from - half * step, (size_t)n * sizeof *sum);
    for (int64_t j = 1 - half; j <= half; j++) {
        const float *restrict shifted = from + j * step;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += shifted[i];
    }
}

/* A piece: `rows` rows of `width` floats in work arrays; in a tensor, `runs` runs of `length`
 * floats, `stride` apart. step: floats from a pixel of a row to the next. */
struct piece {
    int64_t rows, width, step;
    int64_t runs, length, stride;
};

/* Sums the windows over a piece's squares, or over the numbers themselves. work: the first three
 * work arrays; the third gets the sums. */
INLINE const float *lrn_sums(const struct lrn *lrn, const struct piece *p, const float *from,
                             int64_t stride, bool squares, float *work)
{
    const int64_t half = lrn->half, above = half * p->width, n = p->rows * p->width;
    const int64_t edge = half * p->step;
    float *row = work, *rows = row + lrn->tile, *sum = rows + lrn->tile;

    memset(row, 0, (size_t)(p->width + 2 * edge) * sizeof *row);
    memset(rows, 0, (size_t)above * sizeof *rows);
    memset(rows + above + n, 0, (size_t)above * sizeof *rows);
    for (int64_t r = 0; r < p->rows; r++, from += stride) {
        float *to = rows + above + r * p->width, *number = lrn->within ? row + edge : to;
#pragma omp simd
        for (int64_t i = 0; i < p->width; i++)
            number[i] = squares ? from[i] * from[i] : from[i];
        if (lrn->within)
            lrn_windows(number, half, p->step, to, p->width);
    }
    lrn_windows(rows + above, half, p->width, sum, n);
    return sum;
}

/* Computes y = x s^-beta. */
INLINE void lrn_scale(const struct lrn *lrn, const struct piece *p, bool quick, const float *x,
                      const float *sums, float *y)
{
    for (int64_t r = 0; r < p->runs; r++, x += p->stride, y += p->stride, sums += p->length) {
#pragma omp simd
        for (int64_t i = 0; i < p->length; i++)
            y[i] = x[i] * lrn_power(lrn->k + lrn->scale * sums[i], -lrn->beta, quick);
    }
}

/* Prepares dx = dy s^-beta - 2 scale beta x * sum over the window of dy x s^(-beta-1): writes the
 * summands to ratio, and s^-beta to dx. */
INLINE void lrn_ratio(const struct lrn *lrn, const struct piece *p, bool quick, const float *x,
                      const float *dy, const float *sums, float *ratio, float *dx)
{
    for (int64_t r = 0; r < p->runs; r++) {
        int64_t at = r * p->stride, in = r * p->length;
#pragma omp simd
        for (int64_t i = 0; i < p->length; i++) {
            float s = lrn->k + lrn->scale * sums[in + i];
            dx[at + i] = lrn_power(s, -lrn->beta, quick);
            ratio[in + i] = dy[at + i] * x[at + i] * dx[at + i] / s;
        }
    }
}

INLINE void lrn_finish(const struct lrn *lrn, const struct piece *p, const float *x,
                       const float *dy, const float *sums, float *dx)
{
    const float factor = 2 * lrn->scale * lrn->beta;

    for (int64_t r = 0; r < p->runs; r++) {
        int64_t at = r * p->stride, in = r * p->length;
#pragma omp simd
        for (int64_t i = 0; i < p->length; i++)
            dx[at + i] = dy[at + i] * dx[at + i] - factor * x[at + i] * sums[in + i];
    }
}

/* Runs a piece. dy NULL: forward, to = y; else backward, to = dx. */
INLINE void lrn_piece_run(const struct lrn *lrn, const struct piece *p, bool quick, const float *x,
                          const float *dy, float *to)
{
    float *work =
        lrn->op.engine->work[WORK_SCRATCHPAD].data + omp_get_thread_num() * lrn->tile * ARRAYS;
    float *ratio = work + 3 * lrn->tile;
    const float *sums = lrn_sums(lrn, p, x, lrn->within ? p->width : p->stride, true, work);

    if (!dy) {
        lrn_scale(lrn, p, quick, x, sums, to);
        return;
    }
    lrn_ratio(lrn, p, quick, x, dy, sums, ratio, to);
    lrn_finish(lrn, p, x, dy, lrn_sums(lrn, p, ratio, p->width, false, work), to);
}

CPU_KERNEL static void lrn_piece(const struct lrn *lrn, const struct piece *p, const float *x,
                                 const float *dy, float *to)
{
    if (lrn->quick_power)
        lrn_piece_run(lrn, p, true, x, dy, to);
    else
        lrn_piece_run(lrn, p, false, x, dy, to);
}

static void lrn_within_run(const struct lrn *lrn, const float *x, const float *dy, float *to)
{
    const struct cpu_planes *p = &lrn->planes;
    const int64_t row = p->width * p->block, n = p->height * row;
    const struct piece piece = {p->height, row, p->block, 1, n, n};

#pragma omp parallel for
    for (int64_t i = 0; i < p->planes; i++)
        lrn_piece(lrn, &piece, x + i * n, dy ? dy + i * n : NULL, to + i * n);
}

/* Moves a tile, `width` pixels of all channels, from a tensor into *floats or back. */
static void tile_move(const struct lrn *lrn, void *tensor, int64_t width, float *floats, bool back)
{
    const struct cpu_planes *p = &lrn->planes;
    const int64_t n = width * p->block;

    for (int64_t g = 0; g < p->groups; g++) {
        uint16_t *half = (uint16_t *)tensor + g * p->pixels * p->block;
        if (back)
            bf16_take(floats + g * n, (size_t)n, half);
        else
            bf16_expand(half, (size_t)n, floats + g * n);
    }
}

static void lrn_usual_tile(const struct lrn_blocked *a, int64_t width, const float *x,
                           const float *dy, float *to)
{
    if (dy)
        lrn_blocked_backward(a, width, x, dy, to);
    else
        lrn_blocked_forward(a, width, x, to);
}

/* Computes a tile of bfloat16 in floats. */
static void lrn_half_tile(const struct lrn *lrn, int64_t at, int64_t width, const float *x,
                          const float *dy, float *to)
{
    float *floats =
        lrn->op.engine->work[WORK_SCRATCHPAD].data + omp_get_thread_num() * TILES * lrn->floats;
    struct lrn_blocked tile = lrn->blocked;

    tile.pixels = width;
    tile_move(lrn, element_room((float *)(uintptr_t)x, at, true), width, floats, false);
    if (dy)
        tile_move(lrn, element_room((float *)(uintptr_t)dy, at, true), width, floats + lrn->floats,
                  false);
    lrn_usual_tile(&tile, width, floats, dy ? floats + lrn->floats : NULL,
                   floats + 2 * lrn->floats);
    tile_move(lrn, element_room(to, at, true), width, floats + 2 * lrn->floats, true);
}

static void lrn_across_run(const struct lrn *lrn, const float *x, const float *dy, float *to)
{
    const struct cpu_planes *p = &lrn->planes;
    int64_t most = lrn->usual ? LRN_TILE : PIXELS, strips = (p->pixels + most - 1) / most;
    int64_t samples = p->planes / p->groups, sample = p->groups * p->pixels * p->block;

#pragma omp parallel for
    for (int64_t i = 0; i < samples * strips; i++) {
        int64_t first = i % strips * most;
        int64_t width = p->pixels - first < most ? p->pixels - first : most;
        int64_t at = i / strips * sample + first * p->block;
        const struct piece piece = {p->groups, width, 0, p->groups, width, p->pixels};
        if (lrn->floats)
            lrn_half_tile(lrn, at, width, x, dy, to);
        else if (lrn->usual)
            lrn_usual_tile(&lrn->blocked, width, x + at, dy ? dy + at : NULL, to + at);
        else
            lrn_piece(lrn, &piece, x + at, dy ? dy + at : NULL, to + at);
    }
}

static int lrn_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    (op->args.u.lrn.within_channel ? lrn_within_run : lrn_across_run)(
        (const struct lrn *)op, cpu_op_x(op, 0), back ? from : NULL, to);
    return 0;
}

const struct cpu_kind cpu_lrn = {
    .size = sizeof(struct lrn),
    .create = lrn_create,
    .run = lrn_run,
};
