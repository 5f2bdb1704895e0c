/* What happens to a record on its way into a batch: crop, colours, mirror, mean, scale. The draws
 * are a function of the global sample index, so that they are the same at any number of ranks. Not
 * collective. */
#ifndef POSEIDON_INPUT_TRANSFORM_H
#define POSEIDON_INPUT_TRANSFORM_H

#include "engine/engine.h"
#include "input/augment.h"
#include "input/source.h"

/* Caffe's transform_param, resolved: y = (x - mean) * scale on a crop, maybe mirrored. */
struct transform {
    float scale;
    bool mirror;
    int crop;               /* 0: none; square */
    bool random_crop;       /* TRAIN; else centre */
    struct shape in, out;   /* C,H,W before and after */
    float *mean;            /* full size in.C*H*W, or NULL */
    float *channel_mean;    /* in.C values, or NULL; never both */
    struct augment augment; /* TRAIN; of records of bytes alone */
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

/* Fails unless records of that type can be transformed: random windows and colours are of bytes. */
int transform_takes(const struct transform *transform, enum source_type type);

/* One sample: record->data, of an accepted shape. Crop offsets, mirror and colours are drawn by the
 * global sample index; the record's memory is used for what lies between. Errors: memory,
 * transform_takes. */
int transform_apply(const struct transform *transform, struct record *record, uint64_t seed,
                    int layer_index, uint64_t sample, float *out);

/* The same of a record of bytes as far as they stay bytes, for an engine that does the rest. out:
 * out.C x out.H x out.W; *window: whether it is to be turned, and where its mean is. */
int transform_cut(const struct transform *transform, struct record *record, uint64_t seed,
                  int layer_index, uint64_t sample, struct engine_window *window, uint8_t *out);

/* What such an engine does: values of what was cut out. The means are the transform's. */
struct engine_images_args transform_args(const struct transform *transform);

#endif
