/* The engine and the nets of a rank. */
#ifndef POSEIDON_COMPUTE_COMPUTE_H
#define POSEIDON_COMPUTE_COMPUTE_H

#include "net/net.h"
#include "report/test_pass.h"
#include "compute/average.h"
#include "compute/grains.h"
#include "job/job.h"

struct compute {
    struct engine engine;     /* .i NULL: not open. Owned */
    struct net *net;          /* net to train; on dedicated servers created, not built. Owned */
    struct net **tests;       /* defs.ntests test nets; NULL on dedicated servers. Owned */
    struct test_pass *passes; /* one per test net; empty if test_iter switches the net off */
    int counted_losses;       /* net_counted_losses, if workers share these losses */
    double *counts;           /* labels per counted loss; NULL: no loss is shared. Owned */
    struct grains grains;     /* grains of the batch; opened by compute_open_shares */
    struct average average;   /* average of the net's weights */
    struct fake_data *fake;   /* made-up input of the net to train; NULL: it reads data. Owned */
};

struct sync;

/* Creates the job's nets, without memory. trace: gets the events of the net to train; NULL:
 * nowhere. *notices: remarks on the nets. ranks: sums over the workers in passes of the net to
 * train (layer_env), borrowed; NULL: no sums. Sets job->batch. */
int compute_create_nets(struct compute *compute, struct job *job, const struct op_ranks *ranks,
                        struct trace *trace, char **notices);

/* Creates a separate net to train of `batch` samples, with memory and made-up shapes of data, to be
 * timed. The caller destroys *out, also after a failure. Not collective. */
int compute_create_trial(struct compute *compute, const struct job *job, int batch,
                         struct net **out);

/* Fails if ranks read different data, and says what differs. Sets job->records. After net_create,
 * before net_build. */
int compute_compare_data_all(const struct compute *compute, struct job *job);

/* Opens the engine. places: gets rank 0's lines about where ranks compute. Fails if two ranks have
 * the same device, which would slow both down, unless --tune=share-gpu is given. */
int compute_open_engine_all(struct compute *compute, const struct job *job, struct strbuf *places);

/* Gives the nets memory: at most `limit` bytes; 0: no limit. Starts the threads that read data
 * before binding the computing threads to their cores. */
int compute_build_all(struct compute *compute, const struct job *job, size_t limit);

/* Returns true if any parameter of the net to train is trained. */
bool compute_trains(const struct compute *compute);

/* Loads the weights that the options or the solver name. Rank 0. */
int compute_load_weights(struct compute *compute, const struct job *job);

/* Copies the values to an engine with memory of its own. */
int compute_push_values(struct compute *compute, const struct job *job);

/* Returns the number of BatchNorm's running sums in the net to train. values: gets the host's sums,
 * or with `write` replaces them; NULL: only counts. */
size_t compute_statistics(const struct compute *compute, float *values, bool write);

/* Gives every grain the running sums of BatchNorm that the net to train has. */
void compute_spread_statistics(struct compute *compute, const struct job *job);

/* Gives the net and every grain the running sums in grains.mean. */
int compute_put_statistics(struct compute *compute, const struct job *job);

/* Averages BatchNorm's running sums over the workers and their grains; does nothing on dedicated
 * servers. Every worker calls it. */
int compute_average_statistics(struct compute *compute, const struct job *job, struct sync *sync);

/* Allocates what is kept per share of a batch, and finds whether workers share losses. */
int compute_open_shares(struct compute *compute, const struct job *job, const struct plan *plan);

/* Runs net_forward of the net to train, for share number `share` of this worker. If a loss is
 * divided by a number that depends on the data, workers sum these numbers before backward begins,
 * one per loss; nets without such a loss need no sum. With --staleness and drop-stragglers no
 * worker waits for all others: each divides by its own number, and so does a grain. Collective over
 * the workers if they share losses. */
int compute_forward(struct compute *compute, const struct job *job, struct sync *sync,
                    const struct pass *pass, const struct net_hooks *hooks, int share,
                    double *loss);

/* Frees everything but the engine, which outlives what is built on it. */
void compute_close(struct compute *compute, const struct job *job);

#endif
