/* What AVX-512 would compute (winograd_widths.h). */
#include "tests/engine/winograd_widths.h"

#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#endif
#define BLOCK 16
#define LANES 16
#define CODE  winograd_wide
#include "engine/cpu/winograd_body.h"
#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif
