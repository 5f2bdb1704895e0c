/* The spread of training's rate over its displays. */
#include "say/timing.h"

#include "util/median.h"

#include <assert.h>
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
    *median = (median_lower(sorted, n) + median_upper(sorted, n)) / 2; /* they are in order now */
    *least = sorted[0];
    *most = sorted[n - 1];
    return true;
}
