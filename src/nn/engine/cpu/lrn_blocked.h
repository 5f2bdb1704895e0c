/* LRN across five channels with s^-0.75, the form that all known nets use, where eight or more
 * channels are contiguous. */
#ifndef POSEIDON_ENGINE_CPU_LRN_BLOCKED_H
#define POSEIDON_ENGINE_CPU_LRN_BLOCKED_H

#include <stdint.h>

enum { LRN_TILE = 64 }; /* most pixels at a time */

struct lrn_blocked {
    int64_t octets, block,
        pixels;     /* channels / 8; contiguous channels, a multiple of 8; pixels of an image */
    float scale, k; /* s = k + scale * sum of squares, which is normal, infinite or NaN */
};

/* Compute n pixels of all channels, from x, dy, y and dx on, on the calling thread alone. */
void lrn_blocked_forward(const struct lrn_blocked *a, int64_t n, const float *x, float *y);
void lrn_blocked_backward(const struct lrn_blocked *a, int64_t n, const float *x, const float *dy,
                          float *dx);

#endif
