/* Loops over channels. Each kernel takes one chunk: `n` pixels of `block` lanes.
 *
 * A chunk is summed in float - it is short - and chunks are added in double in a fixed order, so
 * that results have the same bits at any number of threads. */
#include "engine/cpu/channel.h"

#include <string.h>

#define CHUNK    4096 /* floats, where a plane has that many; read twice, so they should stay near */
#define PARTIALS 3    /* results of one chunk, at most */
static void channel_view_set(struct cpu_channels *c, int64_t samples, int64_t groups,
                             int64_t pixels, int64_t block, int64_t row)
{
    *c = (struct cpu_channels){.samples = samples,
                               .groups = groups,
                               .pixels = pixels,
                               .block = block,
                               .row = row,
                               .padded_row = row,
                               .slots = groups * block,
                               .coefficients = groups * block};
    c->chunk = CHUNK / block > 1 ? CHUNK / block : 1;
    c->chunks = (pixels + c->chunk - 1) / c->chunk;
}

bool cpu_channels_view(const struct shape *shape, const struct cpu_format *format, int axis,
                       int naxes, struct cpu_channels *out)
{
    bool scalar = naxes == 0;

    if (!format) {
        int64_t outer = scalar ? 1 : (int64_t)shape_count(shape, 0, axis);
        int64_t n = scalar ? 1 : (int64_t)shape_count(shape, axis, axis + naxes);
        int64_t inner = (int64_t)shape_elems(shape) / (outer * n);
        if (inner == 1)
            channel_view_set(out, 1, 1, outer, n, n);
        else
            channel_view_set(out, outer, n, inner, 1, n);
    } else {
        struct cpu_planes p = cpu_planes_of(shape, format);
        bool channel = scalar || (axis == 1 && naxes == 1);
        if (!channel && !(axis == 0 && naxes == 2))
            return false;
        channel_view_set(out, channel ? p.planes / p.groups : 1, channel ? p.groups : p.planes,
                         p.pixels, p.block, shape->dim[1]);
        out->padded_row = p.groups * p.block;
        out->coefficients = out->slots / out->padded_row * out->row;
    }
    if (scalar)
        out->coefficients = 1;
    return true;
}

static int64_t channel_tasks(const struct cpu_channels *c)
{
    return c->samples * c->groups * c->chunks;
}

int cpu_channels_reserve(struct cpu_engine *engine, const struct cpu_channels *c)
{
    return cpu_work_reserve(engine, WORK_SCRATCHPAD,
                            (size_t)(PARTIALS * channel_tasks(c) * c->block) * sizeof(float));
}

/* The coefficient of a slot, -1 for padding. */
static int64_t channel_coefficient(const struct cpu_channels *c, int64_t slot)
{
    int64_t column = slot % c->padded_row;

    if (column >= c->row)
        return -1;
    return c->coefficients == 1 ? 0 : slot / c->padded_row * c->row + column;
}

void cpu_channels_spread(const struct cpu_channels *c, const float *from, float *slots)
{
    for (int64_t s = 0; s < c->slots; s++) {
        int64_t i = channel_coefficient(c, s);
        slots[s] = i < 0 ? 0 : from[i];
    }
}

void cpu_channels_gather(const struct cpu_channels *c, const double *slots, double *to)
{
    for (int64_t i = 0; i < c->coefficients; i++)
        to[i] = 0;
    for (int64_t s = 0; s < c->slots; s++) {
        int64_t i = channel_coefficient(c, s);
        if (i >= 0)
            to[i] += slots[s];
    }
}

/* Where a task's chunk lies. */
struct piece {
    int64_t slot, at, n;
};

static struct piece channel_piece(const struct cpu_channels *c, int64_t task)
{
    int64_t plane = task / c->chunks, first = task % c->chunks * c->chunk;
    int64_t left = c->pixels - first;

    return (struct piece){.slot = plane % c->groups * c->block,
                          .at = (plane * c->pixels + first) * c->block,
                          .n = left < c->chunk ? left : c->chunk};
}

