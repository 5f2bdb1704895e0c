/* Until when a run may last: what the user said, else what the scheduler did. Kept on the clock
 * that nobody sets. Not collective. */
#ifndef POSEIDON_SOLVER_DEADLINE_H
#define POSEIDON_SOLVER_DEADLINE_H

#include <stdbool.h>

struct deadline {
    double end;         /* by clock_seconds; INFINITY: there is none */
    double margin;      /* seconds before it by which all must be over but the process's end */
    const char *whence; /* "--time-limit", "SLURM_JOB_END_TIME", ...: for messages */
};

/* text: the value of --time-limit, "none" or NULL. Without it the end is SLURM_JOB_END_TIME or
 * POSEIDON_END_TIME (seconds since 1970), else PBS_WALLTIME seconds from now. Fails on values that
 * are none. To be called when the program starts. */
int deadline_find(const char *text, struct deadline *out);

#endif
