/* Shuffling by a Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations",
 * SIAM J. Comput. 17, 1988) over the next even number of bits; places that fall outside 0 .. n-1
 * are sent through again until they fall inside (Black and Rogaway, "Ciphers with arbitrary finite
 * domains", CT-RSA 2002), which keeps it a permutation. */
#include "input/shuffle.h"

#define ROUNDS 8

uint64_t order_shuffled(const struct rng *rng, uint64_t place, uint64_t n)
{
    unsigned half = 1;

    while (((uint64_t)1 << 2 * half) < n)
        half++;
    do {
        uint64_t mask = ((uint64_t)1 << half) - 1, left = place >> half, right = place & mask;

        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t swap = left ^ (rng_u32(rng, round << 20 | right) & mask);
            left = right;
            right = swap;
        }
        place = left << half | right;
    } while (place >= n);
    return place;
}
