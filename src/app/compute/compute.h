/* The engine and the nets of a rank. */
#ifndef POSEIDON_COMPUTE_COMPUTE_H
#define POSEIDON_COMPUTE_COMPUTE_H

#include "net/net.h"
#include "report/test_pass.h"
#include "compute/average.h"
#include "compute/grains.h"
#include "job/job.h"

struct compute {
    struct engine engine; /* .i NULL: not open. Owned */
    struct net *net;      /* net to train; dedicated servers create but do not build it. Owned */
    struct net **tests;   /* defs.ntests test nets; NULL on dedicated servers. Owned */
    struct test_pass *passes; /* one per test net; empty if test_iter is 0. Owned */
    int counted_losses;       /* number of losses divided by labels over all workers; 0: none */
    double *counts;           /* number of labels per such loss; NULL: none. Owned */
    struct grains grains;     /* grains of the batch; opened by compute_open_shares */
    struct average average;   /* average of the net's weights */
    _Atomic int bad_records;  /* damaged records that this rank's data left out (--max-bad) */
    struct fake_data *fake;   /* made-up input of the net to train; NULL: it reads data. Owned */
};

struct sync;

/* Creates the job's nets, without memory. trace: receives events of the net to train; NULL: no
 * trace. *notices: remarks on the nets. ranks: sums over workers in passes of the net to train
 * (layer_env), borrowed; NULL: no sums. Sets job->batch. */
int compute_create_nets(struct compute *compute, struct job *job, const struct op_ranks *ranks,
                        struct trace *trace, char **notices);

/* Creates a separate net to train with memory and made-up data, `batch` samples, for timing. The
 * caller destroys *out, also after a failure. Not collective. */
int compute_create_trial(struct compute *compute, const struct job *job, int batch,
                         struct net **out);

/* Fails if ranks read different data, and says what differs. Sets job->records. After net_create,
 * before net_build. */
int compute_compare_data_all(const struct compute *compute, struct job *job);

/* Opens the engine. places: receives on rank 0 where ranks compute. Fails if two ranks have the
 * same device, which would slow both down, unless --tune=share-gpu is given. */
int compute_open_engine_all(struct compute *compute, const struct job *job, struct strbuf *places);

/* Gives the nets memory: at most `limit` bytes; 0: no limit. Starts the threads that read data
 * before binding the computing threads to their cores. */
int compute_build_all(struct compute *compute, const struct job *job, size_t limit);

/* Returns true if any parameter of the net to train is trained. */
bool compute_trains(const struct compute *compute);

/* Loads the weights that the options or the solver name. Rank 0. */
int compute_load_weights(struct compute *compute, const struct job *job);

/* Copies the host's values into the engine's own memory, if it has its own. */
int compute_push_values(struct compute *compute, const struct job *job);

/* Returns the number of BatchNorm's running sums in the net to train. values: receives the host's
 * sums, or with `write` replaces the host's sums; NULL: only counts. */
size_t compute_statistics(const struct compute *compute, float *values, bool write);

/* Copies the net's BatchNorm running sums to every grain. */
void compute_spread_statistics(struct compute *compute, const struct job *job);

/* Copies the running sums in grains.mean to the net and to every grain. */
int compute_put_statistics(struct compute *compute, const struct job *job);

/* Averages BatchNorm's running sums over all shares of all workers; does nothing on dedicated
 * servers. Collective over the workers. */
int compute_average_statistics(struct compute *compute, const struct job *job, struct sync *sync);

/* Allocates memory per share of a batch, and finds if workers share losses. */
int compute_open_shares(struct compute *compute, const struct job *job, const struct plan *plan);

/* Runs net_forward of the net to train, for share number `share` of this worker. If the divisor of
 * a loss depends on the data, workers sum the divisors before backward begins. With --reproducible,
 * --staleness or drop-stragglers each pass divides by its own instead. Collective over the workers
 * if they share losses. */
int compute_forward(struct compute *compute, const struct job *job, struct sync *sync,
                    const struct pass *pass, const struct net_hooks *hooks, int share,
                    double *loss);

/* Frees everything but the engine, which outlives what is built on it. */
void compute_close(struct compute *compute, const struct job *job);

#endif
