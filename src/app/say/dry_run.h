/* train --dry-run: finds if a run can train, and what it needs. */
#ifndef POSEIDON_SAY_DRY_RUN_H
#define POSEIDON_SAY_DRY_RUN_H

#include "say/output.h"

/* Findings of a dry run, on rank 0. */
struct dry_run {
    struct strbuf survey; /* lines about the data. Owned */
    struct strbuf unfit;  /* reasons why the run cannot train, joined by "; ". Owned */
};

/* Fails if the parameters exceed the free memory, or in training the job's memory limits. *limit:
 * bytes for this rank's nets; 0: no limit. After the engine is open, before memory is allocated. */
int dry_run_limit_memory(const struct job *job, const struct compute *compute, size_t *limit);

/* Writes the report of trainer_dry_run. dry: findings of rank 0. */
int dry_run_report_all(struct dry_run *dry, const struct output *output, bool resumed,
                       struct strbuf *out);

/* Describes the data that layers read, and mistakes in the data; after net_create, before
 * net_build. */
int inspect_data(const struct job *job, const struct compute *compute, struct dry_run *out);

#endif
