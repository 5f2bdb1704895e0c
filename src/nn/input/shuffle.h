/* The order of samples: which record each one is. A shuffled order is a function, place -> record,
 * for any place alone, in no memory. */
#ifndef POSEIDON_INPUT_SHUFFLE_H
#define POSEIDON_INPUT_SHUFFLE_H

#include <stdbool.h>

#include "util/rng.h"

#define ORDER_MAX_RECORDS ((uint64_t)1 << 40)

/* Where the record at `place` (< n <= ORDER_MAX_RECORDS) of the shuffled order comes from: a
 * permutation of 0 .. n-1 that the sequence of draws decides. */
uint64_t order_shuffled(const struct rng *rng, uint64_t place, uint64_t n);

/* How the records of an epoch are shuffled, each epoch anew. */
enum shuffle {
    SHUFFLE_NONE, /* they keep the source's order */
    /* Blocks of ORDER_BLOCK neighbours may be anywhere, and in every ORDER_WINDOW records of that
     * order each record: a disk that seeks slowly is read by blocks (input/ahead.h). */
    SHUFFLE_WINDOWS,
    SHUFFLE_ALL, /* each may be anywhere */
};

enum { ORDER_BLOCK = 16, ORDER_WINDOW = 128 * ORDER_BLOCK };

/* The order of a layer's samples: epoch after epoch of its records. */
struct order {
    enum shuffle shuffle;
    uint64_t seed;
    uint32_t layer; /* index by which SHUFFLE_ALL draws */
    uint64_t nrecords;
};

/* Where one sample of a batch comes from. */
struct pick {
    uint64_t record;
    int sample; /* 0 .. batch-1 */
    int place;  /* free for who reads them */
};

uint64_t order_record(const struct order *order, uint64_t sample);

/* The window of SHUFFLE_WINDOWS that a sample is in: its first sample; *size: how many it has. */
uint64_t order_window(const struct order *order, uint64_t sample, uint64_t *size);

/* Those of samples first .. first+batch-1, in the order of reading: shuffled ones in that of
 * records, so that a compressed chunk is opened at most once per batch. */
void order_picks(const struct order *order, uint64_t first, int batch, struct pick *picks);

#endif
