/* Batch normalisation: statistics from the sums per channel (channel.cu), normalisation, and dx. */
#include "kernel.cuh"

KERNEL void batch_norm_mean(double elems, const double *sums, int channels, float *mean)
{
    FOR_EACH(c, channels)
    mean[c] = (float)(sums[c] / elems);
}

cudaError_t kernel_batch_mean(cudaStream_t stream, const struct kernel_batch_norm *b,
                              const double *sums, int channels, float *mean)
{
    LAUNCH(batch_norm_mean, grid_for((size_t)channels), THREADS, stream, b->elems, sums, channels,
           mean);
    return cudaGetLastError();
}

KERNEL void batch_norm_statistics(struct kernel_batch_norm b, const double *sums, int channels,
                                  float *mean, float *inverse, float *mean_sum, float *variance_sum,
                                  float *weight)
{
    double unbias = b.elems > 1 ? b.elems / (b.elems - 1) : 1;

    FOR_EACH(c, channels)
    {
        double m = sums[c] / b.elems, variance = sums[channels + c] / b.elems - m * m;
        variance = variance < 0 ? 0 : variance; /* NaN stays NaN */
        mean[c] = (float)m;
        inverse[c] = (float)(1 / sqrt(variance + (double)b.eps));
        mean_sum[c] = b.fraction * mean_sum[c] + mean[c];
        variance_sum[c] = b.fraction * variance_sum[c] + (float)(variance * unbias);
        if (c == 0)
            *weight = b.fraction * *weight + 1;
    }
}

cudaError_t kernel_batch_statistics(cudaStream_t stream, const struct kernel_batch_norm *b,
                                    const double *sums, int channels, float *mean, float *inverse,
                                    float *mean_sum, float *variance_sum, float *weight)
{
    LAUNCH(batch_norm_statistics, grid_for((size_t)channels), THREADS, stream, *b, sums, channels,
           mean, inverse, mean_sum, variance_sum, weight);
    return cudaGetLastError();
}

KERNEL void batch_norm_global(float eps, int channels, const float *mean_sum,
                              const float *variance_sum, const float *weight, float *mean,
                              float *inverse)
{
    double scale = *weight == 0 ? 0 : 1 / (double)*weight;

    FOR_EACH(c, channels)
    {
        mean[c] = (float)(mean_sum[c] * scale);
        inverse[c] = (float)(1 / sqrt(variance_sum[c] * scale + (double)eps));
    }
}

cudaError_t kernel_batch_global(cudaStream_t stream, const struct kernel_batch_norm *b,
                                int channels, const float *mean_sum, const float *variance_sum,
                                const float *weight, float *mean, float *inverse)
{
    LAUNCH(batch_norm_global, grid_for((size_t)channels), THREADS, stream, b->eps, channels,
           mean_sum, variance_sum, weight, mean, inverse);
    return cudaGetLastError();
}

/* Returns the first channel of the i-th group of V elements. */
template <int V> static DEVICE int batch_norm_channel(const struct kernel_channels &v, uint32_t i)
{
    return (int)(i / (uint32_t)v.inner % (uint32_t)(v.channels / V)) * V;
}

static bool batch_norm_lanes_fit(const struct kernel_channels *v, const float *mean,
                                 const float *inverse, const float *gamma, const float *beta)
{
    return v->inner == 1 && lanes_fit(v->channels, mean, inverse, gamma, beta);
}

template <int V, typename T>
KERNEL void batch_norm_apply(struct kernel_channels v, const T *x, const float *mean,
                             const float *inverse, const float *gamma, const float *beta, bool relu,
                             T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        int c = batch_norm_channel<V>(v, i);
        const struct normed<V> by(c, mean, inverse, gamma, beta);
        float at[V];
        lanes_get<V>(x + i * V, at);
        UNROLL
        for (int k = 0; k < V; k++) {
            at[k] = by.of(k, at[k]);
            at[k] = relu && at[k] < 0 ? 0 : at[k];
        }
        lanes_set<V>(y + i * V, at);
    }
}

cudaError_t kernel_batch_apply(cudaStream_t stream, enum cuda_type type,
                               const struct kernel_channels *v, const void *x, const float *mean,
                               const float *inverse, const float *gamma, const float *beta,
                               bool relu, void *y)
{
    size_t n = kernel_channels_elems(v);

    WITH_LANES(
        batch_norm_lanes_fit(v, mean, inverse, gamma, beta) && lanes_fit(v->channels, x, y),
        WITH_TYPE(type, LAUNCH((batch_norm_apply<V, T>), grid_for(n / V), THREADS, stream, *v,
                               (const T *)x, mean, inverse, gamma, beta, relu, (T *)y, n / V)));
    return cudaGetLastError();
}

template <int V, typename T>
KERNEL void batch_norm_back(struct kernel_channels v, float share, const T *x, const T *dy,
                            const float *mean, const float *inverse, const float *gamma,
                            const float *beta, bool relu, const double *sums, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        int c = batch_norm_channel<V>(v, i);
        const struct normed<V> by(c, mean, inverse, gamma, beta);
        double of_dy[V], of_product[V];
        float at[V] = {0}, d[V];
        lanes_get<V>(dy + i * V, d);
        if (relu || sums)
            lanes_get<V>(x + i * V, at);
        lanes_of_channels<V>(sums ? sums + c : NULL, 0.0, of_dy);
        lanes_of_channels<V>(sums ? sums + v.channels + c : NULL, 0.0, of_product);
        UNROLL
        for (int k = 0; k < V; k++) {
            float r = by.inverse[k];
            if (relu && !(by.of(k, at[k]) > 0))
                d[k] = 0 * d[k];
            if (sums)
                d[k] -= ((float)of_dy[k] + (at[k] - by.mean[k]) * r * (float)of_product[k]) * share;
            d[k] = (gamma ? by.gamma[k] * r : r) * d[k];
        }
        lanes_set<V>(dx + i * V, d);
    }
}

cudaError_t kernel_batch_back(cudaStream_t stream, enum cuda_type type,
                              const struct kernel_channels *v, const struct kernel_batch_norm *b,
                              const void *x, const void *dy, const float *mean,
                              const float *inverse, const float *gamma, const float *beta,
                              bool relu, const double *sums, void *dx)
{
    size_t n = kernel_channels_elems(v);

    WITH_LANES(batch_norm_lanes_fit(v, mean, inverse, gamma, beta) &&
                   lanes_fit(v->channels, x, dy, sums, dx),
               WITH_TYPE(type, LAUNCH((batch_norm_back<V, T>), grid_for(n / V), THREADS, stream, *v,
                                      (float)(1 / b->elems), (const T *)x, (const T *)dy, mean,
                                      inverse, gamma, beta, relu, sums, (T *)dx, n / V)));
    return cudaGetLastError();
}
