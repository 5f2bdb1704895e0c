/* JPEG, PNG and WebP files. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "input/format/image.h"

#include <stdbool.h>
#ifdef HAVE_WEBP
#include <webp/decode.h>
#endif

static uint32_t big_endian(const uint8_t *bytes, int n)
{
    return n > 0 ? big_endian(bytes, n - 1) << 8 | bytes[n - 1] : 0;
}

/* Whether it says that it is large: a PNG or a WebP in its header, a JPEG in any of its frames. */
static bool is_large(const uint8_t *data, size_t length)
{
    const uint64_t most = 1 << 20;
#ifdef HAVE_WEBP
    int width, height;

    if (WebPGetInfo(data, length, &width, &height))
        return (uint64_t)width * (uint64_t)height >= most;
#endif
    if (length >= 24 && data[0] == 0x89)
        return (uint64_t)big_endian(data + 16, 4) * big_endian(data + 20, 4) >= most;
    for (size_t i = 0; i + 9 <= length; i++)
        if (data[i] == 0xff && data[i + 1] >> 4 == 0xc &&
            (uint64_t)big_endian(data + i + 5, 2) * big_endian(data + i + 7, 2) >= most)
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct image image = {.channels = 0}, small = {.channels = 0};

    /* Large images are legal and slow; sizes are looked at first. */
    if (!is_large(data, length))
        for (int color = IMAGE_AS_STORED; color <= IMAGE_INDICES; color++)
            if (image_decode(data, length, (enum image_color)color, &image) == 0 &&
                image_resize(&image, 1 + image.height % 7, 1 + image.width % 5, &small))
                abort();
    image_free(&image);
    image_free(&small);
    return 0;
}
