/* Finds the time at which a run must be over: from the user, else from the scheduler. Uses the
 * monotonic clock, which nobody sets. Not collective. */
#ifndef POSEIDON_WATCH_DEADLINE_H
#define POSEIDON_WATCH_DEADLINE_H

#include "job/ends.h"

/* Parses an option's value, a duration from the program's start or "none", into the struct deadline
 * `target`. Fails on other text. */
int deadline_parse(const char *option, const char *text, void *target);

/* Finds the deadline if no option gives it: SLURM_JOB_END_TIME or POSEIDON_END_TIME (seconds since
 * 1970), else PBS_WALLTIME (seconds from now). */
int deadline_find(struct deadline *out);

#endif
