/* IEEE 754's half precision, float16, by integer arithmetic: the host and the kernels of cuda/,
 * which define HALF_INLINE, give the same bits. */
#ifndef POSEIDON_DEVICE_HALF_H
#define POSEIDON_DEVICE_HALF_H

#include <stdint.h>

#ifndef HALF_INLINE
#define HALF_INLINE static inline
#endif

union half_float {
    float value;
    uint32_t bits;
};

/* Returns the nearest half, ties to even; infinity from 65520 on; 7E00 for any NaN. */
HALF_INLINE uint16_t half_of(float x)
{
    const uint32_t infinite = 0x7f800000, too_large = 0x477ff000, least_normal = 0x38800000;
    union half_float u, sum;
    uint32_t size, normal, half;

    u.value = x;
    size = u.bits & 0x7fffffff;
    normal = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    sum.bits = size;
    sum.value += 0.5f; /* the sum's last bit is worth a subnormal half's last bit */
    half = size >= too_large ? 0x7c00 : size >= least_normal ? normal : sum.bits - 0x3f000000;
    return (uint16_t)(size > infinite ? 0x7e00 : (u.bits >> 16 & 0x8000) | half);
}

HALF_INLINE float half_value(uint16_t half)
{
    uint32_t size = half & 0x7fff;
    union half_float u;

    u.value = (float)(int32_t)size * (1.0f / (1 << 24)); /* the value of a subnormal half */
    if (size >= 0x400)
        u.bits = (size << 13) + (size >= 0x7c00 ? 0x70000000 : 0x38000000);
    u.bits |= (uint32_t)(half & 0x8000) << 16;
    return u.value;
}

#endif
