/* A shuffled order as a function: place -> record, for any place alone, in no memory. */
#ifndef POSEIDON_INPUT_ORDER_H
#define POSEIDON_INPUT_ORDER_H

#include "util/rng.h"

#define ORDER_MAX_RECORDS ((uint64_t)1 << 40)

/* Where the record at `place` (< n <= ORDER_MAX_RECORDS) of the shuffled order comes from: a
 * permutation of 0 .. n-1 that the sequence of draws decides. */
uint64_t order_shuffled(const struct rng *rng, uint64_t place, uint64_t n);

#endif
