/* Pooling in any format, a plane of D x H x W x block floats at a time.
 *
 * The code is our own because oneDNN lacks Caffe's rules: the top reaches beyond the padded image,
 * AVE's divisor is clipped there, a second top holds the maximum's place, and STOCHASTIC. Pooling
 * is bound by memory, so our code is no slower. Planes of bfloat16 become floats in a thread's own
 * memory, which the caches hold. */
#include "engine/cpu/element.h"

#include "engine/cpu/octet.h"
#include "engine/cpu/pool_max.h"
#include "engine/op_size.h"
#include "util/rng.h"

#include <float.h>
#include <omp.h>
#include <string.h>

struct pool {
    struct cpu_op op;
    struct cpu_planes bottom, top;
    struct op_windows windows;
    bool half;  /* elements are bfloat16 */
    bool usual; /* pool_max.c computes MAX */
    /* Place of each top in its D x H x W plane, -1: none. For MAX in TRAIN or with a mask, and for
     * STOCHASTIC in TRAIN. */
    int32_t *where;
    uint8_t *numbers; /* places in pool_max.c's form, instead of where */
};

/* A window along one axis, clipped to the image. */
struct span {
    int64_t begin, end;
    int64_t padded; /* length clipped to the padded image; below 1: an empty window */
};

/* The window of one output position. */
struct window {
    struct span d, h, w;
    float divisor; /* AVE: pixels of the padded image in the window; 0: none */
};

INLINE struct span pool_span_at(const struct op_windows *a, int axis, int64_t place)
{
    int64_t begin = place * a->stride[axis] - a->pad[axis];
    int64_t end = cpu_least(begin + a->kernel[axis], a->size[axis] + a->pad[axis]);

    return (struct span){.begin = cpu_greatest(begin, 0),
                         .end = cpu_least(end, a->size[axis]),
                         .padded = end - begin};
}

INLINE struct window pool_window_at(const struct op_windows *a, int64_t pd, int64_t ph, int64_t pw)
{
    struct window win = {pool_span_at(a, 0, pd), pool_span_at(a, 1, ph), pool_span_at(a, 2, pw), 0};

    if (win.d.padded > 0 && win.h.padded > 0 && win.w.padded > 0)
        win.divisor = (float)(win.d.padded * win.h.padded * win.w.padded);
    return win;
}

/* Returns the window of output position p of a plane. */
INLINE struct window pool_window_of(const struct op_windows *a, int64_t p)
{
    return pool_window_at(a, p / a->places[2] / a->places[1], p / a->places[2] % a->places[1],
                          p % a->places[2]);
}

/* Returns windows with a depth that compilers know to be 1: loops over depth then cost nothing. */
INLINE struct op_windows pool_flat(struct op_windows a)
{
    a.size[0] = a.places[0] = 1;
    a.kernel[0] = a.stride[0] = a.dilation[0] = 1;
    a.pad[0] = 0;
    return a;
}

static bool pool_is_flat(const struct op_windows *a)
{
    return a->size[0] == 1 && a->places[0] == 1 && a->pad[0] == 0;
}

/* Loops over all places of a window in reading order; `here` is the place's number in the plane. */
#define FOR_WINDOW(a, win, here)                                                                   \
    for (int64_t d_ = (win)->d.begin; d_ < (win)->d.end; d_++)                                     \
        for (int64_t h_ = (win)->h.begin; h_ < (win)->h.end; h_++)                                 \
            for (int64_t row_ = (d_ * (a)->size[1] + h_) * (a)->size[2],                           \
                         here = row_ + (win)->w.begin;                                             \
                 here < row_ + (win)->w.end; here++)

/* Finds the maxima of OCTET channels; from: the places of the maxima. */
INLINE void pool_max_strip(const float *x, const struct op_windows *a, int64_t block,
                           const struct window *win, float *y, int32_t *from)
{
    floats best = (floats){0} - FLT_MAX;
    ints at = (ints){0} - 1;

    FOR_WINDOW(a, win, here)
    {
        floats value = *(const floats *)(x + here * block);
        ints greater = value > best;
        best = (floats)((greater & (ints)value) | (~greater & (ints)best));
        at = (greater & (int32_t)here) | (~greater & at);
    }
    *(floats *)y = best;
    *(ints *)from = at;
}

INLINE void pool_sum_strip(const float *x, const struct op_windows *a, int64_t block,
                           const struct window *win, float *y)
{
    floats sum = {0};

    FOR_WINDOW(a, win, here)
    sum += *(const floats *)(x + here * block);
    *(floats *)y = sum * (win->divisor > 0 ? 1 / win->divisor : 0);
}

