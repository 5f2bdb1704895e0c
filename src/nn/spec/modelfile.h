/* Reads Caffe's binary models (.caffemodel) of any size and age: the list of layers, the places of
 * their weights in the file, and the net.
 *
 * Opening reads the file's structure only. Values are read on demand, directly into the caller's
 * buffer. Memory is bounded for any file: by a small multiple of the file's size without weights,
 * and by the limits below. */
#ifndef POSEIDON_SPEC_MODELFILE_H
#define POSEIDON_SPEC_MODELFILE_H

#include "spec/text.h"

#include <stdbool.h>
#include <stdint.h>

#define MODELFILE_MAX_AXES 32

/* Types of stored values: 32-bit and 64-bit floats, IEEE halves, bfloat16. */
enum stored_type { STORED_F32, STORED_F64, STORED_F16, STORED_BF16 };

/* A blob: weights, in a model or in a solver state. */
struct stored_blob {
    uint64_t begin, end; /* place of the blob's message in the file */
    bool legacy;         /* the shape is given as num, channels, height, width: four axes */
    int naxes;
    int64_t dim[MODELFILE_MAX_AXES];
    uint64_t elems; /* number of values in the file */
    enum stored_type type;
    uint32_t field; /* number of the field that holds the values */
};

struct stored_layer {
    char *name; /* owned; "" if the file gives none */
    int nblobs;
    struct stored_blob *blobs; /* owned */
};

/* Layers of a file. All zero: none. */
struct stored_layers {
    struct stored_layer *layer; /* owned */
    int count;
};

/* Adds a layer; `length` bytes of name. Valid until the next addition; NULL with a message. */
struct stored_layer *stored_layers_add(struct stored_layers *layers, const char *name,
                                       size_t length);

/* Adds a blob, all zero. Valid until the layer's next blob is added; NULL with a message. */
struct stored_blob *stored_layer_add(struct stored_layer *layer);
void stored_layers_free(struct stored_layers *layers);

struct model_file;

/* Opens a model. Fails on files of another kind: text, HDF5, a solver state, a mean image. */
int model_file_open(const char *path, struct model_file **out);
void model_file_close(struct model_file *file); /* NULL is allowed */

/* Returns the text of one of Poseidon's own fields (spec/proto.h), such as STATE_RUN; NULL if the
 * model has none. Owned by the file. */
const char *model_file_text(const struct model_file *file, uint32_t field);

/* Returns the model's layers in the file's order, old forms included; owned by the file. */
const struct stored_layer *model_file_layers(const struct model_file *file, int *count);

/* Reads blob->elems values of a blob of this file; rounds doubles to floats. */
int model_file_read(struct model_file *file, const struct stored_blob *blob, float *out);

/* Builds the net without its weights, in the file's form: the caller calls upgrade_net. The
 * document is named after the file's path; its parts have no line numbers. */
int model_file_net(const struct model_file *file, struct text_doc **out);

/* Reads a file that is a single blob (.binaryproto), such as a mean image. The caller frees
 * *values. Without a shape, the values form one axis. Fails if the number of values does not match
 * the shape. */
int stored_blob_load(const char *path, struct stored_blob *blob, float **values);

/* Writes a blob's shape to `out` as Caffe's messages do, "20 1 5 5 (500)", and returns `out`. */
const char *stored_blob_shape(const struct stored_blob *blob, char *out, size_t bytes);

#endif
