/* What the writers of image files share. All expect the HDF5 lock held. */
#ifndef POSEIDON_CONVERT_H5WRITE_H
#define POSEIDON_CONVERT_H5WRITE_H

#include "util/h5.h"

/* Sets "PATH: cannot be written (REASON)"; returns -1. To be called before anything else of HDF5:
 * every call forgets the error of the one before. */
int h5_failed_write(const char *path);

/* Texts as one attribute of the file, of fixed length, which every reader understands. */
int h5_write_texts(hid_t file, const char *path, const char *name, int n, char *const *texts);

/* `label`, int32 N. */
int h5_write_labels(hid_t file, const char *path, const int32_t *label, size_t count);

#endif
