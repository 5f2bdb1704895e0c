/* Conversion of pixels to values: one loop, compiled for eight cases as vector instructions. */
#include "engine/image_plane.h"

#include "device/kernel.h"

struct row {
    const uint8_t *bytes;
    const float *floats; /* used if bytes is NULL */
    const float *mean;   /* one mean a pixel; NULL: `value` for all */
    float value, scale;
    int64_t n;
};

static inline __attribute__((always_inline)) void row_make(const struct row *row, bool bytes,
                                                           bool mean, bool mirror, float *y)
{
    const uint8_t *from = row->bytes;
    const float *from_floats = row->floats, *means = row->mean;
    const float value = row->value, scale = row->scale;
    const int64_t n = row->n;

    for (int64_t i = 0; i < n; i++) {
        int64_t at = mirror ? n - 1 - i : i;
        float x = bytes ? (float)from[at] : from_floats[at];

        y[i] = (x - (mean ? means[at] : value)) * scale;
    }
}

KERNEL static void row_of_bytes(const struct row *row, bool mirror, float *y)
{
    if (row->mean)
        mirror ? row_make(row, true, true, true, y) : row_make(row, true, true, false, y);
    else
        mirror ? row_make(row, true, false, true, y) : row_make(row, true, false, false, y);
}

KERNEL static void row_of_floats(const struct row *row, bool mirror, float *y)
{
    if (row->mean)
        mirror ? row_make(row, false, true, true, y) : row_make(row, false, true, false, y);
    else
        mirror ? row_make(row, false, false, true, y) : row_make(row, false, false, false, y);
}

void engine_image_plane(const struct engine_images_args *args, const struct engine_window *window,
                        int64_t channel, const void *pixels, bool floats, int64_t stride,
                        float *out)
{
    struct row row = {.value = args->channel_mean ? args->channel_mean[channel] : 0,
                      .scale = args->scale,
                      .n = args->width};

    for (int64_t h = 0; h < args->height; h++, out += args->width) {
        if (args->mean)
            row.mean = args->mean + window->left +
                       (channel * args->mean_height + window->top + h) * args->mean_width;
        if (floats) {
            row.floats = (const float *)pixels + h * stride;
            row_of_floats(&row, window->mirror, out);
        } else {
            row.bytes = (const uint8_t *)pixels + h * stride;
            row_of_bytes(&row, window->mirror, out);
        }
    }
}
