/* Photographs as a net's input: decoded, resized, cropped, less a mean, scaled. */
#ifndef POSEIDON_COMMANDS_PHOTO_H
#define POSEIDON_COMMANDS_PHOTO_H

#include "input/format/image.h"

struct photo_options {
    int channels, height, width; /* of the net's input; 3: blue, green, red */
    /* Before the centre is cut out the image is resized: to whole_height x whole_width whatever its
     * own proportions, or, where `side` is not 0, to that length of its shorter side. */
    int whole_height, whole_width, side;
    bool rgb;      /* red, green, blue instead */
    float mean[3]; /* per channel, in the order of the input */
    float scale;   /* after the mean */
};

/* "104,117,123", "128", or a mean image (binaryproto or HDF5), of which the channels' means are
 * taken, as Caffe's own classifier does. */
int photo_set_mean(const char *text, struct photo_options *options);

/* channels * height * width values of one file. */
int photo_read(const char *path, const struct photo_options *options, float *out);

#endif
