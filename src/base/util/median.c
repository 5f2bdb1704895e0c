#include "util/median.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double at_place(double *values, int n, int place)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return n > 0 ? values[place] : 0;
}

double median_lower(double *values, int n)
{
    return at_place(values, n, (n - 1) / 2);
}

double median_upper(double *values, int n)
{
    return at_place(values, n, n / 2);
}
