/* Sufficient factors: the gradient of a fully connected layer is a sum of outer products, one per
 * sample, dW (m x n) = sum_k top_grad_k^T bottom_k. A row holds [bottom (n) | top gradient (m)], so
 * the rows of all workers and micro-batches lie at one stride, and one product covers them in the
 * order of ranks: the same bits on every rank. The bias gradient is the column sum of the top
 * gradients, a product with ones. */
#ifndef POSEIDON_SYNC_FACTORS_H
#define POSEIDON_SYNC_FACTORS_H

#include "sync/gradient.h"

struct factors {
    float *rows;   /* where messages leave from and arrive: [rows_each, of several rounds] + slots x
                      workers x round_rows, each of n + m */
    bool straight; /* rows are in the device's memory */
    float *slot;   /* where the device finds one slot of them, beside them; NULL: it reaches rows */
    int slots;     /* rounds side by side */
    int workers;   /* whose rows there is room for */
    int mine;      /* which of them this rank (or who leads it) is */
    int64_t rows_each;  /* room of one worker: rows of an iteration of the leader that has most
                           (plan_most_rows); rows that a worker lacks stay zero */
    size_t each;        /* floats of one worker: rows_each * (n + m) */
    int rounds;         /* that an iteration's rows are exchanged in (plan/plan.h) */
    int64_t round_rows; /* of a worker in one of them; == rows_each of a single one */
    size_t round_each;  /* floats of them */
    uint16_t *halves;   /* the rows as they travel, each where its row is; NULL: as floats */
    const struct device *device; /* multiplies the rows */
    float *ones;                 /* a column of them, in that device's memory */
};

/* Floats of all slots on this rank and those it leads. */
size_t factors_elems(const struct sync *sync, int bucket);

/* SFB keeps the rows of all workers, of two rounds (of two iterations, where each has one), and of
 * several rounds also the node's own of an iteration, which the messages leave from. Adam's way
 * keeps those of all at the owner, and this node's elsewhere, of one iteration; on_host: the sum is
 * made there. */
int factors_open(struct sync *sync, int bucket, bool on_host, struct factors *out);

/* Where a worker's rows of a slot are. */
static inline float *factors_rows(const struct factors *factors, int worker, int slot)
{
    size_t own = factors->rounds > 1 ? factors->each : 0;

    return factors->rows + own +
           ((size_t)slot * (size_t)factors->workers + (size_t)worker) * factors->round_each;
}

/* Where the node's own are staged, and leave from: all of an iteration. */
static inline float *factors_own(const struct factors *factors, int slot)
{
    return factors->rounds > 1 ? factors->rows : factors_rows(factors, factors->mine, slot);
}

/* Elements that a leader sends to one other in round number `round`. */
size_t factors_round_elems(const struct sync *sync, int bucket, const struct factors *factors,
                           int leader, int round);

/* Where what travels of these rows is. */
static inline void *factors_message(const struct factors *factors, float *rows)
{
    return factors->halves ? (void *)(factors->halves + (rows - factors->rows)) : rows;
}

/* Makes the message of that many elements, and the rows what others get of them: all multiply the
 * same. And rows of a message that came. Nothing to do where floats travel. Wire thread. */
void factors_encode(const struct factors *factors, float *rows, size_t elems);
void factors_decode(const struct factors *factors, float *rows, size_t elems);

/* Copies the factors of the micro-batch just passed into the slot: the net reuses its buffers.
 * Compute thread. */
int factors_stage(struct sync *sync, int bucket, const struct factors *factors, int slot,
                  int micro);

/* All rows of the slot are here: they start on their way to a device with memory of its own. Wire
 * thread. */
int factors_store(struct sync *sync, int bucket, const struct factors *factors, int slot);

/* The sum of all workers' gradients, weight then bias, from the slot's rows. gradient is in the
 * memory of the device that multiplies. With first > 0 the weight's part of the workers before is
 * in `gradient` already. add: so is the sum of the rounds before. */
int factors_rebuild(struct sync *sync, int bucket, const struct factors *factors, int slot,
                    int first, bool add, float *gradient);

/* The product of the factors of workers [first, last), into the weight's gradient; add: to the
 * values that it holds. */
int factors_product(struct sync *sync, int bucket, const struct factors *factors, int slot,
                    int first, int last, bool add, float *gradient);

#endif
