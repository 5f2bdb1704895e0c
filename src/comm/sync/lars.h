/* Layer-wise adaptive rates (You, Gitman, Ginsburg, "Large batch training of convolutional
 * networks", 2017), as in Intel's and NVIDIA's Caffe: ratio |w| / (|g| + decay |w|), or 1 where a
 * norm is 0, replaces a parameter's lr_mult, where that is above 0. g is the gradient averaged over
 * workers and passes and clipped, before decay.
 *
 * The norms come with clipping's norms (clip.h), by pieces: a chunk's part of a parameter. */
#ifndef POSEIDON_SYNC_LARS_H
#define POSEIDON_SYNC_LARS_H

#include <stdbool.h>

struct sync;

struct lars {
    int *first;   /* per chunk: number of its first piece; then the number of pieces. NULL: off */
    int *param;   /* per group: number of its first parameter */
    float *rates; /* per parameter: replacement of lr_mult in the latest iteration known */
};

/* Opens LARS; does nothing where it is off. Not collective. */
int lars_open(struct sync *sync);

/* Returns the number of doubles that ranks sum up: 0 without LARS. */
int lars_count(const struct sync *sync);

/* Puts the sums of squares of a chunk's pieces at their places in `out`. gradient (the sum over
 * workers) and values: the chunk's, in device memory or the host's. */
int lars_note(struct sync *sync, int chunk, bool on_device, const float *gradient,
              const float *values, double *out);

/* Computes the rates when all pieces and the clipping scale are known. Wire thread. */
void lars_settle(struct sync *sync, const double *sums);

/* Returns the factor of the policy's rate for that parameter of the group. */
float lars_rate(const struct sync *sync, int group, int param);

#endif
