/* Pooling in any format, a plane of D x H x W x block floats at a time.
 *
 * Ours rather than oneDNN's: Caffe's top reaches beyond the padded image, its AVE divisor is
 * clipped there, its second top wants the maximum's place, and STOCHASTIC is Caffe's alone. Being
 * bound by memory, it loses nothing. */
#include "engine/cpu/cpu_internal.h"

#include "engine/cpu/pool_max.h"
#include "engine/op_size.h"
#include "util/rng.h"

#include <float.h>
#include <string.h>

struct pool {
    struct cpu_op op;
    struct cpu_planes bottom, top;
    struct op_windows windows;
    /* Place of each top in its D x H x W plane, -1: none. MAX: in TRAIN or for the mask;
     * STOCHASTIC: in TRAIN. int32_t, or the last bits of it in a uint8_t, which are enough for a
     * window to be asked whether it took a place of its own, or pool_max.c's numbers. */
    void *where;
    bool where_small;
    bool usual; /* MAX by pool_max.c */
};

/* A window along one axis, clipped to the image. */
struct span {
    int64_t begin, end;
    int64_t padded; /* its length clipped to the padded image, below 1 where it is empty */
};

/* The window of one output position. */
struct window {
    struct span d, h, w;
    float divisor; /* AVE: what it holds of the padded image; 0 where it is empty */
};

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#define INLINE static inline __attribute__((always_inline))

INLINE struct span pool_span_at(const struct op_windows *a, int axis, int64_t place)
{
    int64_t begin = place * a->stride[axis] - a->pad[axis];
    int64_t end = min64(begin + a->kernel[axis], a->size[axis] + a->pad[axis]);

    return (struct span){
        .begin = max64(begin, 0), .end = min64(end, a->size[axis]), .padded = end - begin};
}

INLINE struct window pool_window_at(const struct op_windows *a, int64_t pd, int64_t ph, int64_t pw)
{
    struct window win = {pool_span_at(a, 0, pd), pool_span_at(a, 1, ph), pool_span_at(a, 2, pw), 0};

    if (win.d.padded > 0 && win.h.padded > 0 && win.w.padded > 0)
        win.divisor = (float)(win.d.padded * win.h.padded * win.w.padded);
    return win;
}

/* The window of output position p of a plane. */
INLINE struct window pool_window_of(const struct op_windows *a, int64_t p)
{
    return pool_window_at(a, p / a->places[2] / a->places[1], p / a->places[2] % a->places[1],
                          p % a->places[2]);
}

/* The same windows with a depth that compilers see to be one: loops over it then cost nothing. */
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

/* All places of a window, in reading order: `here` is the place's number in the plane. */
#define FOR_WINDOW(a, win, here)                                                                   \
    for (int64_t d_ = (win)->d.begin; d_ < (win)->d.end; d_++)                                     \
        for (int64_t h_ = (win)->h.begin; h_ < (win)->h.end; h_++)                                 \
            for (int64_t row_ = (d_ * (a)->size[1] + h_) * (a)->size[2],                           \
                         here = row_ + (win)->w.begin;                                             \
                 here < row_ + (win)->w.end; here++)

#define STRIP 8 /* channels kept in registers */

/* Vectors are spelt out: left alone, compilers make the stores of a running maximum conditional. */
typedef float floats __attribute__((vector_size(STRIP * sizeof(float)), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(STRIP * sizeof(int32_t)), aligned(4), may_alias));
typedef uint8_t bytes __attribute__((vector_size(STRIP), aligned(1), may_alias));

enum { SMALL_PLACES = 128 }; /* in a byte, with room for "none" */

/* Whether no two places of a window have the same last bits. */
static bool pool_places_differ(const struct op_windows *a)
{
    const int *k = a->kernel;
    const int64_t row = a->size[2], plane = a->size[1] * row;

    if (k[0] > SMALL_PLACES || k[1] > SMALL_PLACES || k[2] > SMALL_PLACES ||
        k[0] * k[1] * k[2] > SMALL_PLACES)
        return false;
    for (int64_t d = 0; d < k[0]; d++)
        for (int64_t h = 1 - k[1]; h < k[1]; h++)
            for (int64_t w = 1 - k[2]; w < k[2]; w++)
                if ((d || h || w) && (d * plane + h * row + w) % SMALL_PLACES == 0)
                    return false;
    return true;
}

/* The places of STRIP tops, the i-th the first. */
INLINE void pool_places_store(const int32_t *at, void *where, int64_t i, bool small)
{
    ints places = *(const ints *)at;

    if (small)
        *(bytes *)((uint8_t *)where + i) =
            __builtin_convertvector((places & (SMALL_PLACES - 1)) | (places < 0), bytes);
    else
        *(ints *)((int32_t *)where + i) = places;
}

