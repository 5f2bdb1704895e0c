/* Sufficient factors: the gradient of a fully connected layer is a sum of outer products, one per sample,
 * dW (m x n) = sum_k top_grad_k^T bottom_k. A row holds [bottom (n) | top gradient (m)], so the rows of all
 * workers and micro-batches lie at one stride, and one GEMM covers them in rank order: the same bits on
 * every rank. The bias gradient is the column sum of the top gradients, so it travels along free. */
#ifndef POSEIDON_SYNC_FACTORS_H
#define POSEIDON_SYNC_FACTORS_H

#include "sync/sync_internal.h"

struct factors {
    float *rows;       /* slots x workers x rows_each x (n + m) */
    int workers;       /* whose rows there is room for */
    int64_t rows_each; /* per worker: batch * iter_size */
    size_t each;       /* floats of one worker: rows_each * (n + m) */
    /* Where the engine has memory of its own: the rows of one slot there, and as many ones, which make the
     * bias gradient a product too. */
    float *remote_rows, *ones;
    const struct engine *on_host; /* rebuilds there; NULL: where the net's engine has its memory */
};

/* Tells the net to leave this gradient to us. slots: iterations kept side by side. on_host: the sum is wanted in
 * the host's memory whatever the engine's. */
int factors_open(struct sync *sync, int group, int workers, int slots, bool on_host, struct factors *out);
void factors_close(struct sync *sync, struct factors *factors);

/* Where a worker's rows of a slot are. */
static inline float *factors_rows(const struct factors *factors, int worker, int slot)
{
    return factors->rows + ((size_t)slot * (size_t)factors->workers + (size_t)worker) * factors->each;
}

/* Copies the factors of the micro-batch just passed: the net reuses its buffers. Compute thread. */
int factors_stage(struct sync *sync, int group, int micro, float *rows);

/* All rows of the slot are here: they start on their way to an engine with memory of its own. Progress
 * thread. */
int factors_store(struct sync *sync, int group, const struct factors *factors, int slot);

/* The sum of all workers' gradients, weight then bias, from the slot's rows; where the engine has memory of its own,
 * and the sum is not wanted on the host, gradient is there, and the rows are those last stored. */
int factors_rebuild(struct sync *sync, int group, const struct factors *factors, int slot,
                    float *gradient);

#endif
