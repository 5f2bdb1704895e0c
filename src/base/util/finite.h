/* NaN and infinite values among many floats. Vector instructions check whole blocks; only a block
 * that has such values is searched one by one. */
#ifndef POSEIDON_UTIL_FINITE_H
#define POSEIDON_UTIL_FINITE_H

#include <stddef.h>

/* Returns how many values precede the first that is not finite; `count` if all are finite. */
size_t finite_begin(const float *values, size_t count);

/* Copies the values and checks them on the way; if `to` is NULL, checks only. Fails if some are not
 * finite, with a message that says how many and which is the first; the copy is then incomplete. */
int finite_copy(float *to, const float *values, size_t count);

#endif
