/* Deals a batch to workers of unequal speed, so that the last of them ends its pass as early as
 * possible. Arithmetic alone; the caller gives the speeds. */
#ifndef POSEIDON_PLAN_DEAL_H
#define POSEIDON_PLAN_DEAL_H

#include <stdint.h>

struct deal_worker {
    double samples_per_s; /* rate at which a pass takes further samples; above 0 */
    double pass_s;        /* seconds of a pass apart from its samples; 0 or more */
    int most;             /* samples that fit into the worker's memory */
};

/* Returns the seconds after which a worker with `samples` of the batch ends its pass. */
static inline double deal_seconds(const struct deal_worker *worker, int64_t samples)
{
    return worker->pass_s + (double)samples / worker->samples_per_s;
}

/* Deals `samples` (above 0) in whole grains of `grain` samples (above 0) to n workers (above 0).
 * share[i]: samples of worker i. Every worker gets at least one grain and at most `most` samples;
 * the shares add up to `samples`. In no other such deal does the slowest worker end earlier. Of two
 * workers that would end together, the lower number gets the grain, so that all ranks compute one
 * deal. Returns -1 with a message if no such deal exists. */
int deal_samples(const struct deal_worker *workers, int n, int64_t samples, int64_t grain,
                 int *share);

#endif
