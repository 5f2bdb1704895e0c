/* Photographs: JPEG, PNG and WebP to 8-bit pixels, the first two back, and resizing, all as Caffe's
 * users have it from OpenCV: the channels in the order blue, green, red. */
#ifndef POSEIDON_INPUT_FORMAT_IMAGE_H
#define POSEIDON_INPUT_FORMAT_IMAGE_H

#include "util/strbuf.h"

#include <stdbool.h>

/* More pixels than any photograph has; a file that claims them is damaged. */
#define IMAGE_MAX_PIXELS ((uint64_t)1 << 27)

/* Rows from the top, without padding; channels interleaved. All zero is empty. */
struct image {
    int channels; /* 3: blue, green, red; 1: grey */
    int height, width;
    int orientation;      /* of EXIF: what would have to be done to be upright; 0, 1: nothing */
    bool turned;          /* that was done */
    bool stored_gray;     /* the file has one channel */
    bool unended;         /* all pixels are there, but not the file's end mark */
    bool indices_lost;    /* a palette's colours were read as gray values */
    struct strbuf pixels; /* height x width x channels */
    struct strbuf work;   /* image_resize's, where this is what it makes; of turning */
};

enum image_color {
    IMAGE_AS_STORED, /* grey stays grey */
    IMAGE_COLOR,     /* grey becomes three equal channels */
    IMAGE_GRAY       /* 0.299 R + 0.587 G + 0.114 B */
};

enum image_format { IMAGE_UNKNOWN, IMAGE_JPEG, IMAGE_PNG, IMAGE_WEBP };

/* By content; a file's name says nothing. */
enum image_format image_format_of(const void *data, size_t length);

/* Decodes a JPEG, PNG or WebP file held in memory. Transparency is dropped, 16 bits become 8, CMYK
 * becomes colour, and an image is turned as its EXIF orientation says, not as XMP does. Errors
 * (without the file's name): not an image, a format that is not read or not built in, damaged, cut
 * short, more than IMAGE_MAX_PIXELS. A JPEG may lack its end mark, for OpenCV reads it, too. */
int image_decode(const void *data, size_t length, enum image_color color, struct image *out);

/* The same as it is stored: out->orientation says how it would have to be turned. */
int image_decode_stored(const void *data, size_t length, enum image_color color, struct image *out);

/* Encodes at `quality` 1..100 (JPEG) or without loss (PNG), nothing else; appends to `out`. */
int image_encode(const struct image *image, enum image_format format, int quality,
                 struct strbuf *out);

/* Pixels that lie in an image, or in one plane of it. */
struct image_view {
    const uint8_t *pixels; /* the first one; channels interleaved */
    int channels, height, width;
    size_t stride; /* bytes from row to row */
};

/* A part of an image. */
struct image_box {
    int top, left, height, width;
};

struct image_view image_view(const struct image *image);

struct image_view image_view_part(const struct image_view *view, const struct image_box *box);

/* Interleaved to planes, C x H x W. */
void image_view_planes(const struct image_view *view, uint8_t *out);

/* Bilinear, half-pixel centres, edges repeated, without smoothing when it shrinks: OpenCV's
 * INTER_LINEAR. Of the image of height x width only that box is made. `from` lies outside `to`. */
int image_resize_part(const struct image_view *from, int height, int width,
                      const struct image_box *box, struct image *to);

/* A sentence for the user where the image may hold labels, and reading and resizing it to height x
 * width (0: not) changes them; NULL: neither. */
const char *image_label_remark(const struct image *image, int height, int width);

/* All of it. `from` and `to` are different. */
int image_resize(const struct image *from, int height, int width, struct image *to);

/* The same of an image's planes; `out` has channels * height * width bytes. */
void image_to_planes(const struct image *image, uint8_t *out);

/* Sets the size and reserves the pixels; fails beyond IMAGE_MAX_PIXELS. */
int image_set_size(struct image *image, int channels, uint64_t height, uint64_t width);

void image_free(struct image *image);

#endif
