/* SHA-256 (FIPS 180-4): the digest that says two runs ended in the same parameters. */
#ifndef POSEIDON_UTIL_SHA256_H
#define POSEIDON_UTIL_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_HEX 65 /* 64 digits and the NUL */

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;          /* bytes hashed so far */
    unsigned char block[64]; /* bytes that wait for a full block, fewer than 64 */
};

void sha256_init(struct sha256 *hash);
void sha256_update(struct sha256 *hash, const void *data, size_t bytes);

/* Writes the digest; the struct must be initialised before it is used again. */
void sha256_final(struct sha256 *hash, unsigned char digest[32]);

/* Writes the digest in lower-case hexadecimal. */
void sha256_final_hex(struct sha256 *hash, char text[SHA256_HEX]);

#endif
