/* SHA-256, after FIPS 180-4 section 6.2. */
#include "util/sha256.h"

#include <stdio.h>
#include <string.h>

/* Fractional parts of the cube roots of the first 64 primes (4.2.2). */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load_be32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Compresses blocks of 64 bytes. Instead of moving a..h by one place every round, names move: a is
 * at -t, b at 1 - t, and so on, modulo 8. Unrolled by 8 rounds, s[] becomes registers. */
static void compress(uint32_t state[8], const unsigned char *block, size_t blocks)
{
#define AT(i) s[((i)-t) & 7]
    for (; blocks > 0; blocks--, block += 64) {
        uint32_t w[64], s[8];

        for (int t = 0; t < 16; t++)
            w[t] = load_be32(block + 4 * t);
        for (int t = 16; t < 64; t++) {
            uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
            uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;

            w[t] = s1 + w[t - 7] + s0 + w[t - 16];
        }
        memcpy(s, state, sizeof s);
#pragma GCC unroll 8
        for (int t = 0; t < 64; t++) {
            uint32_t a = AT(0), e = AT(4);
            uint32_t sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
            uint32_t sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
            uint32_t choose = (e & AT(5)) ^ (~e & AT(6));
            uint32_t majority = (a & AT(1)) ^ (a & AT(2)) ^ (AT(1) & AT(2));
            uint32_t t1 = AT(7) + sum1 + choose + K[t] + w[t];

            AT(3) += t1;
            AT(7) = t1 + sum0 + majority;
        }
        for (int t = 0; t < 8; t++)
            state[t] += s[t];
    }
#undef AT
}

void sha256_init(struct sha256 *hash)
{
    /* Fractional parts of the square roots of the first 8 primes (5.3.3). */
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(hash->state, initial, sizeof initial);
    hash->bytes = 0;
}

void sha256_update(struct sha256 *hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    size_t have = hash->bytes % 64;

    if (bytes == 0)
        return;
    hash->bytes += bytes;
    if (have > 0) {
        size_t take = 64 - have < bytes ? 64 - have : bytes;

        memcpy(hash->block + have, p, take);
        p += take;
        bytes -= take;
        if (have + take < 64)
            return;
        compress(hash->state, hash->block, 1);
    }
    compress(hash->state, p, bytes / 64);
    if (bytes % 64 > 0)
        memcpy(hash->block, p + bytes / 64 * 64, bytes % 64);
}

void sha256_final(struct sha256 *hash, unsigned char digest[32])
{
    static const unsigned char padding[64] = {0x80};
    uint64_t bits = hash->bytes * 8;
    unsigned char length[8];
    int i;

    for (i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_update(hash, padding, 1 + (119 - hash->bytes % 64) % 64);
    sha256_update(hash, length, sizeof length);
    for (i = 0; i < 32; i++)
        digest[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_final_hex(struct sha256 *hash, char text[SHA256_HEX])
{
    unsigned char digest[32];
    int i;

    sha256_final(hash, digest);
    for (i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}
