/* Orthonormal columns, with the same bits wherever the same numbers are. */
#ifndef POSEIDON_SYNC_BASIS_H
#define POSEIDON_SYNC_BASIS_H

#include "util/rng.h"

/* Makes the columns of x (rows x columns, row-major, fewer columns than rows) orthonormal, one
 * after the other, by modified Gram-Schmidt in double. A column of which the former ones leave
 * nothing but rounding becomes a normal draw, number r columns + c for row r of column c. What is
 * not finite makes its column and the later ones so. */
void basis_make(float *x, int64_t rows, int columns, const struct rng *draws);

#endif
