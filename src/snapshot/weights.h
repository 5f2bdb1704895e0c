/* A model file as it is, whatever net it belongs to: all of its layers with names, shapes and
 * values, in memory; and the same as a file of another form. The forms are Caffe's two and
 * .safetensors, which PyTorch's users have: a JSON header, then plain floats.
 *
 * There the parameters of a layer are LAYER.weight and LAYER.bias, or, where it has more than two,
 * LAYER.0, LAYER.1 and so on; in reading, either will do. What the other forms hold besides comes
 * with it as metadata: `net`, the net's definition as text, `run` and
 * `parameters`. Not collective. */
#ifndef POSEIDON_SNAPSHOT_WEIGHTS_H
#define POSEIDON_SNAPSHOT_WEIGHTS_H

#include "snapshot/snapshot.h"
#include "spec/text.h"

struct weights {
    int nlayers;
    /* Everything is owned. Where the file leaves out a parameter that another layer owns, `shared`
     * is set, and shape and data are NULL. */
    struct snapshot_layer *layers;
    struct text_doc *net; /* has these layers, one for one; NULL: the file has no definitions */
    struct snapshot_owner owner; /* as the file says */
};

/* Which form a file has is seen from its content. Numbers that are no floats of 32 bits are
 * refused, but for a .caffemodel's doubles, which are rounded. To be freed in either case. */
int weights_read(const char *path, struct weights *out);
void weights_free(struct weights *weights);

/* The names' ends of what can be written, NULL behind the last. */
extern const char *const weights_ends[];

/* Writes the form that the name's end says; whole or not at all. */
int weights_write(const struct weights *weights, const char *path);
int weights_write_safetensors(const struct weights *weights, const char *path);

#endif
