/* Photographs as a net's input: decoded, resized, and then treated as records of a data layer. */
#ifndef POSEIDON_INPUT_IMAGE_INPUT_H
#define POSEIDON_INPUT_IMAGE_INPUT_H

#include "input/transform.h"

struct image_input {
    /* in: what a photograph is resized to before its centre, out, is cut out, whatever its own
     * proportions; three channels are blue, green, red. Owned */
    struct transform transform;
    int side;       /* not 0: it is resized to that length of its shorter side instead */
    bool as_stored; /* it is not resized at all */
    bool rgb;       /* red, green, blue instead */
};

/* "104,117,123", "128", or a mean image (binaryproto or HDF5), of which the channels' means are
 * taken, as Caffe's own classifier does; in place of the transform's mean. */
int image_input_set_mean(const char *text, struct transform *transform);

/* transform.out's values of one file. */
int image_input_read(const char *path, const struct image_input *options, float *out);

#endif
