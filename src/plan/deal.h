/* A batch dealt to workers of unlike speed, so that the last of them ends its pass as early as can
 * be. Arithmetic alone: who is how fast, the caller says. */
#ifndef POSEIDON_PLAN_DEAL_H
#define POSEIDON_PLAN_DEAL_H

#include <stdint.h>

struct deal_worker {
    double samples_per_s; /* above 0: what a further sample takes is its inverse */
    double pass_s;        /* what a pass takes whatever the number of its samples; 0 or more */
    int most;             /* samples that the worker's memory has room for */
};

/* When a worker with `samples` of the batch ends its pass. */
static inline double deal_seconds(const struct deal_worker *worker, int64_t samples)
{
    return worker->pass_s + (double)samples / worker->samples_per_s;
}

/* Deals `samples`, above 0, in whole grains of `grain` samples, above 0: share[i] is what worker i
 * of the n, above 0, has. Every worker has one grain or more and none above its `most`; the shares
 * add up to `samples`. Of all such deals it is one whose slowest worker ends first; of two workers
 * that would end at the same time the one of lower number has the grain, so that all ranks compute
 * one deal. -1 with a message where there is no such deal. */
int deal_samples(const struct deal_worker *workers, int n, int64_t samples, int64_t grain,
                 int *share);

#endif
