/* LRN's blocked code as target_clones compile it for processors with AVX-512. */
#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,fma"))),                    \
    apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,fma")
#endif
#define SET  avx512
#define NAME "AVX-512"
#include "tests/engine/lrn_set_body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif

const struct lrn_set *lrn_set_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               ? &set
               : NULL;
}
#else
#include "tests/engine/lrn_set.h"

#include <stddef.h>

const struct lrn_set *lrn_set_avx512(void)
{
    return NULL;
}
#endif
