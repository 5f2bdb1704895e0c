/* One coefficient per channel: scale and bias, PReLU. */
#include "kernel.cuh"

template <typename T>
KERNEL void scale(struct kernel_channels v, const T *x, const float *gain, const float *bias, T *y,
                  size_t n)
{
    FOR_EACH(i, n)
    {
        int c = (int)(i / v.inner % v.channels);
        float value = element(x[i]);
        element_set(&y[i], (gain ? value * gain[c] : value) + (bias ? bias[c] : 0));
    }
}

cudaError_t kernel_scale(cudaStream_t stream, enum cuda_type type, const struct kernel_channels *v,
                         const void *x, const float *gain, const float *bias, void *y)
{
    size_t n = kernel_channels_elems(v);

    WITH_TYPE(type, LAUNCH(scale<T>, grid_for(n), THREADS, stream, *v, (const T *)x, gain, bias,
                           (T *)y, n));
    return cudaGetLastError();
}

template <typename T>
KERNEL void prelu(struct kernel_channels v, const T *x, const T *dy, const float *slope,
                  bool shared, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        float a = element(x[i]), value = dy ? element(dy[i]) : a;
        float s = slope[shared ? 0 : i / v.inner % v.channels];
        element_set(&y[i], a > 0 ? value : s * value);
    }
}

cudaError_t kernel_prelu(cudaStream_t stream, enum cuda_type type, const struct kernel_channels *v,
                         const void *x, const void *dy, const float *slope, bool shared, void *y)
{
    size_t n = kernel_channels_elems(v);

    WITH_TYPE(type, LAUNCH(prelu<T>, grid_for(n), THREADS, stream, *v, (const T *)x, (const T *)dy,
                           slope, shared, (T *)y, n));
    return cudaGetLastError();
}
