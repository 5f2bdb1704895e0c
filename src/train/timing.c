/* The spread of training's rate over its displays. */
#include "train/timing.h"

#include <stdlib.h>
#include <string.h>

void timing_note_lapse(struct timing_lapses *lapses, double seconds, int64_t iterations)
{
    if (iterations <= 0 || seconds <= 0 || lapses->seen++ % (1 << lapses->thinned))
        return;
    if (lapses->count == TIMING_LAPSES) { /* every second one stays */
        lapses->count /= 2;
        for (int i = 0; i < lapses->count; i++)
            lapses->rate[i] = lapses->rate[2 * i];
        lapses->thinned++;
    }
    lapses->rate[lapses->count++] = (double)iterations / seconds;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

bool timing_spread(const struct timing_lapses *lapses, double *least, double *median, double *most)
{
    double sorted[TIMING_LAPSES];
    int n = lapses->count;

    if (n < 3)
        return false;
    memcpy(sorted, lapses->rate, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    *least = sorted[0];
    *median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    *most = sorted[n - 1];
    return true;
}
