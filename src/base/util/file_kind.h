/* The real kind of a file, with what to do about it, for the message of a reader that expected
 * another kind. Readers ask for the kind after they have failed. */
#ifndef POSEIDON_UTIL_FILE_KIND_H
#define POSEIDON_UTIL_FILE_KIND_H

#include <stddef.h>

/* Returns the kind by the first bytes, of which FILE_KIND_BYTES are enough: "a gzip archive: unpack
 * it with gunzip". Returns NULL if the kind is unknown. */
enum { FILE_KIND_BYTES = 128 };
#define FILE_KIND_CAFFE2 "a NetDef of Caffe2, which Caffe cannot read: take the model for Caffe"
const char *file_kind_of(const void *begin, size_t bytes);

/* Returns the kind of a file by its first bytes; NULL if unknown, or if the file cannot be read. */
const char *file_kind(const char *path);

/* Replaces this thread's error message by one that says what the file is, if its kind is known and
 * is not `expected` ("an HDF5 file"). Returns -1. */
int file_kind_error(const char *path, const char *expected);

#endif
