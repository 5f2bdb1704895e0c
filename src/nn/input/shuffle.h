/* The order of samples: maps a sample's number to its record. A shuffled order is a function of the
 * place alone; it needs no table in memory. */
#ifndef POSEIDON_INPUT_SHUFFLE_H
#define POSEIDON_INPUT_SHUFFLE_H

#include <stdbool.h>

#include "util/rng.h"

#define ORDER_MAX_RECORDS ((uint64_t)1 << 40)

/* Returns the record at `place` (< n <= ORDER_MAX_RECORDS) of a shuffled order: a permutation of 0
 * .. n-1 that depends on `rng` alone. */
uint64_t order_shuffled(const struct rng *rng, uint64_t place, uint64_t n);

/* How the records of an epoch are shuffled; every epoch draws a new order. */
enum shuffle {
    SHUFFLE_NONE, /* records keep the source's order */
    /* Shuffles blocks of ORDER_BLOCK neighbours over the whole source, then records within windows
     * of ORDER_WINDOW. A disk that seeks slowly is thus read by blocks (input/ahead.h). */
    SHUFFLE_WINDOWS,
    SHUFFLE_ALL, /* any record may be anywhere */
};

enum { ORDER_BLOCK = 16, ORDER_WINDOW = 128 * ORDER_BLOCK };

/* The order of a layer's samples: one epoch of its records after another. */
struct order {
    enum shuffle shuffle;
    uint64_t seed;
    uint32_t layer; /* layer index that SHUFFLE_ALL and mirrors draw with */
    uint64_t nrecords;
};

/* The record of one sample of a batch. */
struct pick {
    uint64_t record;
    int sample; /* number within the batch, 0 .. batch-1 */
    int place;  /* unused here; the reader of the record may set it */
};

uint64_t order_record(const struct order *order, uint64_t sample);

/* Returns true if the sample, which is that record, is to be mirrored: half of the records in the
 * first epoch, the others in the next (Jordan, "94% on CIFAR-10 in 3.29 Seconds", 2024, 3.6). */
bool order_mirrors(const struct order *order, uint64_t sample, uint64_t record);

/* Returns the first sample of `sample`'s window (SHUFFLE_WINDOWS); *size: samples in the window. */
uint64_t order_window(const struct order *order, uint64_t sample, uint64_t *size);

/* Lists the records of samples first .. first+batch-1 in reading order. Shuffled samples are sorted
 * by record, so that a compressed chunk is decompressed at most once a batch. */
void order_picks(const struct order *order, uint64_t first, int batch, struct pick *picks);

#endif
