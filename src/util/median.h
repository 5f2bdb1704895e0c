/* The middle one of some values, which are put in order; 0 where there are none. Of an even number
 * two are in the middle: of two values, the one that the other is held against. Not collective. */
#ifndef POSEIDON_UTIL_MEDIAN_H
#define POSEIDON_UTIL_MEDIAN_H

double median_lower(double *values, int n);
double median_upper(double *values, int n);

#endif
