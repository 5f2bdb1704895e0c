/* Normal numbers, several at a time, with the bits that the C library's functions give.
 *
 * The trick: series for logarithm, sine and cosine, which vectors can compute, are good to some 50
 * bits, and a float keeps 24. Where both ends of a generous error bound round to the same float,
 * the library's result would round to that float, too. The library computes the rest, a few of a
 * million. */
#include "engine/normal.h"

#include <math.h>
#include <string.h>

#include "device/kernel.h"

enum { BATCH = 128 };

static const double two_pi = 6.283185307179586476925;

static void normal_pair(const uint32_t words[2], double mean, double std, float out[2])
{
    double u = ((double)words[0] + 1.0) * 0x1p-32; /* (0, 1]: the logarithm is finite */
    double angle = two_pi * ((double)words[1] * 0x1p-32);
    double radius = std * sqrt(-2.0 * log(u));

    out[0] = (float)(mean + radius * cos(angle));
    out[1] = (float)(mean + radius * sin(angle));
}

#define INLINE static inline __attribute__((always_inline))

/* Returns ln u for u = 2^-32 .. 1: u = 2^e m, m within sqrt(1/2)..sqrt(2), and with f = (m - 1) /
 * (m + 1) ln m = 2 (f + f^3 / 3 + f^5 / 5 + ...); f^2 < 0.0295, so that the rest is below 2^-54. */
INLINE double logarithm(double u)
{
    const uint64_t root_half = 0x3FE6A09E667F3BCD;
    uint64_t bits, exponent;
    double m, e;

    memcpy(&bits, &u, sizeof bits);
    exponent = (bits - root_half + ((uint64_t)1023 << 52)) >> 52; /* e + 1023 */
    bits -= (exponent - 1023) << 52;
    memcpy(&m, &bits, sizeof m);
    exponent |= 0x4330000000000000; /* 2^52 + exponent, as a double */
    memcpy(&e, &exponent, sizeof e);
    e -= 0x1p52 + 1023;
    double f = (m - 1) / (m + 1), z = f * f, sum = 1.0 / 19;
    sum = sum * z + 1.0 / 17;
    sum = sum * z + 1.0 / 15;
    sum = sum * z + 1.0 / 13;
    sum = sum * z + 1.0 / 11;
    sum = sum * z + 1.0 / 9;
    sum = sum * z + 1.0 / 7;
    sum = sum * z + 1.0 / 5;
    sum = sum * z + 1.0 / 3;
    return e * 0.693147180559945309417 + (2 * f + 2 * f * (z * sum));
}

/* Taylor's series for |x| <= pi/4: the terms left out are below 2^-53 of the result. */
INLINE double sine(double x)
{
    double z = x * x, sum = -1.0 / 1307674368000;

    sum = sum * z + 1.0 / 6227020800;
    sum = sum * z - 1.0 / 39916800;
    sum = sum * z + 1.0 / 362880;
    sum = sum * z - 1.0 / 5040;
    sum = sum * z + 1.0 / 120;
    sum = sum * z - 1.0 / 6;
    return x + x * (z * sum);
}

INLINE double cosine(double x)
{
    double z = x * x, sum = 1.0 / 20922789888000;

    sum = sum * z - 1.0 / 87178291200;
    sum = sum * z + 1.0 / 479001600;
    sum = sum * z - 1.0 / 3628800;
    sum = sum * z + 1.0 / 40320;
    sum = sum * z - 1.0 / 720;
    sum = sum * z + 1.0 / 24;
    sum = sum * z - 0.5;
    return 1 + z * sum;
}

/* Returns 1 if mean + product is the same float for all products that differ by less than 2^-44. */
INLINE int32_t is_certain(double mean, double product, float *out)
{
    double value = mean + product;
    double error = fabs(product) * 0x1p-44 + fabs(value) * 0x1p-50;
    float low = (float)(value - error), high = (float)(value + error);

    *out = low;
    return low == high;
}

/* Fills n pairs, at most BATCH. certain: 1 if both numbers of the pair are certain. */
KERNEL static void fill_pairs(const uint32_t *restrict words, double mean, double std,
                              float *restrict first, float *restrict second,
                              int32_t *restrict certain, size_t n)
{
    /* pi/2 in two parts; up to 4 times the first part, of 33 bits, is exact */
    const double half_pi = 1.57079632673412561417, half_pi_rest = 6.07710050650619224932e-11;

#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        double u = ((double)words[2 * i] + 1.0) * 0x1p-32;
        double angle = two_pi * ((double)words[2 * i + 1] * 0x1p-32);
        double radius = std * sqrt(-2.0 * logarithm(u));
        double quarter = angle * 0.636619772367581343076 + 0x1.8p52;
        uint64_t turns;
        memcpy(&turns, &quarter, sizeof turns);
        quarter -= 0x1.8p52;
        double x = (angle - quarter * half_pi) - quarter * half_pi_rest;
        double s = sine(x), c = cosine(x);
        double across = turns & 1 ? s : c, up = turns & 1 ? c : s;
        across = (turns + 1) & 2 ? -across : across;
        up = turns & 2 ? -up : up;
        int32_t sure = is_certain(mean, radius * across, &first[i]);
        sure &= is_certain(mean, radius * up, &second[i]);
        sure &= fabs(x) > 1e-6; /* nearer to a multiple of pi/2 the two parts are not enough */
        sure &= radius != 0;
        certain[i] = sure;
    }
}

void normal_fill(const uint32_t *words, double mean, double std, float *out, size_t n)
{
    float first[BATCH], second[BATCH], pair[2];
    int32_t certain[BATCH];

    for (size_t at = 0; at < n; at += 2 * BATCH) {
        size_t left = n - at, pairs = left >= 2 * BATCH ? BATCH : (left + 1) / 2;
        fill_pairs(words + at, mean, std, first, second, certain, pairs);
        for (size_t i = 0; i < pairs; i++) {
            pair[0] = first[i];
            pair[1] = second[i];
            if (!certain[i])
                normal_pair(words + at + 2 * i, mean, std, pair);
            out[at + 2 * i] = pair[0];
            if (2 * i + 1 < left)
                out[at + 2 * i + 1] = pair[1];
        }
    }
}
