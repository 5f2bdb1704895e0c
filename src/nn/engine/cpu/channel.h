/* Sums and affine maps per channel, over a tensor in any format: the core of batch normalisation,
 * Scale and PReLU.
 *
 * A tensor is samples x groups planes of pixels x block elements. Slot group * block + lane holds
 * an element's coefficient. Slots of the padding have no coefficient. */
#ifndef POSEIDON_ENGINE_CPU_CHANNEL_H
#define POSEIDON_ENGINE_CPU_CHANNEL_H

#include "engine/cpu/cpu_internal.h"

struct cpu_channels {
    int64_t samples, groups, pixels, block;
    int64_t chunk, chunks;   /* pixels of a chunk, which is summed in float; chunks of a plane */
    int64_t coefficients;    /* number of coefficients; 1: the same for all slots */
    int64_t row, padded_row; /* contiguous coefficients; their slots, with padding */
    int64_t slots;           /* groups * block */
    bool half;               /* elements are bfloat16 */
};

/* Makes the view in which coefficients have the shape of axes axis .. axis + naxes - 1 (naxes 0:
 * scalar). Returns false where the format does not allow the view; plain memory always does. */
bool cpu_channels_view(const struct shape *shape, const struct cpu_format *format, int axis,
                       int naxes, struct cpu_channels *out);

/* Reserves the work memory that the sums need. Set-up only. */
int cpu_channels_reserve(struct cpu_engine *engine, const struct cpu_channels *c);

/* Returns the index of a slot's coefficient; -1 for padding. */
int64_t cpu_channels_coefficient(const struct cpu_channels *c, int64_t slot);

/* Copy coefficients to slots (padding: 0), and back. gather adds up slots with one coefficient. */
void cpu_channels_spread(const struct cpu_channels *c, const float *from, float *slots);
void cpu_channels_gather(const struct cpu_channels *c, const double *slots, double *to);

/* Writes a coefficient's gradient, or adds to it (param->accumulate). */
static inline void cpu_channels_learn(struct param *param, int64_t i, double value)
{
    param->grad[i] = (float)(value + (param->accumulate ? param->grad[i] : 0));
}

/* Computes the mean of x, and of (x - mean)^2, for each slot. */
void cpu_channels_moments(struct cpu_engine *engine, const struct cpu_channels *c, const float *x,
                          double *mean, double *variance);

/* Input of sums and maps, all borrowed: tensors in the view's format, and coefficients per slot
 * (NULL: zeros). relu: see enum cpu_channel_work. */
struct cpu_channel_data {
    const float *x, *dy;
    float *y;
    const float *shift, *a, *b, *d, *keep;
    bool relu;
};

/* Work on each element: a sum of a term, and of the term times x - shift; or a map. */
enum cpu_channel_work {
    CHANNEL_SUM_X,
    CHANNEL_SUM_AWAY, /* term x - shift */
    CHANNEL_SUM_GRADIENT,
    CHANNEL_SUM_NEGATIVE, /* term dy; times x - shift only where x is not positive */
    CHANNEL_MAP_AFFINE,   /* y = (x - shift) a + b, with relu 0 if negative. y may be x */
    /* y = dy a + (x - shift) b + d. y may be dy. relu: a ReLU followed (x - shift) a + keep, and dy
     * counts as 0 where this value is not positive */
    CHANNEL_MAP_COMBINE,
    CHANNEL_MAP_SLOPE, /* y = dy where x > 0, else a dy. y may be dy */
};

/* Runs one of the maps. */
void cpu_channels_map(const struct cpu_channels *c, enum cpu_channel_work work,
                      const struct cpu_channel_data *data);

/* Sums dy, and dy (x - shift), for each slot by CHANNEL_SUM_GRADIENT or CHANNEL_SUM_NEGATIVE. relu:
 * as in CHANNEL_MAP_COMBINE. */
void cpu_channels_sums(struct cpu_engine *engine, const struct cpu_channels *c,
                       enum cpu_channel_work work, const struct cpu_channel_data *data, double *sum,
                       double *product);

#endif
