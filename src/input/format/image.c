/* Images: which format, memory, planes, and resizing.
 *
 * Resizing works on integers as OpenCV does: weights of 11 bits, rows stretched first and kept,
 * then mixed in pairs. So data sets made here and by Caffe's tools agree to the bit. */
#include "input/format/image_internal.h"

#include "util/error.h"
#include "util/file_kind.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <math.h>
#include <string.h>

#define WEIGHT_BITS 11
#define WEIGHT_ONE  (1 << WEIGHT_BITS)

static bool begins(const void *data, size_t length, size_t at, const char *text, size_t n)
{
    return length >= at + n && memcmp((const char *)data + at, text, n) == 0;
}

enum image_format image_format_of(const void *data, size_t length)
{
    if (begins(data, length, 0, "\xff\xd8\xff", 3))
        return IMAGE_JPEG;
    return begins(data, length, 0, "\x89PNG\r\n\x1a\n", 8) ? IMAGE_PNG : IMAGE_UNKNOWN;
}

/* decode and encode: NULL where it is not built in. */
static const struct codec {
    const char *name, *library;
    int (*decode)(const void *data, size_t length, enum image_color color, struct image *out);
    int (*encode)(const struct image *image, int quality, struct strbuf *out);
} codecs[] = {
    [IMAGE_JPEG] = {.name = "JPEG",
                    .library = "libjpeg (Debian: libjpeg-dev)",
#ifdef HAVE_JPEG
                    .decode = jpeg_decode,
                    .encode = jpeg_encode
#endif
    },
    [IMAGE_PNG] = {.name = "PNG",
                   .library = "libpng (Debian: libpng-dev)",
#ifdef HAVE_PNG
                   .decode = png_decode,
                   .encode = png_encode
#endif
    },
};

static int codec_missing(const struct codec *codec)
{
    return error_set("a %s image, but this program was built without %s", codec->name,
                     codec->library);
}

int image_decode_stored(const void *data, size_t length, enum image_color color, struct image *out)
{
    const struct codec *codec = &codecs[image_format_of(data, length)];
    const char *kind = file_kind_of(data, length);

    out->orientation = 1;
    out->unended = false;
    if (codec->decode)
        return codec->decode(data, length, color, out);
    if (codec->name)
        return codec_missing(codec);
    if (kind)
        return error_set("expected a JPEG or PNG image, found %s", kind);
    return error_set("not an image (%zu bytes that begin with 0x%02x); expected JPEG or PNG",
                     length, *(const uint8_t *)data);
}

/* Puts it upright. */
static int turn(struct image *image)
{
    int o = image->orientation, height = image->height, width = image->width;
    bool down = o == 3 || o == 4 || o == 6 || o == 7; /* from the last row, the last column on */
    bool left = o == 2 || o == 3 || o == 7 || o == 8, swap = o >= 5;
    size_t channels = (size_t)image->channels;
    struct strbuf stored = image->pixels;
    uint8_t *to;

    if (o < 2)
        return 0;
    image->pixels = image->work;
    image->work = stored;
    if (image_set_size(image, image->channels, (uint64_t)(swap ? width : height),
                       (uint64_t)(swap ? height : width)))
        return -1;
    to = image->pixels.bytes;
    for (int y = 0; y < image->height; y++)
        for (int x = 0; x < image->width; x++, to += channels) {
            int row = swap ? x : y, column = swap ? y : x;

            row = down ? height - 1 - row : row;
            column = left ? width - 1 - column : column;
            memcpy(to, stored.bytes + ((size_t)row * (size_t)width + (size_t)column) * channels,
                   channels);
        }
    image->orientation = 1;
    return 0;
}

int image_decode(const void *data, size_t length, enum image_color color, struct image *out)
{
    return error_status(image_decode_stored(data, length, color, out) || turn(out));
}

int image_encode(const struct image *image, enum image_format format, int quality,
                 struct strbuf *out)
{
    const struct codec *codec = &codecs[format];

    return codec->encode ? codec->encode(image, quality, out) : codec_missing(codec);
}

int image_set_size(struct image *image, int channels, uint64_t height, uint64_t width)
{
    if (height == 0 || width == 0)
        return error_set("an image of %llu x %llu pixels", (unsigned long long)width,
                         (unsigned long long)height);
    if (height > IMAGE_MAX_PIXELS || width > IMAGE_MAX_PIXELS / height)
        return error_set("an image of %llu x %llu pixels; expected at most %llu in all",
                         (unsigned long long)width, (unsigned long long)height,
                         (unsigned long long)IMAGE_MAX_PIXELS);
    image->channels = channels;
    image->height = (int)height;
    image->width = (int)width;
    image->pixels.length = (size_t)(height * width) * (size_t)channels;
    return strbuf_reserve(&image->pixels, image->pixels.length, "an image");
}

void image_free(struct image *image)
{
    strbuf_free(&image->pixels);
    strbuf_free(&image->work);
    *image = (struct image){0};
}

