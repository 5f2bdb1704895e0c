/* Philox 4x32-10. Ten rounds of two 32x32->64 multiplications; the counter's lowest word is the
 * block number, the other three carry purpose and identity. */
#include "util/rng_blocks.h"

#include <math.h>

struct rng rng_make(uint64_t seed, enum rng_stream stream, uint32_t a, uint64_t b)
{
    /* stream and the upper bits of b share a word: b stays below 2^56 samples */
    return (struct rng){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .base = {a, (uint32_t)b, (uint32_t)(b >> 32) ^ ((uint32_t)stream << 24)},
    };
}

void rng_block(const struct rng *rng, uint32_t block, uint32_t out[4])
{
    uint32_t c0 = block, c1 = rng->base[0], c2 = rng->base[1], c3 = rng->base[2];
    uint32_t k0 = rng->key[0], k1 = rng->key[1];

    for (int round = 0; round < RNG_ROUNDS; round++) {
        RNG_ROUND(k0, k1, c0, c1, c2, c3);
        RNG_NEXT_KEYS(k0, k1);
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint32_t rng_u32(const struct rng *rng, uint64_t index)
{
    uint32_t words[4];

    rng_block(rng, (uint32_t)(index >> 2), words);
    return words[index & 3];
}

float rng_uniform(const struct rng *rng, uint64_t index)
{
    return (float)(rng_u32(rng, index) >> 8) * 0x1p-24f;
}

float rng_normal(const struct rng *rng, uint64_t index)
{
    uint32_t words[4];
    const double two_pi = 6.283185307179586476925;

    rng_block(rng, (uint32_t)(index >> 2), words);
    const uint32_t *pair = words + (index & 2);
    double u = ((double)pair[0] + 1.0) * 0x1p-32; /* (0, 1]: log is finite */
    double v = (double)pair[1] * 0x1p-32;
    double radius = sqrt(-2.0 * log(u));
    return (float)(radius * ((index & 1) ? sin(two_pi * v) : cos(two_pi * v)));
}

uint32_t rng_below(const struct rng *rng, uint64_t index, uint32_t n)
{
    return (uint32_t)(((uint64_t)rng_u32(rng, index) * n) >> 32);
}
