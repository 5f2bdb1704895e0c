/* Random resized crops and random colours: what transform_param of the TRAIN phase may do to an
 * image of bytes before the mean. Fields as in two forks of Caffe: random_aspect_ratio_param of
 * Intel's, distort_param of SSD's. Every draw is a function of the sample's `rng` alone. */
#ifndef POSEIDON_INPUT_AUGMENT_H
#define POSEIDON_INPUT_AUGMENT_H

#include "input/source.h"
#include "spec/caffe.pb-c.h"
#include "util/rng.h"

/* The draws of a sample from this one on are for this file; those before are the transform's. */
enum { AUGMENT_FIRST_DRAW = 3 };

enum augment_color { AUGMENT_BRIGHTNESS, AUGMENT_CONTRAST, AUGMENT_SATURATION, AUGMENT_COLORS };

/* All zero: nothing. */
struct augment {
    int attempts;   /* to find a window; 0: no random resized crop */
    double area[2]; /* of the window by that of the image: least and most */
    double change;  /* a square's sides are multiplied and divided by change .. 1 / change */
    struct augment_range {
        float prob, lower, upper; /* how often, and by how much */
    } color[AUGMENT_COLORS];
};

/* Checks and resolves the fields; errors name the field and its bounds. channels: of the images. */
int augment_create(const Caffe__TransformationParameter *param, int64_t channels,
                   struct augment *out);

/* Whether it does anything. */
bool augment_works(const struct augment *augment);

/* What is cut out of an image of that shape (C,H,W). After `attempts` draws that do not fit inside:
 * a square as large as the image's shorter side. */
struct image_box augment_window(const struct augment *augment, const struct shape *image,
                                const struct rng *rng);

/* Brightness is added, contrast multiplies, saturation moves channels away from the brightest one
 * or towards it (HSV with the hue kept); each is cut off at 0 and 255. Contrast comes before
 * saturation or last, by a draw. In place, `plane` pixels a channel: 1, or blue, green, red. */
void augment_colors(const struct augment *augment, const struct rng *rng, int64_t channels,
                    int64_t plane, uint8_t *pixels);

#endif
