/* Sums of plain arrays of floats, as fast as the processor adds. Pure functions; not collective,
 * any thread. Same bits on every processor (see kernel.h), wherever an array begins in memory.
 * Arrays may not overlap. */
#ifndef POSEIDON_DEVICE_VECTOR_H
#define POSEIDON_DEVICE_VECTOR_H

#include <stddef.h>

/* sum += x, n elements. */
void vector_add(float *restrict sum, const float *restrict x, size_t n);

/* out = a + b, n elements. */
void vector_add_to(float *restrict out, const float *restrict a, const float *restrict b, size_t n);

/* Returns the sum of (scale x)^2, in double throughout. VECTOR_LANES partial sums begin as zeros;
 * element i is added to partial sum i % VECTOR_LANES, in the order of i. Then the upper half of the
 * partial sums is added to the lower half, pair by pair, until one sum is left. Stretches' sums add
 * up to the whole sum only up to rounding: ranks must agree on where to cut. */
enum { VECTOR_LANES = 32 };
double vector_sumsq(const float *x, size_t n, float scale);

#endif
