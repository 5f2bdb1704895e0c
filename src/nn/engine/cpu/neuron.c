/* ReLU and dropout: one value in, one value out, in any format. */
#include "engine/cpu/element.h"

#include "util/rng_blocks.h"

#include <math.h>

/* x may be y, hence no restrict. Slope 0 has its own loop, since 0 times infinity is not 0. */
CPU_KERNEL void cpu_relu_piece(const float *x, float slope, float *y, size_t n)
{
    if (slope == 0) {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] < 0 ? 0 : x[i];
    } else {
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            float factor = x[i] < 0 ? slope : 1;
            y[i] = factor * x[i];
        }
    }
}

CPU_KERNEL static void relu_back_piece(const float *x, const float *dy, float slope, float *dx,
                                       size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float factor = x[i] > 0 ? 1 : slope; /* compilers do not vectorise a conditional product */
        dx[i] = factor * dy[i];
    }
}

/* Computes what cpu_relu_piece does with slope 0, on the bits of bfloat16: 8001 to FF80 are the
 * numbers below 0. */
CPU_KERNEL static void relu_halves(const uint16_t *x, uint16_t *y, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] = (uint16_t)(x[i] - 0x8001) < 0x7f80 ? 0 : x[i];
}

/* Computes what relu_back_piece does with slope 0: 0001 to 7F80 are the numbers above 0, and 0
 * times infinity or NaN is NaN. */
CPU_KERNEL static void relu_back_halves(const uint16_t *x, const uint16_t *dy, uint16_t *dx,
                                        size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        uint16_t off = (dy[i] & 0x7f80) == 0x7f80 ? 0x7fc0 : 0;
        dx[i] = (uint16_t)(x[i] - 1) < 0x7f80 ? dy[i] : off;
    }
}

void cpu_relu_span(bool half, const void *x, float slope, void *y, size_t at, size_t n)
{
    float from[CPU_PIECE], to[CPU_PIECE];

    if (half && slope == 0) {
        relu_halves((const uint16_t *)x + at, (uint16_t *)y + at, n);
        return;
    }
    for (size_t i = 0; i < n; i += CPU_PIECE) {
        size_t some = cpu_piece(n, i);
        cpu_relu_piece(piece_load(x, at + i, some, half, from), slope,
                       piece_open(y, at + i, half, to), some);
        piece_store(to, y, at + i, some, half);
    }
}

void cpu_relu_back_span(bool half, const void *x, const void *dy, float slope, void *dx, size_t at,
                        size_t n)
{
    float from[CPU_PIECE], grad[CPU_PIECE], to[CPU_PIECE];

    if (half && slope == 0) {
        relu_back_halves((const uint16_t *)x + at, (const uint16_t *)dy + at, (uint16_t *)dx + at,
                         n);
        return;
    }
    for (size_t i = 0; i < n; i += CPU_PIECE) {
        size_t some = cpu_piece(n, i);
        relu_back_piece(piece_load(x, at + i, some, half, from),
                        piece_load(dy, at + i, some, half, grad), slope,
                        piece_open(dx, at + i, half, to), some);
        piece_store(to, dx, at + i, some, half);
    }
}

void cpu_relu_run(bool half, const void *x, float slope, void *y, size_t n)
{
#pragma omp parallel for if (n > 8 * CPU_PIECE)
    for (size_t i = 0; i < n; i += CPU_PIECE)
        cpu_relu_span(half, x, slope, y, i, cpu_piece(n, i));
}

void cpu_relu_back_run(bool half, const void *x, const void *dy, float slope, void *dx, size_t n)
{
#pragma omp parallel for if (n > 8 * CPU_PIECE)
    for (size_t i = 0; i < n; i += CPU_PIECE)
        cpu_relu_back_span(half, x, dy, slope, dx, i, cpu_piece(n, i));
}

/* Runs a ReLU; in place, x is the output. */
static int relu_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct tensor *top = &op->args.tops[0]->value;
    float slope = op->args.u.relu.negative_slope;
    size_t n = cpu_tensor_stored(top);

    if (back)
        cpu_relu_back_run(cpu_tensor_half(top), cpu_op_x(op, 0), from, slope, to, n);
    else
        cpu_relu_run(cpu_tensor_half(top), from, slope, to, n);
    return 0;
}

const struct cpu_kind cpu_relu = {.blobs = CPU_AS_BOTTOM, .halves = true, .run = relu_run};

/* State of dropout, which keeps element e of a sample if draw e of the sample's own sequence is >=
 * ratio. e counts in plain row-major order, so that the mask does not depend on format, rank or
 * batch. The mask has one bit for each element. */
struct dropout {
    struct cpu_op op;
    const struct cpu_format *format;
    struct cpu_planes planes;
    int64_t samples, channels, sample_elems, words; /* words: 32-bit words of the mask per sample */
    uint32_t *mask;
};

