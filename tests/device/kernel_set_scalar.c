/* The kernels one element at a time, for benchmarks to measure against (by GCC alone: clang would
 * need a word at every loop, and vectorises here). */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-vectorize")
#endif
#define SET scalar
#include "tests/device/kernel_set_body.h"

const struct kernel_set *kernel_set_scalar(void)
{
    return &kernels;
}
