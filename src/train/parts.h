/* PRIVATE to the files that run a training from end to end: trainer.c, loop.c, test.c, result.c.
 * All others take the parts that they need, each with a header of its own. */
#ifndef POSEIDON_TRAIN_PARTS_H
#define POSEIDON_TRAIN_PARTS_H

#include "train/monitor.h"
#include "train/output.h"
#include "train/scores.h"
#include "train/net_exchange.h"

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

    double *sums; /* what workers add up for a display: loss, outputs, times. The owner's */
    struct train_state at; /* where training starts */
    bool resumed;          /* from a snapshot: there is a history */
    int64_t end;         /* iterations done when training was over: max_iter, or less if stopped */
    bool stopped;        /* before its time: by a signal, or in its last test */
    bool finished;       /* nothing is left to do: trainer_is_finished */
    struct setup *setup; /* of a trainer that does not train yet, or never will; else NULL. Owned */
};

/* ---- display.c ---- */

/* Averages loss and outputs over the workers and, in training, shows them; at its end only keeps
 * the loss. seconds: of training so far, without pauses. Every worker calls it at the same
 * iterations. */
int trainer_display(struct trainer *trainer, int64_t iteration, double seconds, bool training);

/* ---- test.c ---- */

/* One test of test net i at that iteration, of the weights or of their average: runs its batches,
 * spread over the workers, logs Caffe's lines on rank 0, keeps the scores. *interrupted: a signal
 * asks some rank to stop, and there are no scores. Collective over the workers. */
int trainer_test(struct trainer *trainer, int i, int64_t iteration, bool average,
                 bool *interrupted);

/* ---- result.c ---- */

/* Before the nets are made: makes the recorder where one is asked for. */
int result_open_trace(const struct job *job, struct trace **out);

/* Before sync_start: compares clocks. Collective. */
int result_start_clock(const struct job *job, struct output *output);

/* After sync_close: gathers every rank's figures on rank 0. */
int trainer_gather_figures(struct trainer *trainer);

/* After training's synchronisation was destroyed: writes the trace, says where the time went.
 * Collective. */
int trainer_report(struct trainer *trainer);

#endif
