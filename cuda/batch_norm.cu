/* Batch normalisation: statistics of the sums per channel (channel.cu), and what is done with them.
 */
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
        variance = variance < 0 ? 0 : variance; /* NaN stays */
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

template <typename T>
KERNEL void batch_norm_apply(struct kernel_channels v, const T *x, const float *mean,
                             const float *inverse, const float *gamma, const float *beta, bool relu,
                             T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        int c = (int)(i / v.inner % v.channels);
        float value =
            normed(element(x[i]), mean[c], inverse[c], gamma ? gamma[c] : 1, beta ? beta[c] : 0);
        element_set(&y[i], relu && value < 0 ? 0 : value);
    }
}

cudaError_t kernel_batch_apply(cudaStream_t stream, enum cuda_type type,
                               const struct kernel_channels *v, const void *x, const float *mean,
                               const float *inverse, const float *gamma, const float *beta,
                               bool relu, void *y)
{
    size_t n = kernel_channels_elems(v);

    WITH_TYPE(type, LAUNCH(batch_norm_apply<T>, grid_for(n), THREADS, stream, *v, (const T *)x,
                           mean, inverse, gamma, beta, relu, (T *)y, n));
    return cudaGetLastError();
}

template <typename T>
KERNEL void batch_norm_back(struct kernel_channels v, float share, const T *x, const T *dy,
                            const float *mean, const float *inverse, const float *gamma,
                            const float *beta, bool relu, const double *sums, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        int c = (int)(i / v.inner % v.channels);
        float d = element(dy[i]), r = inverse[c], at = relu || sums ? element(x[i]) : 0;
        if (relu && !(normed(at, mean[c], r, gamma ? gamma[c] : 1, beta ? beta[c] : 0) > 0))
            d = 0 * d;
        if (sums)
            d -= ((float)sums[c] + (at - mean[c]) * r * (float)sums[v.channels + c]) * share;
        element_set(&dx[i], (gamma ? gamma[c] * r : r) * d);
    }
}

cudaError_t kernel_batch_back(cudaStream_t stream, enum cuda_type type,
                              const struct kernel_channels *v, const struct kernel_batch_norm *b,
                              const void *x, const void *dy, const float *mean,
                              const float *inverse, const float *gamma, const float *beta,
                              bool relu, const double *sums, void *dx)
{
    size_t n = kernel_channels_elems(v);

    WITH_TYPE(type, LAUNCH(batch_norm_back<T>, grid_for(n), THREADS, stream, *v,
                           (float)(1 / b->elems), (const T *)x, (const T *)dy, mean, inverse, gamma,
                           beta, relu, sums, (T *)dx, n));
    return cudaGetLastError();
}
