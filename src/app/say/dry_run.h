/* train --dry-run: whether a run could train, and what it would need. */
#ifndef POSEIDON_SAY_DRY_RUN_H
#define POSEIDON_SAY_DRY_RUN_H

#include "say/output.h"

/* What the data say of the run; rank 0's. */
struct dry_run {
    struct strbuf survey; /* lines about data. Owned */
    struct strbuf unfit;  /* why the run cannot train, clauses between "; ". Owned */
};

/* Fails if the parameters exceed the memory that is free (of a training: that limits of the job
 * leave). *limit: bytes of it for this rank's nets; 0: no limit. After the engine is open, before
 * anything is allocated. */
int dry_run_limit_memory(const struct job *job, const struct compute *compute, size_t *limit);

/* What trainer_dry_run says; dry is rank 0's. */
int dry_run_report_all(struct dry_run *dry, const struct output *output, bool resumed,
                       struct strbuf *out);

/* What the data layers read, and what is wrong with it; after net_create, before
 * net_build. */
int inspect_data(const struct job *job, const struct compute *compute, struct dry_run *out);

#endif
