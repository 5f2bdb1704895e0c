/* The mean of many images, pixel by pixel, as transform_param's mean_file wants it. */
#ifndef POSEIDON_CONVERT_MEAN_IMAGE_H
#define POSEIDON_CONVERT_MEAN_IMAGE_H

#include "input/source.h"

/* All zero is empty. */
struct mean_image {
    struct shape shape; /* C,H,W of the first image; all have it */
    double *sum;        /* owned; exact for bytes */
    uint64_t count;
};

/* Adds one image, C x H x W. Fails where its shape is not that of the first; both are named. */
int mean_image_add(struct mean_image *mean, const struct shape *shape, enum source_type type,
                   const void *data);

/* Mean of channel c over all pixels. At least one image was added. */
double mean_image_channel(const struct mean_image *mean, int64_t c);

/* Writes it as Caffe's BlobProto (1,C,H,W) where path ends in .binaryproto, else as HDF5: data set
 * `mean`, float C,H,W. Incomplete when it fails; the caller removes it then. `name` decides which.
 */
int mean_image_write(const struct mean_image *mean, const char *name, const char *path);

void mean_image_free(struct mean_image *mean);

#endif
