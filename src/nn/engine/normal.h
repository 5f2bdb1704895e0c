/* Normal numbers from uniform random words, by Box and Muller. Pure; any thread; not collective. */
#ifndef POSEIDON_ENGINE_NORMAL_H
#define POSEIDON_ENGINE_NORMAL_H

#include <stddef.h>
#include <stdint.h>

/* Makes n numbers, two from each pair of words w, v: mean + r cos a and mean + r sin a, r = std
 * sqrt(-2 ln((w + 1) / 2^32)), a = 2 pi v / 2^32, as the C library gives them in double, rounded to
 * float. An odd n takes one word more. */
void normal_fill(const uint32_t *words, double mean, double std, float *out, size_t n);

#endif
