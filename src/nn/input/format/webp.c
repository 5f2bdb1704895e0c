/* WebP through libwebp. A file is RIFF chunks, each with a name and a size. */
#include "input/format/image_internal.h"

#include "util/error.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_WEBP

#include <string.h>
#include <webp/decode.h>

enum { RIFF_BYTES = 12, CHUNK_BYTES = 8 };

/* Returns the size of a chunk, which follows its name of four letters. */
static size_t chunk_size(const uint8_t *chunk)
{
    return chunk[4] | (size_t)chunk[5] << 8 | (size_t)chunk[6] << 16 | (size_t)chunk[7] << 24;
}

static int orientation_of(const uint8_t *data, size_t length)
{
    for (size_t at = RIFF_BYTES, size; at + CHUNK_BYTES <= length; at += size + size % 2) {
        const uint8_t *chunk = data + at;

        size = chunk_size(chunk);
        at += CHUNK_BYTES;
        if (memcmp(chunk, "EXIF", 4) == 0 && size <= length - at)
            return exif_orientation(data + at, size);
    }
    return 1;
}

static void make_gray(struct image *image)
{
    uint8_t *pixels = image->pixels.bytes;

    image->channels = 1;
    image->pixels.length /= 3;
    for (size_t i = 0; i < image->pixels.length; i++)
        pixels[i] = image_gray(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2]);
}

int webp_decode(const void *data, size_t length, enum image_color color, struct image *out)
{
    WebPBitstreamFeatures features;

    if (chunk_size(data) + CHUNK_BYTES > length)
        return error_set("truncated WebP image: its data end at offset %zu", length);
    if (WebPGetFeatures(data, length, &features) != VP8_STATUS_OK)
        return error_set("damaged WebP image (in its header)");
    if (features.has_animation)
        return error_set("an animated WebP image; expected a single picture");
    out->stored_gray = false;
    if (image_set_size(out, 3, (uint64_t)features.height, (uint64_t)features.width))
        return -1;
    if (!WebPDecodeBGRInto(data, length, out->pixels.bytes, out->pixels.length, 3 * out->width))
        return error_set("damaged WebP image (in its pixels)");
    out->orientation = orientation_of(data, length);
    if (color == IMAGE_GRAY)
        make_gray(out);
    return 0;
}

#endif
