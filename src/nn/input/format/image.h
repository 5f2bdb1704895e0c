/* Photographs: reads JPEG, PNG and WebP to 8-bit pixels, writes JPEG and PNG, and resizes. Results
 * are OpenCV's, which Caffe uses; channels are in the order blue, green, red. */
#ifndef POSEIDON_INPUT_FORMAT_IMAGE_H
#define POSEIDON_INPUT_FORMAT_IMAGE_H

#include "util/strbuf.h"

#include <math.h>
#include <stdbool.h>

/* More pixels than any photograph has; a file with more is taken to be damaged. */
#define IMAGE_MAX_PIXELS ((uint64_t)1 << 27)

/* Pixels in rows from the top, without padding; channels interleaved. All zero is empty. */
struct image {
    int channels; /* 3: blue, green, red; 1: grey */
    int height, width;
    int orientation;      /* EXIF orientation, 1..8; 0, 1: upright */
    bool stored_gray;     /* the file has one channel */
    bool unended;         /* all pixels exist, but not the file's end mark */
    bool indices;         /* pixels are numbers of classes: a PNG gets a palette */
    bool indices_lost;    /* colours of a palette were converted to gray, so its indices are lost */
    struct strbuf pixels; /* height x width x channels */
    struct strbuf work;   /* scratch memory of image_resize and of turning */
};

enum image_color {
    IMAGE_AS_STORED, /* grey stays grey */
    IMAGE_COLOR,     /* grey becomes three equal channels */
    IMAGE_GRAY,      /* 0.299 R + 0.587 G + 0.114 B */
    IMAGE_INDICES    /* PNG alone: gray values, or a palette's indices, as stored */
};

enum image_format { IMAGE_UNKNOWN, IMAGE_JPEG, IMAGE_PNG, IMAGE_WEBP };

/* Returns the format of the content; the file's name does not matter. */
enum image_format image_format_of(const void *data, size_t length);

/* Decodes a JPEG, PNG or WebP file in memory. Drops transparency, reduces 16 bits to 8, converts
 * CMYK to colour, and turns the image by its EXIF orientation (not by XMP's). Messages lack the
 * file's name. Errors: not an image, format unknown or not built in, damaged, cut short, more than
 * IMAGE_MAX_PIXELS; with IMAGE_INDICES also colours, transparency, 16 bits. A JPEG without its end
 * mark is accepted, like OpenCV does. */
int image_decode(const void *data, size_t length, enum image_color color, struct image *out);

/* Decodes without turning the image: out->orientation says how it should be turned. */
int image_decode_stored(const void *data, size_t length, enum image_color color, struct image *out);

/* Encodes to JPEG at `quality` 1..100, or to PNG; no other formats. Appends to `out`. */
int image_encode(const struct image *image, enum image_format format, int quality,
                 struct strbuf *out);

/* Pixels of an image, or of one of its planes; borrowed. */
struct image_view {
    const uint8_t *pixels; /* first pixel; channels interleaved */
    int channels, height, width;
    size_t stride; /* bytes between the starts of two rows */
};

/* A rectangle of an image, in pixels. */
struct image_box {
    int top, left, height, width;
};

struct image_view image_view(const struct image *image);

struct image_view image_view_part(const struct image_view *view, const struct image_box *box);

/* Converts interleaved pixels to planes, C x H x W. */
void image_view_planes(const struct image_view *view, uint8_t *out);

/* Resizes bilinearly like OpenCV's INTER_LINEAR: half-pixel centres, repeated edges, no smoothing.
 * Computes only `box` of the result, whose whole size is height x width. `from` is outside `to`. */
int image_resize_part(const struct image_view *from, int height, int width,
                      const struct image_box *box, struct image *to);

/* Returns a warning for the user if the image may hold labels that decoding, or resizing to height
 * x width (0: none), would change. NULL: no warning. */
const char *image_label_remark(const struct image *image, int height, int width);

/* Resizes the whole image. `from` and `to` must differ. */
int image_resize(const struct image *from, int height, int width, struct image *to);

/* Returns the pixel of OpenCV's INTER_NEAREST at a row and a column of an image of one channel. */
static inline uint8_t image_nearest(const struct image *image, double row, double column)
{
    int64_t y = (int64_t)floor(row), x = (int64_t)floor(column);

    y = y < image->height ? y : image->height - 1;
    x = x < image->width ? x : image->width - 1;
    return image->pixels.bytes[y * image->width + x];
}

/* Converts an image to planes, C x H x W; `out` has channels * height * width bytes. */
void image_to_planes(const struct image *image, uint8_t *out);

/* Sets the size and reserves memory for the pixels; fails beyond IMAGE_MAX_PIXELS. */
int image_set_size(struct image *image, int channels, uint64_t height, uint64_t width);

void image_free(struct image *image);

#endif
