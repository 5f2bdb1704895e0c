/* Codecs: gradients in fewer bits on the wire. What rounding loses is kept by the sender and added
 * to its next gradient (error feedback), so that it arrives later and not never. Pure functions of
 * their arguments; data is `rows` x `n`, plain.
 *
 * Bits are the same wherever a gradient is encoded, here or in a GPU's memory
 * (device_services_i.encode), and on any number of threads: every sum has its order, and a NaN is
 * written as 7FC0 or 7FC00000, whatever its own bits were. (Its residual is some NaN.) */
#ifndef POSEIDON_DEVICE_CODEC_H
#define POSEIDON_DEVICE_CODEC_H

#include "device/device.h"

#include <stdint.h>

struct codec {
    const char *name;
    enum device_code code; /* by which engines know it */
    /* Bytes on the wire; a multiple of 4: messages lie one behind another in memory for floats. */
    size_t (*bytes)(size_t rows, size_t n);
    /* out: bytes(rows, n). residual (rows x n): what earlier calls lost, replaced by what this one
     * loses. */
    void (*encode)(const float *x, float *residual, size_t rows, size_t n, void *out);
    /* sum += what was encoded. */
    void (*add)(const void *in, size_t rows, size_t n, float *sum);
};

/* bfloat16: the upper half of a float, rounded to nearest even. */
extern const struct codec codec_bf16;

/* The same without a residual; and back. By the calling thread alone. */
void bf16_take(const float *x, size_t n, uint16_t *half);
void bf16_expand(const uint16_t *half, size_t n, float *out);
/* Both: what rounding takes from x is lost, and x is what is left of it. */
void bf16_round(float *x, size_t n, uint16_t *half);

/* n elements become floats, or n floats elements: rounded to nearest even, beyond the type's range
 * infinite; a NaN is written as 7E00 or 7FC0. By the calling thread alone. */
void elements_expand(enum element_type type, const void *from, size_t n, float *out);
void elements_take(enum element_type type, const float *x, size_t n, void *out);

/* One bit per value and, per row, the two means that the bits stand for (Seide et al., "1-Bit
 * Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training of Speech
 * DNNs", Interspeech 2014; there per column of the transposed matrix).
 *
 * A row: two floats, the means of what is negative and of all else, 0 where there is none; then bit
 * j % 32 of word j / 32, which is 0 where value j is negative, and 0 from n on. A mean is the
 * quotient of double sum and count, rounded to float. The sum of a sign begins as CODEC_LANES
 * zeros; value j is added to the one of number j % CODEC_LANES, in the order of j; then the upper
 * half of them is added to the lower, one to one, until one is left. A residual is the value less
 * the mean that stands for it, in float. */
enum { CODEC_LANES = 128 };
extern const struct codec codec_onebit;

#endif
