/* Codecs: gradients in fewer bits on the wire. What rounding loses is kept by the sender and added to its
 * next gradient (error feedback), so that it arrives later and not never. Pure functions of their
 * arguments; data is `rows` x `n`, plain. */
#ifndef POSEIDON_SYNC_CODEC_H
#define POSEIDON_SYNC_CODEC_H

#include <stddef.h>

struct codec {
    const char *name;
    /* Bytes on the wire; a multiple of 4. */
    size_t (*bytes)(size_t rows, size_t n);
    /* out: bytes(rows, n). residual (rows x n): what earlier calls lost, replaced by what this one
     * loses. */
    void (*encode)(const float *x, float *residual, size_t rows, size_t n, void *out);
    /* sum += what was encoded. */
    void (*add)(const void *in, size_t rows, size_t n, float *sum);
};

/* bfloat16: the upper half of a float, rounded to nearest even. */
extern const struct codec codec_bf16;

/* One bit per value and, per row, the two means that the bits stand for (Seide et al., "1-Bit Stochastic
 * Gradient Descent and its Application to Data-Parallel Distributed Training of Speech DNNs",
 * Interspeech 2014; there per column of the transposed matrix). */
extern const struct codec codec_onebit;

#endif
