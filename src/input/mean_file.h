/* Mean images as files: HDF5, or Caffe's binaryproto. */
#ifndef POSEIDON_INPUT_MEAN_FILE_H
#define POSEIDON_INPUT_MEAN_FILE_H

#include <stdint.h>

enum { MEAN_AXES = 32 };

struct mean_file {
    int naxes; /* as stored: C,H,W, or 1,C,H,W */
    int64_t dim[MEAN_AXES];
    uint64_t elems;
    float *values; /* elems; owned by the caller */
};

/* Reads the data set `mean`, else `data`, of an HDF5 file, or a binaryproto's blob. */
int mean_file_read(const char *path, struct mean_file *out);

#endif
