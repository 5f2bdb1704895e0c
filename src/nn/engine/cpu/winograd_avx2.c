/* Winograd's algorithm for nChw8c by AVX2 and FMA. */

#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define BLOCK 8
#define LANES 8
#define CODE  winograd_avx2
#include "engine/cpu/winograd_body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
