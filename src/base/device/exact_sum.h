/* Sums of squares of floats that are not rounded: whatever parts the floats are cut into and in
 * whatever order these are added, the sum has the same bits. The square of a float is exact as a
 * double; its bits go into words of 32 bits, which together span all squares that there are
 * (Kulisch, "Very fast and exact accumulation of products", Computing 2011). Words are doubles that
 * hold integers, so that adding those of several ranks by MPI is exact as well. */
#ifndef POSEIDON_DEVICE_EXACT_SUM_H
#define POSEIDON_DEVICE_EXACT_SUM_H

#include <stddef.h>

enum { EXACT_SUM_WORDS = 20 };

/* Adds the squares of x, n finite floats (below 2^31 of them), to `words`, all zero at
 * first: 2^20 times, or words of as many, without loss. */
void exact_sum_squares(const float *x, size_t n, double words[EXACT_SUM_WORDS]);

/* The sum, rounded. */
double exact_sum_read(const double words[EXACT_SUM_WORDS]);

#endif
