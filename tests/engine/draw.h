/* Values in [-1, 1) for tests of operators. */
#ifndef POSEIDON_TESTS_ENGINE_DRAW_H
#define POSEIDON_TESTS_ENGINE_DRAW_H

#include "util/rng.h"

#include <check.h>
#include <stdlib.h>

/* n of them, the same for the same seed and `which`. */
static inline void draw_into(float *to, size_t n, uint64_t seed, uint32_t which)
{
    struct rng rng = rng_make(seed, RNG_DUMMY, which, 0);

    for (size_t i = 0; i < n; i++)
        to[i] = 2 * rng_uniform(&rng, i) - 1;
}

/* Likewise, in memory that the caller frees. */
static inline float *draw_values(size_t n, uint64_t seed, uint32_t which)
{
    float *values = malloc(n * sizeof *values);

    ck_assert_ptr_nonnull(values);
    draw_into(values, n, seed, which);
    return values;
}

#endif
