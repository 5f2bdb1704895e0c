/* What the .cu files share: element types, launching, sums over a block.
 *
 * Every kernel is right for any number of threads per block, one included. So the same source can
 * be compiled for the host, where a launch is a loop over blocks of one thread, or of all of them
 * in turns: tests/cuda. */
#ifndef POSEIDON_CUDA_KERNEL_CUH
#define POSEIDON_CUDA_KERNEL_CUH

#include "kernels.h"

#include <float.h>
#include <math.h>

#ifdef __CUDACC__
#define DEVICE    __device__ __forceinline__
#define KERNEL    static __global__
#define SHARED    __shared__
#define BARRIER() __syncthreads()
/* Threads that vote together, all of them; the block is made of such. */
#define WARP         32
#define VOTE(bit)    __ballot_sync(0xFFFFFFFFu, (bit))
#define UNROLL       _Pragma("unroll")
#define MOVED(bytes) ((void)0)
#define LAUNCH(kernel, blocks, threads, stream, ...)                                               \
    do {                                                                                           \
        auto launched_ = (kernel);                                                                 \
        launched_<<<(unsigned)(blocks), (unsigned)(threads), 0, (stream)>>>(__VA_ARGS__);          \
    } while (0)
#else
#include "tests/cuda/emulation.h"
#endif

/* bfloat16: the upper half of a float. */
struct bf16 {
    uint16_t bits;
};

/* Elements of activations, read and written: the emulation counts them. */
static DEVICE float element(float x)
{
    MOVED(sizeof x);
    return x;
}

union float_bits {
    float value;
    uint32_t bits;
};

static DEVICE float element(struct bf16 x)
{
    union float_bits u;

    MOVED(sizeof x);
    u.bits = (uint32_t)x.bits << 16;
    return u.value;
}

static DEVICE void element_set(float *to, float value)
{
    MOVED(sizeof *to);
    *to = value;
}

/* To nearest, halves to even; NaN stays NaN. */
static DEVICE void element_set(struct bf16 *to, float value)
{
    union float_bits u;

    MOVED(sizeof *to);
    u.value = value;
    if (value != value)
        to->bits = 0x7FC0;
    else
        to->bits = (uint16_t)((u.bits + 0x7FFFu + (u.bits >> 16 & 1u)) >> 16);
}

enum { LANES = 4 }; /* channels a thread takes where it can take several */

/* V neighbouring channels, which move as one. */
template <typename T, int V> struct alignas(V * sizeof(T)) lanes {
    T at[V];
};

/* `from`, and `to` below, stand at a multiple of V elements. */
template <int V, typename T> static DEVICE void lanes_get(const T *from, float to[V])
{
    const struct lanes<T, V> all = *(const struct lanes<T, V> *)from;

    UNROLL
    for (int k = 0; k < V; k++)
        to[k] = element(all.at[k]);
}

template <int V, typename T> static DEVICE void lanes_set(T *to, const float from[V])
{
    struct lanes<T, V> all;

    UNROLL
    for (int k = 0; k < V; k++)
        element_set(&all.at[k], from[k]);
    *(struct lanes<T, V> *)to = all;
}

/* V neighbouring numbers of a channel each, or `missing` where there are none: no activations, and
 * not counted as such. */
template <int V, typename N> static DEVICE void lanes_of_channels(const N *from, N missing, N to[V])
{
    struct lanes<N, V> all;

    if (from)
        all = *(const struct lanes<N, V> *)from;
    UNROLL
    for (int k = 0; k < V; k++)
        to[k] = from ? all.at[k] : missing;
}

/* What V neighbouring channels are normed by: whatever is NULL counts as 0, or 1 (gamma). */
template <int V> struct normed {
    float mean[V], inverse[V], gamma[V], beta[V];

    DEVICE normed(int c, const float *mean_, const float *inverse_, const float *gamma_,
                  const float *beta_)
    {
        lanes_of_channels<V>(mean_ ? mean_ + c : NULL, 0.0f, mean);
        lanes_of_channels<V>(inverse_ ? inverse_ + c : NULL, 0.0f, inverse);
        lanes_of_channels<V>(gamma_ ? gamma_ + c : NULL, 1.0f, gamma);
        lanes_of_channels<V>(beta_ ? beta_ + c : NULL, 0.0f, beta);
    }

    /* Batch normalisation of channel k's number. Forward and backward must see the same sign. */
    DEVICE float of(int k, float x) const
    {
        return gamma[k] * ((x - mean[k]) * inverse[k]) + beta[k];
    }
};

#define THREADS 256

/* The first element of this thread and the step to its next. */
static DEVICE uint32_t thread_first(void)
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

static DEVICE uint32_t thread_step(void)
{
    return gridDim.x * blockDim.x;
}

/* Unsigned: what goes beyond n, itself at most INT32_MAX, does not wrap. */
#define FOR_EACH(i, n)                                                                             \
    for (uint32_t i = thread_first(), step_ = thread_step(), end_ = (uint32_t)(n); i < end_;       \
         i += step_)

/* Blocks for n elements: enough to fill any GPU, at least one. */
static inline unsigned grid_for(size_t n)
{
    size_t blocks = (n + THREADS - 1) / THREADS;

    return (unsigned)(blocks < 1 ? 1 : blocks > 16384 ? 16384 : blocks);
}

/* One block per row, at most this many: kernels step over rows by gridDim.x. */
static inline unsigned grid_rows(int rows)
{
    return (unsigned)(rows < 1 ? 1 : rows > 65535 ? 65535 : rows);
}

/* The sum over the block in a fixed order, known to thread 0. All threads must call it; at most
 * 256. */
template <typename T> static DEVICE T block_sum(T value)
{
    SHARED T part[THREADS];

    part[threadIdx.x] = value;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        BARRIER();
        if (threadIdx.x < half && threadIdx.x + half < blockDim.x)
            part[threadIdx.x] += part[threadIdx.x + half];
    }
    BARRIER();
    value = part[0];
    BARRIER();
    return value;
}

/* Whether threads can take LANES channels each: all these arrays, of rows of so many, allow it. */
template <typename... A> static inline bool lanes_fit(int channels, const A *...arrays)
{
    return channels % LANES == 0 && ((uintptr_t)0 | ... | (uintptr_t)arrays) % 16 == 0;
}

/* Calls `call` with V = LANES or 1 channels a thread. */
#define WITH_LANES(fit, call)                                                                      \
    do {                                                                                           \
        if (fit) {                                                                                 \
            constexpr int V = LANES;                                                               \
            call;                                                                                  \
        } else {                                                                                   \
            constexpr int V = 1;                                                                   \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

/* Calls `call` with T = the element type. */
#define WITH_TYPE(type, call)                                                                      \
    do {                                                                                           \
        if ((type) == CUDA_F32) {                                                                  \
            typedef float T;                                                                       \
            call;                                                                                  \
        } else {                                                                                   \
            typedef struct bf16 T;                                                                 \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

#endif
