/* Codecs: gradients in fewer bits on the wire. The sender keeps the rounding error and adds it to
 * its next gradient (error feedback), so that no part of a gradient is lost for good. Pure
 * functions of their arguments; data is plain, `rows` x `n`.
 *
 * The host and a GPU (device_services_i.encode) write the same bits, on any number of threads:
 * every sum has a fixed order, and every NaN is written as 7FC0 (bfloat16) or 7FC00000 (a mean).
 * The residual of a NaN is some NaN. */
#ifndef POSEIDON_DEVICE_CODEC_H
#define POSEIDON_DEVICE_CODEC_H

#include "device/device.h"

#include <stdint.h>
#include <string.h>

struct codec {
    const char *name;
    enum device_code code; /* the codec's number in device_services_i.encode */
    /* Returns the bytes on the wire, a multiple of 4 so that floats can follow each message. */
    size_t (*bytes)(size_t rows, size_t n);
    /* Encodes x + residual into out, bytes(rows, n) long. residual (rows x n): at first the
     * rounding error of earlier calls, afterwards of this call. */
    void (*encode)(const float *x, float *residual, size_t rows, size_t n, void *out);
    /* Adds the decoded values to sum. */
    void (*add)(const void *in, size_t rows, size_t n, float *sum);
};

/* bfloat16: the upper half of a float, rounded to nearest even. */
extern const struct codec codec_bf16;

/* Convert one number. Loops of these are vectorised. */
static inline float bf16_value(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t bf16_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : (uint16_t)rounded;
}

/* Convert n floats to bfloat16, without a residual, and back. Run on the calling thread alone. */
void bf16_take(const float *x, size_t n, uint16_t *half);
void bf16_expand(const uint16_t *half, size_t n, float *out);
/* Converts x to bfloat16 and leaves the rounded values in x; the rounding error is lost. */
void bf16_round(float *x, size_t n, uint16_t *half);

/* Convert n elements to floats, or n floats to elements: to nearest even, infinite beyond the
 * type's range, every NaN as 7E00 or 7FC0. Run on the calling thread alone. */
void elements_expand(enum element_type type, const void *from, size_t n, float *out);
void elements_take(enum element_type type, const float *x, size_t n, void *out);

/* One bit per value and, per row, the two means that the bits stand for (Seide et al., "1-Bit
 * Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training of Speech
 * DNNs", Interspeech 2014; there per column of the transposed matrix).
 *
 * A row: two floats, the mean of the negative values and the mean of all others (0 if there are
 * none). Words of 32 bits follow: bit j % 32 of word j / 32 is 0 where value j is negative; bits
 * from n on are 0. A mean is a double sum divided by the count, rounded to float. Order of a sum:
 * CODEC_LANES partial sums begin as zeros; value j is added to partial sum j % CODEC_LANES, in the
 * order of j. Then the upper half of the partial sums is added to the lower half, pair by pair,
 * until a single sum is left. A residual is the value less its mean, in float. */
enum { CODEC_LANES = 128 };
extern const struct codec codec_onebit;

#endif
