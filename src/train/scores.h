/* What tests have shown: the last scores, the best ones, and whether more training
 * would be in vain (--stop-after). Nothing here is collective: all workers see the same scores. */
#ifndef POSEIDON_TRAIN_SCORES_H
#define POSEIDON_TRAIN_SCORES_H

#include "net/net.h"
#include "train/job.h"

struct early {
    double best; /* the best score of the first test net so far; NAN: none yet */
    int64_t iteration;
    int tests;   /* since then */
    bool enough; /* as many as stop_after */
};

struct scores {
    double *values;    /* outputs and loss of the last test of the first test net; NULL: there is
                          none. The job's */
    int64_t iteration; /* at which they were taken; -1: not yet */
    int output;        /* which is compared: --keep-best's, or the usual one; -1: none */
    const char *name;  /* its name; borrowed from the net */
    int sign;          /* -1: less is better; else 1 */
    int64_t best;      /* iteration of the best test so far; -1: none */
    double best_score;
    int stop_after; /* as in trainer_options */
    struct early early;
};

/* test: the first test net, NULL where this rank has none; keeps: snapshots are written. */
int scores_open(struct scores *scores, const struct job *job, const struct net *test, bool keeps);

/* After a test at that iteration: whether it is the best so far. */
bool scores_better(struct scores *scores, const struct job *job, int64_t iteration);

/* Counts that iteration's test, if there was one, where it is no better than the best so far. */
void scores_count(struct scores *scores, const struct job *job, const struct net *test,
                  int64_t iteration);

#endif
