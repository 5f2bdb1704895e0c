/* The two codecs: bfloat16 and one bit. */
#include "device/codec.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "device/half.h"
#include "device/kernel.h"

/* ---- bfloat16 ---- */

static size_t bf16_bytes(size_t rows, size_t n)
{
    return (rows * n * sizeof(uint16_t) + 3) / 4 * 4;
}

KERNEL static void encode_halves(const float *restrict x, float *restrict residual, size_t n,
                                 uint16_t *restrict half)
{
    for (size_t i = 0; i < n; i++) {
        float value = x[i] + residual[i];

        half[i] = bf16_of(value);
        residual[i] = value - bf16_value(half[i]);
    }
}

KERNEL static void add_halves(const uint16_t *restrict half, size_t n, float *restrict sum)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += bf16_value(half[i]);
}

KERNEL void bf16_take(const float *restrict x, size_t n, uint16_t *restrict half)
{
    for (size_t i = 0; i < n; i++)
        half[i] = bf16_of(x[i]);
}

KERNEL void bf16_expand(const uint16_t *restrict half, size_t n, float *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bf16_value(half[i]);
}

KERNEL static void half_take(const float *restrict x, size_t n, uint16_t *restrict half)
{
    for (size_t i = 0; i < n; i++)
        half[i] = half_of(x[i]);
}

KERNEL static void half_expand(const uint16_t *restrict half, size_t n, float *restrict out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = half_value(half[i]);
}

void elements_expand(enum element_type type, const void *from, size_t n, float *out)
{
    if (type == ELEMENT_FLOAT32)
        memcpy(out, from, n * sizeof *out);
    else
        (type == ELEMENT_FLOAT16 ? half_expand : bf16_expand)(from, n, out);
}

void elements_take(enum element_type type, const float *x, size_t n, void *out)
{
    if (type == ELEMENT_FLOAT32)
        memcpy(out, x, n * sizeof *x);
    else
        (type == ELEMENT_FLOAT16 ? half_take : bf16_take)(x, n, out);
}

void bf16_round(float *x, size_t n, uint16_t *half)
{
    bf16_take(x, n, half);
    bf16_expand(half, n, x);
}

static void bf16_encode(const float *x, float *residual, size_t rows, size_t n, void *out)
{
    assert(rows > 0 && n > 0 && (void *)residual != out);
    encode_halves(x, residual, rows * n, out);
}

static void bf16_add(const void *in, size_t rows, size_t n, float *sum)
{
    add_halves(in, rows * n, sum);
}

const struct codec codec_bf16 = {.name = "bf16",
                                 .code = DEVICE_BF16,
                                 .bytes = bf16_bytes,
                                 .encode = bf16_encode,
                                 .add = bf16_add};

/* ---- one bit ---- */

static size_t words_of(size_t n)
{
    return (n + 31) / 32;
}

static size_t onebit_bytes(size_t rows, size_t n)
{
    return rows * (2 * sizeof(float) + words_of(n) * sizeof(uint32_t));
}

/* A row's partial sums of negative values and of all others. Every value is added to its sum, and 0
 * to the other sum, since this needs no branch. Adding 0 changes no sum that began at 0. */
struct row_sums {
    double negative[CODEC_LANES], rest[CODEC_LANES];
};

/* Encodes up to 32 values, a lane each; returns their bits. Where n is a constant, a compiler turns
 * the loops into vector instructions. */
static inline uint32_t take_word(const float *restrict x, float *restrict residual, size_t n,
                                 double *restrict negative, double *restrict rest)
{
    float low[32], high[32];
    uint32_t word = 0;

    for (size_t k = 0; k < n; k++) {
        float value = x[k] + residual[k];
        residual[k] = value;
        low[k] = value < 0 ? value : 0;
        high[k] = value < 0 ? 0 : value; /* a NaN makes its mean a NaN */
    }
    for (size_t k = 0; k < n; k++) {
        negative[k] += (double)low[k];
        rest[k] += (double)high[k];
    }
    for (size_t k = 0; k < n; k++)
        word |= (uint32_t) !(residual[k] < 0) << k;
    return word;
}

