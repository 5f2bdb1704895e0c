/* A model file as it is, whatever net it belongs to: all of its layers with names, shapes and
 * values, in memory; and the same as a file of Caffe's other form. Not collective. */
#ifndef POSEIDON_SNAPSHOT_WEIGHTS_H
#define POSEIDON_SNAPSHOT_WEIGHTS_H

#include "snapshot/snapshot.h"
#include "spec/text.h"

struct weights {
    int nlayers;
    /* Everything is owned. Where the file leaves out a parameter that another layer owns and does
     * not say which, `shared` is set, and shape and data are NULL; else it is a copy. */
    struct snapshot_layer *layers;
    struct text_doc *net; /* has these layers, one for one; NULL: the file has no definitions */
    struct snapshot_owner owner; /* as the file says */
};

/* Which form a file has is seen from its content. Halves, bfloat16 and doubles become floats of 32
 * bits; integers are refused. To be freed in either case. */
int weights_read(const char *path, struct weights *out);
void weights_free(struct weights *weights);

/* The names' ends of what can be written, NULL behind the last. */
extern const char *const weights_ends[];

/* Writes the form that the name's end says; whole or not at all. */
int weights_write(const struct weights *weights, const char *path);

#endif
