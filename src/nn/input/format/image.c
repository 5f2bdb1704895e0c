/* Images: format detection, memory, planes, and resizing.
 *
 * Resizing uses integers like OpenCV: weights of 11 bits; rows are stretched first and kept, then
 * mixed in pairs. Data sets made here and by Caffe's tools therefore agree to the bit. */
#include "input/format/image_internal.h"

#include "util/error.h"
#include "util/file_kind.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <math.h>
#include <string.h>

#include "device/kernel.h"

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
    if (begins(data, length, 0, "\x89PNG\r\n\x1a\n", 8))
        return IMAGE_PNG;
    return begins(data, length, 0, "RIFF", 4) && begins(data, length, 8, "WEBP", 4) ? IMAGE_WEBP
                                                                                    : IMAGE_UNKNOWN;
}

/* The codecs by format; decode and encode are NULL if not built in. */
static const struct codec {
    const char *name, *library;
    int (*decode)(const void *data, size_t length, enum image_color color, struct image *out);
    int (*encode)(const struct image *image, int quality, struct strbuf *out);
    bool exact; /* keeps numbers as they are, so that pictures of labels may have this format */
} codecs[] = {
    [IMAGE_JPEG] = {.name = "JPEG",
                    .library = "libjpeg (Debian: libjpeg-dev)",
#ifdef HAVE_JPEG
                    .decode = jpeg_decode,
                    .encode = jpeg_encode
#endif
    },
    [IMAGE_PNG] = {.name = "PNG",
                   .exact = true,
                   .library = "libpng (Debian: libpng-dev)",
#ifdef HAVE_PNG
                   .decode = png_decode,
                   .encode = png_encode
#endif
    },
    [IMAGE_WEBP] = {.name = "WebP",
                    .library = "libwebp (Debian: libwebp-dev)",
#ifdef HAVE_WEBP
                    .decode = webp_decode
#endif
    },
};

static int codec_missing(const struct codec *codec)
{
    return error_set("a %s image, but this program was built without %s", codec->name,
                     codec->library);
}

#define MOGRIFY "; 'mogrify -auto-orient -format png FILE...' (ImageMagick) makes PNG files"

int image_decode_stored(const void *data, size_t length, enum image_color color, struct image *out)
{
    const struct codec *codec = &codecs[image_format_of(data, length)];
    const char *kind = file_kind_of(data, length);

    out->orientation = 1;
    out->unended = out->indices_lost = false;
    if (codec->decode && color == IMAGE_INDICES && !codec->exact)
        return error_set("a %s picture of labels, whose compression changes values; expected PNG",
                         codec->name);
    if (codec->decode)
        return codec->decode(data, length, color, out);
    if (codec->name)
        return codec_missing(codec);
    if (kind)
        return error_set("expected a JPEG, PNG or WebP image, found %s%s", kind,
                         strstr(kind, " picture") ? MOGRIFY : "");
    return error_set("not an image (%zu bytes that begin with 0x%02x); expected JPEG, PNG or WebP",
                     length, *(const uint8_t *)data);
}

