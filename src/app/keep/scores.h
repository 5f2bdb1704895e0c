/* Results of tests: the last scores, the best ones, and whether more training would be in vain
 * (--stop-after). Not collective: all workers see the same scores. */
#ifndef POSEIDON_KEEP_SCORES_H
#define POSEIDON_KEEP_SCORES_H

#include "net/net.h"
#include "job/course.h"
#include "job/job.h"

struct scores {
    double *values; /* outputs and loss of the first test net's last test; NULL: no test net. The
                       job's */
    double *of_average; /* outputs and loss with the weights' average, if the solver asks for one */
    int64_t iteration;  /* iteration of the last test; -1: none yet */
    int output;       /* index of the output compared: --keep-best's, or the usual one; -1: none */
    const char *name; /* name of `output`; borrowed from the net */
    int early_output; /* index for --stop-after: an accuracy, else the loss of all; -1: none */
    const char *early_name; /* name of early_output; borrowed */
    struct course course;   /* tests and snapshots that are due, and results so far */
};

/* Prepares for a training that starts with iteration `first`. test: the first test net; NULL: this
 * rank has none. keeps: snapshots are written. */
int scores_open(struct scores *scores, const struct job *job, const struct net *test, int64_t first,
                bool keeps);

/* Counts the test of `iteration`, if any, logs what it has shown, and returns COURSE_... */
int scores_take(struct scores *scores, const struct job *job, int64_t iteration);

/* Logs why the run is over, if --stop-after has ended it. */
void scores_tell_end(const struct scores *scores, const struct job *job);

#endif
