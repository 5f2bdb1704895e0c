/* Photographs as a net's input: decoded, resized, then transformed like a data layer's records. */
#ifndef POSEIDON_INPUT_IMAGE_INPUT_H
#define POSEIDON_INPUT_IMAGE_INPUT_H

#include "input/transform.h"

struct image_input {
    /* Owned. A photograph is resized to `in`, whatever its proportions; then its centre, `out`, is
     * cut. Three channels are blue, green, red */
    struct transform transform;
    int side;       /* not 0: resize the shorter side to this length and keep the proportions */
    bool as_stored; /* do not resize at all */
    bool rgb;       /* channels are red, green, blue */
};

/* Replaces the transform's mean. text: "104,117,123", "128", or the file of a mean image
 * (binaryproto or HDF5), whose mean per channel is used, like in Caffe's own classifier. */
int image_input_set_mean(const char *text, struct transform *transform);

/* Reads one image file into transform.out values. */
int image_input_read(const char *path, const struct image_input *options, float *out);

#endif