/* Rough means, and the sums of what is left and of its square: rounding of the means is made good.
 */
INLINE void lanes_moments(const float *x, int64_t n, int64_t block, float *mean, float *rest,
                          float *square)
{
    for (int64_t l = 0; l < block; l++)
        mean[l] = rest[l] = square[l] = 0;
    for (int64_t i = 0; i < n; i++) {
#pragma omp simd
        for (int64_t l = 0; l < block; l++)
            mean[l] += x[i * block + l];
    }
    for (int64_t l = 0; l < block; l++)
        mean[l] /= (float)n;
    for (int64_t i = 0; i < n; i++) {
#pragma omp simd
        for (int64_t l = 0; l < block; l++) {
            float d = x[i * block + l] - mean[l];
            rest[l] += d;
            square[l] += d * d;
        }
    }
}

/* A fixed number of lanes: their sums stay in registers. */
INLINE void fixed_moments(const float *x, int64_t n, int64_t block, float *partial)
{
    float m[16], r[16], s[16];

    lanes_moments(x, n, block, m, r, s);
    memcpy(partial, m, (size_t)block * sizeof *m);
    memcpy(partial + block, r, (size_t)block * sizeof *r);
    memcpy(partial + 2 * block, s, (size_t)block * sizeof *s);
}

INLINE void plain_moments(const float *x, int64_t n, float *partial)
{
    float sum = 0, rest = 0, square = 0, mean;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    mean = sum / (float)n;
#pragma omp simd reduction(+ : rest, square)
    for (int64_t i = 0; i < n; i++) {
        rest += x[i] - mean;
        square += (x[i] - mean) * (x[i] - mean);
    }
    partial[0] = mean;
    partial[1] = rest;
    partial[2] = square;
}

CPU_KERNEL static void chunk_moments(const float *x, int64_t n, int64_t block, float *partial)
{
    if (block == 8)
        fixed_moments(x, n, 8, partial);
    else if (block == 16)
        fixed_moments(x, n, 16, partial);
    else if (block == 1)
        plain_moments(x, n, partial);
    else
        lanes_moments(x, n, block, partial, partial + block, partial + 2 * block);
}

/* What is applied to each element; arrays per lane. keep: see cpu_channels_combine. */
struct factors {
    const float *shift, *a, *b, *d, *keep;
};

static const float *lanes_at(const float *lanes, int64_t slot)
{
    return lanes ? lanes + slot : NULL;
}

static struct factors factors_at(struct factors f, int64_t slot)
{
    return (struct factors){f.shift + slot, lanes_at(f.a, slot), lanes_at(f.b, slot),
                            lanes_at(f.d, slot), lanes_at(f.keep, slot)};
}

/* Those of a fixed number of lanes, copied: the compiler then keeps them in registers. */
struct own_factors {
    float shift[16], a[16], b[16], d[16], keep[16];
};

INLINE const float *lanes_copy(float *own, const float *lanes, int64_t block)
{
    return lanes ? memcpy(own, lanes, (size_t)block * sizeof *own) : NULL;
}

INLINE struct factors factors_copy(struct own_factors *own, struct factors f, int64_t block)
{
    return (struct factors){lanes_copy(own->shift, f.shift, block), lanes_copy(own->a, f.a, block),
                            lanes_copy(own->b, f.b, block), lanes_copy(own->d, f.d, block),
                            lanes_copy(own->keep, f.keep, block)};
}

/* The gradient behind a ReLU: dy where what forward gave it was positive. The same expression as
 * forward's, and ReLU's own product. */
INLINE float behind_relu(float x, float shift, float a, float keep, float dy)
{
    float factor = (x - shift) * a + keep > 0 ? 1 : 0;

    return factor * dy;
}

