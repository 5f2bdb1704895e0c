/* Weights of a model file, apart from any net: all layers with names, shapes and values in memory,
 * read from one of Caffe's forms and written in either. Not collective. */
#ifndef POSEIDON_SNAPSHOT_WEIGHTS_H
#define POSEIDON_SNAPSHOT_WEIGHTS_H

#include "snapshot/snapshot.h"
#include "spec/text.h"

struct weights {
    int nlayers;
    /* Layers, with owned names, shapes and values. Shared parameters are copies, unless the file
     * does not name their owner: then `shared` is set, and shape and data are NULL. */
    struct snapshot_layer *layers;
    struct text_doc *net;        /* definitions of the layers, one for one; NULL: not in the file */
    struct snapshot_owner owner; /* owner that the file names */
};

/* Reads a model file, in the form that its content shows. Converts halves, bfloat16 and doubles to
 * 32-bit floats; refuses integers. Free *out by weights_free, also after a failure. */
int weights_read(const char *path, struct weights *out);
void weights_free(struct weights *weights);

/* Name endings that weights_write accepts, NULL behind the last. */
extern const char *const weights_ends[];

/* Writes weights in the form of the name's ending; the file appears whole or not at all. */
int weights_write(const struct weights *weights, const char *path);

#endif