/* Finds the maximum of one channel, and its place. */
INLINE void pool_max_one(const float *x, const struct op_windows *a, int64_t block,
                         const struct window *win, float *y, int32_t *where)
{
    float best = -FLT_MAX;
    int32_t at = -1;

    FOR_WINDOW(a, win, here)
    {
        float value = x[here * block];
        at = value > best ? (int32_t)here : at;
        best = value > best ? value : best;
    }
    *y = best;
    *where = at;
}

INLINE void pool_sum_one(const float *x, const struct op_windows *a, int64_t block,
                         const struct window *win, float *y)
{
    float sum = 0;

    FOR_WINDOW(a, win, here)
    sum += x[here * block];
    *y = sum * (win->divisor > 0 ? 1 / win->divisor : 0);
}

/* Pools all channels of one window, OCTET at a time; the last strip may overlap the one before. */
INLINE void pool_forward_window(const struct pool *pool, const struct op_windows *a, int64_t block,
                                const struct window *win, const float *x, float *y, int32_t *where)
{
    int64_t step = block < OCTET ? 1 : OCTET;
    bool max = pool->op.args.u.pool.method == POOL_MAX;

    for (int64_t i = 0; i < block; i += step) {
        int64_t b = i + step <= block ? i : block - step;
        int32_t unused[OCTET], *from = where ? where + b : unused;

        if (step == 1 && max)
            pool_max_one(x + b, a, block, win, y + b, from);
        else if (step == 1)
            pool_sum_one(x + b, a, block, win, y + b);
        else if (max)
            pool_max_strip(x + b, a, block, win, y + b, from);
        else
            pool_sum_strip(x + b, a, block, win, y + b);
    }
}

INLINE void pool_forward_windows(const struct pool *pool, const struct op_windows a, const float *x,
                                 float *y, int32_t *where)
{
    int64_t to = 0, block = pool->top.block;

    for (int64_t pd = 0; pd < a.places[0]; pd++)
        for (int64_t ph = 0; ph < a.places[1]; ph++)
            for (int64_t pw = 0; pw < a.places[2]; pw++, to += block) {
                struct window win = pool_window_at(&a, pd, ph, pw);
                pool_forward_window(pool, &a, block, &win, x, y + to, where ? where + to : NULL);
            }
}

CPU_KERNEL static void pool_forward_plane(const struct pool *pool, const float *x, float *y,
                                          int32_t *where)
{
    if (pool_is_flat(&pool->windows))
        pool_forward_windows(pool, pool_flat(pool->windows), x, y, where);
    else
        pool_forward_windows(pool, pool->windows, x, y, where);
}

/* ---- STOCHASTIC ---- */

/* Draws one place, weighted by values. All engines sum in this order and draw the same place. */
static int32_t pool_draw_one(const float *x, const struct op_windows *a, int64_t block,
                             const struct window *win, float u, float *y)
{
    float sum = 0, running = 0;
    bool drawn = false;
    int32_t at = -1;

    FOR_WINDOW(a, win, here)
    sum += x[here * block];
    FOR_WINDOW(a, win, here)
    {
        if (drawn)
            continue;
        at = (int32_t)here;
        running += x[here * block];
        drawn = running >= u * sum;
    }
    *y = at < 0 ? 0 : x[at * block];
    return at;
}

static void pool_weigh_one(const float *x, const struct op_windows *a, int64_t block,
                           const struct window *win, float *y)
{
    float sum = 0, squares = 0;

    FOR_WINDOW(a, win, here)
    {
        float value = x[here * block];
        sum += value;
        squares += value * value;
    }
    *y = sum > 0 ? squares / sum : 0;
}

static void pool_stochastic_plane(const struct pool *pool, const struct pass *pass, int64_t plane,
                                  const float *x, float *y, int32_t *where)
{
    const struct cpu_planes *top = &pool->top;
    const struct op_windows *a = &pool->windows;
    int64_t pixels = top->pixels, block = top->block;
    int64_t first = plane % top->groups * block;
    struct rng rng = rng_make(pass->seed, RNG_POOL, (uint32_t)pool->op.args.layer_index,
                              pass->first_sample + (uint64_t)(plane / top->groups));

    for (int64_t p = 0; p < pixels; p++) {
        struct window win = pool_window_of(a, p);
        for (int64_t b = 0; b < block; b++) {
            uint64_t draw = (uint64_t)((first + b) * pixels + p);
            if (where)
                where[p * block + b] = pool_draw_one(x + b, a, block, &win, rng_uniform(&rng, draw),
                                                     &y[p * block + b]);
            else
                pool_weigh_one(x + b, a, block, &win, &y[p * block + b]);
        }
    }
}

