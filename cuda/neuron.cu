/* ReLU and dropout, element by element. */
#include "philox.cuh"

template <int V, typename T> KERNEL void relu(const T *x, float slope, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        float v[V];
        lanes_get<V>(x + i * V, v);
        UNROLL
        for (int k = 0; k < V; k++) /* slope 0 gives 0, even for -infinity; NaN stays NaN */
            v[k] = v[k] < 0 ? (slope == 0 ? 0 : slope * v[k]) : v[k];
        lanes_set<V>(y + i * V, v);
    }
}

cudaError_t kernel_relu(cudaStream_t stream, enum cuda_type type, const void *x, float slope,
                        void *y, size_t n)
{
    WITH_LANES(lanes_fit((int)n, x, y),
               WITH_TYPE(type, LAUNCH((relu<V, T>), grid_for(n / V), THREADS, stream, (const T *)x,
                                      slope, (T *)y, n / V)));
    return cudaGetLastError();
}

template <int V, typename T>
KERNEL void relu_back(const T *x, const T *dy, float slope, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        float d[V], at[V];
        lanes_get<V>(dy + i * V, d);
        lanes_get<V>(x + i * V, at);
        UNROLL
        for (int k = 0; k < V; k++)
            d[k] = at[k] > 0 ? d[k] : slope * d[k];
        lanes_set<V>(dx + i * V, d);
    }
}

cudaError_t kernel_relu_back(cudaStream_t stream, enum cuda_type type, const void *x,
                             const void *dy, float slope, void *dx, size_t n)
{
    WITH_LANES(lanes_fit((int)n, x, dy, dx),
               WITH_TYPE(type, LAUNCH((relu_back<V, T>), grid_for(n / V), THREADS, stream,
                                      (const T *)x, (const T *)dy, slope, (T *)dx, n / V)));
    return cudaGetLastError();
}

/* Makes four draws per thread: for elements 4b .. 4b+3 of a sample in plain order. */
template <typename T> KERNEL void dropout(struct kernel_dropout d, const T *x, T *y)
{
    const uint32_t stream_dropout = 2; /* RNG_DROPOUT */
    int elems = d.channels * d.pixels, blocks = (elems + 3) / 4;
    float scale = 1 / (1 - d.ratio);
    struct kernel_pass pass = d.at ? *d.at : d.pass;

    FOR_EACH(i, d.samples * blocks)
    {
        int sample = i / blocks, block = i % blocks;
        uint32_t draw[4];
        philox(pass.seed, stream_dropout, d.layer, pass.first_sample + (uint64_t)sample,
               (uint32_t)block, draw);
        for (int q = 0; q < 4 && block * 4 + q < elems; q++) {
            int e = block * 4 + q;
            int at = sample * elems + (d.nhwc ? e % d.pixels * d.channels + e / d.pixels : e);
            bool keep = uniform(draw[q]) >= d.ratio;
            element_set(&y[at], keep ? scale * element(x[at]) : 0);
        }
    }
}

cudaError_t kernel_dropout(cudaStream_t stream, enum cuda_type type, const struct kernel_dropout *d,
                           const void *x, void *y)
{
    int blocks = d->samples * ((d->channels * d->pixels + 3) / 4);

    WITH_TYPE(type,
              LAUNCH(dropout<T>, grid_for(blocks), THREADS, stream, *d, (const T *)x, (T *)y));
    return cudaGetLastError();
}
