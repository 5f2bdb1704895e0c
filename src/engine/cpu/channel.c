/* Loops over channels. Each kernel takes one chunk, `n` pixels of `block` lanes, and of that some
 * lanes at a time, whose coefficients and sums are in registers.
 *
 * A chunk is summed in float - it is short - and chunks are added in double in a fixed order, so
 * that results have the same bits at any number of threads. */
#include "engine/cpu/channel.h"

enum {
    CHUNK = 4096, /* floats, where a plane has that many; read twice, so they should stay near */
    LEAST_PIXELS = 16, /* of a chunk: coefficients are read for each */
    PARTIALS = 3,      /* results of one chunk, at most */
    LANES = 16,        /* taken side by side, at most */
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
    struct cpu_channel_data data; /* from the chunk's first pixel, and from its first slot on */
    float *sum, *product;         /* `block` of each */
    int64_t n, block;
};

/* The coefficients of some lanes; of one, where a plane is one lane. */
struct factors {
    float shift[LANES], a[LANES], b[LANES], d[LANES], keep[LANES];
};

INLINE void factor_load(const float *from, int64_t first, int64_t lanes, float *to)
{
    for (int64_t l = 0; l < lanes; l++)
        to[l] = from ? from[first + l] : 0;
}

INLINE void factors_load(const struct cpu_channel_data *data, int64_t first, int64_t lanes,
                         struct factors *f)
{
    factor_load(data->shift, first, lanes, f->shift);
    factor_load(data->a, first, lanes, f->a);
    factor_load(data->b, first, lanes, f->b);
    factor_load(data->d, first, lanes, f->d);
    factor_load(data->keep, first, lanes, f->keep);
}

/* The gradient behind a ReLU: dy where what forward gave it was positive. The same expression as
 * forward's, and ReLU's own product. */
INLINE float behind_relu(const struct factors *f, int64_t l, float x, float dy)
{
    float factor = (x - f->shift[l]) * f->a[l] + f->keep[l] > 0 ? 1 : 0;

    return factor * dy;
}

/* Adds what an element of lane l gives. */
INLINE void element_add(const struct factors *f, int64_t l, enum cpu_channel_work work, bool relu,
                        float x, float dy, float *sum, float *product)
{
    float away = x - f->shift[l];
    float d = work == CHANNEL_SUM_AWAY ? away : relu ? behind_relu(f, l, x, dy) : dy;

    *sum += d;
    *product += work == CHANNEL_SUM_X || (work == CHANNEL_SUM_NEGATIVE && x > 0) ? 0 : d * away;
}

INLINE float element_map(const struct factors *f, int64_t l, enum cpu_channel_work work, bool relu,
                         float x, float dy)
{
    float away = x - f->shift[l], affine = away * f->a[l] + f->b[l];
    float d = relu ? behind_relu(f, l, x, dy) : dy;

    return work == CHANNEL_MAP_SLOPE     ? (x > 0 ? dy : f->a[l] * dy)
           : work == CHANNEL_MAP_COMBINE ? d * f->a[l] + (away * f->b[l] + f->d[l])
           : relu && affine < 0          ? 0
                                         : affine;
}

/* Lanes from `first` on; their number is a constant where it is a usual one. */
INLINE void lanes_run(const struct chunk *c, enum cpu_channel_work work, bool relu, int64_t first,
                      int64_t lanes)
{
    const float *x = c->data.x + first, *dy = c->data.dy ? c->data.dy + first : x;
    float *y = c->data.y ? c->data.y + first : NULL;
    float sum[LANES] = {0}, product[LANES] = {0};
    struct factors f;

    factors_load(&c->data, first, lanes, &f);
#pragma GCC unroll 4
    for (int64_t i = 0; i < c->n; i++) {
        const int64_t at = i * c->block;
#pragma omp simd
        for (int64_t l = 0; l < lanes; l++) {
            if (work < CHANNEL_MAP_AFFINE)
                element_add(&f, l, work, relu, x[at + l], dy[at + l], &sum[l], &product[l]);
            else
                y[at + l] = element_map(&f, l, work, relu, x[at + l], dy[at + l]);
        }
    }
    for (int64_t l = 0; work < CHANNEL_MAP_AFFINE && l < lanes; l++) {
        c->sum[first + l] = sum[l];
        c->product[first + l] = product[l];
    }
}

