/* Sufficient factors: the gradient of a fully connected layer is a sum of outer products, one per
 * sample, dW (m x n) = sum_k top_grad_k^T bottom_k. A row holds [bottom (n) | top gradient (m)], so
 * the rows of all workers and micro-batches lie at one stride, and one GEMM covers them in rank
 * order: the same bits on every rank. The bias gradient is the column sum of the top gradients, so
 * it travels along free. */
#ifndef POSEIDON_SYNC_FACTORS_H
#define POSEIDON_SYNC_FACTORS_H

#include "sync/sync_internal.h"

struct factors {
    float *rows; /* slots x workers x rows_each x (n + m); the node's where it has several ranks; in
                    the engine's memory where `direct` */
    int slots;   /* iterations side by side */
    int workers; /* whose rows there is room for */
    int mine;    /* which of them this rank (or who speaks for it) is */
    int64_t rows_each; /* per worker: batch * iter_size * the most that one speaks for. What a
                          worker has less stays zero */
    size_t each;       /* floats of one worker: rows_each * (n + m) */
    /* Where the engine has memory of its own: the rows of one slot there (NULL where `direct`), and
     * as many ones, which make the bias gradient a product too. */
    float *remote_rows, *ones;
    bool direct;                  /* messages go straight from and to that memory */
    const struct engine *on_host; /* rebuilds there; NULL: where the net's engine has its memory */
};

/* Floats of all slots on this rank and those it speaks for. */
size_t factors_elems(const struct sync *sync, int group);

/* Tells the net to leave this gradient to us. SFB keeps the rows of all workers, of two iterations;
 * Adam's way those of all at the owner, and this node's elsewhere, of one; the sum is made on the
 * host. */
int factors_open(struct sync *sync, int group, struct factors *out);
void factors_close(struct sync *sync, struct factors *factors);

/* Where a worker's rows of a slot are. */
static inline float *factors_rows(const struct factors *factors, int worker, int slot)
{
    return factors->rows +
           ((size_t)slot * (size_t)factors->workers + (size_t)worker) * factors->each;
}

/* What a speaker sends. */
static inline size_t factors_floats(const struct sync *sync, int group, int speaker)
{
    const struct bucket *g = &sync->plan->buckets[group];

    return (size_t)(plan_rows(sync->plan, group, speaker) * (g->m + g->n));
}

/* Where this rank itself puts its rows: behind those of its node's ranks before it. */
float *factors_own(const struct sync *sync, const struct factors *factors, int slot);

/* Copies the factors of the micro-batch just passed into the slot: the net reuses its buffers.
 * Compute thread. */
int factors_stage(struct sync *sync, int group, const struct factors *factors, int slot, int micro);

/* All rows of the slot are here: they start on their way to an engine with memory of its own.
 * Progress thread. */
int factors_store(struct sync *sync, int group, const struct factors *factors, int slot);

/* The sum of all workers' gradients, weight then bias, from the slot's rows; where the engine has
 * memory of its own, and the sum is not wanted on the host, gradient is there, and the rows are
 * those last stored. With first > 0 the weight's part of the workers before is in `gradient`
 * already. */
int factors_rebuild(struct sync *sync, int group, const struct factors *factors, int slot,
                    int first, float *gradient);

/* The weight's part of workers [first, last); of first > 0: added to what is there. */
int factors_product(struct sync *sync, int group, const struct factors *factors, int slot,
                    int first, int last, float *gradient);

#endif
