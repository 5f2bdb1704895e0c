/* Moves and adds elements: layouts, types, rows, biases, images. Memory bounds all kernels here. */
#include "kernel.cuh"

#include "engine/engine.h"

template <typename From, typename To>
KERNEL void transpose(const From *from, To *to, int rows, int columns, size_t n, bool add)
{
    FOR_EACH(i, n)
    {
        int row = i % rows, column = i / rows % columns, outer = i / (rows * columns);
        float value = element(from[(outer * rows + row) * columns + column]);
        element_set(&to[i], add ? element(to[i]) + value : value);
    }
}

#define TILE 32

/* Transposes through tiles in shared memory, so that reads and writes both follow rows. */
template <typename From, typename To>
KERNEL void transpose_tiles(const From *from, To *to, int rows, int columns, int tiles, bool add)
{
    SHARED float tile[TILE][TILE + 1];
    int wide = (columns + TILE - 1) / TILE, high = (rows + TILE - 1) / TILE;

    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        int at = t / (wide * high) * rows * columns;
        int row = t / wide % high * TILE, column = t % wide * TILE;
        for (int e = threadIdx.x; e < TILE * TILE; e += blockDim.x) {
            int j = e / TILE, k = e % TILE;
            if (row + j < rows && column + k < columns)
                tile[j][k] = element(from[at + (row + j) * columns + column + k]);
        }
        BARRIER();
        for (int e = threadIdx.x; e < TILE * TILE; e += blockDim.x) {
            int j = e / TILE, k = e % TILE, i = at + (column + j) * rows + row + k;
            if (column + j < columns && row + k < rows)
                element_set(&to[i], add ? element(to[i]) + tile[k][j] : tile[k][j]);
        }
        BARRIER();
    }
}

template <typename From, typename To>
static void transpose_launch(cudaStream_t stream, const void *from, void *to, int outer, int rows,
                             int columns, bool add)
{
    size_t n = (size_t)(outer * rows * columns);

    if (rows == 1 || columns == 1) /* only the type changes */
        columns = rows * columns, rows = 1;
    if (rows >= TILE / 2 && columns >= TILE / 2) {
        int tiles = outer * ((rows + TILE - 1) / TILE) * ((columns + TILE - 1) / TILE);
        LAUNCH((transpose_tiles<From, To>), grid_rows(tiles), THREADS, stream, (const From *)from,
               (To *)to, rows, columns, tiles, add);
        return;
    }
    LAUNCH((transpose<From, To>), grid_for(n), THREADS, stream, (const From *)from, (To *)to, rows,
           columns, n, add);
}

cudaError_t kernel_transpose(cudaStream_t stream, enum cuda_type from_type, const void *from,
                             enum cuda_type to_type, void *to, int outer, int rows, int columns,
                             bool add)
{
    if (from_type == CUDA_F32 && to_type == CUDA_F32)
        transpose_launch<float, float>(stream, from, to, outer, rows, columns, add);
    else if (from_type == CUDA_F32)
        transpose_launch<float, struct bf16>(stream, from, to, outer, rows, columns, add);
    else if (to_type == CUDA_F32)
        transpose_launch<struct bf16, float>(stream, from, to, outer, rows, columns, add);
    else
        transpose_launch<struct bf16, struct bf16>(stream, from, to, outer, rows, columns, add);
    return cudaGetLastError();
}

template <typename T> KERNEL void axpby(float a, const T *x, float b, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        float value = a * element(x[i]);
        element_set(&y[i], b == 0 ? value : value + b * element(y[i]));
    }
}

cudaError_t kernel_axpby(cudaStream_t stream, enum cuda_type type, float a, const void *x, float b,
                         void *y, size_t n)
{
    WITH_TYPE(type, LAUNCH(axpby<T>, grid_for(n), THREADS, stream, a, (const T *)x, b, (T *)y, n));
    return cudaGetLastError();
}

template <typename T>
KERNEL void layout_copy_rows(const T *from, int from_stride, T *to, int to_stride, int width,
                             int rows)
{
    FOR_EACH(i, width * rows)
    to[i / width * to_stride + i % width] = from[i / width * from_stride + i % width];
}

