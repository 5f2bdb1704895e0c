/* Pooling as Caffe means it, NHWC: neighbouring threads take neighbouring channels.
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

static DEVICE struct span pool_span_of(int at, int kernel, int stride, int pad, int size)
{
    int begin = at * stride - pad, end = begin + kernel;
    struct span s;

    end = end < size + pad ? end : size + pad;
    s.padded = end > begin ? end - begin : 0;
    s.begin = begin > 0 ? begin : 0;
    s.end = end < size ? end : size;
    return s;
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
        int c = i % p.channels, pw = i / p.channels % p.top_width;
        int ph = i / (p.channels * p.top_width) % p.top_height;
        int sample = i / (p.channels * p.top_width * p.top_height);
        struct span rows = pool_span_of(ph, p.kernel[0], p.stride[0], p.pad[0], p.height);
        struct span columns = pool_span_of(pw, p.kernel[1], p.stride[1], p.pad[1], p.width);
        float best = -FLT_MAX;
        int32_t at = -1;
        for (int h = rows.begin; h < rows.end; h++)
            for (int w = columns.begin; w < columns.end; w++) {
                int here = h * p.width + w;
                float v = element(x[(sample * p.height * p.width + here) * p.channels + c]);
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
        int c = i % p.channels, pw = i / p.channels % p.top_width;
        int ph = i / (p.channels * p.top_width) % p.top_height;
        int sample = i / (p.channels * p.top_width * p.top_height);
        struct span rows = pool_span_of(ph, p.kernel[0], p.stride[0], p.pad[0], p.height);
        struct span columns = pool_span_of(pw, p.kernel[1], p.stride[1], p.pad[1], p.width);
        float sum = 0, divisor = (float)(rows.padded * columns.padded);
        for (int h = rows.begin; h < rows.end; h++)
            for (int w = columns.begin; w < columns.end; w++)
                sum += element(x[((sample * p.height + h) * p.width + w) * p.channels + c]);
        element_set(&y[i], divisor > 0 ? sum / divisor : 0);
    }
}

template <typename T>
KERNEL void pool_stochastic(struct kernel_pool p, const T *x, T *y, int32_t *where, size_t n)
{
    const uint32_t stream_pool = 7; /* RNG_POOL */
    struct kernel_run run = p.at ? *p.at : p.run;

    FOR_EACH(i, n)
    {
        int c = i % p.channels, pw = i / p.channels % p.top_width;
        int ph = i / (p.channels * p.top_width) % p.top_height;
        int sample = i / (p.channels * p.top_width * p.top_height);
        struct span rows = pool_span_of(ph, p.kernel[0], p.stride[0], 0, p.height);
        struct span columns = pool_span_of(pw, p.kernel[1], p.stride[1], 0, p.width);
        const T *plane = x + sample * p.height * p.width * p.channels + c;
        uint32_t draw = (uint32_t)((c * p.top_height + ph) * p.top_width + pw), words[4];
        float sum = 0, squares = 0, running = 0, threshold;
        int32_t at = -1;
        bool drawn = false;
        for (int h = rows.begin; h < rows.end; h++)
            for (int w = columns.begin; w < columns.end; w++) {
                float v = element(plane[(h * p.width + w) * p.channels]);
                sum += v;
                squares += v * v;
            }
        if (!where) {
            element_set(&y[i], sum > 0 ? squares / sum : 0);
            continue;
        }
        philox(run.seed, stream_pool, p.layer, run.first_sample + (uint64_t)sample, draw / 4,
               words);
        threshold = uniform(words[draw % 4]) * sum;
        for (int h = rows.begin; h < rows.end && !drawn; h++)
            for (int w = columns.begin; w < columns.end && !drawn; w++) {
                at = (int32_t)(h * p.width + w);
                running += element(plane[at * p.channels]);
                drawn = running >= threshold;
            }
        element_set(&y[i], at < 0 ? 0 : element(plane[at * p.channels]));
        where[i] = at;
    }
}

cudaError_t kernel_pool(cudaStream_t stream, enum cuda_type type, const struct kernel_pool *p,
                        const void *x, void *y, int32_t *where)
{
    size_t n = (size_t)(p->samples * p->channels * p->top_height * p->top_width);

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

/* The top positions whose window holds place `at` of the image: [begin, end). */
static DEVICE void pool_readers_of(int at, int kernel, int stride, int pad, int tops, int *begin,
                                   int *end)
{
    int most = (at + pad) / stride + 1;

    *begin = at + pad < kernel ? 0 : (at + pad - kernel) / stride + 1;
    *end = most < tops ? most : tops;
}

template <typename T>
KERNEL void pool_back(struct kernel_pool p, const T *dy, const int32_t *where, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        int c = i % p.channels, w = i / p.channels % p.width;
        int h = i / (p.channels * p.width) % p.height;
        int sample = i / (p.channels * p.width * p.height);
        int h0, h1, w0, w1;
        float sum = 0;
        pool_readers_of(h, p.kernel[0], p.stride[0], p.pad[0], p.top_height, &h0, &h1);
        pool_readers_of(w, p.kernel[1], p.stride[1], p.pad[1], p.top_width, &w0, &w1);
        for (int ph = h0; ph < h1; ph++)
            for (int pw = w0; pw < w1; pw++) {
                int at = ((sample * p.top_height + ph) * p.top_width + pw) * p.channels + c;
                if (where) {
                    if (where[at] == (int32_t)(h * p.width + w))
                        sum += element(dy[at]);
                } else {
                    struct span rows =
                        pool_span_of(ph, p.kernel[0], p.stride[0], p.pad[0], p.height);
                    struct span columns =
                        pool_span_of(pw, p.kernel[1], p.stride[1], p.pad[1], p.width);
                    sum += element(dy[at]) / (float)(rows.padded * columns.padded);
                }
            }
        element_set(&dx[i], sum);
    }
}

cudaError_t kernel_pool_back(cudaStream_t stream, enum cuda_type type, const struct kernel_pool *p,
                             const void *dy, const int32_t *where, void *dx)
{
    size_t n = (size_t)(p->samples * p->channels * p->height * p->width);

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
