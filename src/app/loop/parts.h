/* PRIVATE to src/app/loop, which runs a training from end to end. All other files take the parts
 * that they need, each with a header of its own. */
#ifndef POSEIDON_LOOP_PARTS_H
#define POSEIDON_LOOP_PARTS_H

#include "compute/net_exchange.h"
#include "loop/trainer.h"
#include "say/output.h"

struct setup;

struct trainer {
    struct owner owner; /* of what lasts as long */
    struct job job;
    struct compute compute;
    struct exchange exchange;
    struct op_ranks ranks; /* --sync-bn: by the exchange, once that is open */
    struct net_exchange net_exchange;
    struct rates rates;
    struct scores scores;
    struct timing timing;
    struct training_run run;
    struct monitor monitor;
    struct output output;

    struct train_state at; /* where training starts */
    bool resumed;          /* from a snapshot: there is a history */
    bool finished;         /* nothing is left to do: trainer_is_finished */
    struct setup *setup; /* of a trainer that does not train yet, or never will; else NULL. Owned */
};

/* ---- test.c ---- */

/* One test of test net i at that iteration, of the weights or of their average: runs its batches,
 * spread over the workers, logs Caffe's lines on rank 0, keeps the scores. *interrupted: a signal
 * asks some rank to stop, and there are no scores. Collective over the workers. */
int trainer_test(struct trainer *trainer, int i, int64_t iteration, bool average,
                 bool *interrupted);

#endif
