/* What a rank is to do: who it is among the others, and what the options and the solver file ask
 * for. Written while the trainer is set up, constant from then on.
 *
 * Here and in the headers of the other parts: functions whose names end in _all are collective over
 * the world and fail on all ranks together; others are not collective unless they say so. */
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
    struct owner *owner; /* of memory that lasts as long as the job does */
    /* given to trainer_create, borrowed */
    const struct trainer_options *options;
    struct log *log;
    MPI_Comm world;

    /* who this rank is */
    int rank, nranks; /* in world */
    int nworkers;     /* ranks that compute: the lowest ones */
    bool worker;      /* this rank is one of them; else it is a dedicated server */
    bool blank;       /* the engine computes nothing: no losses */
    int threads;      /* of this rank's computation on the host; 0: the engine's default */
    struct topology topology;
    struct cores cores; /* of world; threads are placed on them as they are started */

    /* what is trained; of the solver file and the options */
    struct text_doc *doc;                 /* the solver file. Owned */
    const Caffe__SolverParameter *solver; /* its message, a part of doc */
    struct solver_nets defs;              /* the nets' definitions. Owned */
    struct rule rule;                     /* how parameters change */
    struct policy policy;                 /* how the learning rate does */
    int max_iter, iter_size;              /* the last iteration's end; passes per iteration */
    int batch;                            /* samples of one pass on one rank: of a grain */
    int global_batch;                     /* > 0: wanted, of an iteration over all workers */
    int *samples;          /* --balance: per worker, of its turn; NULL: all have as many */
    struct shares {        /* likewise, balance.c's alone */
        const char *saved; /* of the run that is resumed, before its plan; NULL: none. Borrowed */
        bool kept;         /* they hold on */
        struct simulate_pace *pace; /* per worker, beside rank 0's passes at the slowest's speed:
                                       whose products the cluster's figures are of */
        double images_per_s;        /* of the slowest; 0: not measured, or all are alike */
        int *room; /* per worker, samples of a pass that it has memory for, once measured */
    } shares;
    int64_t before, turn; /* workers take turns in the order of samples, one pass each or all their
                             grains: samples of the workers before this one, and of all */
    uint64_t seed;
    uint64_t records; /* of the training data; 0: not known */
};

/* Nothing is computed, or on made-up data: no data, tests, snapshots. */
static inline bool job_rehearses(const struct job *job)
{
    return job->blank || job->options->fake_data;
}

/* Arenas beside the weights in a snapshot's state: the rule's, then the average of the weights. */
static inline int job_histories(const struct job *job)
{
    return job->rule.nhistory + (job->solver->average_decay > 0);
}

/* Of an iteration's numbers that a worker keeps apart: of its grains with --reproducible, else 1.
 */
static inline int job_shares(const struct job *job)
{
    return job->options->reproducible ? job->iter_size : 1;
}

/* Of all workers, in an iteration; with --reproducible. */
static inline int64_t job_grains(const struct job *job)
{
    return job->turn / job->batch;
}

/* Whether the ranks' batches are parts of one, which --global-batch names, or, cut into grains, a
 * run that is resumed; else each has a batch of its own, as Caffe's several GPUs. */
static inline bool job_shares_batch(const struct job *job)
{
    return (job->options->global_batch > 0 || job->options->reproducible || job->samples) &&
           job->options->exchange.comm.policy != COMM_NONE;
}

/* The option by which workers may be in different iterations; NULL: none is given. */
static inline const char *job_apart(const struct job *job)
{
    return job->options->exchange.staleness > 0 ? "--tune=staleness"
           : job->options->exchange.drop > 0    ? "--tune=drop-stragglers"
                                                : NULL;
}

/* Workers whose losses differ: all, but with --reproducible every worker knows all of them. */
static inline int job_losses(const struct job *job)
{
    return job->options->reproducible ? 1 : job->nworkers;
}

/* Who this rank is, all before in *job zero. Fails where no rank is left to compute. */
int job_open(struct job *job, MPI_Comm world, const struct trainer_options *options,
             struct log *log);
void job_close(struct job *job);

/* Reads the solver file and the nets that it names. *notices: what is to be said of them; to be
 * freed. */
int job_read(struct job *job, char **notices);

/* Who computes on which cores; after topology_create. */
int job_find_threads_all(struct job *job);

/* A run that is resumed on other ranks takes as many samples as before (0: that is not known),
 * unless it is told. */
int job_keep_batch(struct job *job, int64_t kept);

/* --reproducible cuts the batch into grains: sets batch and iter_size; after job_keep_batch.
 * Fails where they cannot be dealt to the workers as whole branches of one tree. */
int job_cut_grains(struct job *job);

/* Samples of a pass on one rank that options, global_batch and shares ask for; 0: the net's. */
int job_batch(const struct job *job);

/* Sets before and turn, once the batch is known. */
void job_take_turns(struct job *job);

/* How often this worker's samples count in a mean over workers: 1 where all have as many. */
double job_weight(const struct job *job);

/* Of an iteration, on all workers. */
int64_t job_samples(const struct job *job);

/* The passes over the training data that `samples` samples are; 0 where its records are unknown. */
double job_epochs(const struct job *job, double samples);

/* --epochs takes max_iter's place, once the records and the batch are known. */
int job_count_epochs(struct job *job);

/* Of the global order, before that iteration of a training that starts with `at`. */
struct train_state;
uint64_t job_samples_before(const struct job *job, const struct train_state *at, int64_t iteration);

/* Whether all ranks were given the same, of the files and the options that must agree; says what
 * differs, and which ranks have what. status: job_read's, a failure of which all ranks share. */
int job_compare_all(const struct job *job, int status);

/* A sentence about the data, to the user. context: the job. Any rank, any thread. */
void job_say_of_data(void *context, const char *text);

#endif
