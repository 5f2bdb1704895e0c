/* NaN and infinite values among many floats. By blocks that the compiler makes vectors of; only a
 * block that has such values is looked at one by one. */
#ifndef POSEIDON_UTIL_FINITE_H
#define POSEIDON_UTIL_FINITE_H

#include <stddef.h>

/* How many finite ones the values begin with; `count`: all are. */
size_t finite_begin(const float *values, size_t count);

/* Copies the values, and looks at them on the way; `to` NULL: looks only. Fails, and the copy is
 * not whole, where some are not finite: says how many, and which is the first. */
int finite_copy(float *to, const float *values, size_t count);

#endif
