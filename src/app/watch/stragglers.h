/* Which rank the others have waited for since the last display, and why. */
#ifndef POSEIDON_WATCH_STRAGGLERS_H
#define POSEIDON_WATCH_STRAGGLERS_H

#include "net/net.h"
#include "report/figures.h"
#include "job/job.h"

struct stragglers;

/* For training from iteration `first` on. Leaves *out where no rank waits for another; nothing
 * happens in what follows where stragglers is NULL. */
int stragglers_open(const struct job *job, int64_t first, struct stragglers **out);

/* stragglers_values doubles of this worker, put after `seconds` of training without pauses and the
 * waits in them, are added up over the workers and judged: which worker was late since the last
 * time? Rank 0 says so, and counts. */
size_t stragglers_values(const struct stragglers *stragglers);
void stragglers_put(struct stragglers *stragglers, struct sync *sync, const struct net *net,
                    double seconds, double paused_stall, double *values);
void stragglers_judge(struct stragglers *stragglers, int64_t iteration, const double *values);

/* What rank 0 has counted. */
void stragglers_tell(const struct stragglers *stragglers, struct figures *figures);

#endif
