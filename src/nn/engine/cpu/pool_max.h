/* MAX pooling of images by the usual windows: of 3x3 or 2x2 pixels, at every second place.
 *
 * With constant bounds the places of a window are no more than numbers, 0 to 8 in reading order,
 * and a byte keeps the one that was taken. All of them work on one plane of height x width x block
 * floats, by the calling thread alone. */
#ifndef POSEIDON_ENGINE_CPU_POOL_MAX_H
#define POSEIDON_ENGINE_CPU_POOL_MAX_H

#include "engine/op_size.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether these functions can do the windows: channels lie alone, or eight and more together. */
bool pool_max_fits(const struct op_windows *a, int64_t block);
/* where: as many bytes as there are tops; NULL: nobody asks for them. */
void pool_max_forward(const struct op_windows *a, int64_t block, const float *x, float *y,
                      uint8_t *where);
/* Writes all of dx. */
void pool_max_backward(const struct op_windows *a, int64_t block, const float *dy,
                       const uint8_t *where, float *dx);

#endif
