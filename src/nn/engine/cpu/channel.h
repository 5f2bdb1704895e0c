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

/* The coefficient of a slot; -1 for padding. */
int64_t cpu_channels_coefficient(const struct cpu_channels *c, int64_t slot);

/* Coefficients <-> slots; slots of the padding become 0. gather adds where many slots are one. */
void cpu_channels_spread(const struct cpu_channels *c, const float *from, float *slots);
void cpu_channels_gather(const struct cpu_channels *c, const double *slots, double *to);

/* A coefficient's gradient, made or added. */
static inline void cpu_channels_learn(struct param *param, int64_t i, double value)
{
    param->grad[i] = (float)(value + (param->accumulate ? param->grad[i] : 0));
}

/* Mean of x and mean of (x - mean)^2 per slot. */
void cpu_channels_moments(struct cpu_engine *engine, const struct cpu_channels *c, const float *x,
                          double *mean, double *variance);

/* What sums and maps are made of: tensors in the view's format, and coefficients per slot, of which
 * NULL are zeros. All is borrowed. relu: see below. */
struct cpu_channel_data {
    const float *x, *dy;
    float *y;
    const float *shift, *a, *b, *d, *keep;
    bool relu;
};

/* What is done to each element: sums of a term, and of it times x - shift, or a map. */
enum cpu_channel_work {
    CHANNEL_SUM_X,
    CHANNEL_SUM_AWAY, /* x - shift */
    CHANNEL_SUM_GRADIENT,
    CHANNEL_SUM_NEGATIVE, /* dy; its product only where x is not positive */
    CHANNEL_MAP_AFFINE,   /* y = (x - shift) a + b; relu: 0 where that is negative. y may be x */
    /* y = dy a + (x - shift) b + d. y may be dy. relu: one stood behind (x - shift) a + keep, and
     * dy is taken as 0 where that is not positive */
    CHANNEL_MAP_COMBINE,
    CHANNEL_MAP_SLOPE, /* y = dy where x > 0, else a dy. y may be dy */
};

/* One of the maps. */
void cpu_channels_map(const struct cpu_channels *c, enum cpu_channel_work work,
                      const struct cpu_channel_data *data);

/* Per slot: sum of dy, and sum of dy (x - shift), by CHANNEL_SUM_GRADIENT or CHANNEL_SUM_NEGATIVE.
 * relu: as in CHANNEL_MAP_COMBINE. */
void cpu_channels_sums(struct cpu_engine *engine, const struct cpu_channels *c,
                       enum cpu_channel_work work, const struct cpu_channel_data *data, double *sum,
                       double *product);

#endif
