/* Pooling in any format, a plane of H x W x block floats at a time.
 *
 * Ours rather than oneDNN's: Caffe's top reaches beyond the padded image, its AVE divisor is
 * clipped there, its second top wants the maximum's place, and STOCHASTIC is Caffe's alone. Being
 * bound by memory, it loses nothing. */
#include "engine/cpu/cpu_internal.h"

#include "util/rng.h"

#include <float.h>
#include <string.h>

struct pool {
    struct cpu_op op;
    struct cpu_planes bottom, top;
    int32_t *where; /* place of each top in its H x W plane, -1: none. MAX: in TRAIN or for the
                       mask; STOCHASTIC: in TRAIN */
};

/* The window of one output position, clipped to the image. */
struct window {
    int64_t h0, h1, w0, w1;
    float divisor; /* AVE: area of the window clipped to the padded image; 0 where it is empty */
};

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline struct window pool_window_at(const struct pool_args *a,
                                           const struct cpu_planes *bottom, int64_t ph, int64_t pw)
{
    int64_t h0 = ph * a->stride[0] - a->pad[0], w0 = pw * a->stride[1] - a->pad[1];
    int64_t h1 = min64(h0 + a->kernel[0], bottom->height + a->pad[0]);
    int64_t w1 = min64(w0 + a->kernel[1], bottom->width + a->pad[1]);

    return (struct window){.h0 = max64(h0, 0),
                           .h1 = min64(h1, bottom->height),
                           .w0 = max64(w0, 0),
                           .w1 = min64(w1, bottom->width),
                           .divisor = h1 > h0 && w1 > w0 ? (float)((h1 - h0) * (w1 - w0)) : 0};
}

#define INLINE static inline __attribute__((always_inline))
#define STRIP  8 /* channels kept in registers */

/* Vectors are spelt out: left alone, compilers make the stores of a running maximum conditional. */
typedef float floats __attribute__((vector_size(STRIP * sizeof(float)), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(STRIP * sizeof(int32_t)), aligned(4), may_alias));

INLINE void pool_max_strip(const float *x, int64_t width, int64_t block, const struct window *win,
                           float *y, int32_t *where)
{
    floats best = (floats){0} - FLT_MAX;
    ints at = (ints){0} - 1;

    for (int64_t h = win->h0; h < win->h1; h++) {
        for (int64_t w = win->w0; w < win->w1; w++) {
            int32_t here = (int32_t)(h * width + w);
            floats value = *(const floats *)(x + here * block);
            ints more = value > best;
            best = (floats)((more & (ints)value) | (~more & (ints)best));
            at = (more & here) | (~more & at);
        }
    }
    *(floats *)y = best;
    if (where)
        *(ints *)where = at;
}

INLINE void pool_sum_strip(const float *x, int64_t width, int64_t block, const struct window *win,
                           float *y)
{
    floats sum = {0};

    for (int64_t h = win->h0; h < win->h1; h++)
        for (int64_t w = win->w0; w < win->w1; w++)
            sum += *(const floats *)(x + (h * width + w) * block);
    *(floats *)y = sum * (win->divisor > 0 ? 1 / win->divisor : 0);
}

/* The same of one channel. */
INLINE void pool_max_one(const float *x, int64_t width, int64_t block, const struct window *win,
                         float *y, int32_t *where)
{
    float best = -FLT_MAX;
    int32_t at = -1;

    for (int64_t h = win->h0; h < win->h1; h++) {
        for (int64_t w = win->w0; w < win->w1; w++) {
            int32_t here = (int32_t)(h * width + w);
            float value = x[here * block];
            at = value > best ? here : at;
            best = value > best ? value : best;
        }
    }
    *y = best;
    if (where)
        *where = at;
}

INLINE void pool_sum_one(const float *x, int64_t width, int64_t block, const struct window *win,
                         float *y)
{
    float sum = 0;

    for (int64_t h = win->h0; h < win->h1; h++)
        for (int64_t w = win->w0; w < win->w1; w++)
            sum += x[(h * width + w) * block];
    *y = sum * (win->divisor > 0 ? 1 / win->divisor : 0);
}

