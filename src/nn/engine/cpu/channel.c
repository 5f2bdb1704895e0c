/* Loops over channels. A kernel takes one chunk, `n` pixels of `block` lanes, and works on some
 * lanes of some pixels at a time, with coefficients and sums in registers.
 *
 * A chunk is short and summed in float. Chunks are added in double in a fixed order, so that
 * results have the same bits at any number of threads. */
#include "engine/cpu/channel.h"
#include "engine/cpu/element.h"

#include <string.h>

enum {
    CHUNK = 4096, /* elements of a chunk, few enough to stay in the cache for a second reading */
    LEAST_PIXELS = 16, /* least pixels of a chunk: each chunk reads the coefficients */
    PARTIALS = 3,      /* most results of one chunk */
    LANES = 16,        /* most lanes computed side by side */
    ROWS = 4,          /* pixels computed together where a pixel has several lanes */
};

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
    c->chunk = cpu_greatest(CHUNK / block, LEAST_PIXELS);
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
        out->half = format->half;
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

int64_t cpu_channels_coefficient(const struct cpu_channels *c, int64_t slot)
{
    int64_t column = slot % c->padded_row;

    if (column >= c->row)
        return -1;
    return c->coefficients == 1 ? 0 : slot / c->padded_row * c->row + column;
}

void cpu_channels_spread(const struct cpu_channels *c, const float *from, float *slots)
{
    for (int64_t s = 0; s < c->slots; s++) {
        int64_t i = cpu_channels_coefficient(c, s);
        slots[s] = i < 0 ? 0 : from[i];
    }
}

void cpu_channels_gather(const struct cpu_channels *c, const double *slots, double *to)
{
    for (int64_t i = 0; i < c->coefficients; i++)
        to[i] = 0;
    for (int64_t s = 0; s < c->slots; s++) {
        int64_t i = cpu_channels_coefficient(c, s);
        if (i >= 0)
            to[i] += slots[s];
    }
}

/* ---- one chunk ---- */

struct chunk {
    struct cpu_channel_data data; /* pointers at the chunk's first pixel and first slot */
    float *sum, *product;         /* `block` results each */
    int64_t n, block;
    bool half;
};

/* The coefficients of a lane. */
struct factors {
    float shift, a, b, d, keep;
};

static const float zeros[LANES];

/* Returns the coefficients from lane `first` on; zeros for NULL. */
INLINE const float *factor_at(const float *from, int64_t first)
{
    return from ? from + first : zeros;
}

/* Returns the gradient behind a ReLU: dy where the ReLU's input was positive, else 0 * dy, as
 * neuron.c does. The condition repeats forward's expression. */
INLINE float behind_relu(const struct factors *f, float x, float dy)
{
    float factor = (x - f->shift) * f->a + f->keep > 0 ? 1 : 0;

    return factor * dy;
}

/* Adds the terms of one element. */
INLINE void element_add(const struct factors *f, enum cpu_channel_work work, bool relu, float x,
                        float dy, float *sum, float *product)
{
    float away = x - f->shift;
    float d = work == CHANNEL_SUM_AWAY ? away : relu ? behind_relu(f, x, dy) : dy;

    *sum += d;
    *product += work == CHANNEL_SUM_X || (work == CHANNEL_SUM_NEGATIVE && x > 0) ? 0 : d * away;
}

INLINE float element_map(const struct factors *f, enum cpu_channel_work work, bool relu, float x,
                         float dy)
{
    float away = x - f->shift, affine = away * f->a + f->b;
    float d = relu ? behind_relu(f, x, dy) : dy;

    return work == CHANNEL_MAP_SLOPE     ? (x > 0 ? dy : f->a * dy)
           : work == CHANNEL_MAP_COMBINE ? d * f->a + (away * f->b + f->d)
           : relu && affine < 0          ? 0
                                         : affine;
}

/* How a chunk is worked on; all constants. */
struct mode {
    enum cpu_channel_work work;
    bool relu, half;
};

