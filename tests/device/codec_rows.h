/* Rows for tests of codecs: of any size, with what is no number, and such whose means tell in which
 * order they were summed. */
#ifndef POSEIDON_TESTS_DEVICE_CODEC_ROWS_H
#define POSEIDON_TESTS_DEVICE_CODEC_ROWS_H

#include "util/rng.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline void rows_fill(float *x, size_t n, uint32_t key)
{
    struct rng rng = rng_make(3, RNG_DUMMY, key, 0);

    for (size_t i = 0; i < n; i++)
        x[i] = (rng_uniform(&rng, i) - 0.5f) * powf(10, (float)(i % 7) - 4);
}

/* One value that is none, or nearly so. */
static inline void row_spoil(float *x, size_t n, uint32_t key)
{
    static const float special[] = {NAN,    INFINITY, -INFINITY, -0.0f,
                                    1e-42f, -1e-42f,  3e38f,     -3e38f};

    x[key % n] = special[(n + key) % 8];
}

/* What is negative is -2^24, -1 and 2, 6 or 14 times -2^-30, in few of the places modulo any power
 * of two; all else is 0. Their mean lies halfway between two floats, unless three of the small ones
 * met each other before they met the large one. n: at least 16. */
static inline void row_sharpen(float *x, size_t n, uint32_t key)
{
    struct rng rng = rng_make(4, RNG_DUMMY, key, (uint32_t)n);
    size_t step = 1, places, first;
    int values = 4 << key % 3;
    uint64_t draws = 0;

    while (step < 32 && 32 * step <= n)
        step *= 2;
    places = n / step;
    first = rng_below(&rng, draws++, (uint32_t)step);
    for (size_t j = 0; j < n; j++)
        x[j] = 0;
    for (int i = 0; i < values; i++) {
        size_t place = rng_below(&rng, draws++, (uint32_t)places);
        while (x[place * step + first] != 0)
            place = (place + 1) % places;
        x[place * step + first] = i == 0 ? -0x1p24f : i == 1 ? -1 : -0x1p-30f;
    }
}

/* Bits, or that both are no numbers. */
static inline bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

#endif
