/* What happens to a record on its way into a batch: crop, mirror, mean, scale. The draws are a
 * function of the global sample index, so that they are the same at any number of ranks. Not
 * collective. */
#ifndef POSEIDON_INPUT_TRANSFORM_H
#define POSEIDON_INPUT_TRANSFORM_H

#include "engine/engine.h"
#include "input/source.h"
#include "spec/caffe.pb-c.h"

/* Caffe's transform_param, resolved: y = (x - mean) * scale on a crop, maybe mirrored. */
struct transform {
    float scale;
    bool mirror;
    int crop;             /* 0: none; square */
    bool random_crop;     /* TRAIN; else centre */
    struct shape in, out; /* C,H,W before and after */
    float *mean;          /* full size in.C*H*W, or NULL */
    float *channel_mean;  /* in.C values, or NULL; never both */
};

/* Resolves the message against the record's shape. Mean files: HDF5 (dataset `mean` or `data`,
 * C,H,W or 1,C,H,W) or Caffe's binaryproto, found as named or else beside base_file (NULL: as
 * named). param NULL: no change but to float. Size mismatches name both sizes and suggest
 * mean_value. On failure *out owns nothing. */
int transform_create(const Caffe__TransformationParameter *param, const struct shape *record,
                     bool train, const char *base_file, struct transform *out);
void transform_free(struct transform *transform);

/* Fails unless a record of that shape can be transformed: the shape that `in` says, or another
 * height and width where a crop makes all alike and no mean image is in the way. */
int transform_accepts(const struct transform *transform, const struct shape *shape);

/* One sample, of shape `in` or, where `shape` is not NULL, of an accepted other one. Crop offsets
 * and mirror are drawn by the global sample index. */
void transform_apply(const struct transform *transform, const void *record,
                     const struct shape *shape, enum source_type type, uint64_t seed,
                     int layer_index, uint64_t sample, float *out);

/* The draws of one sample: what is cut out of it, and whether it is turned. shape as in
 * transform_apply. */
struct engine_window transform_window(const struct transform *transform, const struct shape *shape,
                                      uint64_t seed, int layer_index, uint64_t sample);

/* Cuts the window out of a record of bytes; nothing else is done. out: out.C x out.H x out.W. */
void transform_cut(const struct transform *transform, const uint8_t *record,
                   const struct shape *shape, const struct engine_window *window, uint8_t *out);

#endif