/* Works on `rows` pixels from `pixel` on and `lanes` lanes from `first` on; usual values of rows
 * and lanes are constants. */
INLINE void lanes_run(const struct chunk *c, struct mode m, int64_t pixel, int64_t rows,
                      int64_t first, int64_t lanes)
{
    const int64_t block = c->block, at = pixel * block + first;
    const void *x = element_place(c->data.x, at, m.half);
    const void *dy = c->data.dy ? element_place(c->data.dy, at, m.half) : x;
    const float *shift = factor_at(c->data.shift, first), *a = factor_at(c->data.a, first);
    const float *b = factor_at(c->data.b, first), *d = factor_at(c->data.d, first);
    const float *keep = factor_at(c->data.keep, first);
    void *y = element_room(c->data.y, at, m.half);
    float *sum = NULL, *product = NULL;

    if (m.work < CHANNEL_MAP_AFFINE)
        sum = c->sum + first, product = c->product + first;
#pragma omp simd
    for (int64_t l = 0; l < lanes; l++) {
        const struct factors f = {shift[l], a[l], b[l], d[l], keep[l]};
        float s = sum ? sum[l] : 0, p = sum ? product[l] : 0;
#pragma GCC unroll 8
        for (int64_t i = 0; i < rows; i++) {
            float value = element_at(x, i * block + l, m.half);
            float grad = element_at(dy, i * block + l, m.half);
            if (m.work < CHANNEL_MAP_AFFINE)
                element_add(&f, m.work, m.relu, value, grad, &s, &p);
            else
                element_put(y, i * block + l, m.half, element_map(&f, m.work, m.relu, value, grad));
        }
        if (m.work < CHANNEL_MAP_AFFINE)
            sum[l] = s, product[l] = p;
    }
}

/* Works on a plane of one lane. */
INLINE void plane_run(const struct chunk *c, struct mode m)
{
    const void *x = c->data.x, *dy = c->data.dy ? c->data.dy : x;
    float sum = 0, product = 0;
    const struct factors f = {*factor_at(c->data.shift, 0), *factor_at(c->data.a, 0),
                              *factor_at(c->data.b, 0), *factor_at(c->data.d, 0),
                              *factor_at(c->data.keep, 0)};

    if (m.work >= CHANNEL_MAP_AFFINE) {
#pragma omp simd
        for (int64_t i = 0; i < c->n; i++)
            element_put(c->data.y, i, m.half,
                        element_map(&f, m.work, m.relu, element_at(x, i, m.half),
                                    element_at(dy, i, m.half)));
        return;
    }
#pragma omp simd reduction(+ : sum, product)
    for (int64_t i = 0; i < c->n; i++)
        element_add(&f, m.work, m.relu, element_at(x, i, m.half), element_at(dy, i, m.half), &sum,
                    &product);
    *c->sum = sum;
    *c->product = product;
}

/* Works on all lanes of some pixels. */
INLINE void rows_run(const struct chunk *c, struct mode m, int64_t pixel, int64_t rows)
{
    int64_t at = 0;

    for (; c->block - at >= LANES; at += LANES)
        lanes_run(c, m, pixel, rows, at, LANES);
    if (c->block - at == LANES / 2)
        lanes_run(c, m, pixel, rows, at, LANES / 2);
    else if (at < c->block)
        lanes_run(c, m, pixel, rows, at, c->block - at);
}

/* Works on a chunk in the order of pixels in memory, whatever the number of lanes. */
INLINE void block_run(const struct chunk *c, struct mode m)
{
    int64_t i = 0;

    if (c->block == 1) {
        plane_run(c, m);
        return;
    }
    for (int64_t l = 0; m.work < CHANNEL_MAP_AFFINE && l < c->block; l++)
        c->sum[l] = c->product[l] = 0;
    for (; c->n - i >= ROWS; i += ROWS)
        rows_run(c, m, i, ROWS);
    for (; i < c->n; i++)
        rows_run(c, m, i, 1);
}

