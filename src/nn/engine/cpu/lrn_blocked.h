/* LRN across five channels where channels lie eight and more together, with s^-0.75: what all known
 * nets ask for. */
#ifndef POSEIDON_ENGINE_CPU_LRN_BLOCKED_H
#define POSEIDON_ENGINE_CPU_LRN_BLOCKED_H

#include <stdint.h>

enum { LRN_TILE = 64 }; /* the most pixels at a time */

struct lrn_blocked {
    int64_t octets, block,
        pixels;     /* channels / 8; channels together, a multiple of 8; of an image */
    float scale, k; /* s = k + scale * sum of squares: normal, or infinite or NaN */
};

/* n pixels of all channels, the first of which x, dy, y, dx are. By the calling thread alone. */
void lrn_blocked_forward(const struct lrn_blocked *a, int64_t n, const float *x, float *y);
void lrn_blocked_backward(const struct lrn_blocked *a, int64_t n, const float *x, const float *dy,
                          float *dx);

#endif
