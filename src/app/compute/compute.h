/* What a rank computes with: its engine and its nets. */
#ifndef POSEIDON_COMPUTE_COMPUTE_H
#define POSEIDON_COMPUTE_COMPUTE_H

#include "net/net.h"
#include "report/test_pass.h"
#include "compute/average.h"
#include "compute/grains.h"
#include "job/job.h"

struct compute {
    struct engine engine;     /* .i NULL: not open. Owned */
    struct net *net;          /* to train; on dedicated servers created and not built. Owned */
    struct net **tests;       /* defs.ntests of them; NULL on dedicated servers. Owned */
    struct test_pass *passes; /* one for each; that of a net that test_iter switches off is empty */
    int counted_losses;       /* net_counted_losses, where workers share them */
    double *counts;           /* labels per counted loss; NULL: no loss is shared. Owned */
    struct grains grains;     /* of the batch; opened by compute_open_shares */
    struct average average;   /* of the net's weights */
    struct fake_data *fake;   /* what the net to train gets for data; NULL: data. Owned */
};

struct sync;

/* The nets that the job names, without memory; they record into trace, NULL: nowhere. What is to be
 * said of them goes to *notices. ranks: how the net to train adds up over the workers in its passes
 * (layer_env), borrowed; NULL: it does not. Sets job->batch. */
int compute_create_nets(struct compute *compute, struct job *job, const struct op_ranks *ranks,
                        struct trace *trace, char **notices);

/* The net to train, of that batch, by itself: with memory and made-up shapes of data, to be timed.
 * Destroyed by the caller, also where it fails. Not collective. */
int compute_create_trial(struct compute *compute, const struct job *job, int batch,
                         struct net **out);

/* Whether all ranks read the same data; says what differs. Sets job->records. After net_create,
 * before net_build. */
int compute_compare_data_all(const struct compute *compute, struct job *job);

/* places: rank 0's lines of where ranks compute. No two ranks may have got the same device, but
 * with --tune=share-gpu: each would slow the other down. */
int compute_open_engine_all(struct compute *compute, const struct job *job, struct strbuf *places);

/* Gives the nets memory, at most `limit` bytes where that is not 0. Threads that read data are
 * started on the way, before computing is bound to its cores. */
int compute_build_all(struct compute *compute, const struct job *job, size_t limit);

/* Whether any parameter of the net to train does. */
bool compute_trains(const struct compute *compute);

/* The weights of options or solver. Rank 0. */
int compute_load_weights(struct compute *compute, const struct job *job);

/* Engines with memory of their own get the values. */
int compute_push_values(struct compute *compute, const struct job *job);

/* How many running sums of BatchNorm's the net to train has. values: room for as many, which get
 * the host's, or, write, replace them; NULL: they are only counted. */
size_t compute_statistics(const struct compute *compute, float *values, bool write);

/* The running sums of BatchNorm's that the net to train has now are every grain's. */
void compute_spread_statistics(struct compute *compute, const struct job *job);

/* Those in grains.mean are the net's and every grain's. */
int compute_put_statistics(struct compute *compute, const struct job *job);

/* Averages BatchNorm's running sums over the workers and their grains; does nothing on dedicated
 * servers. Every worker calls it. */
int compute_average_statistics(struct compute *compute, const struct job *job, struct sync *sync);

/* Allocates what is kept per share of a batch, and finds out whether losses are shared. */
int compute_open_shares(struct compute *compute, const struct job *job, const struct plan *plan);

/* net_forward of the net to train; share: which one of this worker's shares it is a pass of. Where
 * the data decide what a loss is divided by, the workers tell each other before backward begins: a
 * sum of one number a loss, which nets without such a loss do not pay for. With --staleness and
 * drop-stragglers nobody is to wait for all others, and each divides by its own; so does a grain.
 * Collective over the workers where they share losses. */
int compute_forward(struct compute *compute, const struct job *job, struct sync *sync,
                    const struct pass *pass, const struct net_hooks *hooks, int share,
                    double *loss);

/* All but the engine, which outlives what is built on it. */
void compute_close(struct compute *compute, const struct job *job);

#endif