#define CASE(work)                                                                                 \
    case work:                                                                                     \
        if (c->data.relu && c->half)                                                               \
            block_run(c, (struct mode){work, true, true});                                         \
        else if (c->data.relu)                                                                     \
            block_run(c, (struct mode){work, true, false});                                        \
        else if (c->half)                                                                          \
            block_run(c, (struct mode){work, false, true});                                        \
        else                                                                                       \
            block_run(c, (struct mode){work, false, false});                                       \
        break

CPU_KERNEL static void chunk_run(const struct chunk *c, enum cpu_channel_work work)
{
    switch (work) {
        CASE(CHANNEL_SUM_X);
        CASE(CHANNEL_SUM_AWAY);
        CASE(CHANNEL_SUM_GRADIENT);
        CASE(CHANNEL_SUM_NEGATIVE);
        CASE(CHANNEL_MAP_AFFINE);
        CASE(CHANNEL_MAP_COMBINE);
        CASE(CHANNEL_MAP_SLOPE);
    }
}

/* ---- all chunks ---- */

static const float *floats_at(const float *from, int64_t at)
{
    return from ? from + at : NULL;
}

static int64_t chunk_pixels(const struct cpu_channels *c, int64_t task)
{
    return cpu_least(c->pixels - task % c->chunks * c->chunk, c->chunk);
}

/* Returns a task's chunk of the data; coefficients are per slot. */
static struct chunk chunk_of(const struct cpu_channels *c, const struct cpu_channel_data *data,
                             int64_t task)
{
    int64_t plane = task / c->chunks, slot = plane % c->groups * c->block;
    int64_t at = (plane * c->pixels + task % c->chunks * c->chunk) * c->block;

    return (struct chunk){.data = {.x = element_place(data->x, at, c->half),
                                   .dy = element_place(data->dy, at, c->half),
                                   .y = element_room(data->y, at, c->half),
                                   .shift = floats_at(data->shift, slot),
                                   .a = floats_at(data->a, slot),
                                   .b = floats_at(data->b, slot),
                                   .d = floats_at(data->d, slot),
                                   .keep = floats_at(data->keep, slot),
                                   .relu = data->relu},
                          .n = chunk_pixels(c, task),
                          .block = c->block,
                          .half = c->half};
}

void cpu_channels_map(const struct cpu_channels *c, enum cpu_channel_work work,
                      const struct cpu_channel_data *data)
{
#pragma omp parallel for
    for (int64_t t = 0; t < channel_tasks(c); t++) {
        struct chunk chunk = chunk_of(c, data, t);
        chunk_run(&chunk, work);
    }
}

/* Returns a task's partial results, in the scratchpad. */
static float *channel_partial(struct cpu_engine *engine, const struct cpu_channels *c, int64_t task)
{
    return engine->work[WORK_SCRATCHPAD].data + PARTIALS * task * c->block;
}

/* Slots of one block, whose partial results are contiguous. */
struct strip {
    int64_t first, n, lane; /* lane: of slot `first` in its block */
};

static int64_t channel_strips(const struct cpu_channels *c)
{
    return c->groups * ((c->block + LANES - 1) / LANES);
}

static struct strip strip_at(const struct cpu_channels *c, int64_t number)
{
    int64_t strips = channel_strips(c) / c->groups, block = number / strips;
    int64_t lane = number % strips * LANES;

    return (struct strip){block * c->block + lane, cpu_least(LANES, c->block - lane), lane};
}

/* Adds up partial result `which` of all tasks, for the strip's slots. */
CPU_KERNEL static void strip_total(struct cpu_engine *engine, const struct cpu_channels *c,
                                   const struct strip *strip, int which, double *total)
{
    int64_t planes = c->samples * c->groups;

    memset(total, 0, (size_t)strip->n * sizeof *total);
    for (int64_t plane = strip->first / c->block; plane < planes; plane += c->groups)
        for (int64_t t = plane * c->chunks; t < (plane + 1) * c->chunks; t++) {
            const float *part = channel_partial(engine, c, t) + which * c->block + strip->lane;
#pragma omp simd
            for (int64_t i = 0; i < strip->n; i++)
                total[i] += (double)part[i];
        }
}

