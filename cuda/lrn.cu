/* Local response normalisation, NHWC: y = x s^-beta, s = k + scale * sum of squares in the window.
 *
 * A window of five across channels is five loads that the cache holds; s is computed anew where it
 * is needed rather than stored. Backward first leaves ratio = dy x s^(-beta-1), then sums it. */
#include "kernel.cuh"

struct lrn_place {
    int c, w, h, sample;
};

static DEVICE struct lrn_place lrn_place_of(const struct kernel_lrn *l, int i)
{
    struct lrn_place p;

    p.c = i % l->channels;
    p.w = i / l->channels % l->width;
    p.h = i / (l->channels * l->width) % l->height;
    p.sample = i / (l->channels * l->width * l->height);
    return p;
}

/* Sum of f over the window around place p; f is x squared or x itself. */
template <typename T>
static DEVICE float lrn_window_sum(const struct kernel_lrn *l, struct lrn_place p, const T *x,
                                   bool square)
{
    float sum = 0;

    if (!l->within) {
        const T *row = x + ((p.sample * l->height + p.h) * l->width + p.w) * l->channels;
        int begin = p.c > l->half ? p.c - l->half : 0;
        int end = p.c + l->half + 1 < l->channels ? p.c + l->half + 1 : l->channels;
        for (int c = begin; c < end; c++) {
            float v = element(row[c]);
            sum += square ? v * v : v;
        }
        return sum;
    }
    int h0 = p.h > l->half ? p.h - l->half : 0, w0 = p.w > l->half ? p.w - l->half : 0;
    int h1 = p.h + l->half + 1 < l->height ? p.h + l->half + 1 : l->height;
    int w1 = p.w + l->half + 1 < l->width ? p.w + l->half + 1 : l->width;
    for (int h = h0; h < h1; h++)
        for (int w = w0; w < w1; w++) {
            float v = element(x[((p.sample * l->height + h) * l->width + w) * l->channels + p.c]);
            sum += square ? v * v : v;
        }
    return sum;
}

/* s^-beta; 0.75, which nearly all nets use, without powf */
static DEVICE float lrn_power(float s, float beta)
{
    if (beta == 0.75f) {
        float root = sqrtf(s);
        return 1 / (root * sqrtf(root));
    }
    return powf(s, -beta);
}

template <typename T> KERNEL void lrn(struct kernel_lrn l, const T *x, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        float s = l.k + l.scale * lrn_window_sum(&l, lrn_place_of(&l, i), x, true);
        element_set(&y[i], element(x[i]) * lrn_power(s, l.beta));
    }
}

cudaError_t kernel_lrn(cudaStream_t stream, enum cuda_type type, const struct kernel_lrn *l,
                       const void *x, void *y)
{
    size_t n = (size_t)(l->samples * l->channels * l->height * l->width);

    WITH_TYPE(type, LAUNCH(lrn<T>, grid_for(n), THREADS, stream, *l, (const T *)x, (T *)y, n));
    return cudaGetLastError();
}

template <typename T>
KERNEL void lrn_ratio(struct kernel_lrn l, const T *x, const T *dy, float *ratio, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        float s = l.k + l.scale * lrn_window_sum(&l, lrn_place_of(&l, i), x, true);
        float p = lrn_power(s, l.beta), d = element(dy[i]);
        ratio[i] = d * element(x[i]) * p / s;
        element_set(&dx[i], d * p);
    }
}

/* dx = dy s^-beta - 2 scale beta x * sum over the window of ratio */
template <typename T>
KERNEL void lrn_back(struct kernel_lrn l, const T *x, const float *ratio, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        float sum = lrn_window_sum(&l, lrn_place_of(&l, i), ratio, false);
        element_set(&dx[i], element(dx[i]) - 2 * l.scale * l.beta * element(x[i]) * sum);
    }
}

cudaError_t kernel_lrn_back(cudaStream_t stream, enum cuda_type type, const struct kernel_lrn *l,
                            const void *x, const void *dy, float *ratio, void *dx)
{
    size_t n = (size_t)(l->samples * l->channels * l->height * l->width);

    WITH_TYPE(type, {
        LAUNCH(lrn_ratio<T>, grid_for(n), THREADS, stream, *l, (const T *)x, (const T *)dy, ratio,
               (T *)dx, n);
        LAUNCH(lrn_back<T>, grid_for(n), THREADS, stream, *l, (const T *)x, (const float *)ratio,
               (T *)dx, n);
    });
    return cudaGetLastError();
}
