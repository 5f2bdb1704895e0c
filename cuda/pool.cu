/* Pooling as Caffe defines it, channels last. Neighbouring threads take neighbouring channels, four
 * each where the channels divide by four: finding a window takes longer than reading it.
 *
 * cuDNN's pooling differs: Caffe's top reaches beyond the padded image, Caffe's AVE divisor is
 * clipped there, the second top wants the maximum's place, and STOCHASTIC is Caffe's alone.
 * Backward gathers, so nothing is added twice. */
#include "philox.cuh"

/* The window of one top position on one axis. */
struct span {
    int begin, end, padded; /* begin to end within the image; padded: length in the padded image */
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

/* An element of the top, or V neighbours: channel, sample, and the window's span on each axis. */
struct pool_window {
    int c, sample;
    struct span d, h, w;
};

template <int V>
static DEVICE struct pool_window pool_window_of(const struct kernel_pool &p, uint32_t i)
{
    uint32_t groups = (uint32_t)p.channels / V;
    struct pool_window win;

    win.c = (int)(i % groups) * V;
    i /= groups;
    win.w = pool_span_of(p, 2, (int)(i % (uint32_t)p.places[2]));
    i /= (uint32_t)p.places[2];
    win.h = pool_span_of(p, 1, (int)(i % (uint32_t)p.places[1]));
    i /= (uint32_t)p.places[1];
    win.d = pool_span_of(p, 0, (int)(i % (uint32_t)p.places[0]));
    win.sample = (int)(i / (uint32_t)p.places[0]);
    return win;
}

/* Loops over a window's pixels in reading order; `here` is the pixel's number in its plane. */
#define FOR_WINDOW(p, win, here)                                                                   \
    for (int d_ = (win).d.begin; d_ < (win).d.end; d_++)                                           \
        for (int h_ = (win).h.begin; h_ < (win).h.end; h_++)                                       \
            for (int row_ = (d_ * (p).size[1] + h_) * (p).size[2], here = row_ + (win).w.begin;    \
                 here < row_ + (win).w.end; here++)

/* Returns the first pixel of the window's sample and channel. */
template <typename T>
static DEVICE const T *pool_plane(const struct kernel_pool &p, const struct pool_window &win,
                                  const T *x)
{
    return x + win.sample * p.size[0] * p.size[1] * p.size[2] * p.channels + win.c;
}

/* Returns the value of an empty window: the type's lowest number, since rounding to bfloat16 would
 * give -infinity. */
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

template <int V, typename T>
KERNEL void pool_max(struct kernel_pool p, const T *x, T *y, int32_t *where, size_t n)
{
    FOR_EACH(i, n)
    {
        struct pool_window win = pool_window_of<V>(p, i);
        const T *plane = pool_plane(p, win, x);
        struct lanes<int32_t, V> at;
        float best[V];
        UNROLL
        for (int k = 0; k < V; k++) {
            best[k] = -FLT_MAX;
            at.at[k] = -1;
        }
        FOR_WINDOW(p, win, here)
        {
            float v[V];
            lanes_get<V>(plane + here * p.channels, v);
            UNROLL
            for (int k = 0; k < V; k++)
                if (v[k] > best[k]) {
                    best[k] = v[k];
                    at.at[k] = (int32_t)here;
                }
        }
        UNROLL
        for (int k = 0; k < V; k++)
            if (at.at[k] < 0)
                best[k] = pool_lowest(y);
        lanes_set<V>(y + i * V, best);
        if (where)
            *(struct lanes<int32_t, V> *)(where + i * V) = at;
    }
}

template <int V, typename T> KERNEL void pool_ave(struct kernel_pool p, const T *x, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        struct pool_window win = pool_window_of<V>(p, i);
        const T *plane = pool_plane(p, win, x);
        float sum[V] = {0}, divisor = (float)(win.d.padded * win.h.padded * win.w.padded);
        FOR_WINDOW(p, win, here)
        {
            float v[V];
            lanes_get<V>(plane + here * p.channels, v);
            UNROLL
            for (int k = 0; k < V; k++)
                sum[k] += v[k];
        }
        UNROLL
        for (int k = 0; k < V; k++)
            sum[k] = divisor > 0 ? sum[k] / divisor : 0;
        lanes_set<V>(y + i * V, sum);
    }
}