INLINE void lanes_sums(const float *x, const float *dy, struct factors f, int64_t n, int64_t block,
                       bool relu, float *sum, float *product)
{
    for (int64_t l = 0; l < block; l++)
        sum[l] = product[l] = 0;
    for (int64_t i = 0; i < n; i++) {
        const float *from = x + i * block, *grad = dy + i * block;
#pragma omp simd
        for (int64_t l = 0; l < block; l++) {
            float d = relu ? behind_relu(from[l], f.shift[l], f.a[l], f.keep[l], grad[l]) : grad[l];
            sum[l] += d;
            product[l] += d * (from[l] - f.shift[l]);
        }
    }
}

INLINE void fixed_sums(const float *x, const float *dy, struct factors f, int64_t n, int64_t block,
                       bool relu, float *sum, float *product)
{
    struct own_factors own;
    float s[16], p[16];

    lanes_sums(x, dy, factors_copy(&own, f, block), n, block, relu, s, p);
    memcpy(sum, s, (size_t)block * sizeof *sum);
    memcpy(product, p, (size_t)block * sizeof *product);
}

INLINE void plain_sums(const float *x, const float *dy, struct factors f, int64_t n, bool relu,
                       float *sum, float *product)
{
    float s = 0, p = 0, from = *f.shift, a = relu ? *f.a : 0, keep = relu ? *f.keep : 0;

#pragma omp simd reduction(+ : s, p)
    for (int64_t i = 0; i < n; i++) {
        float d = relu ? behind_relu(x[i], from, a, keep, dy[i]) : dy[i];
        s += d;
        p += d * (x[i] - from);
    }
    *sum = s;
    *product = p;
}

INLINE void any_sums(const float *x, const float *dy, struct factors f, int64_t n, int64_t block,
                     bool relu, float *sum, float *product)
{
    if (block == 8)
        fixed_sums(x, dy, f, n, 8, relu, sum, product);
    else if (block == 16)
        fixed_sums(x, dy, f, n, 16, relu, sum, product);
    else if (block == 1)
        plain_sums(x, dy, f, n, relu, sum, product);
    else
        lanes_sums(x, dy, f, n, block, relu, sum, product);
}

CPU_KERNEL static void chunk_sums(const float *x, const float *dy, struct factors f, int64_t n,
                                  int64_t block, float *sum, float *product)
{
    if (f.keep)
        any_sums(x, dy, f, n, block, true, sum, product);
    else
        any_sums(x, dy, f, n, block, false, sum, product);
}

CPU_KERNEL static void chunk_negative_sums(const float *x, const float *dy, int64_t n,
                                           int64_t block, float *product)
{
    for (int64_t l = 0; l < block; l++)
        product[l] = 0;
    if (block == 1) {
        float p = 0;
#pragma omp simd reduction(+ : p)
        for (int64_t i = 0; i < n; i++)
            p += x[i] > 0 ? 0 : dy[i] * x[i];
        *product = p;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
#pragma omp simd
        for (int64_t l = 0; l < block; l++)
            product[l] += x[i * block + l] > 0 ? 0 : dy[i * block + l] * x[i * block + l];
    }
}

/* The partial results of a task lie in the work memory. */
static float *channel_partial(struct cpu_engine *engine, const struct cpu_channels *c, int64_t task)
{
    return engine->work[WORK_SCRATCHPAD].data + PARTIALS * task * c->block;
}

/* Mean of a task's chunk, and the sum of squares about it. */
static double chunk_mean(struct cpu_engine *engine, const struct cpu_channels *c, int64_t task,
                         int64_t lane, double *square)
{
    const float *partial = channel_partial(engine, c, task) + lane;
    double n = (double)channel_piece(c, task).n, rest = partial[c->block];

    *square = partial[2 * c->block] - rest * rest / n;
    return partial[0] + rest / n;
}