/* All channels of one window, STRIP at a time; the last strip overlaps where they do not divide. */
INLINE void pool_forward_window(enum pool_method method, const struct cpu_planes *bottom,
                                const struct window *win, const float *x, float *y, int32_t *where)
{
    int64_t block = bottom->block, step = block < STRIP ? 1 : STRIP;

    for (int64_t i = 0; i < block; i += step) {
        int64_t b = i + step <= block ? i : block - step;
        int32_t *at = where ? where + b : NULL;
        if (step == 1 && method == POOL_MAX)
            pool_max_one(x + b, bottom->width, block, win, y + b, at);
        else if (step == 1)
            pool_sum_one(x + b, bottom->width, block, win, y + b);
        else if (method == POOL_MAX)
            pool_max_strip(x + b, bottom->width, block, win, y + b, at);
        else
            pool_sum_strip(x + b, bottom->width, block, win, y + b);
    }
}

/* ---- maxima of windows that move by one: of rows first, then of those ---- */

enum { MOST_KERNEL = 5, MOST_WIDTH = 64 };

/* The maxima of one row's pieces, and their places in the plane; of STRIP channels. */
struct row_maxima {
    float best[MOST_WIDTH][STRIP];
    int32_t at[MOST_WIDTH][STRIP];
};

static bool pool_is_separable(const struct pool_args *a, const struct cpu_planes *top)
{
    return a->method == POOL_MAX && a->stride[0] == 1 && a->stride[1] == 1 && a->kernel[0] > 1 &&
           a->kernel[0] <= MOST_KERNEL && top->width <= MOST_WIDTH && top->block >= STRIP &&
           top->block % STRIP == 0;
}

/* Of equal values the first in reading order wins, as in pool_max_strip: the leftmost of a row,
 * then the uppermost row. */
INLINE void pool_row_maxima(const struct pool_args *a, const struct cpu_planes *bottom,
                            const struct cpu_planes *top, const float *x, int64_t h,
                            struct row_maxima *row)
{
    for (int64_t pw = 0; pw < top->width; pw++) {
        struct window win = pool_window_at(a, bottom, 0, pw);

        win.h0 = h;
        win.h1 = h + 1;
        pool_max_strip(x, bottom->width, bottom->block, &win, row->best[pw], row->at[pw]);
    }
}

INLINE void pool_separable_strip(const struct pool_args *a, const struct cpu_planes *bottom,
                                 const struct cpu_planes *top, const float *x, float *y,
                                 int32_t *where)
{
    struct row_maxima rows[MOST_KERNEL]; /* row h lies in rows[h % MOST_KERNEL] */
    int64_t done = 0;

    for (int64_t ph = 0; ph < top->height; ph++) {
        struct window win = pool_window_at(a, bottom, ph, 0);

        for (done = max64(done, win.h0); done < win.h1; done++)
            pool_row_maxima(a, bottom, top, x, done, &rows[done % MOST_KERNEL]);
        for (int64_t pw = 0; pw < top->width; pw++) {
            int64_t to = (ph * top->width + pw) * top->block;
            floats best = (floats){0} - FLT_MAX;
            ints at = (ints){0} - 1;

            for (int64_t h = win.h0; h < win.h1; h++) {
                const struct row_maxima *row = &rows[h % MOST_KERNEL];
                floats value = *(const floats *)row->best[pw];
                ints more = value > best;
                best = (floats)((more & (ints)value) | (~more & (ints)best));
                at = (more & *(const ints *)row->at[pw]) | (~more & at);
            }
            *(floats *)(y + to) = best;
            if (where)
                *(ints *)(where + to) = at;
        }
    }
}

CPU_KERNEL static void pool_separable_plane(const struct pool_args *a,
                                            const struct cpu_planes *bottom,
                                            const struct cpu_planes *top, const float *x, float *y,
                                            int32_t *where)
{
    for (int64_t b = 0; b < top->block; b += STRIP)
        pool_separable_strip(a, bottom, top, x + b, y + b, where ? where + b : NULL);
}

CPU_KERNEL static void pool_forward_plane(const struct pool_args *a,
                                          const struct cpu_planes *bottom,
                                          const struct cpu_planes *top, const float *x, float *y,
                                          int32_t *where)
{
    for (int64_t ph = 0; ph < top->height; ph++) {
        for (int64_t pw = 0; pw < top->width; pw++) {
            struct window win = pool_window_at(a, bottom, ph, pw);
            int64_t to = (ph * top->width + pw) * bottom->block;
            pool_forward_window(a->method, bottom, &win, x, y + to, where ? where + to : NULL);
        }
    }
}

/* ---- STOCHASTIC ---- */