cudaError_t kernel_copy_rows(cudaStream_t stream, enum cuda_type type, const void *from,
                             int from_stride, void *to, int to_stride, int width, int rows)
{
    WITH_TYPE(type, LAUNCH(layout_copy_rows<T>, grid_for(width * rows), THREADS, stream,
                           (const T *)from, from_stride, (T *)to, to_stride, width, rows));
    return cudaGetLastError();
}

template <typename T>
KERNEL void layout_relu_rows(const T *from, const T *y, int from_stride, T *to, int to_stride,
                             int width, int rows)
{
    FOR_EACH(i, width * rows)
    {
        uint32_t at = i / width * from_stride + i % width;
        float v = element(from[at]);
        bool cut = y ? !(element(y[at]) > 0) : v < 0;
        /* a ReLU's zero gradient is 0 * v: infinity gives NaN, as in a separate ReLU */
        element_set(&to[i / width * to_stride + i % width], cut ? (y ? 0 * v : 0) : v);
    }
}

cudaError_t kernel_relu_rows(cudaStream_t stream, enum cuda_type type, const void *from,
                             const void *y, int from_stride, void *to, int to_stride, int width,
                             int rows)
{
    WITH_TYPE(type,
              LAUNCH(layout_relu_rows<T>, grid_for(width * rows), THREADS, stream, (const T *)from,
                     (const T *)y, from_stride, (T *)to, to_stride, width, rows));
    return cudaGetLastError();
}

template <int V, typename T>
KERNEL void layout_add_bias(T *y, const float *bias, bool relu, int columns, size_t n)
{
    FOR_EACH(i, n)
    {
        float value[V], of[V];
        lanes_get<V>(y + i * V, value);
        lanes_of_channels<V>(bias + i % (uint32_t)(columns / V) * V, 0.0f, of);
        UNROLL
        for (int k = 0; k < V; k++) {
            value[k] += of[k];
            value[k] = relu && value[k] < 0 ? 0 : value[k]; /* NaN stays NaN */
        }
        lanes_set<V>(y + i * V, value);
    }
}

cudaError_t kernel_add_bias(cudaStream_t stream, enum cuda_type type, void *y, const float *bias,
                            bool relu, int rows, int columns)
{
    size_t n = (size_t)(rows * columns);

    WITH_LANES(lanes_fit(columns, y, bias),
               WITH_TYPE(type, LAUNCH((layout_add_bias<V, T>), grid_for(n / V), THREADS, stream,
                                      (T *)y, bias, relu, columns, n / V)));
    return cudaGetLastError();
}

template <typename T>
KERNEL void images(struct kernel_images p, const uint8_t *x, const struct engine_window *windows,
                   const float *mean, bool nhwc, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        int rest = (int)i, c = 0, column, row;
        if (nhwc) {
            c = rest % p.channels;
            rest /= p.channels;
        }
        column = rest % p.width;
        rest /= p.width;
        row = rest % p.height;
        rest /= p.height;
        if (!nhwc) {
            c = rest % p.channels;
            rest /= p.channels;
        }
        struct engine_window window = windows[rest];
        if (window.mirror)
            column = p.width - 1 - column;
        float value = (float)x[((rest * p.channels + c) * p.height + row) * p.width + column],
              from = 0;
        if (mean)
            from = p.mean_width > 1 || p.mean_height > 1
                       ? mean[(c * p.mean_height + window.top + row) * p.mean_width + window.left +
                              column]
                       : mean[c];
        element_set(&y[i], (value - from) * p.scale);
    }
}

cudaError_t kernel_images(cudaStream_t stream, const struct kernel_images *p, const uint8_t *x,
                          const struct engine_window *windows, const float *mean,
                          enum cuda_type type, bool nhwc, void *y)
{
    size_t n = (size_t)(p->samples * p->channels) * (size_t)(p->height * p->width);

    WITH_TYPE(type, LAUNCH(images<T>, grid_for(n), THREADS, stream, *p, x, windows, mean, nhwc,
                           (T *)y, n));
    return cudaGetLastError();
}
