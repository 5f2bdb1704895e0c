/* Scores of tests: the last, the best, and those that end training (--stop-after). Not collective:
 * all workers see the same scores. */
#ifndef POSEIDON_KEEP_SCORES_H
#define POSEIDON_KEEP_SCORES_H

#include "net/net.h"
#include "job/course.h"
#include "job/job.h"

struct scores {
    double *values;     /* outputs and loss in the first test net's last test; NULL: no test net */
    double *of_average; /* outputs and loss of the moving average of weights, if any */
    int64_t iteration;  /* iteration of the last test; -1: none yet */
    int output;         /* index of the output that decides the best test; -1: none */
    const char *name;   /* name of `output`; borrowed from the net */
    int early_output;   /* output for --stop-after: an accuracy, else the total loss; -1: none */
    const char *early_name; /* name of early_output; borrowed */
    struct course course;   /* schedule of tests and snapshots, and results so far */
};

/* Prepares for training from iteration `first`. test: the first test net; NULL on ranks without
 * test nets. keeps: snapshots are written. */
int scores_open(struct scores *scores, const struct job *job, const struct net *test, int64_t first,
                bool keeps);

/* Records the test of `iteration`, if any, in `course`, and returns the COURSE_ flags. */
int scores_take(struct scores *scores, const struct job *job, int64_t iteration);

/* Logs why the run is over, if --stop-after has ended it. */
void scores_tell_end(const struct scores *scores, const struct job *job);

#endif
