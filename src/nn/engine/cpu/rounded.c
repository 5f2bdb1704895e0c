/* Rounds the operands of products of bfloat16, in memory that all ops share. */
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

int cpu_round_reserve(struct cpu_engine *engine, size_t x, size_t dy, size_t w)
{
    return error_status(cpu_work_reserve(engine, WORK_ROUNDED_X, x * sizeof(uint16_t)) ||
                        cpu_work_reserve(engine, WORK_ROUNDED_DY, dy * sizeof(uint16_t)) ||
                        cpu_work_reserve(engine, WORK_ROUNDED_W, w * sizeof(uint16_t)));
}

void cpu_convert(const void *from, void *to, size_t n, bool half)
{
#pragma omp parallel for if (n > CPU_PIECE)
    for (size_t i = 0; i < n; i += CPU_PIECE)
        if (half)
            bf16_take((const float *)from + i, cpu_piece(n, i), (uint16_t *)to + i);
        else
            bf16_expand((const uint16_t *)from + i, cpu_piece(n, i), (float *)to + i);
}

const void *cpu_round(struct cpu_engine *engine, enum cpu_work_slot slot, const float *x, size_t n)
{
    cpu_convert(x, engine->work[slot].data, n, true);
    return engine->work[slot].data;
}
