/* Layer-wise adaptive rates (You, Gitman, Ginsburg, "Large batch training of convolutional
 * networks", 2017), as Intel's and NVIDIA's Caffe have them: the lr_mult of a parameter, where it
 * is above 0, gives way to ratio |w| / (|g| + decay |w|), or 1 where a norm is 0; g is the gradient
 * averaged over workers and passes and clipped, before decay.
 *
 * The norms come with those of clipping (clip.h), by pieces: what a chunk has of a parameter. */
#ifndef POSEIDON_SYNC_LARS_H
#define POSEIDON_SYNC_LARS_H

#include <stdbool.h>

struct sync;

struct lars {
    int *first;   /* per chunk and behind the last: the number of its first piece. NULL: off */
    int *param;   /* per group: the number of its first parameter */
    float *rates; /* per parameter: what stands for lr_mult, of the last iteration known */
};

/* Not collective. */
int lars_open(struct sync *sync);

/* How many doubles ranks agree on: 0 without LARS. */
int lars_count(const struct sync *sync);

/* Puts the sums of squares of a chunk's pieces at their places of `out`. gradient (the sum over
 * workers) and values: of the chunk, in the device's memory or the host's. */
int lars_note(struct sync *sync, int chunk, bool on_device, const float *gradient,
              const float *values, double *out);

/* Wire thread: all pieces are known, and the clipping scale: makes the rates. */
void lars_settle(struct sync *sync, const double *sums);

/* What multiplies the policy's rate for that parameter of the group. */
float lars_rate(const struct sync *sync, int group, int param);

#endif
