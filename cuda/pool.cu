/* Pooling as Caffe means it, channels last: neighbouring threads take neighbouring channels.
 *
 * Ours rather than cuDNN's: Caffe's top reaches beyond the padded image, its AVE divisor is clipped
 * there, its second top wants the maximum's place, and STOCHASTIC is Caffe's alone. Backward
 * gathers, so nothing is added twice.
 */
#include "philox.cuh"

/* The window of one top position on one axis. */
struct span {
    int begin, end, padded; /* clipped to the image; length clipped to the padded image */
};

static DEVICE struct span pool_span_of(const struct kernel_pool &p, int axis, int at)
{
    int size = p.size[axis], pad = p.pad[axis];
    int begin = at * p.stride[axis] - pad, end = begin + p.kernel[axis];
    struct span s;

    end = end < size + pad ? end : size + pad;
    s.padded = end > begin ? end - begin : 0;
    s.begin = begin > 0 ? begin : 0;
    s.end = end < size ? end : size;
    return s;
}

/* An element of the top: its channel, its sample, and its window's spans. */
struct pool_window {
    int c, sample;
    struct span d, h, w;
};

static DEVICE struct pool_window pool_window_of(const struct kernel_pool &p, uint32_t i)
{
    struct pool_window win;

    win.c = (int)(i % (uint32_t)p.channels);
    i /= (uint32_t)p.channels;
    win.w = pool_span_of(p, 2, (int)(i % (uint32_t)p.places[2]));
    i /= (uint32_t)p.places[2];
    win.h = pool_span_of(p, 1, (int)(i % (uint32_t)p.places[1]));
    i /= (uint32_t)p.places[1];
    win.d = pool_span_of(p, 0, (int)(i % (uint32_t)p.places[0]));
    win.sample = (int)(i / (uint32_t)p.places[0]);
    return win;
}

/* The pixels of a window in reading order: `here` is their number in the plane. */
#define FOR_WINDOW(p, win, here)                                                                   \
    for (int d_ = (win).d.begin; d_ < (win).d.end; d_++)                                           \
        for (int h_ = (win).h.begin; h_ < (win).h.end; h_++)                                       \
            for (int row_ = (d_ * (p).size[1] + h_) * (p).size[2], here = row_ + (win).w.begin;    \
                 here < row_ + (win).w.end; here++)

/* The first pixel of that channel. */
template <typename T>
static DEVICE const T *pool_plane(const struct kernel_pool &p, const struct pool_window &win,
                                  const T *x)
{
    return x + win.sample * p.size[0] * p.size[1] * p.size[2] * p.channels + win.c;
}

/* What an empty window has: the lowest number of the type, where rounding would give infinity. */
static DEVICE float pool_lowest(const float *type)
{
    (void)type;
    return -FLT_MAX;
}

static DEVICE float pool_lowest(const struct bf16 *type)
{
    (void)type;
    return -3.38953139e38f;
}

template <typename T>
KERNEL void pool_max(struct kernel_pool p, const T *x, T *y, int32_t *where, size_t n)
{
    FOR_EACH(i, n)
    {
        struct pool_window win = pool_window_of(p, i);
        const T *plane = pool_plane(p, win, x);
        float best = -FLT_MAX;
        int32_t at = -1;
        FOR_WINDOW(p, win, here)
        {
            float v = element(plane[here * p.channels]);
            if (v > best) {
                best = v;
                at = (int32_t)here;
            }
        }
        element_set(&y[i], at < 0 ? pool_lowest(y) : best);
        if (where)
            where[i] = at;
    }
}

template <typename T> KERNEL void pool_ave(struct kernel_pool p, const T *x, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        struct pool_window win = pool_window_of(p, i);
        const T *plane = pool_plane(p, win, x);
        float sum = 0, divisor = (float)(win.d.padded * win.h.padded * win.w.padded);
        FOR_WINDOW(p, win, here)
        sum += element(plane[here * p.channels]);
        element_set(&y[i], divisor > 0 ? sum / divisor : 0);
    }
}