static inline void give_word(float *restrict residual, size_t n, float mean0, float mean1)
{
    for (size_t k = 0; k < n; k++)
        residual[k] -= residual[k] < 0 ? mean0 : mean1;
}

/* Adds all lanes to lane 0. Lanes from the row's width on are not initialised. */
static void fold(struct row_sums *sums, size_t n)
{
    for (size_t half = CODEC_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half && l + half < n; l++) {
            sums->negative[l] += sums->negative[l + half];
            sums->rest[l] += sums->rest[l + half];
        }
}

static float mean_of(double sum, size_t count)
{
    float mean = count ? (float)(sum / (double)count) : 0;

    return isnan(mean) ? NAN : mean; /* every NaN becomes the same */
}

KERNEL static void encode_row(const float *restrict x, float *restrict residual, size_t n,
                              float mean[2], uint32_t *restrict words)
{
    struct row_sums sums;
    size_t lanes = n < CODEC_LANES ? n : CODEC_LANES, others = 0, whole = n / 32 * 32;

    memset(sums.negative, 0, lanes * sizeof *sums.negative);
    memset(sums.rest, 0, lanes * sizeof *sums.rest);
    for (size_t at = 0; at < n; at += 32) {
        double *negative = sums.negative + at % CODEC_LANES, *rest = sums.rest + at % CODEC_LANES;
        uint32_t word = at < whole ? take_word(x + at, residual + at, 32, negative, rest)
                                   : take_word(x + at, residual + at, n - at, negative, rest);
        others += (size_t)__builtin_popcount(word);
        words[at / 32] = word;
    }
    fold(&sums, n);
    mean[0] = mean_of(sums.negative[0], n - others);
    mean[1] = mean_of(sums.rest[0], others);
    for (size_t at = 0; at < whole; at += 32)
        give_word(residual + at, 32, mean[0], mean[1]);
    give_word(residual + whole, n - whole, mean[0], mean[1]);
}

static void onebit_encode(const float *x, float *residual, size_t rows, size_t n, void *out)
{
    unsigned char *to = out;

    for (size_t r = 0; r < rows; r++, to += onebit_bytes(1, n))
        encode_row(x + r * n, residual + r * n, n, (float *)(void *)to,
                   (uint32_t *)(void *)(to + 2 * sizeof(float)));
}

KERNEL static void add_row(const float mean[2], const uint32_t *restrict words, size_t n,
                           float *restrict sum)
{
    const float mean0 = mean[0], mean1 = mean[1];
    size_t whole = n / 32 * 32;
    uint32_t bit[32]; /* baseline vector instructions shift all elements by the same count */

    for (size_t k = 0; k < 32; k++)
        bit[k] = (uint32_t)1 << k;
    for (size_t at = 0; at < whole; at += 32) {
        uint32_t word = words[at / 32];
        for (size_t k = 0; k < 32; k++)
            sum[at + k] += word & bit[k] ? mean1 : mean0;
    }
    for (size_t j = whole; j < n; j++)
        sum[j] += words[j / 32] >> j % 32 & 1 ? mean1 : mean0;
}

static void onebit_add(const void *in, size_t rows, size_t n, float *sum)
{
    const unsigned char *from = in;

    for (size_t r = 0; r < rows; r++, from += onebit_bytes(1, n))
        add_row((const float *)(const void *)from,
                (const uint32_t *)(const void *)(from + 2 * sizeof(float)), n, sum + r * n);
}

const struct codec codec_onebit = {.name = "onebit",
                                   .code = DEVICE_ONEBIT,
                                   .bytes = onebit_bytes,
                                   .encode = onebit_encode,
                                   .add = onebit_add};
