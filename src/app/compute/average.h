/* A moving average of the weights (average_decay of the solver). After each update a = decay a + (1
 * - decay) w, and after a run's first a = w. Every worker keeps the average beside its weights,
 * which are complete before its next forward pass, so nothing is sent. A net of its own has the
 * average as parameters; test nets share and snapshots hold these. BatchNorm's statistics are not
 * learnt: the average takes the weights'. */
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
    float *scratch;   /* engine memory for as many values as the largest group has */
    int64_t *updates; /* updates in each group's average */
    int64_t now;      /* updates in the weights */
};

/* Creates the average of net `of`, the net to train, if the job wants one. env: that net's. Before
 * nets are built. */
int average_create(struct average *average, const struct job *job, const struct layer_env *env,
                   struct net *of);

/* Allocates the average's memory, after the net to train was built. */
int average_build(struct average *average, struct engine *engine);

/* Starts the average with `updates` updates done. values: on rank 0 the saved average, laid out as
 * the arena; NULL: a new run. */
int average_begin_all(struct average *average, const struct job *job, int64_t updates, bool resumed,
                      const float *values);

/* Updates the group's average by its weights, which hold `now` updates, unless done before. */
int average_follow(struct average *average, int group);

/* Takes all weights and statistics after `updates` updates, which are in place, into the average,
 * for tests and snapshots. */
int average_settle(struct average *average, int64_t updates);

/* Copies the average to the host, into net->values; after average_settle. */
int average_fetch(const struct average *average);

void average_close(struct average *average);

#endif
