/* Sums and affine maps per channel, over a tensor in any format: the core of batch normalisation,
 * Scale and PReLU.
 *
 * A tensor is seen as samples x groups planes of pixels x block floats; the coefficient of an
 * element is the one in slot group * block + lane. Slots of the padding carry none. */
#ifndef POSEIDON_ENGINE_CPU_CHANNEL_H
#define POSEIDON_ENGINE_CPU_CHANNEL_H

#include "engine/cpu/cpu_internal.h"

struct cpu_channels {
    int64_t samples, groups, pixels, block;
    int64_t chunk, chunks;   /* pixels that are summed in float; such pieces per plane */
    int64_t coefficients;    /* 1: the same for all slots */
    int64_t row, padded_row; /* coefficients side by side before the padding, and with it */
    int64_t slots;           /* groups * block */
};

/* The view in which coefficients have the shape of axes axis .. axis + naxes - 1 (naxes 0: scalar).
 * False where the format does not allow it; plain always does. */
bool cpu_channels_view(const struct shape *shape, const struct cpu_format *format, int axis,
                       int naxes, struct cpu_channels *out);

/* Makes sure of the work memory that the sums need. Set-up only. */
int cpu_channels_reserve(struct cpu_engine *engine, const struct cpu_channels *c);

/* Coefficients <-> slots; slots of the padding become 0. gather adds where many slots are one. */
void cpu_channels_spread(const struct cpu_channels *c, const float *from, float *slots);
void cpu_channels_gather(const struct cpu_channels *c, const double *slots, double *to);

/* Mean of x and mean of (x - mean)^2 per slot. */
void cpu_channels_moments(struct cpu_engine *engine, const struct cpu_channels *c, const float *x,
                          double *mean, double *variance);

/* Per slot: sum of dy, and sum of dy (x - shift). a, keep: as in cpu_channels_combine. */
void cpu_channels_sums(struct cpu_engine *engine, const struct cpu_channels *c, const float *x,
                       const float *dy, const float *shift, const float *a, const float *keep,
                       double *sum, double *product);
/* Per slot: sum of dy x where x is not positive. */
void cpu_channels_negative_sums(struct cpu_engine *engine, const struct cpu_channels *c,
                                const float *x, const float *dy, double *product);

/* y = (x - shift) a + b per slot; relu: 0 where that is negative. In place is fine. */
void cpu_channels_affine(const struct cpu_channels *c, const float *x, const float *shift,
                         const float *a, const float *b, bool relu, float *y);
/* dx = dy a + (x - shift) b + d per slot. dx may be dy. keep not NULL: a ReLU stood behind
 * (x - shift) a + keep, and dy is taken as 0 where that is not positive. */
void cpu_channels_combine(const struct cpu_channels *c, const float *dy, const float *x,
                          const float *shift, const float *a, const float *b, const float *d,
                          const float *keep, float *dx);
/* y = from where x > 0, else a from, per slot. y may be from. */
void cpu_channels_slope(const struct cpu_channels *c, const float *x, const float *from,
                        const float *a, float *y);

#endif
