/* What tests have shown: the last scores, the best ones, and whether more training
 * would be in vain (--stop-after). Nothing here is collective: all workers see the same scores. */
#ifndef POSEIDON_KEEP_SCORES_H
#define POSEIDON_KEEP_SCORES_H

#include "net/net.h"
#include "job/course.h"
#include "job/job.h"

struct scores {
    double *values;     /* outputs and loss of the last test of the first test net; NULL: there is
                           none. The job's */
    double *of_average; /* the same of the weights' average, where the solver asks for one */
    int64_t iteration;  /* at which they were taken; -1: not yet */
    int output;         /* which is compared: --keep-best's, or the usual one; -1: none */
    const char *name;   /* its name; borrowed from the net */
    int early_output; /* which --stop-after compares: an accuracy, or else the loss of all; -1: none
                       */
    const char *early_name; /* likewise */
    struct course course;   /* what is due, and what tests have shown so far */
};

/* For a training that starts with iteration `first`. test: the first test net, NULL where this rank
 * has none; keeps: snapshots are written. */
int scores_open(struct scores *scores, const struct job *job, const struct net *test, int64_t first,
                bool keeps);

/* Counts that iteration's test, if there was one, and says what it has shown: COURSE_... */
int scores_take(struct scores *scores, const struct job *job, int64_t iteration);

/* Says why the run is over, if --stop-after has ended it. */
void scores_tell_end(const struct scores *scores, const struct job *job);

#endif
