/* Gradient clipping as in Caffe: one L2 norm over all parameters. Updates wait for the norm,
 * traffic does not. Exactly one rank knows each chunk's sum of squares. An allreduce of the vector
 * of these sums (zeros from other ranks, so exact in any order) gives all leaders equal numbers,
 * which they add in the order of chunks.
 *
 * From the norm all leaders also learn if the gradient is finite; if not, the update may be left
 * out (sync_options.skips). */
#ifndef POSEIDON_SYNC_CLIP_H
#define POSEIDON_SYNC_CLIP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sync;

struct clip {
    double *own,
        *all;  /* per chunk: sum of squares of the averaged gradient; then LARS's sums (lars.h), or
                  the exact sum of all chunks (sync_options.exact_norms). own: this rank's values,
                  zeros elsewhere; all: sums over the ranks. Owned; NULL without norms */
    int sums;  /* length of `own` and `all` */
    int local; /* chunks of `at_home` whose norm is missing (wire thread) */
    int at_home;          /* chunks whose home is this rank, of schemes with home_norms */
    int64_t given;        /* iterations whose norms the compute thread has given (compute thread) */
    bool computed;        /* the compute thread's norms are in `own` (wire thread) */
    _Atomic int64_t done; /* iterations whose scale is known */
    double norm;          /* norm of the last known iteration */
    float scale;          /* factor of the last known iteration's gradients, at most 1 */
    bool skips;           /* the last known iteration's update is left out */
    _Atomic int64_t skipped, in_a_row, last_skipped; /* counts of updates, as in sync_skips */
    _Atomic int skipped_bucket;
};

/* Opens clipping, after the buckets. Not collective. */
int clip_open(struct sync *sync);

/* Wire thread: computes the norms of a chunk whose home is this rank, from its sum and its values
 * in host memory. */
int clip_chunk_ready(struct sync *sync, int chunk, const float *sum, const float *values);

/* Computes the norms of gradients that workers rebuild from factors; chunks are dealt over the
 * workers. Compute thread, on every leader; a second call for an iteration does nothing. */
int clip_give(struct sync *sync, int64_t iteration);

#endif
