/* LRN's blocked code as target_clones compile it for processors with AVX2. */
#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define SET  avx2
#define NAME "AVX2"
#include "tests/engine/lrn_set_body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif

const struct lrn_set *lrn_set_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &set : NULL;
}
#else
#include "tests/engine/lrn_set.h"

#include <stddef.h>

const struct lrn_set *lrn_set_avx2(void)
{
    return NULL;
}
#endif
