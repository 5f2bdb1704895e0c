/* The median of n values, which are sorted in place; 0 if n is 0. For an even n: the lower or the
 * upper of the two middle values. Not collective. */
#ifndef POSEIDON_UTIL_MEDIAN_H
#define POSEIDON_UTIL_MEDIAN_H

double median_lower(double *values, int n);
double median_upper(double *values, int n);

#endif
