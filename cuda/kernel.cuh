/* Parts that the .cu files share: element types, launches, sums over a block.
 *
 * Every kernel is right for any number of threads per block, one included. So the same source
 * compiles for the host (tests/cuda), where a launch loops over blocks of one thread, or runs all
 * threads of a block in turns. */
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
/* Threads that vote together. A block is made of whole warps. */
#define WARP         32
#define VOTE(bit)    __ballot_sync(0xFFFFFFFFu, (bit))
#define UNROLL       _Pragma("unroll")
#define MOVED(bytes) ((void)0)
/* Raises *at to value. Its result does not depend on the threads' order. */
#define RAISE(at, value) atomicMax((at), (value))
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

/* Read (element) and write (element_set) activations; the tests' emulation counts the bytes. */
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

/* Rounds to nearest, ties to even; NaN stays NaN. */
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

enum { LANES = 4 }; /* channels per thread, where a thread can take several */

/* V neighbouring channels, moved as one. */
template <typename T, int V> struct alignas(V * sizeof(T)) lanes {
    T at[V];
};

/* Read and write V elements in memory that is aligned to V elements. */
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

/* Reads one number for each of V neighbouring channels, or gives `missing` where from is NULL. The
 * tests' emulation does not count the bytes of these numbers. */
template <int V, typename N> static DEVICE void lanes_of_channels(const N *from, N missing, N to[V])
{
    struct lanes<N, V> all;

    if (from)
        all = *(const struct lanes<N, V> *)from;
    UNROLL
    for (int k = 0; k < V; k++)
        to[k] = from ? all.at[k] : missing;
}

/* Normalisation of V neighbouring channels. A NULL array stands for 0; NULL gamma for 1. */
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

    /* Normalises x of channel k. Forward and backward must see the same sign of the result. */
    DEVICE float of(int k, float x) const
    {
        return gamma[k] * ((x - mean[k]) * inverse[k]) + beta[k];
    }
};

#define THREADS 256

/* Return this thread's first element, and the step to its next. */
static DEVICE uint32_t thread_first(void)
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

static DEVICE uint32_t thread_step(void)
{
    return gridDim.x * blockDim.x;
}

/* Loops over this thread's elements below n (at most INT32_MAX); unsigned, so as not to wrap. */
#define FOR_EACH(i, n)                                                                             \
    for (uint32_t i = thread_first(), step_ = thread_step(), end_ = (uint32_t)(n); i < end_;       \
         i += step_)

/* Returns a number of blocks for n elements: enough to fill any GPU, at least one. */
static inline unsigned grid_for(size_t n)
{
    size_t blocks = (n + THREADS - 1) / THREADS;

    return (unsigned)(blocks < 1 ? 1 : blocks > 16384 ? 16384 : blocks);
}

/* Returns one block per row, up to a limit: kernels step over rows by gridDim.x. */
static inline unsigned grid_rows(int rows)
{
    return (unsigned)(rows < 1 ? 1 : rows > 65535 ? 65535 : rows);
}

/* Returns the sum over the block, added in a fixed order, to all threads. All threads must call
 * block_sum; at most THREADS. */
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

/* Returns true if threads can take LANES channels each, by the count and the alignment. */
template <typename... A> static inline bool lanes_fit(int channels, const A *...arrays)
{
    return channels % LANES == 0 && ((uintptr_t)0 | ... | (uintptr_t)arrays) % 16 == 0;
}

/* Calls `call` with V = LANES channels a thread if fit, else with V = 1. */
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
