/* Counter-based random numbers (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC'11). A number is a pure function of (seed, stream, a, b, index): no state, any
 * order, any thread, any number of ranks gives the same draw. Training keys everything by (seed,
 * layer, iteration, global sample index), never by rank (docs/caffe.md 9). */
#ifndef POSEIDON_UTIL_RNG_H
#define POSEIDON_UTIL_RNG_H

#include <stdint.h>

/* Purpose of a sequence of draws; two purposes never share numbers. */
enum rng_stream {
    RNG_FILLER = 1, /* a: parameter index in the net, b: 0 */
    RNG_DROPOUT,    /* a: layer index, b: global sample index over the whole run */
    RNG_AUGMENT,    /* a: data layer index, b: global sample index over the whole run */
    RNG_SHUFFLE,    /* a: data layer index, b: epoch */
    RNG_DUMMY,      /* a: layer index, b: global sample index */
    RNG_POOL = 7,   /* a: layer index, b: global sample index over the whole run */
    RNG_LOW_RANK,   /* a: layer index, b: twice the iteration, plus 1 for the second factor */
    RNG_WINDOWS,    /* a: 0, b: epoch, or a: 1, b: first sample of a window (input/shuffle.h) */
    RNG_MIRROR,     /* a: data layer index, b: record */
};

struct rng {
    uint32_t key[2];
    uint32_t base[3]; /* the upper words of the counter */
};

/* Returns a sequence of 2^34 32-bit words, addressed by index below. Computes no words yet. */
struct rng rng_make(uint64_t seed, enum rng_stream stream, uint32_t a, uint64_t b);

/* Returns word number `index` of the sequence. */
uint32_t rng_u32(const struct rng *rng, uint64_t index);

/* Computes four words 4*block .. 4*block+3 at once, for loops over many draws. */
void rng_block(const struct rng *rng, uint32_t block, uint32_t out[4]);

/* Returns a uniform number in [0, 1) of 24 bits. */
float rng_uniform(const struct rng *rng, uint64_t index);

/* Returns a standard normal number by Box-Muller; draws 2*k and 2*k + 1 are a pair. */
float rng_normal(const struct rng *rng, uint64_t index);

/* Returns a uniform number in 0 .. n-1 for n > 0; the bias of the 64-bit multiply is negligible. */
uint32_t rng_below(const struct rng *rng, uint64_t index, uint32_t n);

#endif
