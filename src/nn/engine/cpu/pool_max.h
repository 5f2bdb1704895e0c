/* MAX pooling of images by the usual windows: 3x3 or 2x2 pixels with a stride of 2.
 *
 * With constant bounds the places of a window are the numbers 0 to 8 in reading order, and a byte
 * keeps the place of a maximum. All functions work on one plane of height x width x block floats,
 * on the calling thread alone. */
#ifndef POSEIDON_ENGINE_CPU_POOL_MAX_H
#define POSEIDON_ENGINE_CPU_POOL_MAX_H

#include "engine/op_size.h"

#include <stdbool.h>
#include <stdint.h>

/* Returns true if these functions can compute the windows: block is 1, or 8 and more. */
bool pool_max_fits(const struct op_windows *a, int64_t block);
/* Writes the maxima of all windows. where: a byte for each top's place; NULL: not wanted. */
void pool_max_forward(const struct op_windows *a, int64_t block, const float *x, float *y,
                      uint8_t *where);
/* Computes dx from dy and the maxima's places; writes all of dx. */
void pool_max_backward(const struct op_windows *a, int64_t block, const float *dy,
                       const uint8_t *where, float *dx);

#endif
