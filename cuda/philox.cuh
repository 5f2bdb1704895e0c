/* Philox 4x32-10, bit for bit as util/rng.c. */
#ifndef POSEIDON_CUDA_PHILOX_CUH
#define POSEIDON_CUDA_PHILOX_CUH

#include "kernel.cuh"

/* Computes words 4 block .. 4 block + 3 of the sequence of (seed, purpose, layer, sample). purpose:
 * a number of enum rng_stream. */
static DEVICE void philox(uint64_t seed, uint32_t purpose, uint32_t layer, uint64_t sample,
                          uint32_t block, uint32_t out[4])
{
    uint32_t c0 = block, c1 = layer, c2 = (uint32_t)sample;
    uint32_t c3 = (uint32_t)(sample >> 32) ^ (purpose << 24);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Returns a number in [0, 1) of 24 bits. */
static DEVICE float uniform(uint32_t word)
{
    return (float)(word >> 8) * (1.0f / 16777216.0f);
}

#endif
