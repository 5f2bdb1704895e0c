/* Finds the rank that other ranks have waited for since the last display, and why. */
#ifndef POSEIDON_WATCH_STRAGGLERS_H
#define POSEIDON_WATCH_STRAGGLERS_H

#include "net/net.h"
#include "report/figures.h"
#include "job/job.h"

struct stragglers;

/* Prepares for training from iteration `first`. Leaves *out unset if no rank waits for another; all
 * functions below do nothing for a NULL stragglers. */
int stragglers_open(const struct job *job, int64_t first, struct stragglers **out);

/* Write this worker's figures since the last call into `values`, stragglers_values numbers; find
 * the late worker from the sums over workers, log and count it on rank 0. seconds: training time
 * without pauses. paused_stall: waits in pauses. */
size_t stragglers_values(const struct stragglers *stragglers);
void stragglers_put(struct stragglers *stragglers, struct sync *sync, const struct net *net,
                    double seconds, double paused_stall, double *values);
void stragglers_judge(struct stragglers *stragglers, int64_t iteration, const double *values);

/* Copies rank 0's counts into `figures`. */
void stragglers_tell(const struct stragglers *stragglers, struct figures *figures);

#endif