/* Finds the windows along one axis that hold pixel `place`: first to last; last < first: none. */
INLINE void pool_windows_over(const struct op_windows *a, int axis, int64_t place, int64_t *first,
                              int64_t *last)
{
    int64_t reach = place + a->pad[axis], before = reach - a->kernel[axis];

    *first = before < 0 ? 0 : before / a->stride[axis] + 1;
    *last = cpu_least(reach / a->stride[axis], a->places[axis] - 1);
}

/* Gathers a row's gradients: each pixel reads the windows over it, in the order in which windows
 * would scatter. No store depends on another store, and the sums have the same bits. */
INLINE void pool_max_gather_row(const struct op_windows *a, int64_t block, int64_t d, int64_t h,
                                const float *dy, const int32_t *where, float *dx)
{
    int64_t d0, d1, h0, h1, first = (d * a->size[1] + h) * a->size[2];

    pool_windows_over(a, 0, d, &d0, &d1);
    pool_windows_over(a, 1, h, &h0, &h1);
    for (int64_t w = 0; w < a->size[2]; w++) {
        int64_t w0, w1, here = first + w;
        pool_windows_over(a, 2, w, &w0, &w1);
        for (int64_t b = 0; b < block; b += OCTET) {
            floats sum = {0};
            for (int64_t pd = d0; pd <= d1; pd++)
                for (int64_t ph = h0; ph <= h1; ph++)
                    for (int64_t pw = w0; pw <= w1; pw++) {
                        int64_t i = ((pd * a->places[1] + ph) * a->places[2] + pw) * block + b;
                        ints mine = *(const ints *)(where + i) == (int32_t)here;
                        sum += (floats)(mine & (ints) * (const floats *)(dy + i));
                    }
            *(floats *)(dx + here * block + b) = sum;
        }
    }
}

INLINE void pool_max_gather(const struct op_windows a, int64_t block, const float *dy,
                            const int32_t *where, float *dx)
{
    for (int64_t d = 0; d < a.size[0]; d++)
        for (int64_t h = 0; h < a.size[1]; h++)
            pool_max_gather_row(&a, block, d, h, dy, where, dx);
}

CPU_KERNEL static void pool_max_gather_plane(const struct pool *pool, const float *dy,
                                             const int32_t *where, float *dx)
{
    const struct op_windows *a = &pool->windows;
    int64_t block = pool->top.block;

    if (pool_is_flat(a))
        pool_max_gather(pool_flat(*a), block, dy, where, dx);
    else
        pool_max_gather(*a, block, dy, where, dx);
}

static void pool_max_backward_plane(const struct cpu_planes *top, const float *dy,
                                    const int32_t *where, float *dx)
{
    for (int64_t p = 0; p < top->pixels; p++)
        for (int64_t b = 0; b < top->block; b++) {
            int64_t i = p * top->block + b;
            if (where[i] >= 0)
                dx[where[i] * top->block + b] += dy[i];
        }
}

INLINE void pool_ave_scatter(const struct op_windows *a, int64_t block, const struct window *win,
                             const float *restrict from, float *dx)
{
    float scale = win->divisor > 0 ? 1 / win->divisor : 0;

    FOR_WINDOW(a, win, here)
    {
        float *restrict to = dx + here * block;
#pragma omp simd
        for (int64_t b = 0; b < block; b++)
            to[b] += scale * from[b];
    }
}

CPU_KERNEL static void pool_ave_backward_plane(const struct op_windows *a, int64_t block,
                                               const float *dy, float *dx)
{
    for (int64_t pd = 0; pd < a->places[0]; pd++)
        for (int64_t ph = 0; ph < a->places[1]; ph++)
            for (int64_t pw = 0; pw < a->places[2]; pw++, dy += block) {
                struct window win = pool_window_at(a, pd, ph, pw);
                pool_ave_scatter(a, block, &win, dy, dx);
            }
}

static inline int64_t pool_plane_elems(const struct cpu_planes *planes)
{
    return planes->pixels * planes->block;
}

/* The calling thread's memory for a plane of bfloat16 as floats: of the bottom, and of the top. */
struct rooms {
    float *bottom, *top; /* NULL: planes are floats */
};