template <typename T>
KERNEL void pool_stochastic(struct kernel_pool p, const T *x, T *y, int32_t *where, size_t n)
{
    const uint32_t stream_pool = 7; /* RNG_POOL */
    struct kernel_pass pass = p.at ? *p.at : p.pass;
    uint32_t places = (uint32_t)(p.places[0] * p.places[1] * p.places[2]);

    FOR_EACH(i, n)
    {
        struct pool_window win = pool_window_of<1>(p, i);
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
        philox(pass.seed, stream_pool, p.layer, pass.first_sample + (uint64_t)win.sample, draw / 4,
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
        WITH_LANES(lanes_fit(p->channels, x, y, where),
                   WITH_TYPE(type, LAUNCH((pool_max<V, T>), grid_for(n / V), THREADS, stream, *p,
                                          (const T *)x, (T *)y, where, n / V)));
    else if (p->stochastic)
        WITH_TYPE(type, LAUNCH(pool_stochastic<T>, grid_for(n), THREADS, stream, *p, (const T *)x,
                               (T *)y, where, n));
    else
        WITH_LANES(lanes_fit(p->channels, x, y),
                   WITH_TYPE(type, LAUNCH((pool_ave<V, T>), grid_for(n / V), THREADS, stream, *p,
                                          (const T *)x, (T *)y, n / V)));
    return cudaGetLastError();
}

/* Finds the top positions on an axis, [begin, end), whose windows hold place `at` of the image. */
static DEVICE void pool_readers_of(const struct kernel_pool &p, int axis, int at, int *begin,
                                   int *end)
{
    int reach = at + p.pad[axis], kernel = p.kernel[axis], stride = p.stride[axis];
    int most = reach / stride + 1;

    *begin = reach < kernel ? 0 : (reach - kernel) / stride + 1;
    *end = most < p.places[axis] ? most : p.places[axis];
}

/* Adds the gradients that V top elements, from `at` on, give to pixel `here` of their plane. */
template <int V, typename T>
static DEVICE void pool_share(const T *dy, const int32_t *where, int here, int at, float divisor,
                              float sum[V])
{
    struct lanes<int32_t, V> from;
    bool mine[V], any = false;
    float d[V];

    if (where)
        from = *(const struct lanes<int32_t, V> *)(where + at);
    UNROLL
    for (int k = 0; k < V; k++) {
        mine[k] = !where || from.at[k] == (int32_t)here;
        any |= mine[k];
    }
    if (!any)
        return;
    lanes_get<V>(dy + at, d);
    UNROLL
    for (int k = 0; k < V; k++)
        sum[k] += !mine[k] ? 0 : where ? d[k] : d[k] / divisor;
}

template <int V, typename T>
KERNEL void pool_back(struct kernel_pool p, const T *dy, const int32_t *where, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        int groups = p.channels / V, c = (int)i % groups * V, pixel = (int)i / groups;
        int here = pixel % (p.size[0] * p.size[1] * p.size[2]);
        int sample = pixel / (p.size[0] * p.size[1] * p.size[2]);
        int d0, d1, h0, h1, w0, w1;
        float sum[V] = {0};
        pool_readers_of(p, 0, here / (p.size[1] * p.size[2]), &d0, &d1);
        pool_readers_of(p, 1, here / p.size[2] % p.size[1], &h0, &h1);
        pool_readers_of(p, 2, here % p.size[2], &w0, &w1);
        for (int pd = d0; pd < d1; pd++)
            for (int ph = h0; ph < h1; ph++)
                for (int pw = w0; pw < w1; pw++) {
                    int row = (sample * p.places[0] + pd) * p.places[1] + ph;
                    int divisor = where ? 1
                                        : pool_span_of(p, 0, pd).padded *
                                              pool_span_of(p, 1, ph).padded *
                                              pool_span_of(p, 2, pw).padded;
                    pool_share<V>(dy, where, here, (row * p.places[2] + pw) * p.channels + c,
                                  (float)divisor, sum);
                }
        lanes_set<V>(dx + i * V, sum);
    }
}

cudaError_t kernel_pool_back(cudaStream_t stream, enum cuda_type type, const struct kernel_pool *p,
                             const void *dy, const int32_t *where, void *dx)
{
    size_t n = (size_t)(p->samples * p->channels * p->size[0] * p->size[1] * p->size[2]);

    WITH_LANES(lanes_fit(p->channels, dy, where, dx),
               WITH_TYPE(type, LAUNCH((pool_back<V, T>), grid_for(n / V), THREADS, stream, *p,
                                      (const T *)dy, where, (T *)dx, n / V)));
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