static void slot_moments(struct cpu_engine *engine, const struct cpu_channels *c, int64_t slot,
                         double *mean, double *variance)
{
    int64_t planes = c->samples * c->groups, lane = slot % c->block;
    double count = (double)c->samples * (double)c->pixels, sum = 0, squares = 0, square;

    for (int64_t plane = slot / c->block; plane < planes; plane += c->groups)
        for (int64_t t = plane * c->chunks; t < (plane + 1) * c->chunks; t++)
            sum += chunk_mean(engine, c, t, lane, &square) * (double)channel_piece(c, t).n;
    *mean = sum / count;
    for (int64_t plane = slot / c->block; plane < planes; plane += c->groups)
        for (int64_t t = plane * c->chunks; t < (plane + 1) * c->chunks; t++) {
            double away = chunk_mean(engine, c, t, lane, &square) - *mean;
            squares += square + away * away * (double)channel_piece(c, t).n;
        }
    *variance = squares > 0 ? squares / count : squares < 0 ? 0 : squares;
}

void cpu_channels_moments(struct cpu_engine *engine, const struct cpu_channels *c, const float *x,
                          double *mean, double *variance)
{
#pragma omp parallel for
    for (int64_t t = 0; t < channel_tasks(c); t++) {
        struct piece p = channel_piece(c, t);
        chunk_moments(x + p.at, p.n, c->block, channel_partial(engine, c, t));
    }
#pragma omp parallel for
    for (int64_t s = 0; s < c->slots; s++)
        slot_moments(engine, c, s, &mean[s], &variance[s]);
}

/* Adds up partial number `which` of all tasks of a slot. */
static double slot_total(struct cpu_engine *engine, const struct cpu_channels *c, int64_t slot,
                         int which)
{
    int64_t at = which * c->block + slot % c->block, planes = c->samples * c->groups;
    double total = 0;

    for (int64_t plane = slot / c->block; plane < planes; plane += c->groups)
        for (int64_t t = plane * c->chunks; t < (plane + 1) * c->chunks; t++)
            total += channel_partial(engine, c, t)[at];
    return total;
}

void cpu_channels_sums(struct cpu_engine *engine, const struct cpu_channels *c, const float *x,
                       const float *dy, const float *shift, const float *a, const float *keep,
                       double *sum, double *product)
{
    struct factors f = {.shift = shift, .a = a, .keep = keep};

#pragma omp parallel for
    for (int64_t t = 0; t < channel_tasks(c); t++) {
        struct piece p = channel_piece(c, t);
        float *partial = channel_partial(engine, c, t);
        chunk_sums(x + p.at, dy + p.at, factors_at(f, p.slot), p.n, c->block, partial,
                   partial + c->block);
    }
#pragma omp parallel for
    for (int64_t s = 0; s < c->slots; s++) {
        sum[s] = slot_total(engine, c, s, 0);
        product[s] = slot_total(engine, c, s, 1);
    }
}

void cpu_channels_negative_sums(struct cpu_engine *engine, const struct cpu_channels *c,
                                const float *x, const float *dy, double *product)
{
#pragma omp parallel for
    for (int64_t t = 0; t < channel_tasks(c); t++) {
        struct piece p = channel_piece(c, t);
        chunk_negative_sums(x + p.at, dy + p.at, p.n, c->block, channel_partial(engine, c, t));
    }
#pragma omp parallel for
    for (int64_t s = 0; s < c->slots; s++)
        product[s] = slot_total(engine, c, s, 0);
}

INLINE void lanes_affine(const float *x, struct factors f, float *y, int64_t n, int64_t block,
                         bool relu)
{
    for (int64_t i = 0; i < n; i++) {
        const float *from = x + i * block;
        float *to = y + i * block;
#pragma omp simd
        for (int64_t l = 0; l < block; l++) {
            float value = (from[l] - f.shift[l]) * f.a[l] + f.b[l];
            to[l] = relu && value < 0 ? 0 : value;
        }
    }
}

INLINE void any_affine(const float *x, struct factors f, float *y, int64_t n, int64_t block,
                       bool relu)
{
    struct own_factors own;

    if (block == 8) {
        lanes_affine(x, factors_copy(&own, f, 8), y, n, 8, relu);
    } else if (block == 16) {
        lanes_affine(x, factors_copy(&own, f, 16), y, n, 16, relu);
    } else if (block == 1) {
        float shift = *f.shift, a = *f.a, b = *f.b;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float value = (x[i] - shift) * a + b;
            y[i] = relu && value < 0 ? 0 : value;
        }
    } else {
        lanes_affine(x, f, y, n, block, relu);
    }
}