template <typename T>
KERNEL void pool_stochastic(struct kernel_pool p, const T *x, T *y, int32_t *where, size_t n)
{
    const uint32_t stream_pool = 7; /* RNG_POOL */
    struct kernel_run run = p.at ? *p.at : p.run;
    uint32_t places = (uint32_t)(p.places[0] * p.places[1] * p.places[2]);

    FOR_EACH(i, n)
    {
        struct pool_window win = pool_window_of(p, i);
        const T *plane = pool_plane(p, win, x);
        uint32_t draw = (uint32_t)win.c * places + i / (uint32_t)p.channels % places, words[4];
        float sum = 0, squares = 0, running = 0, threshold;
        int32_t at = -1;
        bool drawn = false;
        FOR_WINDOW(p, win, here)
        {
            float v = element(plane[here * p.channels]);
            sum += v;
            squares += v * v;
        }
        if (!where) {
            element_set(&y[i], sum > 0 ? squares / sum : 0);
            continue;
        }
        philox(run.seed, stream_pool, p.layer, run.first_sample + (uint64_t)win.sample, draw / 4,
               words);
        threshold = uniform(words[draw % 4]) * sum;
        FOR_WINDOW(p, win, here)
        {
            if (drawn)
                continue;
            at = (int32_t)here;
            running += element(plane[here * p.channels]);
            drawn = running >= threshold;
        }
        element_set(&y[i], at < 0 ? 0 : element(plane[at * p.channels]));
        where[i] = at;
    }
}

cudaError_t kernel_pool(cudaStream_t stream, enum cuda_type type, const struct kernel_pool *p,
                        const void *x, void *y, int32_t *where)
{
    size_t n = (size_t)(p->samples * p->channels * p->places[0] * p->places[1] * p->places[2]);

    if (p->max)
        WITH_TYPE(type, LAUNCH(pool_max<T>, grid_for(n), THREADS, stream, *p, (const T *)x, (T *)y,
                               where, n));
    else if (p->stochastic)
        WITH_TYPE(type, LAUNCH(pool_stochastic<T>, grid_for(n), THREADS, stream, *p, (const T *)x,
                               (T *)y, where, n));
    else
        WITH_TYPE(type,
                  LAUNCH(pool_ave<T>, grid_for(n), THREADS, stream, *p, (const T *)x, (T *)y, n));
    return cudaGetLastError();
}

/* The top positions on that axis whose window holds place `at` of the image: [begin, end). */
static DEVICE void pool_readers_of(const struct kernel_pool &p, int axis, int at, int *begin,
                                   int *end)
{
    int reach = at + p.pad[axis], kernel = p.kernel[axis], stride = p.stride[axis];
    int most = reach / stride + 1;

    *begin = reach < kernel ? 0 : (reach - kernel) / stride + 1;
    *end = most < p.places[axis] ? most : p.places[axis];
}

/* What the element of the top has for the pixel `here` of its plane. */
template <typename T>
static DEVICE float pool_share(const struct kernel_pool &p, const T *dy, const int32_t *where,
                               int here, int at)
{
    if (where)
        return where[at] == (int32_t)here ? element(dy[at]) : 0;
    struct pool_window win = pool_window_of(p, (uint32_t)at);
    return element(dy[at]) / (float)(win.d.padded * win.h.padded * win.w.padded);
}

template <typename T>
KERNEL void pool_back(struct kernel_pool p, const T *dy, const int32_t *where, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        int c = i % p.channels, pixels = p.size[0] * p.size[1] * p.size[2];
        int here = i / p.channels % pixels, sample = i / p.channels / pixels;
        int d0, d1, h0, h1, w0, w1;
        float sum = 0;
        pool_readers_of(p, 0, here / (p.size[1] * p.size[2]), &d0, &d1);
        pool_readers_of(p, 1, here / p.size[2] % p.size[1], &h0, &h1);
        pool_readers_of(p, 2, here % p.size[2], &w0, &w1);
        for (int pd = d0; pd < d1; pd++)
            for (int ph = h0; ph < h1; ph++)
                for (int pw = w0; pw < w1; pw++) {
                    int row = (sample * p.places[0] + pd) * p.places[1] + ph;
                    sum +=
                        pool_share(p, dy, where, here, (row * p.places[2] + pw) * p.channels + c);
                }
        element_set(&dx[i], sum);
    }
}

cudaError_t kernel_pool_back(cudaStream_t stream, enum cuda_type type, const struct kernel_pool *p,
                             const void *dy, const int32_t *where, void *dx)
{
    size_t n = (size_t)(p->samples * p->channels * p->size[0] * p->size[1] * p->size[2]);

    WITH_TYPE(type, LAUNCH(pool_back<T>, grid_for(n), THREADS, stream, *p, (const T *)dy, where,
                           (T *)dx, n));
    return cudaGetLastError();
}

template <typename T> KERNEL void int_to_float(const int32_t *from, T *to, size_t n)
{
    FOR_EACH(i, n)
    element_set(&to[i], (float)from[i]);
}

cudaError_t kernel_int_to_float(cudaStream_t stream, enum cuda_type type, const int32_t *from,
                                void *to, size_t n)
{
    WITH_TYPE(type, LAUNCH(int_to_float<T>, grid_for(n), THREADS, stream, from, (T *)to, n));
    return cudaGetLastError();
}
