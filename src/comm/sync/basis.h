/* Orthonormal columns, with the same bits on every rank that has the same numbers. */
#ifndef POSEIDON_SYNC_BASIS_H
#define POSEIDON_SYNC_BASIS_H

#include "util/rng.h"

/* Makes the columns of x (rows x columns, row-major, fewer columns than rows) orthonormal, one
 * after the other, by modified Gram-Schmidt in double. A column that depends linearly on the
 * earlier columns, up to rounding, is first replaced by normal draws: number r columns + c for row
 * r of column c. A value that is not finite spoils its column and all later columns. */
void basis_make(float *x, int64_t rows, int columns, const struct rng *draws);

#endif
