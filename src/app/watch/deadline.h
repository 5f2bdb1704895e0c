/* The time until which a run may last: from the user, else from the scheduler, by the clock that
 * nobody sets. Not collective. */
#ifndef POSEIDON_WATCH_DEADLINE_H
#define POSEIDON_WATCH_DEADLINE_H

#include "job/ends.h"

/* Parses an option's value, a duration or "none", into the struct deadline `target`, when the
 * program starts. Fails on any other text. */
int deadline_parse(const char *option, const char *text, void *target);

/* Finds the deadline without the option: SLURM_JOB_END_TIME or POSEIDON_END_TIME (seconds since
 * 1970), else PBS_WALLTIME (seconds from now). */
int deadline_find(struct deadline *out);

#endif
