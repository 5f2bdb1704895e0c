/* Compiler settings for loops over plain numbers. Include kernel.h last, in files of loops alone.
 *
 * KERNEL before a function compiles the function for several instruction sets; the loader takes the
 * best that the processor has, so that baseline machines run the same program. Only the baseline is
 * compiled where the compiler or the C library cannot do that (configure looks).
 *
 * All instruction sets give the same bits: the pragmas forbid to fuse a multiplication with an
 * addition, and no sum is reordered. The bits of a NaN are the compiler's choice: they follow the
 * order of operands. */
#ifndef POSEIDON_DEVICE_KERNEL_H
#define POSEIDON_DEVICE_KERNEL_H

#include "config.h"

#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("O3", "fp-contract=off")
#endif

#if defined(KERNEL) /* defined by a test that compiles for one instruction set */
#elif defined(HAVE_TARGET_CLONES)
#define KERNEL __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KERNEL
#endif

#endif