void cpu_channels_sums(struct cpu_engine *engine, const struct cpu_channels *c,
                       enum cpu_channel_work work, const struct cpu_channel_data *data, double *sum,
                       double *product)
{
#pragma omp parallel for
    for (int64_t t = 0; t < channel_tasks(c); t++) {
        struct chunk chunk = chunk_of(c, data, t);
        chunk.sum = channel_partial(engine, c, t);
        chunk.product = chunk.sum + c->block;
        chunk_run(&chunk, work);
    }
#pragma omp parallel for
    for (int64_t s = 0; s < channel_strips(c); s++) {
        const struct strip strip = strip_at(c, s);

        strip_total(engine, c, &strip, 0, sum + strip.first);
        strip_total(engine, c, &strip, 1, product + strip.first);
    }
}

/* Computes rough means, then the sums of the distances from them and of the squared distances: the
 * former correct the means' rounding. */
static void chunk_moments(struct chunk *chunk, float *partial)
{
    chunk->sum = partial;
    chunk->product = partial + chunk->block;
    chunk_run(chunk, CHANNEL_SUM_X);
    for (int64_t l = 0; l < chunk->block; l++)
        partial[l] /= (float)chunk->n;
    chunk->data.shift = partial;
    chunk->sum = partial + chunk->block;
    chunk->product = partial + 2 * chunk->block;
    chunk_run(chunk, CHANNEL_SUM_AWAY);
}

/* Sums all chunks for the strip's slots: the values or, if `mean` is given, the squares of the
 * distances from the mean. */
static void strip_sum(struct cpu_engine *engine, const struct cpu_channels *c,
                      const struct strip *strip, const double *mean, double *sum)
{
    int64_t planes = c->samples * c->groups, block = c->block;

    memset(sum, 0, (size_t)strip->n * sizeof *sum);
    for (int64_t plane = strip->first / block; plane < planes; plane += c->groups)
        for (int64_t t = plane * c->chunks; t < (plane + 1) * c->chunks; t++) {
            const float *partial = channel_partial(engine, c, t) + strip->lane;
            const double n = (double)chunk_pixels(c, t);
#pragma omp simd
            for (int64_t i = 0; i < strip->n; i++) {
                double rest = partial[block + i], chunk_mean = partial[i] + rest / n;
                double away = mean ? chunk_mean - mean[i] : 0;

                sum[i] += mean ? partial[2 * block + i] - rest * rest / n + away * away * n
                               : chunk_mean * n;
            }
        }
}

static void strip_moments(struct cpu_engine *engine, const struct cpu_channels *c,
                          const struct strip *strip, double *mean, double *variance)
{
    double count = (double)c->samples * (double)c->pixels;

    strip_sum(engine, c, strip, NULL, mean);
    for (int64_t i = 0; i < strip->n; i++)
        mean[i] /= count;
    strip_sum(engine, c, strip, mean, variance);
    for (int64_t i = 0; i < strip->n; i++)
        variance[i] = variance[i] > 0   ? variance[i] / count
                      : variance[i] < 0 ? 0
                                        : variance[i]; /* NaN stays */
}

void cpu_channels_moments(struct cpu_engine *engine, const struct cpu_channels *c, const float *x,
                          double *mean, double *variance)
{
    const struct cpu_channel_data data = {.x = x};

#pragma omp parallel for
    for (int64_t t = 0; t < channel_tasks(c); t++) {
        struct chunk chunk = chunk_of(c, &data, t);
        chunk_moments(&chunk, channel_partial(engine, c, t));
    }
#pragma omp parallel for
    for (int64_t s = 0; s < channel_strips(c); s++) {
        const struct strip strip = strip_at(c, s);

        strip_moments(engine, c, &strip, mean + strip.first, variance + strip.first);
    }
}
