/* Rounds the operands of convolutions and inner products to bfloat16 for --math=bf16, in memory
 * that all ops share. On processors without products of bfloat16, in tests only, rounded operands
 * stay floats for float products. */
#include "engine/cpu/cpu_internal.h"

#include "device/codec.h"
#include "util/error.h"

bool cpu_has_bf16(void)
{
    const int bf16 = (int)dnnl_cpu_isa_avx512_core_bf16;

    return ((int)dnnl_get_effective_cpu_isa() & bf16) == bf16;
}

bool cpu_has_amx(void)
{
    const int amx = (int)dnnl_cpu_isa_avx512_core_amx;

    return ((int)dnnl_get_effective_cpu_isa() & amx) == amx;
}

int cpu_round_reserve(struct cpu_engine *engine, bool halves, size_t x, size_t dy, size_t w)
{
    const size_t width = halves ? sizeof(uint16_t) : sizeof(float);

    if (engine->options.math != MATH_BF16)
        return 0;
    return error_status(cpu_work_reserve(engine, WORK_ROUNDED_X, x * width) ||
                        cpu_work_reserve(engine, WORK_ROUNDED_DY, dy * width) ||
                        cpu_work_reserve(engine, WORK_ROUNDED_W, w * width));
}

const void *cpu_round(struct cpu_engine *engine, enum cpu_work_slot slot, const float *x, size_t n)
{
    void *memory = engine->work[slot].data;
    uint16_t *half = memory;

#pragma omp parallel for if (n > CPU_PIECE)
    for (size_t i = 0; i < n; i += CPU_PIECE)
        bf16_take(x + i, cpu_piece(n, i), half + i);
    return half;
}

const float *cpu_round_floats(struct cpu_engine *engine, enum cpu_work_slot slot, const float *x,
                              size_t n)
{
    float *to = engine->work[slot].data;

    if (engine->options.math != MATH_BF16)
        return x;
#pragma omp parallel for if (n > CPU_PIECE)
    for (size_t i = 0; i < n; i += CPU_PIECE) {
        uint16_t half[CPU_PIECE];

        bf16_take(x + i, cpu_piece(n, i), half);
        bf16_expand(half, cpu_piece(n, i), to + i);
    }
    return to;
}
