/* Conversion of pixels to values on the host. engine_images_i.write gives the same bits. */
#ifndef POSEIDON_ENGINE_IMAGE_PLANE_H
#define POSEIDON_ENGINE_IMAGE_PLANE_H

#include "engine/engine.h"

/* Converts one channel of a window: (x - mean) * scale, mirrored if the window says so. pixels: the
 * window's first row, floats if `floats`, else bytes; rows are `stride` pixels apart. */
void engine_image_plane(const struct engine_images_args *args, const struct engine_window *window,
                        int64_t channel, const void *pixels, bool floats, int64_t stride,
                        float *out);

#endif
