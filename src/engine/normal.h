/* Normal numbers of uniform words, by Box and Muller. Pure; any thread; not collective. */
#ifndef POSEIDON_ENGINE_NORMAL_H
#define POSEIDON_ENGINE_NORMAL_H

#include <stddef.h>
#include <stdint.h>

/* Words w, v make two numbers: mean + r cos a and mean + r sin a, r = std sqrt(-2 ln((w + 1) /
 * 2^32)), a = 2 pi v / 2^32, in double with the C library's functions, then rounded to float. */
void normal_pair(const uint32_t words[2], double mean, double std, float out[2]);

/* n numbers, each two of a pair of words: those of normal_pair to the last bit, several times as
 * fast. `words` holds one word more where n is odd. */
void normal_fill(const uint32_t *words, double mean, double std, float *out, size_t n);

#endif
