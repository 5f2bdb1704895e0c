/* The median of n values, which are sorted in place; 0 of no values. Of an even number the lower or
 * the upper of the two in the middle. Not collective. */
#ifndef POSEIDON_UTIL_MEDIAN_H
#define POSEIDON_UTIL_MEDIAN_H

double median_lower(double *values, int n);
double median_upper(double *values, int n);

#endif
