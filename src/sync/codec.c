/* bfloat16 and one bit. */
#include "sync/codec.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- bfloat16 ---- */

static size_t bf16_bytes(size_t rows, size_t n)
{
    return (rows * n * sizeof(uint16_t) + 3) / 4 * 4;
}

static uint16_t to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* a NaN stays one */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static void bf16_encode(const float *x, float *residual, size_t rows, size_t n, void *out)
{
    uint16_t *half = out;

    for (size_t i = 0; i < rows * n; i++) {
        float value = x[i] + residual[i];
        half[i] = to_bf16(value);
        residual[i] = value - from_bf16(half[i]);
    }
}

static void bf16_add(const void *in, size_t rows, size_t n, float *sum)
{
    const uint16_t *half = in;

    for (size_t i = 0; i < rows * n; i++)
        sum[i] += from_bf16(half[i]);
}

const struct codec codec_bf16 = {
    .name = "bf16", .bytes = bf16_bytes, .encode = bf16_encode, .add = bf16_add};

/* ---- one bit: per row {mean of the negative, mean of the others}, then the bits ---- */

static size_t words_of(size_t n)
{
    return (n + 31) / 32;
}

static size_t onebit_bytes(size_t rows, size_t n)
{
    return rows * (2 * sizeof(float) + words_of(n) * sizeof(uint32_t));
}

static void encode_row(const float *x, float *residual, size_t n, float mean[2], uint32_t *words)
{
    double sum[2] = {0, 0};
    size_t count[2] = {0, 0};

    memset(words, 0, words_of(n) * sizeof *words);
    for (size_t j = 0; j < n; j++) {
        float value = x[j] + residual[j];
        bool bit = !(value < 0); /* a NaN goes on as one, through its mean */
        residual[j] = value;
        sum[bit] += (double)value;
        count[bit]++;
        words[j / 32] |= (uint32_t)bit << j % 32;
    }
    for (int b = 0; b < 2; b++)
        mean[b] = count[b] ? (float)(sum[b] / (double)count[b]) : 0;
    for (size_t j = 0; j < n; j++)
        residual[j] -= mean[words[j / 32] >> j % 32 & 1];
}

static void onebit_encode(const float *x, float *residual, size_t rows, size_t n, void *out)
{
    unsigned char *to = out;

    for (size_t r = 0; r < rows; r++, to += onebit_bytes(1, n))
        encode_row(x + r * n, residual + r * n, n, (float *)(void *)to,
                   (uint32_t *)(void *)(to + 2 * sizeof(float)));
}

static void onebit_add(const void *in, size_t rows, size_t n, float *sum)
{
    const unsigned char *from = in;

    for (size_t r = 0; r < rows; r++, from += onebit_bytes(1, n)) {
        const float *mean = (const float *)(const void *)from;
        const uint32_t *words = (const uint32_t *)(const void *)(from + 2 * sizeof(float));
        for (size_t j = 0; j < n; j++)
            sum[r * n + j] += mean[words[j / 32] >> j % 32 & 1];
    }
}

const struct codec codec_onebit = {
    .name = "onebit", .bytes = onebit_bytes, .encode = onebit_encode, .add = onebit_add};
