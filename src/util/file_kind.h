/* What a file really is, for the message of a reader that expected something else, with the way
 * out. The one place that knows: readers ask it when they have failed. */
#ifndef POSEIDON_UTIL_FILE_KIND_H
#define POSEIDON_UTIL_FILE_KIND_H

#include <stddef.h>

/* By its first bytes, of which FILE_KIND_BYTES are enough: "a gzip archive: unpack it with gunzip".
 * NULL: there is no telling. */
enum { FILE_KIND_BYTES = 128 };
#define FILE_KIND_CAFFE2 "a NetDef of Caffe2, which is no form of Caffe's: take the model for Caffe"
const char *file_kind_of(const void *begin, size_t bytes);

/* The kind of a file by its first bytes; NULL if it is unknown or the file cannot be read. */
const char *file_kind(const char *path);

/* Replaces this thread's error message by one that says what the file is, if its kind is known and
 * is not `expected` ("an HDF5 file"). Returns -1. */
int file_kind_error(const char *path, const char *expected);

#endif
