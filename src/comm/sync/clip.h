/* Gradient clipping as Caffe means it: one L2 norm over all parameters. Traffic does not wait for
 * it; updates do. Every chunk's sum of squares is known to exactly one rank; one small allreduce of
 * the vector (zeros elsewhere, so the sum is exact in any order) gives all leaders the same
 * numbers, which are then added in the order of chunks.
 *
 * The same norm tells all leaders alike whether the gradient is finite: where it is not, the update
 * may be left out (sync_options.skips). */
#ifndef POSEIDON_SYNC_CLIP_H
#define POSEIDON_SYNC_CLIP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sync;

struct clip {
    double *own, *all;    /* per chunk: sum of squares of the averaged gradient; then what LARS
                             asks (lars.h), or all chunks' exact sum (sync_options.exact_norms).
                             own: zeros where another rank gives it. Owned; NULL without either */
    int sums;             /* how many of these */
    int local;            /* chunks at home here whose norm is missing (wire thread) */
    int at_home;          /* chunks whose norm their home, this rank, gives */
    int64_t given;        /* iterations whose norms the compute thread has given (compute thread) */
    bool computed;        /* the compute thread's norms are in `own` (wire thread) */
    _Atomic int64_t done; /* iterations whose scale is known */
    double norm;          /* of the last one */
    float scale;          /* of its gradients: at most 1 */
    bool skips;           /* its update is left out */
    _Atomic int64_t skipped, in_a_row, last_skipped; /* updates, as in sync_skips */
    _Atomic int skipped_bucket;
};

/* After the buckets are open. Not collective. */
int clip_open(struct sync *sync);

/* Wire thread: the sum of a chunk at home here, and the values that it is to change, on the host.
 */
int clip_chunk_ready(struct sync *sync, int chunk, const float *sum, const float *values);

/* Compute thread, once per iteration on every leader: gives the norms that workers give after
 * rebuilding gradients from factors, dealt over the workers by chunk. Does nothing when it did so
 * for that iteration already. */
int clip_give(struct sync *sync, int64_t iteration);

#endif