static struct rooms pool_rooms(const struct pool *pool)
{
    const int64_t bottom = pool_plane_elems(&pool->bottom), top = pool_plane_elems(&pool->top);
    float *own;

    if (!pool->half)
        return (struct rooms){NULL, NULL};
    own = pool->op.engine->work[WORK_SCRATCHPAD].data + omp_get_thread_num() * (bottom + top);
    return (struct rooms){own, own + bottom};
}

static int pool_create(struct cpu_op *op)
{
    struct pool *pool = (struct pool *)op;
    const struct cpu_format *format = cpu_tensor_format(&op->args.bottoms[0]->value);
    size_t tops, plane;

    pool->half = cpu_format_half(format);
    if (op->args.ntops == 2)
        cpu_top_set(op->args.tops[1], cpu_format_floats(format));
    pool->bottom = cpu_planes_of(&op->args.bottoms[0]->value.shape, format);
    pool->top = cpu_planes_of(&op->args.tops[0]->value.shape, format);
    pool->windows = op_pool_windows(&op->args.u.pool, &op->args.bottoms[0]->value.shape,
                                    &op->args.tops[0]->value.shape);
    pool->usual = op->args.u.pool.method == POOL_MAX && op->args.ntops < 2 &&
                  pool_max_fits(&pool->windows, pool->top.block);
    plane = (size_t)(pool_plane_elems(&pool->bottom) + pool_plane_elems(&pool->top));
    if (pool->half && cpu_work_reserve(op->engine, WORK_SCRATCHPAD,
                                       (size_t)op->engine->threads * plane * sizeof(float)))
        return -1;
    if (op->args.u.pool.method == POOL_AVE || (!op->args.train && op->args.ntops < 2))
        return 0;
    tops = cpu_tensor_stored(&op->args.tops[0]->value);
    if (pool->usual) {
        pool->numbers = cpu_op_alloc(op, tops, "the indices that pooling chose");
        return pool->numbers ? 0 : -1;
    }
    pool->where = cpu_op_alloc(op, tops * sizeof *pool->where, "the indices that pooling chose");
    return pool->where ? 0 : -1;
}

/* Makes maxima of windows without pixels, the least float, the least number of bfloat16. */
CPU_KERNEL static void pool_least(float *y, size_t n)
{
    const float least = -0x1.fep127f;

#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] < least ? least : y[i];
}

/* Pools plane number p, floats of a bottom, into y. */
static void pool_plane(const struct pool *pool, int64_t p, const float *x, float *y)
{
    const int64_t at = p * pool_plane_elems(&pool->top);
    int32_t *where = pool->where ? pool->where + at : NULL;

    if (pool->op.args.u.pool.method == POOL_STOCHASTIC)
        pool_stochastic_plane(pool, pool->op.pass, p, x, y, where);
    else if (pool->usual)
        pool_max_forward(&pool->windows, pool->top.block, x, y,
                         pool->numbers ? pool->numbers + at : NULL);
    else
        pool_forward_plane(pool, x, y, where);
    if (pool->half && pool->op.args.u.pool.method == POOL_MAX)
        pool_least(y, (size_t)pool_plane_elems(&pool->top));
}

static int pool_forward(struct cpu_op *op)
{
    struct pool *pool = (struct pool *)op;
    const size_t from = (size_t)pool_plane_elems(&pool->bottom),
                 to = (size_t)pool_plane_elems(&pool->top);

#pragma omp parallel for
    for (int64_t p = 0; p < pool->bottom.planes; p++) {
        const struct rooms rooms = pool_rooms(pool);
        size_t place = (size_t)p * to;

        pool_plane(pool, p,
                   piece_load(cpu_op_x(op, 0), (size_t)p * from, from, pool->half, rooms.bottom),
                   piece_open(cpu_op_y(op), place, pool->half, rooms.top));
        piece_store(rooms.top, cpu_op_y(op), place, to, pool->half);
    }
    if (op->args.ntops == 2) {
        float *mask = op->args.tops[1]->value.data;
#pragma omp parallel for
        for (size_t i = 0; i < (size_t)pool->top.planes * to; i++)
            mask[i] = (float)pool->where[i];
    }
    return 0;
}