void image_to_planes(const struct image *image, uint8_t *out)
{
    size_t plane = (size_t)image->height * (size_t)image->width;
    const uint8_t *from = image->pixels.bytes;

    if (image->channels == 1) {
        memcpy(out, from, plane);
        return;
    }
    for (size_t i = 0; i < plane; i++, from += 3) {
        out[i] = from[0];
        out[plane + i] = from[1];
        out[2 * plane + i] = from[2];
    }
}

/* Where one output row or column comes from: two neighbours and their weights. */
struct tap {
    int first, second;
    int weight[2]; /* WEIGHT_ONE in all */
};

static int clip(int i, int n)
{
    return i < 0 ? 0 : i < n ? i : n - 1;
}

/* Beyond the edges its pixels are repeated. With columns OpenCV then gives all weight to one of the
 * two equal neighbours; with rows it does not, which shows in the bits that are cut. */
static void taps_make(int from, int to, bool columns, struct tap *taps)
{
    double scale = (double)from / to;

    for (int i = 0; i < to; i++) {
        float at = (float)((i + 0.5) * scale - 0.5);
        int first = (int)floorf(at);
        float part = at - (float)first;

        if (columns && (first < 0 || first >= from - 1))
            part = 0;
        taps[i].first = clip(first, from);
        taps[i].second = clip(first + 1, from);
        taps[i].weight[0] = (int)lrintf((1.0f - part) * WEIGHT_ONE);
        taps[i].weight[1] = (int)lrintf(part * WEIGHT_ONE);
    }
}

static void row_stretch(const uint8_t *from, int channels, const struct tap *taps, int width,
                        int *to)
{
    for (int x = 0; x < width; x++) {
        const uint8_t *a = from + (size_t)taps[x].first * (size_t)channels;
        const uint8_t *b = from + (size_t)taps[x].second * (size_t)channels;

        for (int c = 0; c < channels; c++)
            *to++ = a[c] * taps[x].weight[0] + b[c] * taps[x].weight[1];
    }
}

/* The low bits are cut in the order in which OpenCV cuts them. */
static void rows_mix(const int *a, const int *b, const struct tap *tap, size_t n, uint8_t *to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)((((tap->weight[0] * (a[i] >> 4)) >> 16) +
                           ((tap->weight[1] * (b[i] >> 4)) >> 16) + 2) >>
                          2);
}

/* Half the size: every pixel is the mean of four. */
static void halve(const struct image *from, struct image *to)
{
    size_t channels = (size_t)from->channels, stride = (size_t)from->width * channels;
    uint8_t *out = to->pixels.bytes;

    for (int y = 0; y < to->height; y++) {
        const uint8_t *row = from->pixels.bytes + 2 * (size_t)y * stride;
        for (int x = 0; x < to->width; x++, row += 2 * channels)
            for (size_t c = 0; c < channels; c++)
                *out++ = (uint8_t)((row[c] + row[channels + c] + row[stride + c] +
                                    row[stride + channels + c] + 2) >>
                                   2);
    }
}

int image_resize(const struct image *from, int height, int width, struct image *to)
{
    size_t channels = (size_t)from->channels, stride = (size_t)from->width * channels;
    struct tap *taps;
    int *row[2], held[2] = {-1, -1};
    size_t n = (size_t)width * channels, ntaps = (size_t)width + (size_t)height;

    if (height < 1 || width < 1)
        return error_set("a size of %d x %d pixels to resize to; expected at least 1 x 1", width,
                         height);
    if (image_set_size(to, from->channels, (uint64_t)height, (uint64_t)width))
        return -1;
    if (height == from->height && width == from->width) {
        memcpy(to->pixels.bytes, from->pixels.bytes, to->pixels.length);
        return 0;
    }
    if (from->height == 2 * (int64_t)height && from->width == 2 * (int64_t)width) {
        halve(from, to);
        return 0;
    }
    if (strbuf_reserve(&to->work, ntaps * sizeof *taps + 2 * n * sizeof *row[0],
                       "resizing an image"))
        return -1;
    taps = (struct tap *)to->work.bytes;
    row[0] = (int *)(taps + ntaps);
    row[1] = row[0] + n;
    taps_make(from->width, width, true, taps);
    taps_make(from->height, height, false, taps + width);
    for (int y = 0; y < height; y++) {
        const struct tap *tap = &taps[width + y];
        const int wanted[2] = {tap->first, tap->second};

        /* The second row of the last pair is often the first of this one. */
        if (held[1] == wanted[0]) {
            int *swap = row[0];
            row[0] = row[1];
            row[1] = swap;
            held[1] = held[0];
            held[0] = wanted[0];
        }
        for (int k = 0; k < 2; k++)
            if (held[k] != wanted[k]) {
                row_stretch(from->pixels.bytes + (size_t)wanted[k] * stride, from->channels, taps,
                            width, row[k]);
                held[k] = wanted[k];
            }
        rows_mix(row[0], row[1], tap, n, to->pixels.bytes + (size_t)y * n);
    }
    return 0;
}
