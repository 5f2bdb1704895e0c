/* The kernels for the instruction set that is their suffix, as target_clones would compile them. */
#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif
#define SET avx512f
#include "tests/device/kernel_set_body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif

const struct kernel_set *kernel_set_avx512f(void)
{
    return __builtin_cpu_supports("avx512f") ? &kernels : NULL;
}
#else
#include "tests/device/kernel_set.h"

const struct kernel_set *kernel_set_avx512f(void)
{
    return NULL;
}
#endif