static int dropout_create(struct cpu_op *op)
{
    struct dropout *drop = (struct dropout *)op;
    const struct tensor *bottom = &op->args.bottoms[0]->value;

    if (!op->args.train) {
        if (!cpu_op_in_place(op))
            cpu_top_alias(op->args.tops[0], op->args.bottoms[0], false);
        return 0;
    }
    drop->format = cpu_tensor_format(bottom);
    if (!cpu_op_in_place(op))
        cpu_top_set(op->args.tops[0], drop->format);
    drop->samples = shape_dim(&bottom->shape, 0);
    drop->sample_elems = (int64_t)shape_elems(&bottom->shape) / drop->samples;
    drop->words = (drop->sample_elems + 31) / 32;
    drop->channels = shape_dim(&bottom->shape, 1);
    drop->planes = cpu_planes_of(&bottom->shape, drop->format);
    drop->mask = cpu_op_alloc(op, (size_t)(drop->samples * drop->words) * sizeof *drop->mask,
                              "a dropout mask");
    return drop->mask ? 0 : -1;
}

enum { MASK_PIECE = 64 }; /* words that a thread draws at a time */

/* Draws n words of a sample's mask, from word `first` on. A word takes eight blocks of the
 * sequence, computed side by side with the values of rng_block. A bit is set where the draw is >=
 * ratio: where the draw's upper 24 bits are >= `least`. */
CPU_KERNEL static void dropout_mask_words(const struct rng *rng, uint32_t first, int64_t n,
                                          uint32_t least, uint32_t *mask)
{
    for (int64_t w = 0; w < n; w++) {
        uint32_t draws[4][RNG_BLOCKS], bits = 0;
        rng_blocks(rng, (first + (uint32_t)w) * RNG_BLOCKS, draws);
#pragma omp simd reduction(| : bits)
        for (int i = 0; i < RNG_BLOCKS; i++) {
            uint32_t kept = (uint32_t)(draws[0][i] >> 8 >= least) |
                            (uint32_t)(draws[1][i] >> 8 >= least) << 1 |
                            (uint32_t)(draws[2][i] >> 8 >= least) << 2 |
                            (uint32_t)(draws[3][i] >> 8 >= least) << 3;
            bits |= kept << 4 * i;
        }
        mask[w] = bits;
    }
}

static void dropout_mask_draw(const struct dropout *drop, const struct pass *pass)
{
    const uint32_t layer = (uint32_t)drop->op.args.layer_index;
    const uint32_t least = (uint32_t)ceil((double)drop->op.args.u.dropout.ratio * 0x1p24);

#pragma omp parallel for collapse(2)
    for (int64_t s = 0; s < drop->samples; s++)
        for (int64_t w = 0; w < drop->words; w += MASK_PIECE) {
            int64_t n = drop->words - w < MASK_PIECE ? drop->words - w : MASK_PIECE;
            struct rng rng =
                rng_make(pass->seed, RNG_DROPOUT, layer, pass->first_sample + (uint64_t)s);
            dropout_mask_words(&rng, (uint32_t)w, n, least, drop->mask + s * drop->words + w);
        }
}

/* Applies up to 32 bits of the mask. x and y may be the same array. */
CPU_KERNEL static void dropout_mask_apply(uint32_t bits, float scale, const float *x, float *y,
                                          int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float factor = (bits >> i) & 1 ? scale : 0;
        y[i] = factor * x[i];
    }
}

static void dropout_apply_plain(const struct dropout *drop, float scale, const float *x, float *y)
{
#pragma omp parallel for collapse(2)
    for (int64_t s = 0; s < drop->samples; s++) {
        for (int64_t w = 0; w < drop->words; w++) {
            int64_t left = drop->sample_elems - w * 32, at = s * drop->sample_elems + w * 32;
            dropout_mask_apply(drop->mask[s * drop->words + w], scale, x + at, y + at,
                               left < 32 ? left : 32);
        }
    }
}

/* Applies the mask to one channel of a plane; e: the mask's bit of its first element. */
static void dropout_apply_channel(const uint32_t *mask, int64_t e, int64_t pixels, int64_t block,
                                  float scale, bool half, const void *x, void *y)
{
    const float factors[] = {0, scale};

    for (int64_t i = 0; i < pixels; i++, e++)
        element_put(y, i * block, half,
                    factors[mask[e / 32] >> (e % 32) & 1] * element_at(x, i * block, half));
}

static void dropout_apply_planes(const struct dropout *drop, float scale, const float *x, float *y)
{
    const struct cpu_planes *p = &drop->planes;
    const bool half = drop->format->half;
    int64_t pixels = p->pixels;

#pragma omp parallel for
    for (int64_t plane = 0; plane < p->planes; plane++) {
        const uint32_t *mask = drop->mask + plane / p->groups * drop->words;
        int64_t first = plane % p->groups * p->block, at = plane * pixels * p->block;
        for (int64_t b = 0; b < p->block; b++) {
            if (first + b < drop->channels)
                dropout_apply_channel(mask, (first + b) * pixels, pixels, p->block, scale, half,
                                      element_place(x, at + b, half),
                                      element_room(y, at + b, half));
            else
                for (int64_t i = 0; i < pixels; i++)
                    element_put(y, at + b + i * p->block, half, 0);
        }
    }
}

static int dropout_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    struct dropout *drop = (struct dropout *)op;
    float scale = 1 / (1 - op->args.u.dropout.ratio);

    if (!op->args.train)
        return 0;
    if (!back)
        dropout_mask_draw(drop, op->pass);
    if (drop->format)
        dropout_apply_planes(drop, scale, from, to);
    else
        dropout_apply_plain(drop, scale, from, to);
    return 0;
}

const struct cpu_kind cpu_dropout = {
    .size = sizeof(struct dropout),
    .create = dropout_create,
    .run = dropout_run,
};