/* The sums go in the order of all engines, so that they draw the same places. */
static int32_t pool_draw_one(const float *x, int64_t width, int64_t block, const struct window *win,
                             float u, float *y)
{
    float sum = 0, running = 0;
    bool drawn = false;
    int32_t at = -1;

    for (int64_t h = win->h0; h < win->h1; h++)
        for (int64_t w = win->w0; w < win->w1; w++)
            sum += x[(h * width + w) * block];
    for (int64_t h = win->h0; h < win->h1 && !drawn; h++)
        for (int64_t w = win->w0; w < win->w1 && !drawn; w++) {
            at = (int32_t)(h * width + w);
            running += x[at * block];
            drawn = running >= u * sum;
        }
    *y = at < 0 ? 0 : x[at * block];
    return at;
}

static void pool_weigh_one(const float *x, int64_t width, int64_t block, const struct window *win,
                           float *y)
{
    float sum = 0, squares = 0;

    for (int64_t h = win->h0; h < win->h1; h++)
        for (int64_t w = win->w0; w < win->w1; w++) {
            float value = x[(h * width + w) * block];
            sum += value;
            squares += value * value;
        }
    *y = sum > 0 ? squares / sum : 0;
}

static void pool_stochastic_plane(const struct pool *pool, const struct run *run, int64_t plane,
                                  const float *x, float *y, int32_t *where)
{
    const struct cpu_planes *top = &pool->top;
    int64_t pixels = top->height * top->width, width = pool->bottom.width, block = top->block;
    int64_t first = plane % top->groups * block;
    struct rng rng = rng_make(run->seed, RNG_POOL, (uint32_t)pool->op.args.layer_index,
                              run->first_sample + (uint64_t)(plane / top->groups));

    for (int64_t p = 0; p < pixels; p++) {
        struct window win =
            pool_window_at(&pool->op.args.u.pool, &pool->bottom, p / top->width, p % top->width);
        for (int64_t b = 0; b < block; b++) {
            uint64_t draw = (uint64_t)((first + b) * pixels + p);
            if (where)
                where[p * block + b] = pool_draw_one(x + b, width, block, &win,
                                                     rng_uniform(&rng, draw), &y[p * block + b]);
            else
                pool_weigh_one(x + b, width, block, &win, &y[p * block + b]);
        }
    }
}

/* The windows along one axis that hold a place: first to last, less than first if there is none. */
INLINE void pool_windows_over(const struct pool_args *a, int axis, int64_t place, int64_t windows,
                              int64_t *first, int64_t *last)
{
    int64_t reach = place + a->pad[axis], before = reach - a->kernel[axis];

    *first = before < 0 ? 0 : before / a->stride[axis] + 1;
    *last = min64(reach / a->stride[axis], windows - 1);
}

/* Each pixel asks the windows over it, in the order in which they would scatter: no store waits for
 * another, and the sums are the same. */
CPU_KERNEL static void pool_max_gather_plane(const struct pool_args *a,
                                             const struct cpu_planes *bottom,
                                             const struct cpu_planes *top, const float *dy,
                                             const int32_t *where, float *dx)
{
    int64_t block = bottom->block;

    for (int64_t h = 0; h < bottom->height; h++) {
        int64_t h0, h1;
        pool_windows_over(a, 0, h, top->height, &h0, &h1);
        for (int64_t w = 0; w < bottom->width; w++) {
            int64_t w0, w1, here = h * bottom->width + w;
            pool_windows_over(a, 1, w, top->width, &w0, &w1);
            for (int64_t b = 0; b < block; b += STRIP) {
                floats sum = {0};
                for (int64_t ph = h0; ph <= h1; ph++)
                    for (int64_t pw = w0; pw <= w1; pw++) {
                        int64_t i = (ph * top->width + pw) * block + b;
                        ints mine = *(const ints *)(where + i) == (int32_t)here;
                        sum += (floats)(mine & (ints) * (const floats *)(dy + i));
                    }
                *(floats *)(dx + here * block + b) = sum;
            }
        }
    }
}

static void pool_max_backward_plane(const struct cpu_planes *top, const float *dy,
                                    const int32_t *where, float *dx)
{
    for (int64_t p = 0; p < top->height * top->width; p++)
        for (int64_t b = 0; b < top->block; b++) {
            int64_t i = p * top->block + b;
            if (where[i] >= 0)
                dx[where[i] * top->block + b] += dy[i];
        }
}

