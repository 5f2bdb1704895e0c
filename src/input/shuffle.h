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

/* The order of a layer's samples: epoch after epoch of its records, each shuffled anew. */
struct order {
    bool shuffle;
    uint64_t seed;
    uint32_t layer; /* its index */
    uint64_t nrecords;
};

/* Where one sample of a batch comes from. */
struct pick {
    uint64_t record;
    int sample; /* 0 .. batch-1 */
    int place;  /* free for who reads them */
};

uint64_t order_record(const struct order *order, uint64_t sample);

/* Those of samples first .. first+batch-1, in the order of reading: shuffled ones in that of
 * records, so that a compressed chunk is opened at most once per batch. */
void order_picks(const struct order *order, uint64_t first, int batch, struct pick *picks);

#endif
