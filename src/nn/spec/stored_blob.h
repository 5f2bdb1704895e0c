/* Blobs in binary files: in models and in solver states (snapshot/binary_read.c). */
#ifndef POSEIDON_SPEC_STORED_BLOB_H
#define POSEIDON_SPEC_STORED_BLOB_H

#include "spec/modelfile.h"
#include "spec/proto.h"

/* Finds place, shape and number of values of the blob message at [begin, end). */
int stored_blob_scan(struct proto *proto, uint64_t begin, uint64_t end, struct stored_blob *out);

/* Reads the blob's values. */
int stored_blob_read(struct proto *proto, const struct stored_blob *blob, float *out);

#endif
