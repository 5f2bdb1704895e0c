/* Gradient clipping as in Caffe: one L2 norm over all parameters. Updates wait for the norm,
 * traffic does not. Exactly one rank knows each chunk's sum of squares. A small allreduce of the
 * vector (zeros elsewhere: exact in any order) gives all leaders equal numbers, added in the order
 * of chunks.
 *
 * The norm also tells all leaders alike if the gradient is finite; if not, the update may be left
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
    int local; /* chunks at home here whose norm is missing (wire thread) */
    int at_home;          /* chunks at home here whose home gives the norm */
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

/* Wire thread: takes the sum of a chunk at home here, and the values to change, on the host. */
int clip_chunk_ready(struct sync *sync, int chunk, const float *sum, const float *values);

/* Gives the norms that workers compute after rebuilding gradients from factors, dealt over the
 * workers by chunk. Compute thread, on every leader; a second call for an iteration does nothing.
 */
int clip_give(struct sync *sync, int64_t iteration);

#endif
