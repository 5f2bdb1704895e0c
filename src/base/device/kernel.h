/* How loops over plain numbers are compiled. Include it last, in files of such loops alone.
 *
 * KERNEL before a function: it is compiled for several instruction sets, and the loader takes the
 * best that the processor has; baseline machines run the same program. Where the compiler or the C
 * library cannot do that (configure looks), there is the baseline only.
 *
 * Whichever is taken, the bits are the same: the pragmas forbid to fuse a multiplication with an
 * addition, and no sum is reordered. (What bits a NaN has is left open: they follow the order of
 * operands, which is the compiler's choice.) */
#ifndef POSEIDON_DEVICE_KERNEL_H
#define POSEIDON_DEVICE_KERNEL_H

#include "config.h"

#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("O3", "fp-contract=off")
#endif

#if defined(KERNEL) /* a test compiles for one instruction set */
#elif defined(HAVE_TARGET_CLONES)
#define KERNEL __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KERNEL
#endif

#endif
