/* What Winograd's algorithm may be off by, and a check of a convolution's results against that.
 *
 * F(4x4, 3x3) with the points 0, +-a, +-b and infinity gives, for each tile, channel c and kernel
 * g, y = sum over c of A' [ (G g_c G') * (B' d_c B) ] A,    * element by element. Each of its sums
 * and products is rounded to u = 2^-24 of its size at most, so (Higham, Accuracy and Stability,
 * chapter 3) the error of an element is at most n u / (1 - n u) times sum over c of |A'| [ (|G|
 * |g_c| |G'|) * (|B'| |d_c| |B|) ] |A| where n counts the roundings on the longest way: two
 * transforms of weights (3 terms each) and of pixels (6), a product, the channels, two transforms
 * back (6), with the coefficients' own rounding once in each of the six. The test computes that
 * bound for each element from the data. Backward to the bottom is the same with kernels turned,
 * backward to the weights the same with the roles of A and B exchanged, and tiles summed as
 * channels are. Such a bound is far above what is found, so the errors must be small on their own
 * as well. */
#ifndef POSEIDON_TESTS_ENGINE_WINOGRAD_BOUND_H
#define POSEIDON_TESTS_ENGINE_WINOGRAD_BOUND_H

#include "tests/engine/winograd_case.h"

/* What |A'| (|G| 1 * |B'| 1) makes of ones at pixel o of a tile: at least 3, the sum of three
 * products of ones. */
double winograd_bound_of_ones(int o);

/* Each element of y, dx or dw (every 5th output's and 3rd channel's) against the sum in double: the
 * largest error. Fails where one is larger than its bound. */
double winograd_bound_check_y(const struct winograd_case *d);
double winograd_bound_check_dx(const struct winograd_case *d);
double winograd_bound_check_dw(const struct winograd_case *d);

#endif
