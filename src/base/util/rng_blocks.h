/* Philox's rounds, and several blocks of a sequence side by side for loops that draw millions. */
#ifndef POSEIDON_UTIL_RNG_BLOCKS_H
#define POSEIDON_UTIL_RNG_BLOCKS_H

#include "util/rng.h"

/* Computes one round of Philox in place: k0, k1 are the keys, c0 to c3 the counters. */
#define RNG_ROUND(k0, k1, c0, c1, c2, c3)                                                          \
    do {                                                                                           \
        uint64_t p0_ = (uint64_t)0xD2511F53u * (c0), p1_ = (uint64_t)0xCD9E8D57u * (c2);           \
        (c0) = (uint32_t)(p1_ >> 32) ^ (c1) ^ (k0);                                                \
        (c2) = (uint32_t)(p0_ >> 32) ^ (c3) ^ (k1);                                                \
        (c1) = (uint32_t)p1_;                                                                      \
        (c3) = (uint32_t)p0_;                                                                      \
    } while (0)
enum { RNG_ROUNDS = 10 };
#define RNG_NEXT_KEYS(k0, k1) ((k0) += 0x9E3779B9u, (k1) += 0xBB67AE85u)

enum { RNG_BLOCKS = 8 };

/* Computes RNG_BLOCKS blocks side by side: word i of block + l is out[i][l]. Inline, so that the
 * code is compiled for the caller's instruction set. */
static inline __attribute__((always_inline)) void rng_blocks(const struct rng *rng, uint32_t block,
                                                             uint32_t out[4][RNG_BLOCKS])
{
    uint32_t k0 = rng->key[0], k1 = rng->key[1];

    for (uint32_t l = 0; l < RNG_BLOCKS; l++) {
        out[0][l] = block + l;
        out[1][l] = rng->base[0];
        out[2][l] = rng->base[1];
        out[3][l] = rng->base[2];
    }
    for (int round = 0; round < RNG_ROUNDS; round++) {
#pragma omp simd
        for (int l = 0; l < RNG_BLOCKS; l++)
            RNG_ROUND(k0, k1, out[0][l], out[1][l], out[2][l], out[3][l]);
        RNG_NEXT_KEYS(k0, k1);
    }
}

#endif
