/* PRIVATE to src/app/loop, which runs a training from end to end. All other files take the parts
 * that they need, each with a header of its own. */
#ifndef POSEIDON_LOOP_PARTS_H
#define POSEIDON_LOOP_PARTS_H

#include "compute/net_exchange.h"
#include "loop/trainer.h"
#include "say/output.h"

struct setup;

struct trainer {
    struct owner owner; /* owner of memory that lives as long as the trainer */
    struct job job;
    struct compute compute;
    struct exchange exchange;
    struct op_ranks ranks; /* sums for --sync-bn, by the exchange once it is open */
    struct net_exchange net_exchange;
    struct rates rates;
    struct scores scores;
    struct timing timing;
    struct training_run run;
    struct monitor monitor;
    struct output output;

    struct train_state at; /* start of training */
    bool resumed;          /* training starts from a snapshot, so there is a history */
    bool finished;         /* nothing is left to train: trainer_is_finished */
    struct setup *setup;   /* set-up of a trainer that does not train (yet); else NULL. Owned */
};

/* ---- test.c ---- */

/* Runs test net i at `iteration`, with the weights or their average: spreads the batches over the
 * workers, logs Caffe's lines on rank 0, keeps the scores. *interrupted: a signal asks some rank to
 * stop, and there are no scores. Collective over the workers. */
int trainer_test(struct trainer *trainer, int i, int64_t iteration, bool average,
                 bool *interrupted);

#endif