/* Writes dx, the gradient of a bottom's plane number p. */
static void pool_plane_gradient(const struct pool *pool, int64_t p, const float *dy, float *dx)
{
    const int64_t at = p * pool_plane_elems(&pool->top);
    const int32_t *where = pool->where ? pool->where + at : NULL;

    if (pool->usual) {
        pool_max_backward(&pool->windows, pool->top.block, dy, pool->numbers + at, dx);
    } else if (where && pool->top.block % OCTET == 0) {
        pool_max_gather_plane(pool, dy, where, dx);
    } else {
        memset(dx, 0, (size_t)pool_plane_elems(&pool->bottom) * sizeof *dx);
        if (where)
            pool_max_backward_plane(&pool->top, dy, where, dx);
        else
            pool_ave_backward_plane(&pool->windows, pool->top.block, dy, dx);
    }
}

static int pool_gradient(struct cpu_op *op, int bottom, float *dx)
{
    struct pool *pool = (struct pool *)op;
    const size_t to = (size_t)pool_plane_elems(&pool->bottom),
                 from = (size_t)pool_plane_elems(&pool->top);

    (void)bottom;
#pragma omp parallel for
    for (int64_t p = 0; p < pool->bottom.planes; p++) {
        const struct rooms rooms = pool_rooms(pool);
        size_t place = (size_t)p * to;

        pool_plane_gradient(
            pool, p, piece_load(cpu_op_dy(op), (size_t)p * from, from, pool->half, rooms.top),
            piece_open(dx, place, pool->half, rooms.bottom));
        piece_store(rooms.bottom, dx, place, to, pool->half);
    }
    return 0;
}

const struct cpu_kind cpu_pool = {
    .size = sizeof(struct pool),
    .blobs = CPU_AS_BOTTOM,
    .halves = true,
    .create = pool_create,
    .forward = pool_forward,
    .gradient = pool_gradient,
};

/* ---- spatial pyramid: MAX or AVE of 2^l x 2^l windows for each level l, in plain memory ---- */

struct spp {
    struct cpu_op op;
    int32_t *where; /* places of MAX in TRAIN, as in struct pool */
};

static int spp_create(struct cpu_op *op)
{
    struct spp *spp = (struct spp *)op;

    if (!op->args.train || op->args.u.spp.method != POOL_MAX)
        return 0;
    spp->where = cpu_op_alloc(op, shape_elems(&op->args.tops[0]->value.shape) * sizeof *spp->where,
                              "the indices of maxima");
    return spp->where ? 0 : -1;
}

/* Pools one window of a plane into the top; back: adds the window's gradient to the plane. */
static void spp_run_window(const struct spp *spp, bool back, const struct op_windows *a,
                           const struct window *win, const float *from, float *to, int32_t *where)
{
    bool max = spp->op.args.u.spp.method == POOL_MAX;
    double sum = 0;
    int32_t unused;

    if (max && !back) {
        pool_max_one(from, a, 1, win, to, where ? where : &unused);
    } else if (max) {
        if (*where >= 0)
            to[*where] += *from;
    } else if (back) {
        FOR_WINDOW(a, win, here)
        to[here] += *from / win->divisor;
    } else {
        FOR_WINDOW(a, win, here)
        sum += from[here];
        *to = (float)(sum / (double)win->divisor);
    }
}

/* Runs all levels of one plane. */
static void spp_run_plane(const struct spp *spp, bool back, int64_t plane, const float *from,
                          float *to)
{
    const struct shape *x = &spp->op.args.bottoms[0]->value.shape;
    int64_t channels = x->dim[1], sample = plane / channels, channel = plane % channels;
    int64_t top = sample * (int64_t)shape_count(&spp->op.args.tops[0]->value.shape, 1, 2);

    for (int l = 0; l < spp->op.args.u.spp.levels; l++) {
        const struct op_windows a = op_spp_windows(x, l);
        int64_t n = a.places[1] * a.places[2];

        for (int64_t p = 0, at = top + channel * n; p < n; p++, at++) {
            const struct window win = pool_window_of(&a, p);
            spp_run_window(spp, back, &a, &win, back ? from + at : from, back ? to : to + at,
                           spp->where ? spp->where + at : NULL);
        }
        top += channels * n;
    }
}

static int spp_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    int64_t pixels = x->dim[2] * x->dim[3];

    if (back)
        cpu_zero(to, shape_elems(x));
#pragma omp parallel for
    for (int64_t p = 0; p < x->dim[0] * x->dim[1]; p++)
        spp_run_plane((const struct spp *)op, back, p, back ? from : from + p * pixels,
                      back ? to + p * pixels : to);
    return 0;
}

const struct cpu_kind cpu_spp = {
    .size = sizeof(struct spp),
    .blobs = CPU_PLAIN,
    .create = spp_create,
    .run = spp_run,
};
