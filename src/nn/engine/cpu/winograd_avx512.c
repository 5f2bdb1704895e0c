/* Winograd's algorithm for nChw16c by AVX-512. */

#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif
#define BLOCK 16
#define LANES 16
#define CODE  winograd_avx512
#include "engine/cpu/winograd_body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
