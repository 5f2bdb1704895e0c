/* How a record becomes part of a batch: crop, colours, mirror, mean, scale. Random draws depend on
 * the global sample index alone, so that they are the same at any number of ranks. Not
 * collective. */
#ifndef POSEIDON_INPUT_TRANSFORM_H
#define POSEIDON_INPUT_TRANSFORM_H

#include "engine/engine.h"
#include "input/augment.h"
#include "input/source.h"

#define TRANSFORM_MAX_FACTORS 16

/* Caffe's transform_param, resolved: y = (x - mean) * scale on a crop, maybe mirrored. */
struct transform {
    float scale;
    bool mirror;
    bool crops;             /* `out` is cut out of an image, else an image has that size */
    bool random_crop;       /* true in TRAIN: the crop's place is random; false: the centre */
    struct shape in, out;   /* C,H,W before and after the transform */
    float *mean;            /* full size in.C*H*W, or NULL */
    float *channel_mean;    /* in.C values, or NULL; never both */
    struct augment augment; /* TRAIN only; works on records of bytes alone */
    bool pads;              /* an image smaller than `out` is filled up by 0, behind the mean */
    int nfactors; /* TRAIN only: an image is scaled by one of the factors, drawn; 0: not */
    float factor[TRANSFORM_MAX_FACTORS];
    int ignore; /* label of pixels that have none */
};

/* Sets the crop's height and width (0: none): crop_size, or crop_height and crop_width. */
int transform_crop(const Caffe__TransformationParameter *param, int64_t crop[2]);

/* Fails unless the image, C x H x W of `where`, is at least as large as the crop. */
int transform_crop_fits(const int64_t crop[2], const struct shape *image, const char *where);

/* Planes of labels, which get the image's crop, mirror and scale. */
struct transform_planes {
    bool pads; /* images smaller than the crop are padded at the bottom and on the right; not with a
                  mean image */
    int ignore; /* label of padding */
};

/* Resolves transform_param against the record's shape. The mean file is HDF5 (data set `mean` or
 * `data`, C,H,W or 1,C,H,W) or Caffe's binaryproto; its path is tried as given, then beside
 * base_file (unless NULL). param NULL: converts to float alone. planes NULL: labels are not planes.
 * Messages about a wrong size name both sizes and suggest mean_value. On failure *out owns nothing.
 */
int transform_create_pair(const Caffe__TransformationParameter *param,
                          const struct transform_planes *planes, const struct shape *record,
                          bool train, const char *base_file, struct transform *out);

static inline int transform_create(const Caffe__TransformationParameter *param,
                                   const struct shape *record, bool train, const char *base_file,
                                   struct transform *out)
{
    return transform_create_pair(param, NULL, record, train, base_file, out);
}

void transform_free(struct transform *transform);

/* Fails unless a record of that shape can be transformed. Accepts the shape `in`; with a crop and
 * no mean image also any other height and width that is not smaller than the crop, or that padding
 * fills up. */
int transform_accepts(const struct transform *transform, const struct shape *shape);

/* Fails unless records of that type can be transformed: random windows and colours need bytes. */
int transform_takes(const struct transform *transform, enum source_type type);

/* Transforms one sample, record->data, whose shape was accepted. The global sample index draws crop
 * offsets, mirror and colours. Intermediate images use the record's memory. Errors: memory, and
 * those of transform_takes. */
int transform_apply(const struct transform *transform, struct record *record, uint64_t seed,
                    int layer_index, uint64_t sample, float *out);

/* Transforms one sample and its plane of labels (out.H x out.W). size: the rows and columns that
 * the image fills, without padding. */
int transform_pair(const struct transform *transform, struct record *record, uint64_t seed,
                   int layer_index, uint64_t sample, float *out, float *labels, float size[2]);

/* Does a transform's work on bytes (crop, colours); the engine does mirror, mean and scale. out:
 * out.C x out.H x out.W bytes; *window: mirrored or not, and where the mean is cut. */
int transform_cut(const struct transform *transform, struct record *record, uint64_t seed,
                  int layer_index, uint64_t sample, struct engine_window *window, uint8_t *out);

/* Returns the engine's arguments for mirror, mean and scale; borrows the transform's means. */
struct engine_images_args transform_args(const struct transform *transform);

#endif
