/* Describes a job as lines "name, value" (agreement.h), to find ranks with different input, and a
 * resumed run that would train other parameters. */
#ifndef POSEIDON_JOB_AGREE_JOB_H
#define POSEIDON_JOB_AGREE_JOB_H

#include "net/net.h"
#include "job/job.h"
#include "util/agreement.h"
#include "util/sha256.h"

/* Appends what must be alike in the files of all ranks. commands/options.h compares options. */
void agree_job_put_files(const struct job *job, struct strbuf *list);

/* Appends what a net's data layers read; each line's name begins with `name`. Leaves out sources
 * that belong to one rank alone. */
int agree_job_put_data(struct strbuf *list, const char *name, const struct net *net);

/* Appends all that decides which parameters a run trains (solver, net, data, seed) to `about`, and
 * writes the digest of `about`. */
int agree_job_describe(const struct job *job, const struct net *net, struct strbuf *about,
                       char digest[SHA256_HEX]);

#endif
