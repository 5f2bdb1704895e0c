/* Mean images as files: HDF5, or Caffe's binaryproto. */
#ifndef POSEIDON_INPUT_MEAN_FILE_H
#define POSEIDON_INPUT_MEAN_FILE_H

#include "spec/modelfile.h"

/* Reads the data set `mean`, else `data`, of an HDF5 file, or a binaryproto's blob: its shape as
 * stored, C,H,W or 1,C,H,W, and blob->elems values, which the caller frees. NULL where it fails. */
int mean_file_read(const char *path, struct stored_blob *blob, float **values);

#endif
