/* How a record becomes part of a batch: crop, colours, mirror, mean, scale. Random draws depend on
 * the global sample index alone, so that they are the same at any number of ranks. Not
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
    int crop;               /* side of the square crop; 0: none */
    bool random_crop;       /* true in TRAIN: the crop's place is random; false: the centre */
    struct shape in, out;   /* C,H,W before and after the transform */
    float *mean;            /* full size in.C*H*W, or NULL */
    float *channel_mean;    /* in.C values, or NULL; never both */
    struct augment augment; /* TRAIN only; works on records of bytes alone */
};

/* Resolves transform_param against the record's shape. The mean file is HDF5 (data set `mean` or
 * `data`, C,H,W or 1,C,H,W) or Caffe's binaryproto; its path is tried as given, then beside
 * base_file (unless NULL). param NULL: converts to float alone. Messages about a wrong size name
 * both sizes and suggest mean_value. On failure *out owns nothing. */
int transform_create(const Caffe__TransformationParameter *param, const struct shape *record,
                     bool train, const char *base_file, struct transform *out);
void transform_free(struct transform *transform);

/* Fails unless a record of that shape can be transformed. Accepts the shape `in`; with a crop and
 * no mean image also any other height and width that is not smaller than the crop. */
int transform_accepts(const struct transform *transform, const struct shape *shape);

/* Fails unless records of that type can be transformed: random windows and colours need bytes. */
int transform_takes(const struct transform *transform, enum source_type type);

/* Transforms one sample, record->data, whose shape was accepted. The global sample index draws crop
 * offsets, mirror and colours. Intermediate images use the record's memory. Errors: memory, and
 * those of transform_takes. */
int transform_apply(const struct transform *transform, struct record *record, uint64_t seed,
                    int layer_index, uint64_t sample, float *out);

/* Does a transform's work on bytes (crop, colours); the engine does mirror, mean and scale. out:
 * out.C x out.H x out.W bytes; *window: mirrored or not, and where the mean is cut. */
int transform_cut(const struct transform *transform, struct record *record, uint64_t seed,
                  int layer_index, uint64_t sample, struct engine_window *window, uint8_t *out);

/* Returns the engine's arguments for mirror, mean and scale; borrows the transform's means. */
struct engine_images_args transform_args(const struct transform *transform);

#endif
