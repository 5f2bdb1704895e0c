/* Sums, products and maxima of two blobs. */
#include "kernel.cuh"

template <int V, typename T>
KERNEL void eltwise_sum(float a, const T *x, float b, const T *z, bool relu, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        float value[V], other[V] = {0};
        lanes_get<V>(x + i * V, value);
        if (z)
            lanes_get<V>(z + i * V, other);
        UNROLL
        for (int k = 0; k < V; k++) {
            value[k] = a * value[k] + (z ? b * other[k] : 0);
            value[k] = relu && value[k] < 0 ? 0 : value[k];
        }
        lanes_set<V>(y + i * V, value);
    }
}

cudaError_t kernel_eltwise_sum(cudaStream_t stream, enum cuda_type type, float a, const void *x,
                               float b, const void *z, bool relu, void *y, size_t n)
{
    WITH_LANES(lanes_fit((int)n, x, z, y),
               WITH_TYPE(type, LAUNCH((eltwise_sum<V, T>), grid_for(n / V), THREADS, stream, a,
                                      (const T *)x, b, (const T *)z, relu, (T *)y, n / V)));
    return cudaGetLastError();
}

template <int V, typename T>
KERNEL void eltwise_sum_back(const T *y, const T *dy, float a, T *dx, float b, T *dz, size_t n)
{
    FOR_EACH(i, n)
    {
        float d[V], top[V], to[V];
        lanes_get<V>(dy + i * V, d);
        if (y)
            lanes_get<V>(y + i * V, top);
        UNROLL
        for (int k = 0; k < V; k++) {
            d[k] = y && !(top[k] > 0) ? 0 * d[k] : d[k];
            to[k] = a * d[k];
        }
        lanes_set<V>(dx + i * V, to);
        if (!dz)
            continue;
        UNROLL
        for (int k = 0; k < V; k++)
            to[k] = b * d[k];
        lanes_set<V>(dz + i * V, to);
    }
}

cudaError_t kernel_eltwise_sum_back(cudaStream_t stream, enum cuda_type type, const void *y,
                                    const void *dy, float a, void *dx, float b, void *dz, size_t n)
{
    WITH_LANES(lanes_fit((int)n, y, dy, dx, dz),
               WITH_TYPE(type, LAUNCH((eltwise_sum_back<V, T>), grid_for(n / V), THREADS, stream,
                                      (const T *)y, (const T *)dy, a, (T *)dx, b, (T *)dz, n / V)));
    return cudaGetLastError();
}

template <typename T> KERNEL void eltwise_product(const T *x, T *y, size_t n)
{
    FOR_EACH(i, n)
    element_set(&y[i], element(y[i]) * element(x[i]));
}

template <typename T> KERNEL void eltwise_max(const T *x, T *y, int32_t *winner, int who, size_t n)
{
    FOR_EACH(i, n)
    {
        float a = element(y[i]), b = element(x[i]);
        bool beaten = who == 1 ? !(a > b) : b > a;
        if (beaten)
            y[i] = x[i];
        if (winner)
            winner[i] = beaten ? who : who == 1 ? 0 : winner[i];
    }
}

cudaError_t kernel_eltwise(cudaStream_t stream, enum cuda_type type, enum kernel_eltwise operation,
                           const void *x, void *y, int32_t *winner, int who, size_t n)
{
    if (operation == KERNEL_PROD)
        WITH_TYPE(type, LAUNCH(eltwise_product<T>, grid_for(n), THREADS, stream, (const T *)x,
                               (T *)y, n));
    else
        WITH_TYPE(type, LAUNCH(eltwise_max<T>, grid_for(n), THREADS, stream, (const T *)x, (T *)y,
                               winner, who, n));
    return cudaGetLastError();
}

template <typename T>
KERNEL void eltwise_max_back(const T *dy, const int32_t *winner, int who, T *dx, size_t n)
{
    FOR_EACH(i, n)
    element_set(&dx[i], winner[i] == who ? element(dy[i]) : 0);
}

cudaError_t kernel_eltwise_max_back(cudaStream_t stream, enum cuda_type type, const void *dy,
                                    const int32_t *winner, int who, void *dx, size_t n)
{
    WITH_TYPE(type, LAUNCH(eltwise_max_back<T>, grid_for(n), THREADS, stream, (const T *)dy, winner,
                           who, (T *)dx, n));
    return cudaGetLastError();
}
