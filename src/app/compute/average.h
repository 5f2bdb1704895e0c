/* A moving average of the weights, average_decay of the solver: after each update
 * a = decay a + (1 - decay) w, and a = w after a run's first. Every worker keeps it beside the
 * weights, which are whole there before its next forward pass, so that nothing is sent for it. It
 * is the parameters of a net of its own, which test nets share and snapshots hold. What is measured
 * and not learnt, BatchNorm's statistics, are those of the weights. */
#ifndef POSEIDON_COMPUTE_AVERAGE_H
#define POSEIDON_COMPUTE_AVERAGE_H

#include "net/net.h"
#include "report/test_pass.h"
#include "job/job.h"

struct average {
    struct owner owner;
    struct net *of;           /* whose weights are averaged; borrowed */
    struct net *net;          /* has the average; NULL: there is none. Owned */
    struct net **tests;       /* share them, as many as the job has test nets. Owned */
    struct test_pass *passes; /* one for each */
    float decay;
    float *scratch;   /* of the engine: as many values as the largest group has */
    int64_t *updates; /* how many each group's average holds */
    int64_t now;      /* how many the weights hold */
};

/* Of the net to train, if the job wants one; env: the net's. Before nets are built. */
int average_create(struct average *average, const struct job *job, const struct layer_env *env,
                   struct net *of);

/* Memory for it, after the net to train was built. */
int average_build(struct average *average, struct engine *engine);

/* Training begins with that many updates done. values: on rank 0 the average as it was saved, laid
 * out as the arena; NULL: a new run begins. */
int average_begin_all(struct average *average, const struct job *job, int64_t updates, bool resumed,
                      const float *values);

/* The group's weights of `now` updates are in place: takes them in, if they are not yet. */
int average_follow(struct average *average, int group);

/* The weights of `updates` updates are in place, and so are statistics: takes all of them in, for
 * tests and snapshots. */
int average_settle(struct average *average, int64_t updates);

/* After average_settle: the host has it, in net->values. */
int average_fetch(const struct average *average);

void average_close(struct average *average);

#endif
