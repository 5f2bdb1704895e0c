/* Private header of src/app/loop, which runs training from start to end. Files of other folders
 * include only the headers of the parts that they need. */
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
    struct op_ranks ranks; /* sums over workers for --sync-bn; none before sync is open */
    struct net_exchange net_exchange;
    struct rates rates;
    struct scores scores;
    struct timing timing;
    struct training_run run;
    struct monitor monitor;
    struct output output;

    struct train_state at; /* start of training */
    bool resumed;          /* training starts from a snapshot, so there is a history */
    bool finished;         /* no iteration is left to train (trainer_is_finished) */
    struct setup *setup;   /* data of set-up; freed before training, kept for a dry run. Owned */
};

/* ---- test.c ---- */

/* Runs test net i at `iteration`, with the weights or their average: divides the batches among
 * workers, logs Caffe's lines on rank 0, and keeps the scores. *interrupted: a signal asks a rank
 * to stop, and there are no scores. Collective over the workers. */
int trainer_test(struct trainer *trainer, int i, int64_t iteration, bool average,
                 bool *interrupted);

#endif
