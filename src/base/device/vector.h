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

/* The sum of (scale x)^2, in double throughout. It begins as VECTOR_LANES zeros; element i is added
 * to the one of number i % VECTOR_LANES, in the order of i; then the upper half of them is added to
 * the lower, one to one, until one is left. Sums of stretches therefore add up to the sum of the
 * whole only up to rounding: ranks must agree on where to cut. */
enum { VECTOR_LANES = 32 };
double vector_sumsq(const float *x, size_t n, float scale);

#endif
