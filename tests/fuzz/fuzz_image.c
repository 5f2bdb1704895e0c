/* JPEG and PNG files. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "input/format/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct image image = {.channels = 0}, small = {.channels = 0};

    /* Large images are legal and slow; sizes are looked at first. */
    if (image_size(data, length, &image) == 0 && (int64_t)image.height * image.width < 1 << 20)
        for (int color = IMAGE_AS_STORED; color <= IMAGE_GRAY; color++)
            if (image_decode(data, length, (enum image_color)color, &image) == 0 &&
                image_resize(&image, 1 + image.height % 7, 1 + image.width % 5, &small))
                abort();
    image_free(&image);
    image_free(&small);
    return 0;
}
