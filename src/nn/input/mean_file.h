/* Files of mean images: HDF5, or Caffe's binaryproto. */
#ifndef POSEIDON_INPUT_MEAN_FILE_H
#define POSEIDON_INPUT_MEAN_FILE_H

#include "spec/modelfile.h"

/* Reads data set `mean`, else `data`, of an HDF5 file, or a binaryproto's blob. *blob has the shape
 * as stored (C,H,W or 1,C,H,W). The caller frees *values, blob->elems floats; NULL on failure. */
int mean_file_read(const char *path, struct stored_blob *blob, float **values);

#endif
