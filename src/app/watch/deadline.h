/* Until when a run may last: what the user said, else what the scheduler did. Kept on the clock
 * that nobody sets. Not collective. */
#ifndef POSEIDON_WATCH_DEADLINE_H
#define POSEIDON_WATCH_DEADLINE_H

#include "job/ends.h"

/* The value of an option, a duration or "none", into the struct deadline `target`; to be called
 * when the program starts. Fails on any other text. */
int deadline_parse(const char *option, const char *text, void *target);

/* Without the option, likewise: SLURM_JOB_END_TIME or POSEIDON_END_TIME (seconds since 1970), else
 * PBS_WALLTIME seconds from now. */
int deadline_find(struct deadline *out);

#endif
