/* Finds the rank that the others have waited for since the last display, and why. */
#ifndef POSEIDON_WATCH_STRAGGLERS_H
#define POSEIDON_WATCH_STRAGGLERS_H

#include "net/net.h"
#include "report/figures.h"
#include "job/job.h"

struct stragglers;

/* Prepares for a training from iteration `first` on. Leaves *out unset if no rank waits for
 * another; all functions below do nothing if their stragglers is NULL. */
int stragglers_open(const struct job *job, int64_t first, struct stragglers **out);

/* Put this worker's stragglers_values numbers into `values`, after `seconds` of training without
 * pauses (paused_stall: waits in pauses), and judge the sums over the workers: which worker was
 * late since the last time? Rank 0 logs and counts late workers. */
size_t stragglers_values(const struct stragglers *stragglers);
void stragglers_put(struct stragglers *stragglers, struct sync *sync, const struct net *net,
                    double seconds, double paused_stall, double *values);
void stragglers_judge(struct stragglers *stragglers, int64_t iteration, const double *values);

/* Puts rank 0's counts into `figures`. */
void stragglers_tell(const struct stragglers *stragglers, struct figures *figures);

#endif