/* A plane of one lane. */
INLINE void plane_run(const struct chunk *c, enum cpu_channel_work work, bool relu)
{
    const float *x = c->data.x, *dy = c->data.dy ? c->data.dy : x;
    float *y = c->data.y, sum = 0, product = 0;
    struct factors f;

    factors_load(&c->data, 0, 1, &f);
    if (work >= CHANNEL_MAP_AFFINE) {
#pragma omp simd
        for (int64_t i = 0; i < c->n; i++)
            y[i] = element_map(&f, 0, work, relu, x[i], dy[i]);
        return;
    }
#pragma omp simd reduction(+ : sum, product)
    for (int64_t i = 0; i < c->n; i++)
        element_add(&f, 0, work, relu, x[i], dy[i], &sum, &product);
    *c->sum = sum;
    *c->product = product;
}

INLINE void block_run(const struct chunk *c, enum cpu_channel_work work, bool relu)
{
    int64_t at = 0;

    if (c->block == 1) {
        plane_run(c, work, relu);
        return;
    }
    for (; c->block - at >= LANES; at += LANES)
        lanes_run(c, work, relu, at, LANES);
    if (c->block - at == LANES / 2)
        lanes_run(c, work, relu, at, LANES / 2);
    else if (at < c->block)
        lanes_run(c, work, relu, at, c->block - at);
}

#define CASE(work)                                                                                 \
    case work:                                                                                     \
        if (c->data.relu)                                                                          \
            block_run(c, work, true);                                                              \
        else                                                                                       \
            block_run(c, work, false);                                                             \
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

/* The task's chunk of the data, whose coefficients are per slot. */
static struct chunk chunk_of(const struct cpu_channels *c, const struct cpu_channel_data *data,
                             int64_t task)
{
    int64_t plane = task / c->chunks, slot = plane % c->groups * c->block;
    int64_t at = (plane * c->pixels + task % c->chunks * c->chunk) * c->block;

    return (struct chunk){.data = {.x = floats_at(data->x, at),
                                   .dy = floats_at(data->dy, at),
                                   .y = data->y ? data->y + at : NULL,
                                   .shift = floats_at(data->shift, slot),
                                   .a = floats_at(data->a, slot),
                                   .b = floats_at(data->b, slot),
                                   .d = floats_at(data->d, slot),
                                   .keep = floats_at(data->keep, slot),
                                   .relu = data->relu},
                          .n = chunk_pixels(c, task),
                          .block = c->block};
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

/* The partial results of a task lie in the work memory. */
static float *channel_partial(struct cpu_engine *engine, const struct cpu_channels *c, int64_t task)
{
    return engine->work[WORK_SCRATCHPAD].data + PARTIALS * task * c->block;
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
    for (int64_t s = 0; s < c->slots; s++) {
        sum[s] = slot_total(engine, c, s, 0);
        product[s] = slot_total(engine, c, s, 1);
    }
}

/* Rough means, and the sums of what is left and of its square: rounding of the means is made good.
 */
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

/* Mean of a task's chunk, and the sum of squares about it. */
static double chunk_mean(struct cpu_engine *engine, const struct cpu_channels *c, int64_t task,
                         int64_t lane, double *square)
{
    const float *partial = channel_partial(engine, c, task) + lane;
    double n = (double)chunk_pixels(c, task), rest = partial[c->block];

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
            sum += chunk_mean(engine, c, t, lane, &square) * (double)chunk_pixels(c, t);
    *mean = sum / count;
    for (int64_t plane = slot / c->block; plane < planes; plane += c->groups)
        for (int64_t t = plane * c->chunks; t < (plane + 1) * c->chunks; t++) {
            double away = chunk_mean(engine, c, t, lane, &square) - *mean;
            squares += square + away * away * (double)chunk_pixels(c, t);
        }
    *variance = squares > 0 ? squares / count : squares < 0 ? 0 : squares;
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
    for (int64_t s = 0; s < c->slots; s++)
        slot_moments(engine, c, s, &mean[s], &variance[s]);
}
