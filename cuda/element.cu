/* Converts another program's half and bfloat16 elements to floats and back, bit for bit as
 * elements_expand and elements_take of device/codec.h. */
#include "kernel.cuh"

#define HALF_INLINE static DEVICE
#include "device/half.h"

struct f16 {
    uint16_t bits;
};

static DEVICE float element(struct f16 x)
{
    return half_value(x.bits);
}

static DEVICE void element_set(struct f16 *to, float value)
{
    to->bits = half_of(value);
}

template <typename From, typename To>
KERNEL void change_elements(const From *__restrict__ from, To *__restrict__ to, size_t n)
{
    for (size_t i = thread_first(); i < n; i += thread_step())
        element_set(&to[i], element(from[i]));
}

template <typename From, typename To>
static cudaError_t change(cudaStream_t stream, const void *from, void *to, size_t n)
{
    LAUNCH((change_elements<From, To>), grid_for(n), THREADS, stream, (const From *)from, (To *)to,
           n);
    return cudaGetLastError();
}

cudaError_t kernel_expand(cudaStream_t stream, bool half, const void *from, float *to, size_t n)
{
    return half ? change<struct f16, float>(stream, from, to, n)
                : change<struct bf16, float>(stream, from, to, n);
}

cudaError_t kernel_take(cudaStream_t stream, bool half, const float *from, void *to, size_t n)
{
    return half ? change<float, struct f16>(stream, from, to, n)
                : change<float, struct bf16>(stream, from, to, n);
}
