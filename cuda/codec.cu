/* Gradients in fewer bits, bit for bit as device/codec.c: bfloat16 by value, one bit by row, with a
 * block per row.
 *
 * No kernel multiplies, so the compiler fuses nothing. A row's sums keep the order of
 * device/codec.h, with one lane per thread. */
#include "kernel.cuh"

#include "device/codec.h"

KERNEL void encode_bf16(const float *__restrict__ x, float *__restrict__ residual, size_t n,
                        struct bf16 *out)
{
    for (size_t i = thread_first(); i < n; i += thread_step()) {
        float value = x[i] + residual[i];
        struct bf16 half;
        element_set(&half, value);
        out[i] = half;
        residual[i] = value - element(half);
    }
}

cudaError_t kernel_encode_bf16(cudaStream_t stream, const float *x, float *residual, size_t n,
                               void *out)
{
    LAUNCH(encode_bf16, grid_for(n), THREADS, stream, x, residual, n, (struct bf16 *)out);
    return cudaGetLastError();
}

/* Sums of one row by lane. sum[0]: of negative values; sum[1]: of the rest, whose count is
 * `others`. */
struct row_sums {
    double sum[2][CODEC_LANES];
    uint32_t others[CODEC_LANES];
};

/* Adds x to residual, and residual to the row's sums. One warp makes each word of sign bits: by one
 * vote of 32 threads, or 32 votes of a warp of one thread. */
static DEVICE void add_row(const float *__restrict__ x, float *__restrict__ residual, uint32_t n,
                           struct row_sums *sums, uint32_t *words)
{
    for (uint32_t w = threadIdx.x / WARP; 32 * w < n; w += blockDim.x / WARP) {
        uint32_t word = 0;
        for (uint32_t k = threadIdx.x % WARP; k < 32; k += WARP) {
            uint32_t j = 32 * w + k, lane = j % CODEC_LANES;
            bool other = false;
            if (j < n) {
                float value = x[j] + residual[j];
                residual[j] = value;
                other = !(value < 0);
                sums->sum[other][lane] += (double)value;
                sums->others[lane] += other;
            }
            word |= VOTE(other) << (k - threadIdx.x % WARP);
        }
        if (threadIdx.x % WARP == 0)
            words[w] = word;
    }
}

static DEVICE void fold(struct row_sums *sums)
{
    for (uint32_t half = CODEC_LANES / 2; half > 0; half /= 2) {
        BARRIER();
        for (uint32_t lane = threadIdx.x; lane < half; lane += blockDim.x) {
            sums->sum[0][lane] += sums->sum[0][lane + half];
            sums->sum[1][lane] += sums->sum[1][lane + half];
            sums->others[lane] += sums->others[lane + half];
        }
    }
    BARRIER();
}

static DEVICE float mean_of(double sum, uint32_t count)
{
    union float_bits mean;

    mean.value = count > 0 ? (float)(sum / (double)count) : 0;
    if (mean.value != mean.value)
        mean.bits = 0x7FC00000;
    return mean.value;
}

KERNEL void encode_onebit(const float *x, float *residual, size_t rows, uint32_t n, uint32_t *out)
{
    SHARED struct row_sums sums;
    uint32_t words = n / 32 + (n % 32 > 0);

    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        uint32_t *to = out + r * (2 + words);
        float *row = residual + r * n;
        BARRIER(); /* all threads are done with the previous row's sums */
        for (uint32_t lane = threadIdx.x; lane < CODEC_LANES; lane += blockDim.x) {
            sums.sum[0][lane] = sums.sum[1][lane] = 0;
            sums.others[lane] = 0;
        }
        BARRIER();
        add_row(x + r * n, row, n, &sums, to + 2);
        fold(&sums);
        float negative = mean_of(sums.sum[0][0], n - sums.others[0]);
        float other = mean_of(sums.sum[1][0], sums.others[0]);
        if (threadIdx.x == 0) {
            ((float *)to)[0] = negative;
            ((float *)to)[1] = other;
        }
        for (uint32_t j = threadIdx.x; j < n; j += blockDim.x)
            row[j] -= row[j] < 0 ? negative : other;
    }
}

cudaError_t kernel_encode_onebit(cudaStream_t stream, const float *x, float *residual, size_t rows,
                                 size_t n, void *out)
{
    int blocks = rows > INT32_MAX ? INT32_MAX : (int)rows;

    LAUNCH(encode_onebit, grid_rows(blocks), CODEC_LANES, stream, x, residual, rows, (uint32_t)n,
           (uint32_t *)out);
    return cudaGetLastError();
}
