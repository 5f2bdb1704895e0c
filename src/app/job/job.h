/* A rank's job: its role, and what the options and the solver file ask for. Constant after set-up.
 *
 * In this header and those of the other parts, functions whose names end in _all are collective
 * over the world and fail on all ranks together; other functions are not collective unless their
 * comments say so. */
#ifndef POSEIDON_JOB_JOB_H
#define POSEIDON_JOB_JOB_H

#include "device/rule.h"
#include "job/cores.h"
#include "job/nets.h"
#include "job/policy.h"
#include "job/trainer_options.h"
#include "util/owner.h"
#include "util/topology.h"

struct job {
    struct owner *owner; /* owner of memory that lives as long as the job */
    /* arguments of trainer_create; borrowed */
    const struct trainer_options *options;
    struct log *log;
    MPI_Comm world;

    /* this rank's role */
    int rank, nranks; /* in world */
    int nworkers;     /* ranks that compute: 0 to nworkers - 1 */
    bool worker;      /* this rank computes; false: it is a dedicated server */
    bool blank;       /* the engine computes nothing (replay), so there are no losses */
    int threads;      /* threads that compute on the host; 0: the engine's default */
    struct topology topology;
    struct cores cores; /* this rank's cores; each thread is bound when it starts */

    /* the training, from the solver file and the options */
    struct text_doc *doc;                 /* the solver file. Owned */
    const Caffe__SolverParameter *solver; /* solver message inside `doc` */
    struct solver_nets defs;              /* definitions of the nets. Owned */
    struct rule rule;                     /* update rule of the parameters */
    struct policy policy;                 /* policy of the learning rate */
    int max_iter, iter_size;              /* end of training; passes per iteration */
    int batch;                            /* samples of a pass on one rank (of a grain) */
    int global_batch; /* samples per iteration over all workers, given or resumed; 0: neither */
    bool unlike;      /* workers' shares may differ: --balance, or there are no equal ones */
    int *samples;     /* per worker: samples of its turn if `unlike`; NULL: equal turns */
    struct shares {   /* state of unlike shares */
        const char *saved; /* resumed run's shares, from its saved plan; NULL: none. Borrowed */
        bool kept;         /* the resumed run's shares stay in use */
        struct simulate_pace *pace; /* per worker: relative speed and share */
        double images_per_s;        /* rate of the slowest worker; 0: unknown, or equal speeds */
        int *room; /* per worker: samples per pass that its memory holds, once measured */
    } shares;
    int64_t before, turn; /* samples of the workers before this one, and of all workers, in one turn
                             each: one pass, or all grains of a worker */
    uint64_t seed;
    uint64_t records; /* records of the training data; 0: unknown */
};

/* Returns true for an engine that computes nothing, or made-up data: no data is read, and no tests
 * or snapshots are made. */
static inline bool job_rehearses(const struct job *job)
{
    return job->blank || job->options->fake_data;
}

/* Returns the number of arenas in a snapshot besides the weights: history and average. */
static inline int job_histories(const struct job *job)
{
    return job->rule.nhistory + (job->solver->average_decay > 0);
}

/* Returns the number of shares per worker and iteration: its grains with --reproducible, else 1. */
static inline int job_shares(const struct job *job)
{
    return job->options->reproducible ? job->iter_size : 1;
}

/* Returns the number of grains in an iteration over all workers; with --reproducible. */
static inline int64_t job_grains(const struct job *job)
{
    return job->turn / job->batch;
}

/* Returns true if the ranks' batches are parts of one batch (--global-batch, --reproducible,
 * --balance). Otherwise each rank has a batch of its own, as with Caffe's several GPUs. */
static inline bool job_shares_batch(const struct job *job)
{
    return (job->options->global_batch > 0 || job->options->reproducible || job->samples) &&
           job->options->exchange.comm.policy != COMM_NONE;
}

/* Returns the option that lets workers be in different iterations; NULL: none is given. */
static inline const char *job_apart(const struct job *job)
{
    return job->options->exchange.staleness > 0 ? "--tune=staleness"
           : job->options->exchange.drop > 0    ? "--tune=drop-stragglers"
                                                : NULL;
}

/* Returns the number of workers whose losses differ: 1 with --reproducible, else all. */
static inline int job_losses(const struct job *job)
{
    return job->options->reproducible ? 1 : job->nworkers;
}

/* Sets this rank's role in a zero job with an owner. Fails if no rank is left to compute. */
int job_open(struct job *job, MPI_Comm world, const struct trainer_options *options,
             struct log *log);
void job_close(struct job *job);

/* Reads the solver file and its nets. *notices: remarks on these files; freed by the caller. */
int job_read(struct job *job, char **notices);

/* Decides the number of compute threads, and their cores; after topology_create. */
int job_find_threads_all(struct job *job);

/* Sets global_batch: --global-batch, or without a given batch the resumed run's samples per
 * iteration, `kept` (0: unknown). Sets `unlike`. Fails if the workers cannot share the batch. */
int job_keep_batch(struct job *job, int64_t kept);

/* Cuts the batch into grains (--reproducible): sets batch and iter_size; after job_keep_batch. Sets
 * `unlike` unless workers have equal numbers of grains, a power of two. */
int job_cut_grains(struct job *job);

/* Returns this rank's samples per pass, from options and shares; 0: as the net says. */
int job_batch(const struct job *job);

/* Sets `before` and `turn`; after the batch is known. */
void job_take_turns(struct job *job);

/* Returns the weight of this worker's samples in a mean over workers; 1 if all shares are equal. */
double job_weight(const struct job *job);

/* Returns the samples of an iteration over all workers. */
int64_t job_samples(const struct job *job);

/* Converts samples to epochs; returns 0 if the number of records is unknown. */
double job_epochs(const struct job *job, double samples);

/* Sets max_iter from --epochs, once the records and the batch are known. */
int job_count_epochs(struct job *job);

/* Returns the global number of an iteration's first sample. at: state that training begins with. */
struct train_state;
uint64_t job_samples_before(const struct job *job, const struct train_state *at, int64_t iteration);

/* Fails if files or options that must agree differ between ranks; the message says what differs and
 * where. status: result of job_read, which may be a failure on all ranks. */
int job_compare_all(const struct job *job, int status);

/* Logs a sentence about the data. context: the job. Any rank, any thread. */
void job_say_of_data(void *context, const char *text);

#endif
