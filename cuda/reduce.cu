/* Operators over rows of plain memory: results from the rows' sums (channel.cu), and the greatest
 * elements. */
#include "kernel.cuh"

template <typename T> KERNEL void reduce_store(const double *sums, int rows, double coeff, T *y)
{
    FOR_EACH(r, rows)
    element_set(&y[r], (float)(coeff * sums[r]));
}

cudaError_t kernel_reduce_store(cudaStream_t stream, enum cuda_type type, const double *sums,
                                int rows, double coeff, void *y)
{
    WITH_TYPE(type, LAUNCH(reduce_store<T>, grid_for((size_t)rows), THREADS, stream, sums, rows,
                           coeff, (T *)y));
    return cudaGetLastError();
}

template <typename T>
KERNEL void reduce_back(enum kernel_slope slope, float coeff, const T *x, const T *dy, int length,
                        T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        float a = element(x[i]), d = coeff * element(dy[i / (uint32_t)length]);
        if (slope == KERNEL_SIGN)
            d *= (float)((a > 0) - (a < 0));
        else if (slope == KERNEL_TWICE)
            d *= 2 * a;
        element_set(&dx[i], d);
    }
}

cudaError_t kernel_reduce_back(cudaStream_t stream, enum cuda_type type, enum kernel_slope slope,
                               float coeff, const void *x, const void *dy, int rows, int length,
                               void *dx)
{
    size_t n = (size_t)rows * (size_t)length;

    WITH_TYPE(type, LAUNCH(reduce_back<T>, grid_for(n), THREADS, stream, slope, coeff, (const T *)x,
                           (const T *)dy, length, (T *)dx, n));
    return cudaGetLastError();
}

KERNEL void mvn_inverse(const double *sums, int rows, double elems, float eps, float *inverse)
{
    FOR_EACH(r, rows)
    inverse[r] = (float)(1 / (sqrt(sums[r] / elems) + (double)eps));
}

cudaError_t kernel_mvn_inverse(cudaStream_t stream, const double *sums, int rows, double elems,
                               float eps, float *inverse)
{
    LAUNCH(mvn_inverse, grid_for((size_t)rows), THREADS, stream, sums, rows, elems, eps, inverse);
    return cudaGetLastError();
}

/* Returns true if element i, with value x, comes before j, with y: greater first; of equal values
 * the later; NaN last, the earlier NaN first. */
static DEVICE bool argmax_before(float x, int i, float y, int j)
{
    bool nan_x = x != x, nan_y = y != y;

    if (nan_x || nan_y)
        return nan_x == nan_y ? i < j : nan_y;
    return x == y ? i > j : x > y;
}

/* Returns the first of all threads' candidates to every thread. best: a candidate, or -1. */
template <typename T> static DEVICE int argmax_block_first(const T *row, int inner, int best)
{
    SHARED int part[THREADS];

    part[threadIdx.x] = best;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        BARRIER();
        if (threadIdx.x < half && threadIdx.x + half < blockDim.x) {
            int i = part[threadIdx.x], j = part[threadIdx.x + half];
            if (j >= 0 &&
                (i < 0 || argmax_before(element(row[j * inner]), j, element(row[i * inner]), i)))
                part[threadIdx.x] = j;
        }
    }
    BARRIER();
    best = part[0];
    BARRIER();
    return best;
}

/* Finds the top_k elements of a row per block. Each round finds the next element in order. */
template <typename T> KERNEL void argmax(struct kernel_argmax a, const T *x, float *y)
{
    for (int r = (int)blockIdx.x; r < a.outer * a.inner; r += (int)gridDim.x) {
        int outer = r / a.inner, inner = r % a.inner, last = -1;
        const T *row = x + outer * a.length * a.inner + inner;
        for (int k = 0; k < a.top_k; k++) {
            int best = -1;
            for (int i = (int)threadIdx.x; i < a.length; i += (int)blockDim.x) {
                float value = element(row[i * a.inner]);
                if (last >= 0 && !argmax_before(element(row[last * a.inner]), last, value, i))
                    continue;
                if (best < 0 || argmax_before(value, i, element(row[best * a.inner]), best))
                    best = i;
            }
            last = argmax_block_first(row, a.inner, best);
            if (threadIdx.x > 0)
                continue;
            float value = element(row[last * a.inner]);
            y[((a.both ? 2 : 1) * outer * a.top_k + k) * a.inner + inner] =
                a.values ? value : (float)last;
            if (a.both)
                y[(2 * outer + 1) * a.top_k + k] = value;
        }
    }
}

cudaError_t kernel_argmax(cudaStream_t stream, enum cuda_type type, const struct kernel_argmax *a,
                          const void *x, float *y)
{
    WITH_TYPE(type, LAUNCH(argmax<T>, grid_rows(a->outer * a->inner), THREADS, stream, *a,
                           (const T *)x, y));
    return cudaGetLastError();
}
