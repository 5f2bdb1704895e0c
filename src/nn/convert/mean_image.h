/* Mean of many images, pixel by pixel, in the form of transform_param's mean_file. */
#ifndef POSEIDON_CONVERT_MEAN_IMAGE_H
#define POSEIDON_CONVERT_MEAN_IMAGE_H

#include "input/source.h"

/* Sum of images; all zero: no image yet. */
struct mean_image {
    struct shape shape; /* C,H,W, equal for all images */
    double *sum;        /* owned; exact for bytes */
    uint64_t count;
};

/* Adds one image, C x H x W. Fails if its shape is not the first image's, with both shapes. */
int mean_image_add(struct mean_image *mean, const struct shape *shape, enum source_type type,
                   const void *data);

/* Returns the mean of channel c over all pixels. Needs at least one image. */
double mean_image_channel(const struct mean_image *mean, int64_t c);

/* Writes the mean, whole or not at all: as Caffe's BlobProto (1,C,H,W) if `path` ends in
 * .binaryproto, else as HDF5: data set `mean`, float C,H,W. */
int mean_image_write(const struct mean_image *mean, const char *path);

void mean_image_free(struct mean_image *mean);

#endif
