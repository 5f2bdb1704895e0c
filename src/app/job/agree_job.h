/* What a job trains, as lines "name, value" (agreement.h): what all its ranks must have been given
 * alike, and what its runs must have in common to train the same parameters. */
#ifndef POSEIDON_JOB_AGREE_JOB_H
#define POSEIDON_JOB_AGREE_JOB_H

#include "net/net.h"
#include "job/job.h"
#include "util/agreement.h"
#include "util/sha256.h"

/* Of the files what all ranks must have alike; options are compared by commands/options.h. */
void agree_job_put_files(const struct job *job, struct strbuf *list);

/* What the data layers of a net read, behind that name. Sources that each rank has for itself say
 * nothing. */
int agree_job_put_data(struct strbuf *list, const char *name, const struct net *net);

/* What the run trains, and its digest: solver, net, data and seed, as far as they decide which
 * parameters come out. */
int agree_job_describe(const struct job *job, const struct net *net, struct strbuf *about,
                       char digest[SHA256_HEX]);

#endif