/* Adds those of STRIP gradients whose tops took `here`. */
INLINE void pool_places_add(const void *where, int64_t i, bool small, int64_t here, const float *dy,
                            float *sum)
{
    ints mine;

    if (small)
        mine = __builtin_convertvector(*(const bytes *)((const uint8_t *)where + i), ints) ==
               (int32_t)(here & (SMALL_PLACES - 1));
    else
        mine = *(const ints *)((const int32_t *)where + i) == (int32_t)here;
    *(floats *)sum += (floats)(mine & (ints) * (const floats *)(dy + i));
}

/* `from`: the places that the maxima at y come from. */
INLINE void pool_max_strip(const float *x, const struct op_windows *a, int64_t block,
                           const struct window *win, float *y, int32_t *from)
{
    floats best = (floats){0} - FLT_MAX;
    ints at = (ints){0} - 1;

    FOR_WINDOW(a, win, here)
    {
        floats value = *(const floats *)(x + here * block);
        ints more = value > best;
        best = (floats)((more & (ints)value) | (~more & (ints)best));
        at = (more & (int32_t)here) | (~more & at);
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

/* The same of one channel. */
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
    if (where)
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

/* All channels of one window, STRIP at a time; the last strip overlaps where they do not divide. */
INLINE void pool_forward_window(const struct pool *pool, const struct op_windows *a, int64_t block,
                                const struct window *win, const float *x, float *y, void *where,
                                int64_t to)
{
    int64_t step = block < STRIP ? 1 : STRIP;
    bool max = pool->op.args.u.pool.method == POOL_MAX;

    for (int64_t i = 0; i < block; i += step) {
        int64_t b = i + step <= block ? i : block - step;

        if (step == 1 && max)
            pool_max_one(x + b, a, block, win, y + to + b,
                         where ? (int32_t *)where + to + b : NULL);
        else if (step == 1)
            pool_sum_one(x + b, a, block, win, y + to + b);
        else if (max) {
            int32_t at[STRIP];
            pool_max_strip(x + b, a, block, win, y + to + b, at);
            if (where)
                pool_places_store(at, where, to + b, pool->where_small);
        } else
            pool_sum_strip(x + b, a, block, win, y + to + b);
    }
}

/* ---- maxima of windows that move by one: of rows first, then of those ---- */

enum { MOST_KERNEL = 5, MOST_WIDTH = 64 };

/* The maxima of one row's pieces, and their places in the plane; of STRIP channels. */
struct row_maxima {
    float best[MOST_WIDTH][STRIP];
    int32_t at[MOST_WIDTH][STRIP];
};

/* Of images alone. */
static bool pool_is_separable(const struct pool *pool)
{
    const struct op_windows *a = &pool->windows;
    const struct cpu_planes *top = &pool->top;

    return pool->op.args.u.pool.method == POOL_MAX && a->size[0] == 1 && a->stride[1] == 1 &&
           a->stride[2] == 1 && a->kernel[1] > 1 && a->kernel[1] <= MOST_KERNEL &&
           top->width <= MOST_WIDTH && top->block >= STRIP && top->block % STRIP == 0;
}

/* Of equal values the first in reading order wins, as in pool_max_strip: the leftmost of a row,
 * then the uppermost row. */
INLINE void pool_row_maxima(const struct op_windows *a, int64_t block, const float *x, int64_t h,
                            struct row_maxima *row)
{
    for (int64_t pw = 0; pw < a->places[2]; pw++) {
        struct window win = pool_window_at(a, 0, 0, pw);

        win.h = (struct span){h, h + 1, 1};
        pool_max_strip(x, a, block, &win, row->best[pw], row->at[pw]);
    }
}

/* Channels b to b + STRIP of a plane. */
INLINE void pool_separable_strip(const struct pool *pool, int64_t b, const float *x, float *y,
                                 void *where)
{
    const struct op_windows *a = &pool->windows;
    int64_t block = pool->top.block;
    struct row_maxima rows[MOST_KERNEL]; /* row h lies in rows[h % MOST_KERNEL] */
    int64_t done = 0;

    for (int64_t ph = 0; ph < a->places[1]; ph++) {
        struct span span = pool_span_at(a, 1, ph);

        for (done = max64(done, span.begin); done < span.end; done++)
            pool_row_maxima(a, block, x + b, done, &rows[done % MOST_KERNEL]);
        for (int64_t pw = 0; pw < a->places[2]; pw++) {
            int64_t to = (ph * a->places[2] + pw) * block + b;
            floats best = (floats){0} - FLT_MAX;
            ints at = (ints){0} - 1;

            for (int64_t h = span.begin; h < span.end; h++) {
                const struct row_maxima *row = &rows[h % MOST_KERNEL];
                floats value = *(const floats *)row->best[pw];
                ints more = value > best;
                best = (floats)((more & (ints)value) | (~more & (ints)best));
                at = (more & *(const ints *)row->at[pw]) | (~more & at);
            }
            *(floats *)(y + to) = best;
            if (where)
                pool_places_store((const int32_t *)&at, where, to, pool->where_small);
        }
    }
}

CPU_KERNEL static void pool_separable_plane(const struct pool *pool, const float *x, float *y,
                                            void *where)
{
    for (int64_t b = 0; b < pool->top.block; b += STRIP)
        pool_separable_strip(pool, b, x, y, where);
}

INLINE void pool_forward_windows(const struct pool *pool, const struct op_windows a, const float *x,
                                 float *y, void *where)
{
    int64_t to = 0, block = pool->top.block;

    for (int64_t pd = 0; pd < a.places[0]; pd++)
        for (int64_t ph = 0; ph < a.places[1]; ph++)
            for (int64_t pw = 0; pw < a.places[2]; pw++, to += block) {
                struct window win = pool_window_at(&a, pd, ph, pw);
                pool_forward_window(pool, &a, block, &win, x, y, where, to);
            }
}

CPU_KERNEL static void pool_forward_plane(const struct pool *pool, const float *x, float *y,
                                          void *where)
{
    if (pool_is_flat(&pool->windows))
        pool_forward_windows(pool, pool_flat(pool->windows), x, y, where);
    else
        pool_forward_windows(pool, pool->windows, x, y, where);
}

static void pool_usual_plane(const struct pool *pool, const float *x, float *y, void *where)
{
    pool_max_forward(&pool->windows, pool->top.block, x, y, where);
}

/* ---- STOCHASTIC ---- */

/* The sums go in the order of all engines, so that they draw the same places. */
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

static void pool_stochastic_plane(const struct pool *pool, const struct run *run, int64_t plane,
                                  const float *x, float *y, int32_t *where)
{
    const struct cpu_planes *top = &pool->top;
    const struct op_windows *a = &pool->windows;
    int64_t pixels = top->pixels, block = top->block;
    int64_t first = plane % top->groups * block;
    struct rng rng = rng_make(run->seed, RNG_POOL, (uint32_t)pool->op.args.layer_index,
                              run->first_sample + (uint64_t)(plane / top->groups));

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

/* The windows along one axis that hold a place: first to last, less than first if there is none. */
INLINE void pool_windows_over(const struct op_windows *a, int axis, int64_t place, int64_t *first,
                              int64_t *last)
{
    int64_t reach = place + a->pad[axis], before = reach - a->kernel[axis];

    *first = before < 0 ? 0 : before / a->stride[axis] + 1;
    *last = min64(reach / a->stride[axis], a->places[axis] - 1);
}

/* Each pixel asks the windows over it, in the order in which they would scatter: no store waits for
 * another, and the sums are the same. */
INLINE void pool_max_gather_row(const struct op_windows *a, int64_t block, int64_t d, int64_t h,
                                const float *dy, const void *where, bool small, float *dx)
{
    int64_t d0, d1, h0, h1, first = (d * a->size[1] + h) * a->size[2];

    pool_windows_over(a, 0, d, &d0, &d1);
    pool_windows_over(a, 1, h, &h0, &h1);
    for (int64_t w = 0; w < a->size[2]; w++) {
        int64_t w0, w1, here = first + w;
        pool_windows_over(a, 2, w, &w0, &w1);
        for (int64_t b = 0; b < block; b += STRIP) {
            float sum[STRIP] = {0};
            for (int64_t pd = d0; pd <= d1; pd++)
                for (int64_t ph = h0; ph <= h1; ph++)
                    for (int64_t pw = w0; pw <= w1; pw++) {
                        int64_t i = ((pd * a->places[1] + ph) * a->places[2] + pw) * block + b;
                        pool_places_add(where, i, small, here, dy, sum);
                    }
            memcpy(dx + here * block + b, sum, sizeof sum);
        }
    }
}

INLINE void pool_max_gather(const struct op_windows a, int64_t block, const float *dy,
                            const void *where, bool small, float *dx)
{
    for (int64_t d = 0; d < a.size[0]; d++)
        for (int64_t h = 0; h < a.size[1]; h++)
            pool_max_gather_row(&a, block, d, h, dy, where, small, dx);
}

CPU_KERNEL static void pool_max_gather_plane(const struct pool *pool, const float *dy,
                                             const void *where, float *dx)
{
    const struct op_windows *a = &pool->windows;
    int64_t block = pool->top.block;

    if (pool_is_flat(a) && pool->where_small) /* the usual ones, and all others */
        pool_max_gather(pool_flat(*a), block, dy, where, true, dx);
    else
        pool_max_gather(*a, block, dy, where, pool->where_small, dx);
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

static int pool_create(struct cpu_op *op)
{
    struct pool *pool = (struct pool *)op;
    const struct cpu_format *format = cpu_tensor_format(&op->args.bottoms[0]->value);

    pool->bottom = cpu_planes_of(&op->args.bottoms[0]->value.shape, format);
    pool->top = cpu_planes_of(&op->args.tops[0]->value.shape, format);
    pool->windows = op_pool_windows(&op->args.u.pool, &op->args.bottoms[0]->value.shape,
                                    &op->args.tops[0]->value.shape);
    pool->usual = op->args.u.pool.method == POOL_MAX && op->args.ntops < 2 &&
                  pool_max_fits(&pool->windows, pool->top.block);
    if (op->args.u.pool.method == POOL_AVE || (!op->args.train && op->args.ntops < 2))
        return 0;
    pool->where_small =
        pool->usual || (op->args.u.pool.method == POOL_MAX && op->args.ntops < 2 &&
                        pool->top.block % STRIP == 0 && pool_places_differ(&pool->windows));
    pool->where = cpu_op_alloc(op,
                               cpu_tensor_stored(&op->args.tops[0]->value) *
                                   (pool->where_small ? sizeof(uint8_t) : sizeof(int32_t)),
                               "the places that pooling chose");
    return pool->where ? 0 : -1;
}

/* From the i-th top on; NULL where none are kept. */
static void *pool_where_at(const struct pool *pool, int64_t i)
{
    if (!pool->where)
        return NULL;
    return pool->where_small ? (void *)((uint8_t *)pool->where + i)
                             : (void *)((int32_t *)pool->where + i);
}

static inline int64_t pool_plane_elems(const struct cpu_planes *planes)
{
    return planes->pixels * planes->block;
}

static int pool_forward(struct cpu_op *op)
{
    struct pool *pool = (struct pool *)op;
    int64_t from = pool_plane_elems(&pool->bottom), to = pool_plane_elems(&pool->top);
    const float *x = op->args.bottoms[0]->value.data;
    float *y = cpu_op_y(op);

    if (op->args.u.pool.method == POOL_STOCHASTIC) {
#pragma omp parallel for
        for (int64_t p = 0; p < pool->bottom.planes; p++)
            pool_stochastic_plane(pool, op->run, p, x + p * from, y + p * to,
                                  pool_where_at(pool, p * to));
        return 0;
    }
    bool separable = pool_is_separable(pool);
#pragma omp parallel for
    for (int64_t p = 0; p < pool->bottom.planes; p++)
        (pool->usual ? pool_usual_plane
         : separable
             ? pool_separable_plane
             : pool_forward_plane)(pool, x + p * from, y + p * to, pool_where_at(pool, p * to));
    if (op->args.ntops == 2) {
        float *mask = op->args.tops[1]->value.data;
#pragma omp parallel for
        for (int64_t i = 0; i < pool->top.planes * to; i++)
            mask[i] = (float)((const int32_t *)pool->where)[i];
    }
    return 0;
}

static int pool_gradient(struct cpu_op *op, int bottom, float *dx)
{
    struct pool *pool = (struct pool *)op;
    int64_t to = pool_plane_elems(&pool->bottom), from = pool_plane_elems(&pool->top);
    const float *dy = cpu_op_dy(op);

    (void)bottom;
#pragma omp parallel for
    for (int64_t p = 0; p < pool->bottom.planes; p++) {
        if (pool->usual) {
            pool_max_backward(&pool->windows, pool->top.block, dy + p * from,
                              pool_where_at(pool, p * from), dx + p * to);
            continue;
        }
        if (pool->where && pool->top.block % STRIP == 0) {
            pool_max_gather_plane(pool, dy + p * from, pool_where_at(pool, p * from), dx + p * to);
            continue;
        }
        memset(dx + p * to, 0, (size_t)to * sizeof *dx);
        if (pool->where)
            pool_max_backward_plane(&pool->top, dy + p * from, pool_where_at(pool, p * from),
                                    dx + p * to);
        else
            pool_ave_backward_plane(&pool->windows, pool->top.block, dy + p * from, dx + p * to);
    }
    return 0;
}

const struct cpu_kind cpu_pool = {
    .size = sizeof(struct pool),
    .blobs = CPU_AS_BOTTOM,
    .create = pool_create,
    .forward = pool_forward,
    .gradient = pool_gradient,
};