/* Turns the image upright by its EXIF orientation. */
static int turn(struct image *image)
{
    int o = image->orientation, height = image->height, width = image->width;
    bool down = o == 3 || o == 4 || o == 6 || o == 7; /* read from the last row on */
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

struct image_view image_view(const struct image *image)
{
    return (struct image_view){.pixels = image->pixels.bytes,
                               .channels = image->channels,
                               .height = image->height,
                               .width = image->width,
                               .stride = (size_t)image->width * (size_t)image->channels};
}

struct image_view image_view_part(const struct image_view *view, const struct image_box *box)
{
    struct image_view part = *view;

    part.pixels += (size_t)box->top * view->stride + (size_t)(box->left * view->channels);
    part.height = box->height;
    part.width = box->width;
    return part;
}

KERNEL static void row_to_planes(const uint8_t *restrict from, size_t n, uint8_t *restrict blue,
                                 uint8_t *restrict green, uint8_t *restrict red)
{
    for (size_t i = 0; i < n; i++) {
        blue[i] = from[3 * i];
        green[i] = from[3 * i + 1];
        red[i] = from[3 * i + 2];
    }
}

void image_view_planes(const struct image_view *view, uint8_t *out)
{
    size_t width = (size_t)view->width, plane = (size_t)view->height * width;
    const uint8_t *from = view->pixels;

    for (int y = 0; y < view->height; y++, from += view->stride, out += width)
        if (view->channels == 1)
            memcpy(out, from, width);
        else
            row_to_planes(from, width, out, out + plane, out + 2 * plane);
}

void image_to_planes(const struct image *image, uint8_t *out)
{
    const struct image_view view = image_view(image);

    image_view_planes(&view, out);
}

const char *image_label_remark(const struct image *image, int height, int width)
{
    enum { MOST_LABELS = 32 };
    bool found[256] = {false};
    int count = 0;

    if (image->indices_lost)
        return "a palette is read as gray: values are the brightness of its colours, not its "
               "indices. If these are labels, make gray pictures of a copy: python3 -c \"import "
               "sys; from PIL import Image as I; [I.frombytes('L', p.size, p.tobytes()).save(f) "
               "for f in sys.argv[1:] for p in [I.open(f)]]\" *.png";
    if (image->channels > 1 || !height || (image->height == height && image->width == width))
        return NULL;
    for (size_t i = 0; i < image->pixels.length && count <= MOST_LABELS; i++) {
        count += !found[image->pixels.bytes[i]];
        found[image->pixels.bytes[i]] = true;
    }
    return count < 2 || count > MOST_LABELS
               ? NULL
               : "few gray values are resized, which adds values between them. If these are "
                 "labels, resize them beforehand: 'mogrify -filter point -resize WxH! FILE...' "
                 "(ImageMagick)";
}

/* The sources of one output row or column: two neighbours and their weights. */
struct tap {
    int first, second;
    int weight[2]; /* sum is WEIGHT_ONE */
};

static int clip(int i, int n)
{
    return i < 0 ? 0 : i < n ? i : n - 1;
}

/* Computes taps begin .. begin+count-1 of `to` taps in all. Edge pixels are repeated beyond the
 * edges. There, as in OpenCV, columns give all weight to one of the two equal neighbours and rows
 * do not, which changes the bits that rounding cuts. */
static void taps_make(int from, int to, bool columns, int begin, int count, struct tap *taps)
{
    double scale = (double)from / to;

    for (int i = 0; i < count; i++) {
        float at = (float)((begin + i + 0.5) * scale - 0.5);
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

static inline __attribute__((always_inline)) void
row_stretch(const uint8_t *from, int channels, const struct tap *taps, int width, int *to)
{
    for (int x = 0; x < width; x++, to += channels) {
        const uint8_t *a = from + taps[x].first * channels;
        const uint8_t *b = from + taps[x].second * channels;

        for (int c = 0; c < channels; c++)
            to[c] = a[c] * taps[x].weight[0] + b[c] * taps[x].weight[1];
    }
}

/* Mixes two rows; low bits are cut in the same order as in OpenCV. */
KERNEL static void rows_mix(const int *restrict a, const int *restrict b, const int weight[2],
                            size_t n, uint8_t *restrict to)
{
    const int first = weight[0], second = weight[1];

    for (size_t i = 0; i < n; i++)
        to[i] =
            (uint8_t)((((first * (a[i] >> 4)) >> 16) + ((second * (b[i] >> 4)) >> 16) + 2) >> 2);
}

static void copy(const struct image_view *from, struct image *to)
{
    size_t n = (size_t)to->width * (size_t)to->channels;

    for (int y = 0; y < to->height; y++)
        memcpy(to->pixels.bytes + (size_t)y * n, from->pixels + (size_t)y * from->stride, n);
}

/* Halves the size: every pixel is the mean of four. */
static void halve(const struct image_view *from, struct image *to)
{
    size_t channels = (size_t)from->channels;
    uint8_t *out = to->pixels.bytes;

    for (int y = 0; y < to->height; y++) {
        const uint8_t *row = from->pixels + 2 * (size_t)y * from->stride,
                      *next = row + from->stride;

        for (int x = 0; x < to->width; x++, row += 2 * channels, next += 2 * channels)
            for (size_t c = 0; c < channels; c++)
                *out++ =
                    (uint8_t)((row[c] + row[channels + c] + next[c] + next[channels + c] + 2) >> 2);
    }
}

/* Resizes by the taps in to->work: to's columns, then its rows. Memory for two stretched rows
 * follows the taps. */
static void resize_rows(const struct image_view *from, struct image *to)
{
    const struct tap *taps = (const struct tap *)to->work.bytes;
    size_t n = (size_t)to->width * (size_t)to->channels;
    int *row[2], held[2] = {-1, -1};

    row[0] =
        (int *)(to->work.bytes + ((size_t)to->width + (size_t)to->height) * sizeof(struct tap));
    row[1] = row[0] + n;
    for (int y = 0; y < to->height; y++) {
        const struct tap *tap = &taps[to->width + y];
        const int wanted[2] = {tap->first, tap->second};

        /* The second row of the last pair is often the first row of this pair. */
        if (held[1] == wanted[0]) {
            int *swap = row[0];
            row[0] = row[1];
            row[1] = swap;
            held[1] = held[0];
            held[0] = wanted[0];
        }
        for (int k = 0; k < 2; k++) {
            const uint8_t *pixels = from->pixels + (size_t)wanted[k] * from->stride;

            if (held[k] == wanted[k])
                continue;
            if (from->channels == 3)
                row_stretch(pixels, 3, taps, to->width, row[k]);
            else
                row_stretch(pixels, 1, taps, to->width, row[k]);
            held[k] = wanted[k];
        }
        rows_mix(row[0], row[1], tap->weight, n, to->pixels.bytes + (size_t)y * n);
    }
}

int image_resize_part(const struct image_view *from, int height, int width,
                      const struct image_box *box, struct image *to)
{
    const bool same = height == from->height && width == from->width;
    const bool half = from->height == 2 * (int64_t)height && from->width == 2 * (int64_t)width;
    size_t n = (size_t)box->width * (size_t)from->channels;
    size_t ntaps = (size_t)box->width + (size_t)box->height;
    struct tap *taps;

    if (image_set_size(to, from->channels, (uint64_t)box->height, (uint64_t)box->width))
        return -1;
    if (same || half) {
        int k = half ? 2 : 1;
        const struct image_box larger = {k * box->top, k * box->left, k * box->height,
                                         k * box->width};
        const struct image_view part = image_view_part(from, &larger);

        half ? halve(&part, to) : copy(&part, to);
        return 0;
    }
    if (strbuf_reserve(&to->work, ntaps * sizeof *taps + 2 * n * sizeof(int), "resizing an image"))
        return -1;
    taps = (struct tap *)to->work.bytes;
    taps_make(from->width, width, true, box->left, box->width, taps);
    taps_make(from->height, height, false, box->top, box->height, taps + box->width);
    resize_rows(from, to);
    return 0;
}

int image_resize(const struct image *from, int height, int width, struct image *to)
{
    const struct image_view view = image_view(from);
    const struct image_box all = {.height = height, .width = width};

    if (height < 1 || width < 1)
        return error_set("a size of %d x %d pixels to resize to; expected at least 1 x 1", width,
                         height);
    return image_resize_part(&view, height, width, &all, to);
}
