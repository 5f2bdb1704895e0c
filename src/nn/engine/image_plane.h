/* Pixels become values on the host: what images_write of every engine computes, to the bit. */
#ifndef POSEIDON_ENGINE_IMAGE_PLANE_H
#define POSEIDON_ENGINE_IMAGE_PLANE_H

#include "engine/engine.h"

/* One channel of what is cut out of an image, maybe turned: (x - mean) * scale. pixels: its first
 * row, bytes, or floats where `floats`; rows are `stride` pixels apart. */
void engine_image_plane(const struct engine_images_args *args, const struct engine_window *window,
                        int64_t channel, const void *pixels, bool floats, int64_t stride,
                        float *out);

#endif
