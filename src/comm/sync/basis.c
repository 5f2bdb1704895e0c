/* Modified Gram-Schmidt. */
#include "sync/basis.h"

#include <math.h>
#include <stdbool.h>

/* Largest part of a squared length that can be the rounding of floats. */
#define NOTHING 1e-10

static double dot(const float *x, const float *y, int64_t rows, int stride)
{
    double sum = 0;

    for (int64_t r = 0; r < rows; r++)
        sum += (double)x[r * stride] * (double)y[r * stride];
    return sum;
}

static void add_scaled(float *x, const float *y, double scale, int64_t rows, int stride)
{
    for (int64_t r = 0; r < rows; r++)
        x[r * stride] = (float)((double)x[r * stride] + scale * (double)y[r * stride]);
}

/* Makes column `c` orthonormal to the earlier columns; false if it depends on them linearly. */
static bool make_column(float *x, int64_t rows, int columns, int c)
{
    double before = dot(x + c, x + c, rows, columns), after;

    for (int i = 0; i < 2 * c; i++) /* twice, since rounding leaves a remainder */
        add_scaled(x + c, x + i % c, -dot(x + i % c, x + c, rows, columns), rows, columns);
    after = dot(x + c, x + c, rows, columns);
    if (after <= NOTHING * before)
        return false;
    for (int64_t r = 0; r < rows; r++)
        x[r * columns + c] = (float)((double)x[r * columns + c] / sqrt(after));
    return true;
}

void basis_make(float *x, int64_t rows, int columns, const struct rng *draws)
{
    for (int c = 0; c < columns; c++) {
        if (make_column(x, rows, columns, c))
            continue;
        for (int64_t r = 0; r < rows; r++)
            x[r * columns + c] = rng_normal(draws, (uint64_t)(r * columns + c));
        make_column(x, rows, columns, c);
    }
}
