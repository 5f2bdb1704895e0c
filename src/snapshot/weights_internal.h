/* What the readers of each form fill a struct weights with. */
#ifndef POSEIDON_SNAPSHOT_WEIGHTS_INTERNAL_H
#define POSEIDON_SNAPSHOT_WEIGHTS_INTERNAL_H

#include "snapshot/weights.h"

#define WEIGHTS_SAFETENSORS ".safetensors"

/* The layer of that name, which is added where there is none; `length` bytes of name. Valid until
 * the next one is added; NULL with a message. */
struct snapshot_layer *weights_layer(struct weights *weights, const char *name, size_t length);

/* Gives a layer its parameter of that number, not yet there, with memory for its values; those in
 * front of it that are missing are left out as shared. */
int weights_add_blob(const char *path, struct snapshot_layer *layer, int number, int naxes,
                     const int64_t *dim);

/* Takes the definition, and gives the layers its order. */
int weights_set_net(struct weights *weights, struct text_doc *net);

int weights_read_hdf5(const char *path, struct weights *weights);
int weights_read_safetensors(const char *path, struct weights *weights);
int weights_write_safetensors(const struct weights *weights, const char *path);

/* Whether the file begins as one. */
bool weights_is_safetensors(const char *path);

#endif
