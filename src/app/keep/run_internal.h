/* Private header of run.c and run_saving.c. */
#ifndef POSEIDON_KEEP_RUN_INTERNAL_H
#define POSEIDON_KEEP_RUN_INTERNAL_H

#include "keep/run.h"

static inline const char *run_prefix(const struct training_run *run)
{
    return run->job->solver->snapshot_prefix;
}

static inline bool run_writes_binary(const struct training_run *run)
{
    return run->job->solver->snapshot_format ==
           CAFFE__SOLVER_PARAMETER__SNAPSHOT_FORMAT__BINARYPROTO;
}

/* Returns true if --snapshot-every was given. */
static inline bool run_is_paced(const struct training_run *run)
{
    return run->job->options->snapshot_every.seconds > 0 ||
           run->job->options->snapshot_every.share > 0;
}

/* Writes PREFIX.run, if the run writes snapshots. Called by one thread at a time: by the writer's
 * thread between the first snapshot and the last. */
int run_write_file(struct training_run *run);

#endif
