/* A sum as a fixed-point number of 640 bits. */
#include "device/exact_sum.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    WORD = 32,        /* bits */
    MANTISSA = 52,    /* stored bits of a double's mantissa */
    LOWEST = -352,    /* exponent of the first word's lowest bit: squares begin at 2^-298 */
    EXPONENT_0 = 1075 /* exponent of a double that equals its mantissa, read as an integer */
};

/* Moves each word's bits above the 32nd to the next word. */
static void carry(int64_t words[EXACT_SUM_WORDS])
{
    for (int w = 0; w + 1 < EXACT_SUM_WORDS; w++) {
        words[w + 1] += words[w] >> WORD;
        words[w] &= UINT32_MAX;
    }
}

void exact_sum_squares(const float *x, size_t n, double words[EXACT_SUM_WORDS])
{
    int64_t sum[EXACT_SUM_WORDS] = {0};

    for (size_t i = 0; i < n; i++) {
        double square = (double)x[i] * (double)x[i];
        uint64_t bits, mantissa;
        int at, shift;

        memcpy(&bits, &square, sizeof bits);
        if (bits == 0)
            continue;
        mantissa = (bits & ((UINT64_C(1) << MANTISSA) - 1)) | UINT64_C(1) << MANTISSA;
        at = (int)(bits >> MANTISSA) - EXPONENT_0 - LOWEST;
        shift = at % WORD;
        at /= WORD;
        sum[at] += (int64_t)(mantissa << shift & UINT32_MAX);
        mantissa >>= WORD - shift;
        sum[at + 1] += (int64_t)(mantissa & UINT32_MAX);
        sum[at + 2] += (int64_t)(mantissa >> WORD);
    }
    carry(sum);
    for (int w = 0; w < EXACT_SUM_WORDS; w++)
        words[w] += (double)sum[w];
}

double exact_sum_read(const double words[EXACT_SUM_WORDS])
{
    int64_t whole[EXACT_SUM_WORDS];
    double sum = 0;

    for (int w = 0; w < EXACT_SUM_WORDS; w++)
        whole[w] = (int64_t)words[w];
    carry(whole);
    for (int w = EXACT_SUM_WORDS - 1; w >= 0; w--)
        sum += ldexp((double)whole[w], w * WORD + LOWEST);
    return sum;
}