CPU_KERNEL static void pool_ave_backward_plane(const struct pool_args *a,
                                               const struct cpu_planes *bottom,
                                               const struct cpu_planes *top, const float *dy,
                                               float *dx)
{
    int64_t block = bottom->block;

    for (int64_t ph = 0; ph < top->height; ph++) {
        for (int64_t pw = 0; pw < top->width; pw++) {
            struct window win = pool_window_at(a, bottom, ph, pw);
            const float *restrict from = dy + (ph * top->width + pw) * block;
            float scale = win.divisor > 0 ? 1 / win.divisor : 0;
            for (int64_t h = win.h0; h < win.h1; h++) {
                for (int64_t w = win.w0; w < win.w1; w++) {
                    float *restrict to = dx + (h * bottom->width + w) * block;
#pragma omp simd
                    for (int64_t b = 0; b < block; b++)
                        to[b] += scale * from[b];
                }
            }
        }
    }
}

static int pool_create(struct cpu_op *op)
{
    struct pool *pool = (struct pool *)op;
    const struct cpu_format *format = cpu_tensor_format(&op->args.bottoms[0]->value);
    void *where = NULL;

    for (int i = 0; i < op->args.ntops; i++)
        cpu_top_set(op->args.tops[i], format);
    pool->bottom = cpu_planes_of(&op->args.bottoms[0]->value.shape, format);
    pool->top = cpu_planes_of(&op->args.tops[0]->value.shape, format);
    if (op->args.u.pool.method == POOL_AVE || (!op->args.train && op->args.ntops < 2))
        return 0;
    if (cpu_alloc(cpu_tensor_stored(&op->args.tops[0]->value) * sizeof *pool->where,
                  "the places that pooling chose", &where))
        return -1;
    pool->where = where;
    return 0;
}

static inline int64_t pool_plane_elems(const struct cpu_planes *planes)
{
    return planes->height * planes->width * planes->block;
}

static int pool_forward(struct cpu_op *op, const struct run *run)
{
    struct pool *pool = (struct pool *)op;
    int64_t from = pool_plane_elems(&pool->bottom), to = pool_plane_elems(&pool->top);
    const float *x = op->args.bottoms[0]->value.data;
    float *y = op->args.tops[0]->value.data;

    if (op->args.u.pool.method == POOL_STOCHASTIC) {
#pragma omp parallel for
        for (int64_t p = 0; p < pool->bottom.planes; p++)
            pool_stochastic_plane(pool, run, p, x + p * from, y + p * to,
                                  pool->where ? pool->where + p * to : NULL);
        return 0;
    }
    bool separable = pool_is_separable(&op->args.u.pool, &pool->top);
#pragma omp parallel for
    for (int64_t p = 0; p < pool->bottom.planes; p++)
        (separable ? pool_separable_plane
                   : pool_forward_plane)(&op->args.u.pool, &pool->bottom, &pool->top, x + p * from,
                                         y + p * to, pool->where ? pool->where + p * to : NULL);
    if (op->args.ntops == 2) {
        float *mask = op->args.tops[1]->value.data;
#pragma omp parallel for
        for (int64_t i = 0; i < pool->top.planes * to; i++)
            mask[i] = (float)pool->where[i];
    }
    return 0;
}

static int pool_backward(struct cpu_op *op, const struct run *run)
{
    struct pool *pool = (struct pool *)op;
    int64_t to = pool_plane_elems(&pool->bottom), from = pool_plane_elems(&pool->top);
    const float *dy = op->args.tops[0]->grad.data;
    float *dx = op->args.bottoms[0]->grad.data;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
#pragma omp parallel for
    for (int64_t p = 0; p < pool->bottom.planes; p++) {
        if (pool->where && pool->top.block % STRIP == 0) {
            pool_max_gather_plane(&op->args.u.pool, &pool->bottom, &pool->top, dy + p * from,
                                  pool->where + p * from, dx + p * to);
            continue;
        }
        memset(dx + p * to, 0, (size_t)to * sizeof *dx);
        if (pool->where)
            pool_max_backward_plane(&pool->top, dy + p * from, pool->where + p * from, dx + p * to);
        else
            pool_ave_backward_plane(&op->args.u.pool, &pool->bottom, &pool->top, dy + p * from,
                                    dx + p * to);
    }
    return 0;
}

static void pool_destroy(struct cpu_op *op)
{
    cpu_free(((struct pool *)op)->where);
}

const struct cpu_kind cpu_pool = {
    .size = sizeof(struct pool),
    .create = pool_create,
    .forward = pool_forward,
    .backward = pool_backward,
    .destroy = pool_destroy,
};
