/* What image.c asks of the files that know one format each. */
#ifndef POSEIDON_INPUT_FORMAT_IMAGE_INTERNAL_H
#define POSEIDON_INPUT_FORMAT_IMAGE_INTERNAL_H

#include "input/format/image.h"

int jpeg_decode(const void *data, size_t length, enum image_color color, struct image *out);
int png_decode(const void *data, size_t length, enum image_color color, struct image *out);

int jpeg_encode(const struct image *image, int quality, struct strbuf *out);
int png_encode(const struct image *image, int quality, struct strbuf *out); /* quality: unused */

#endif
