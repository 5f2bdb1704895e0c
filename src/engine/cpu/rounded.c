/* --math=bf16: the operands of convolutions and inner products, rounded to bfloat16 in memory that
 * all ops share. Where the processor has no products of bfloat16, which tests alone ask for, the
 * rounded operands stay floats, for float products. */
#include "engine/cpu/cpu_internal.h"

#include <string.h>

/* The nearest bfloat16, ties to even; NaN stays NaN. */
static inline uint32_t round_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16 | 0x40)
                                            : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

CPU_KERNEL static void round_piece(const float *restrict x, uint16_t *restrict out, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        out[i] = (uint16_t)round_bits(x[i]);
}

CPU_KERNEL static void round_floats_piece(const float *restrict x, float *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = round_bits(x[i]) << 16;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

bool cpu_has_bf16(void)
{
    const int bf16 = (int)dnnl_cpu_isa_avx512_core_bf16;

    return ((int)dnnl_get_effective_cpu_isa() & bf16) == bf16;
}

const void *cpu_round(struct cpu_engine *engine, enum cpu_work_slot slot, const float *x, size_t n)
{
    void *memory = engine->work[slot].data;
    uint16_t *half = memory;

#pragma omp parallel for if (n > CPU_PIECE)
    for (size_t i = 0; i < n; i += CPU_PIECE)
        round_piece(x + i, half + i, cpu_piece(n, i));
    return half;
}

const float *cpu_round_floats(struct cpu_engine *engine, enum cpu_work_slot slot, const float *x,
                              size_t n)
{
    float *to = engine->work[slot].data;

    if (engine->options.math != MATH_BF16)
        return x;
#pragma omp parallel for if (n > CPU_PIECE)
    for (size_t i = 0; i < n; i += CPU_PIECE)
        round_floats_piece(x + i, to + i, cpu_piece(n, i));
    return to;
}
