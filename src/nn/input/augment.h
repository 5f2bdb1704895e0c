/* Random resized crops and random colours: augmentations of a TRAIN image of bytes before the mean
 * is subtracted. The fields are those of two forks of Caffe: random_aspect_ratio_param (Intel) and
 * distort_param (SSD). Every draw depends on the sample's `rng` alone. */
#ifndef POSEIDON_INPUT_AUGMENT_H
#define POSEIDON_INPUT_AUGMENT_H

#include "input/source.h"
#include "spec/caffe.pb-c.h"
#include "util/rng.h"

/* This file's first random draw, and a later one that is, like the lower ones, transform.c's. */
enum { AUGMENT_FIRST_DRAW = 3, AUGMENT_FREE_DRAW = 10 };

enum augment_color { AUGMENT_BRIGHTNESS, AUGMENT_CONTRAST, AUGMENT_SATURATION, AUGMENT_COLORS };

/* Resolved augmentations. All zero: none. */
struct augment {
    int attempts;   /* attempts to find a window; 0: no random resized crop */
    double area[2]; /* least and greatest area of the window, relative to the image */
    double change;  /* factor of one side, divisor of the other: drawn from change .. 1 / change */
    struct augment_range {
        float prob, lower, upper; /* probability and range of a colour change */
    } color[AUGMENT_COLORS];
};

/* Checks and resolves the fields; messages name field and bounds. `channels`: of the images. */
int augment_create(const Caffe__TransformationParameter *param, int64_t channels,
                   struct augment *out);

/* Returns true if any augmentation is set. */
bool augment_works(const struct augment *augment);

/* Draws the window to cut out of an image of shape `image` (C,H,W). If none of `attempts` draws
 * fits into the image, takes a square as large as the image's shorter side. */
struct image_box augment_window(const struct augment *augment, const struct shape *image,
                                const struct rng *rng);

/* Changes colours in place: `plane` pixels a channel; 1 channel, or blue, green, red. Brightness is
 * added and contrast multiplies. Saturation moves channels towards or away from the brightest (HSV,
 * hue kept). Results are clipped to 0 .. 255. Contrast is before saturation or last, at random. */
void augment_colors(const struct augment *augment, const struct rng *rng, int64_t channels,
                    int64_t plane, uint8_t *pixels);

#endif
