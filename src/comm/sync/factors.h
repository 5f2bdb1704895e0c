/* Sufficient factors: the gradient of a fully connected layer is a sum of outer products, one per
 * sample, dW (m x n) = sum_k top_grad_k^T bottom_k. A row holds [bottom (n) | top gradient (m)], so
 * all workers' and micro-batches' rows have one stride, and one product adds them in rank order:
 * the same bits on every rank. The bias gradient, a column sum of top gradients, is a product with
 * ones. */
#ifndef POSEIDON_SYNC_FACTORS_H
#define POSEIDON_SYNC_FACTORS_H

#include "sync/gradient.h"

struct factors {
    float *rows; /* rows that messages leave from and arrive in: [with several rounds: rows_each] +
                    slots x workers x round_rows, each n + m floats */
    bool straight;      /* rows are in device memory */
    float *slot;        /* device memory for one slot's rows; NULL: the device reaches `rows` */
    int slots;          /* number of rounds that `rows` holds */
    int workers;        /* number of workers that `rows` holds */
    int mine;           /* index, below `workers`, of this rank's leader */
    int64_t rows_each;  /* room of one worker, in rows (plan_most_rows); unused rows stay zero */
    size_t each;        /* floats of one worker: rows_each * (n + m) */
    int rounds;         /* rounds in which an iteration's rows are exchanged (plan/plan.h) */
    int64_t round_rows; /* rows of a worker in one round; rows_each with a single round */
    size_t round_each;  /* floats of a worker's rows in one round */
    uint16_t *halves; /* rows as bfloat16, to be sent, at the same offsets; NULL: floats are sent */
    const struct device *device; /* device that multiplies the rows */
    float *ones;                 /* column of ones, in the memory of `device` */
};

/* Returns the floats of all slots on this rank and the ranks that it leads. */
size_t factors_elems(const struct sync *sync, int bucket);

/* Opens a bucket's factors. SFB keeps all workers' rows of two rounds (with one round: of two
 * iterations), and with several rounds also the node's own rows of an iteration, which messages
 * leave from. Adam's scheme keeps one iteration's rows: all workers' on the owner, this node's
 * elsewhere. on_host: the sum is made on the host. */
int factors_open(struct sync *sync, int bucket, bool on_host, struct factors *out);

/* Returns a worker's rows of a slot. */
static inline float *factors_rows(const struct factors *factors, int worker, int slot)
{
    size_t own = factors->rounds > 1 ? factors->each : 0;

    return factors->rows + own +
           ((size_t)slot * (size_t)factors->workers + (size_t)worker) * factors->round_each;
}

/* Returns the node's own rows of a whole iteration, where factors are staged and messages leave
 * from. */
static inline float *factors_own(const struct factors *factors, int slot)
{
    return factors->rounds > 1 ? factors->rows : factors_rows(factors, factors->mine, slot);
}

/* Returns the elements that a leader sends to each other leader in round `round`. */
size_t factors_round_elems(const struct sync *sync, int bucket, const struct factors *factors,
                           int leader, int round);

/* Returns the message of these rows: bfloat16 or floats. */
static inline void *factors_message(const struct factors *factors, float *rows)
{
    return factors->halves ? (void *)(factors->halves + (rows - factors->rows)) : rows;
}

/* encode: converts `elems` elements of rows to bfloat16, and rounds the rows to the same values, so
 * that all workers multiply equal rows. decode: converts a message to rows. encode and decode do
 * nothing if floats are sent. Wire thread. */
void factors_encode(const struct factors *factors, float *rows, size_t elems);
void factors_decode(const struct factors *factors, float *rows, size_t elems);

/* Compute thread: copies the factors of the last micro-batch into the slot, since the net reuses
 * its buffers. */
int factors_stage(struct sync *sync, int bucket, const struct factors *factors, int slot,
                  int micro);

/* Wire thread: starts copying the slot's complete rows to a device with memory of its own. */
int factors_store(struct sync *sync, int bucket, const struct factors *factors, int slot);

/* Makes the sum of all workers' gradients, weight then bias, from the slot's rows. gradient: in the
 * memory of the device that multiplies. first: number of workers whose product `gradient` (the
 * weight's part) already has. add: `gradient` already has the sum of the earlier rounds. */
int factors_rebuild(struct sync *sync, int bucket, const struct factors *factors, int slot,
                    int first, bool add, float *gradient);

/* Multiplies the factors of workers [first, last) into the weight's gradient; add: adds to its
 * values. */
int factors_product(struct sync *sync, int bucket, const struct factors *factors, int slot,
                    int first, int last, bool add, float *gradient);

#endif
