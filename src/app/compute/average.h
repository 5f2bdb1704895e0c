/* A moving average of the weights (average_decay of the solver). The first update of a run sets a =
 * w; each later update sets a = decay a + (1 - decay) w. Every worker averages its own weights,
 * which are complete before its next forward pass, so ranks send nothing. The average is the
 * parameters of a separate net, which test nets share and snapshots save. BatchNorm's statistics
 * are not averaged: the separate net copies the training net's. */
#ifndef POSEIDON_COMPUTE_AVERAGE_H
#define POSEIDON_COMPUTE_AVERAGE_H

#include "net/net.h"
#include "report/test_pass.h"
#include "job/job.h"

struct average {
    struct owner owner;
    struct net *of;     /* net whose weights are averaged; borrowed */
    struct net *net;    /* net with the average; NULL: no average. Owned */
    struct net **tests; /* test nets that share the average, one per test net of the job. Owned */
    struct test_pass *passes; /* one per net in `tests` */
    float decay;
    float *scratch;   /* engine memory of the largest group's size */
    int64_t *updates; /* per group: number of updates in the average */
    int64_t now;      /* number of updates that the weights have had */
};

/* Creates the average of the net to train, `of`, if the solver has average_decay. env: environment
 * of `of`. Before nets are built. */
int average_create(struct average *average, const struct job *job, const struct layer_env *env,
                   struct net *of);

/* Allocates the average's memory; after the net to train is built. */
int average_build(struct average *average, struct engine *engine);

/* Starts the average after `updates` updates. resumed: all ranks take the average that rank 0 has
 * in `values`, laid out as the arena. */
int average_begin_all(struct average *average, const struct job *job, int64_t updates, bool resumed,
                      const float *values);

/* Updates a group's average from its weights after `now` updates, unless already done. */
int average_follow(struct average *average, int group);

/* Updates the average of all groups after `updates` complete updates, and copies the statistics,
 * for tests and snapshots. */
int average_settle(struct average *average, int64_t updates);

/* Copies the average to the host, into net->values; after average_settle. */
int average_fetch(const struct average *average);

void average_close(struct average *average);

#endif