CPU_KERNEL static void chunk_affine(const float *x, struct factors f, float *y, int64_t n,
                                    int64_t block, bool relu)
{
    if (relu)
        any_affine(x, f, y, n, block, true);
    else
        any_affine(x, f, y, n, block, false);
}

void cpu_channels_affine(const struct cpu_channels *c, const float *x, const float *shift,
                         const float *a, const float *b, bool relu, float *y)
{
    struct factors f = {.shift = shift, .a = a, .b = b};

#pragma omp parallel for
    for (int64_t t = 0; t < channel_tasks(c); t++) {
        struct piece p = channel_piece(c, t);
        chunk_affine(x + p.at, factors_at(f, p.slot), y + p.at, p.n, c->block, relu);
    }
}

INLINE void lanes_combine(const float *dy, const float *x, struct factors f, float *dx, int64_t n,
                          int64_t block, bool relu)
{
    for (int64_t i = 0; i < n; i++) {
        const float *from = x + i * block, *grad = dy + i * block;
        float *to = dx + i * block;
#pragma omp simd
        for (int64_t l = 0; l < block; l++) {
            float d = relu ? behind_relu(from[l], f.shift[l], f.a[l], f.keep[l], grad[l]) : grad[l];
            to[l] = d * f.a[l] + ((from[l] - f.shift[l]) * f.b[l] + f.d[l]);
        }
    }
}

INLINE void any_combine(const float *dy, const float *x, struct factors f, float *dx, int64_t n,
                        int64_t block, bool relu)
{
    struct own_factors own;

    if (block == 8) {
        lanes_combine(dy, x, factors_copy(&own, f, 8), dx, n, 8, relu);
    } else if (block == 16) {
        lanes_combine(dy, x, factors_copy(&own, f, 16), dx, n, 16, relu);
    } else if (block == 1) {
        float shift = *f.shift, a = *f.a, b = *f.b, d = *f.d, keep = relu ? *f.keep : 0;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dx[i] = (relu ? behind_relu(x[i], shift, a, keep, dy[i]) : dy[i]) * a +
                    ((x[i] - shift) * b + d);
    } else {
        lanes_combine(dy, x, f, dx, n, block, relu);
    }
}

CPU_KERNEL static void chunk_combine(const float *dy, const float *x, struct factors f, float *dx,
                                     int64_t n, int64_t block)
{
    if (f.keep)
        any_combine(dy, x, f, dx, n, block, true);
    else
        any_combine(dy, x, f, dx, n, block, false);
}

void cpu_channels_combine(const struct cpu_channels *c, const float *dy, const float *x,
                          const float *shift, const float *a, const float *b, const float *d,
                          const float *keep, float *dx)
{
    struct factors f = {shift, a, b, d, keep};

#pragma omp parallel for
    for (int64_t t = 0; t < channel_tasks(c); t++) {
        struct piece p = channel_piece(c, t);
        chunk_combine(dy + p.at, x + p.at, factors_at(f, p.slot), dx + p.at, p.n, c->block);
    }
}

CPU_KERNEL static void chunk_slope(const float *x, const float *from, const float *a, float *y,
                                   int64_t n, int64_t block)
{
    if (block == 1) {
        float slope = *a;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] > 0 ? from[i] : slope * from[i];
        return;
    }
    for (int64_t i = 0; i < n; i++) {
#pragma omp simd
        for (int64_t l = 0; l < block; l++)
            y[i * block + l] =
                x[i * block + l] > 0 ? from[i * block + l] : a[l] * from[i * block + l];
    }
}

void cpu_channels_slope(const struct cpu_channels *c, const float *x, const float *from,
                        const float *a, float *y)
{
#pragma omp parallel for
    for (int64_t t = 0; t < channel_tasks(c); t++) {
        struct piece p = channel_piece(c, t);
        chunk_slope(x + p.at, from + p.at, a + p.slot, y + p.at, p.n, c->block);
    }
}
