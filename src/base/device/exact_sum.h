/* Exact sums of squares of floats: the bits depend neither on how the floats are cut into parts,
 * nor on the order in which the parts are added. The square of a float is exact as a double; its
 * bits are added to words of 32 bits, which together span all possible squares (Kulisch, "Very fast
 * and exact accumulation of products", Computing 2011). Words are doubles that hold integers, so
 * that MPI adds the words of several ranks exactly as well. */
#ifndef POSEIDON_DEVICE_EXACT_SUM_H
#define POSEIDON_DEVICE_EXACT_SUM_H

#include <stddef.h>

enum { EXACT_SUM_WORDS = 20 };

/* Adds the squares of x, n finite floats (n below 2^31), to `words`, zeros at first. Exact for up
 * to 2^20 calls, counted over all ranks whose words are added. */
void exact_sum_squares(const float *x, size_t n, double words[EXACT_SUM_WORDS]);

/* Returns the sum, rounded to double. */
double exact_sum_read(const double words[EXACT_SUM_WORDS]);

#endif
