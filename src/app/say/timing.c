/* Finds the spread of training's rates between displays. */
#include "say/timing.h"

#include "util/median.h"

#include <assert.h>
#include <string.h>

void timing_note_lapse(struct timing_lapses *lapses, double seconds, int64_t iterations)
{
    if (iterations <= 0 || seconds <= 0 || lapses->seen++ % (1 << lapses->thinned))
        return;
    if (lapses->count == TIMING_LAPSES) { /* full: keeps every second rate */
        lapses->count /= 2;
        for (int i = 0; i < lapses->count; i++)
            lapses->rate[i] = lapses->rate[2 * i];
        lapses->thinned++;
    }
    assert(lapses->count < TIMING_LAPSES);
    lapses->rate[lapses->count++] = (double)iterations / seconds;
}

bool timing_spread(const struct timing_lapses *lapses, double *least, double *median, double *most)
{
    double sorted[TIMING_LAPSES];
    int n = lapses->count;

    if (n < 3)
        return false;
    memcpy(sorted, lapses->rate, (size_t)n * sizeof *sorted);
    *median = (median_lower(sorted, n) + median_upper(sorted, n)) / 2; /* median_lower sorts */
    *least = sorted[0];
    *most = sorted[n - 1];
    return true;
}
