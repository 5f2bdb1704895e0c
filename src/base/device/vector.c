/* Sums of arrays. The loops show the compiler independent elements, or lanes in an array of
 * constant size that fits into registers. */
#include "device/vector.h"

#include "device/kernel.h"

KERNEL void vector_add(float *restrict sum, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += x[i];
}

KERNEL void vector_add_to(float *restrict out, const float *restrict a, const float *restrict b,
                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

KERNEL double vector_sumsq(const float *x, size_t n, float scale)
{
    double lane[VECTOR_LANES] = {0};
    size_t whole = n / VECTOR_LANES * VECTOR_LANES;

    for (size_t i = 0; i < whole; i += VECTOR_LANES)
        for (size_t l = 0; l < VECTOR_LANES; l++) {
            double g = (double)x[i + l] * (double)scale;
            lane[l] += g * g;
        }
    for (size_t i = whole; i < n; i++) {
        double g = (double)x[i] * (double)scale;
        lane[i - whole] += g * g;
    }
    for (size_t half = VECTOR_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}
