/* Shuffles with a Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations",
 * SIAM J. Comput. 17, 1988) over the next even number of bits. A place that falls outside 0 .. n-1
 * is permuted again until it falls inside (Black and Rogaway, "Ciphers with arbitrary finite
 * domains", CT-RSA 2002), so that the result remains a permutation. */
#include "input/shuffle.h"

#include <assert.h>
#include <stdlib.h>

#define ROUNDS 8

uint64_t order_shuffled(const struct rng *rng, uint64_t place, uint64_t n)
{
    unsigned half = 1;

    assert(place < n && n <= ORDER_MAX_RECORDS); /* otherwise the loop below would not end */
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

uint64_t order_window(const struct order *order, uint64_t sample, uint64_t *size)
{
    uint64_t place = sample % order->nrecords, first = place - place % ORDER_WINDOW;

    *size = order->nrecords - first < ORDER_WINDOW ? order->nrecords - first : ORDER_WINDOW;
    return sample - place % ORDER_WINDOW;
}

static uint64_t record_in_windows(const struct order *order, uint64_t sample)
{
    uint64_t n = order->nrecords, size, first = order_window(order, sample, &size);
    uint64_t nblocks = (n + ORDER_BLOCK - 1) / ORDER_BLOCK;
    struct rng rng = rng_make(order->seed, RNG_WINDOWS, 1, first);
    uint64_t place = first % n + order_shuffled(&rng, sample - first, size);

    rng = rng_make(order->seed, RNG_WINDOWS, 0, sample / n);
    do /* the last block may be short: a place behind its end is permuted again */
        place =
            order_shuffled(&rng, place / ORDER_BLOCK, nblocks) * ORDER_BLOCK + place % ORDER_BLOCK;
    while (place >= n);
    return place;
}

uint64_t order_record(const struct order *order, uint64_t sample)
{
    uint64_t n = order->nrecords;
    struct rng rng;

    assert(n > 0);
    if (order->shuffle == SHUFFLE_NONE)
        return sample % n;
    if (order->shuffle == SHUFFLE_WINDOWS)
        return record_in_windows(order, sample);
    rng = rng_make(order->seed, RNG_SHUFFLE, order->layer, sample / n);
    return order_shuffled(&rng, sample % n, n);
}

bool order_mirrors(const struct order *order, uint64_t sample, uint64_t record)
{
    const struct rng rng = rng_make(order->seed, RNG_MIRROR, order->layer, record);

    return (rng_below(&rng, 0, 2) + sample / order->nrecords) % 2 == 1;
}

static int compare_picks(const void *a, const void *b)
{
    const struct pick *x = a, *y = b;

    if (x->record != y->record)
        return x->record < y->record ? -1 : 1;
    return x->sample - y->sample;
}

void order_picks(const struct order *order, uint64_t first, int batch, struct pick *picks)
{
    for (int k = 0; k < batch; k++)
        picks[k] = (struct pick){.record = order_record(order, first + (uint64_t)k), .sample = k};
    if (order->shuffle)
        qsort(picks, (size_t)batch, sizeof *picks, compare_picks);
}
