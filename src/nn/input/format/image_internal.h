/* Codecs of single formats, for image.c. */
#ifndef POSEIDON_INPUT_FORMAT_IMAGE_INTERNAL_H
#define POSEIDON_INPUT_FORMAT_IMAGE_INTERNAL_H

#include "input/format/image.h"

/* Returns the orientation, 1..8, in EXIF data that may begin with "Exif\0\0". Returns 1 (upright)
 * if the data lack it or are damaged. */
int exif_orientation(const uint8_t *data, size_t length);

static inline uint8_t image_gray(unsigned blue, unsigned green, unsigned red)
{
    return (uint8_t)((299 * red + 587 * green + 114 * blue + 500) / 1000);
}

int jpeg_decode(const void *data, size_t length, enum image_color color, struct image *out);
int png_decode(const void *data, size_t length, enum image_color color, struct image *out);
int webp_decode(const void *data, size_t length, enum image_color color, struct image *out);

int jpeg_encode(const struct image *image, int quality, struct strbuf *out);
int png_encode(const struct image *image, int quality, struct strbuf *out); /* ignores quality */

#endif
