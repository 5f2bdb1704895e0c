/* The kernels for the instruction set that is their suffix, as target_clones would compile them. */
#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#define SET avx2
#include "tests/device/kernel_set_body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif

const struct kernel_set *kernel_set_avx2(void)
{
    return __builtin_cpu_supports("avx2") ? &kernels : NULL;
}
#else
#include "tests/device/kernel_set.h"

const struct kernel_set *kernel_set_avx2(void)
{
    return NULL;
}
#endif
