/* Caffe's binary models (.caffemodel), of any size and any age: which layers there are, where their
 * weights stand in the file, and the net that comes with them.
 *
 * Opening looks at the file's structure only. Values are read when they are asked for, straight to
 * their place. Memory is bounded whatever the file says: by a small multiple of the file's size
 * without weights, and by the limits below. */
#ifndef POSEIDON_SPEC_MODELFILE_H
#define POSEIDON_SPEC_MODELFILE_H

#include "spec/text.h"

#include <stdbool.h>
#include <stdint.h>

#define MODELFILE_MAX_AXES 32

/* What values are stored as: floats of 32 and 64 bits, IEEE halves, bfloat16. */
enum stored_type { STORED_F32, STORED_F64, STORED_F16, STORED_BF16 };

/* A blob: weights, in a model or in a solver state. */
struct stored_blob {
    uint64_t begin, end; /* its message in the file */
    bool legacy;         /* its shape is given as num, channels, height, width: four axes */
    int naxes;
    int64_t dim[MODELFILE_MAX_AXES];
    uint64_t elems; /* values that are there */
    enum stored_type type;
    uint32_t field; /* of the message that holds them */
};

struct stored_layer {
    char *name; /* owned; "" if the file gives none */
    int nblobs;
    struct stored_blob *blobs; /* owned */
};

/* All zero: none. */
struct stored_layers {
    struct stored_layer *layer; /* owned */
    int count;
};

/* Adds a layer; `length` bytes of name. Valid until the next one is added; NULL with a message. */
struct stored_layer *stored_layers_add(struct stored_layers *layers, const char *name,
                                       size_t length);

/* Adds a blob, all zero; likewise. */
struct stored_blob *stored_layer_add(struct stored_layer *layer);
void stored_layers_free(struct stored_layers *layers);

struct model_file;

/* Opens a model. Fails on what is none: text, HDF5, a solver state, a mean image. */
int model_file_open(const char *path, struct model_file **out);
void model_file_close(struct model_file *file); /* NULL is allowed */

/* What the model says in a field of ours (spec/proto.h), such as STATE_RUN; NULL: it does not say.
 * Owned by the file. */
const char *model_file_text(const struct model_file *file, uint32_t field);

/* Its layers in the file's order, old forms included; owned by the file. */
const struct stored_layer *model_file_layers(const struct model_file *file, int *count);

/* Reads the values of a blob of this file: blob->elems floats (doubles are rounded). */
int model_file_read(struct model_file *file, const struct stored_blob *blob, float *out);

/* The net without its weights, in the form of the file: the caller calls upgrade_net. The
 * document's name is the file's path; its parts have no line numbers. */
int model_file_net(const struct model_file *file, struct text_doc **out);

/* Reads a file that is one blob (.binaryproto), such as a mean image, with its values, which the
 * caller frees. Values without a shape are one axis. Fails where their number is not that of the
 * shape. */
int stored_blob_load(const char *path, struct stored_blob *blob, float **values);

/* Shape of a blob as Caffe writes it in messages: "20 1 5 5 (500)". Returns `out`. */
const char *stored_blob_shape(const struct stored_blob *blob, char *out, size_t bytes);

#endif
