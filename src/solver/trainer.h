/* The training loop of one rank: solver, nets, synchronisation, snapshots and log, in Caffe's order
 * of events (caffe.md 1.11), with traffic of one iteration flowing under the computation. */
#ifndef POSEIDON_SOLVER_TRAINER_H
#define POSEIDON_SOLVER_TRAINER_H

#include <mpi.h>

#include "snapshot/checkpoint.h"
#include "solver/nets.h"
#include "solver/policy.h"
#include "engine/rule.h"
#include "solver/signals.h"
#include "plan/cost.h"
#include "sync/node.h"
#include "plan/probe.h"
#include "sync/sync.h"
#include "report/clocks.h"
#include "util/log.h"

/* trainer_options.hierarchy, where it is not the ranks of a node. */
enum { HIERARCHY_AUTO = -1, HIERARCHY_OFF = 0 };

/* Where parameter servers apply the solver. */
enum ps_update {
    PS_UPDATE_AUTO, /* as measured */
    PS_UPDATE_HOST,
    PS_UPDATE_DEVICE, /* of the worker that serves; an error where its engine has none */
};

struct trainer_options {
    const char *solver;   /* path of the solver file */
    const char *weights;  /* comma list of weight files, or NULL */
    const char *snapshot; /* solver state to resume from, or NULL */
    bool resume; /* from the newest one under the solver's snapshot_prefix instead, if there is one,
                    and without `weights` */
    enum signal_effect signals[SIGNALS]; /* what each does */
    const char *engine;
    const char *profile;    /* replay: the file of times */
    int dilate;             /* replay: > 1 divides all traffic */
    long long input_chw[3]; /* replay: input size where the net does not tell; 0: unknown */
    struct comm comm;
    enum wire wire;
    bool overlap;
    bool forward_waits_all;      /* with overlap: the next forward pass waits for all layers */
    int staleness;               /* iterations that a worker may be ahead of the slowest */
    bool fifo;                   /* sends in the order of posting */
    size_t chunk, merge, window; /* as in cost_sizes; COST_SIZE_CHOSEN: by the measured network.
                                    Window 0: no limit */
    double mbps;                 /* cap of this rank's sends, Mbit/s; 0: none */
    const char *cluster_file;    /* auto: figures of the cluster are kept there; or NULL */
    int hierarchy; /* > 0: so many workers add up before one of them speaks; or see above */
    int servers;
    int batch;             /* > 0: per rank, replaces the training data's */
    int global_batch;      /* > 0: over all workers; exclusive with batch */
    int max_iter;          /* > 0: replaces the solver's */
    long long seed;        /* >= 0: replaces the solver's */
    int threads;           /* > 0: compute threads of this rank */
    enum engine_math math; /* this and the next three: for engines with devices */
    bool deterministic;
    bool no_graphs;
    size_t workspace;
    enum sync_direct
        direct; /* ditto: whether messages go straight from and to the device's memory */
    enum ps_update ps_update;        /* ditto */
    bool share_gpu;                  /* several ranks may compute on one device */
    const char *trace;               /* Chrome trace file, or NULL */
    int64_t trace_first, trace_last; /* iterations in it, inclusive */
    const char *log;                 /* the report as JSON lines, or NULL */
    bool account;        /* each layer's transfer is timed alone also without trace and log */
    const char *summary; /* JSON file at the end, or NULL */
    bool json;           /* that JSON on standard output too, and nothing else there */
};

/* What every rank reports at the end. */
enum trainer_figure {
    FIGURE_SENT, /* bytes of gradients, parameters and factors */
    FIGURE_RECEIVED,
    FIGURE_PREDICTED, /* sent bytes of one iteration by the plan */
    FIGURE_CONTROL,
    FIGURE_STALL,       /* seconds the compute thread waited for the network */
    FIGURE_PROGRESS,    /* share of a core that the progress thread took */
    FIGURE_INPUT_WAITS, /* times */
    FIGURE_INPUT_SECONDS,
    FIGURES
};

struct trainer {
    const struct trainer_options *options;
    struct log *log;
    MPI_Comm world;
    int rank, nranks;
    bool worker; /* this rank computes; else it is a dedicated server */
    bool blank;  /* the engine computes nothing: no data, losses, tests or snapshots */
    int nworkers;
    int threads; /* of this rank's computation on the host */

    struct text_doc *doc;                 /* the solver file */
    const Caffe__SolverParameter *solver; /* its message */
    struct solver_nets defs;
    struct net *net;       /* to train */
    struct net **tests;    /* defs.ntests of them; NULL on dedicated servers */
    struct engine engine;  /* .i NULL: not open */
    struct node_map nodes; /* who adds up together; .node NULL: every worker speaks for itself */
    struct node *node;     /* this rank's; NULL: ditto */
    char team[64];         /* what adds up where its engines do, in words */
    struct group *groups;  /* of net, as the plan knows them; owned */
    struct plan *plan;
    double predicted_seconds; /* of an iteration, by the cost model; 0: not asked */
    struct probe probe;   /* the cluster's figures, for messages of the length that is planned, not
                             dilated */
    bool probed;          /* they are there */
    bool update_remotely; /* as in sync_options */
    struct cost_sizes sizes; /* of messages; set by trainer_plan */
    struct sync *sync;
    struct sync_options sync_options; /* what it was made with */
    struct trace *trace;              /* NULL: nothing is recorded */
    struct clock_offset clock_before; /* this rank's clock before training; with trace */
    struct rule rule;
    struct policy policy;
    float *rates;   /* of iterations first_iter .. max_iter-1, worked out beforehand: a server may
                       need one before its compute thread gets there */
    int32_t *steps; /* the policy's current_step after each of them, for snapshots */
    struct train_state at; /* where training starts */
    bool resumed;          /* from a snapshot: there is a history */
    int max_iter, iter_size;
    int64_t end;  /* iterations done when training was over: max_iter, or less if stopped */
    bool stopped; /* by a signal */
    struct {
        int64_t asked, next; /* before which iteration; -1: no question is open */
        int64_t iteration;   /* rank 0: when it asked last, and the clock then */
        double seconds;
        enum signal_effect effect; /* asked for and not done yet */
        bool keep;                 /* the stop wants a snapshot whatever the solver says */
    } listen;
    int batch; /* samples of one pass on one rank */
    uint64_t seed;
    char *notices; /* from files and nets, said once the log is up */

    float *losses;          /* the last average_loss losses, a ring */
    int64_t nlosses;        /* ever put in */
    double train_seconds;   /* iterations alone, without tests and snapshots */
    double train_stall;     /* of these: this rank waited for the network */
    double paused_stall;    /* waited in tests and snapshots */
    double display_seconds; /* of train_seconds at the last display */
    int64_t display_iter;
    double final_loss; /* smoothed, over all workers, of the last iteration; NAN: none was run */
    double *scores;    /* outputs of the last test of the first test net; NULL: none yet */
    int last_snapshot; /* iteration, -1: none */
    double *figures;   /* rank 0, after the run: FIGURES per rank */
};

/* Measures the cluster into trainer->probe, once. Collective; no traffic may be under way. */
int trainer_probe(struct trainer *trainer);

/* "auto", "host" or "device"; fails with the list of them. */
int ps_update_parse(const char *name, enum ps_update *out);

/* Decides where this rank's server updates, after the plan; says so. Collective. */
int trainer_place_updates(struct trainer *trainer);

/* "auto", "off" or a number. */
int hierarchy_parse(const char *text, int *out);

/* Between net_create and net_build: forms the nodes that options->hierarchy asks for, if any, of
 * the ranks of a machine that share memory or whose engines make a team. Collective. */
int trainer_find_nodes(struct trainer *trainer);

/* Leaders that share a host's link; after trainer_probe. */
int trainer_leaders_per_host(const struct trainer *trainer);

/* Chooses schemes and makes the plan. Collective. Nets and engine must be there. */
int trainer_plan(struct trainer *trainer);

/* Reads everything, builds nets, loads weights or state, starts traffic. Collective. */
int trainer_create(MPI_Comm world, const struct trainer_options *options, struct log *log,
                   struct trainer **out);

/* Trains to max_iter, or until a signal stops it, which is no failure. Collective; after a failure
 * on any rank returns that rank's failure on all. */
int trainer_run(struct trainer *trainer);

/* One test of test net i at that iteration: runs its batches, spread over the workers, logs Caffe's
 * lines on rank 0, keeps the scores. *interrupted: a signal asks some rank to stop, and there are
 * no scores. Collective over the workers. */
int trainer_test(struct trainer *trainer, int i, int64_t iteration, bool *interrupted);

/* Between two iterations, `iteration` to come: puts into trainer->listen.effect what signals to any
 * rank ask for, the same on all ranks. now: of all that have come so far, which waits for all
 * ranks; else of those that came a while ago, and nobody waits. Collective, servers included. */
int trainer_listen(struct trainer *trainer, int64_t iteration, bool now);

/* Averages BatchNorm's running sums over the workers; nothing on dedicated servers. Every worker
 * calls it. */
int trainer_share_statistics(struct trainer *trainer);

/* Caffe's "X net output #k" lines of a net whose output values, all elements of all outputs in
 * order, are given. */
void log_outputs(struct log *log, const char *which, const struct net *net, const double *values);
size_t count_outputs(const struct net *net);

/* All output values of a net, element by element, outputs in order. */
int trainer_read_outputs(const struct net *net, double *values);

/* After a successful run: gathers every rank's figures on rank 0. Collective; trainer_run's last
 * step. */
int trainer_collect(struct trainer *trainer);

/* Before the nets are made: makes the recorder where one is asked for. Not collective. */
int trainer_open_trace(struct trainer *trainer);
/* Before sync_start: compares clocks. Collective. */
int trainer_start_clock(struct trainer *trainer);

/* After trainer_collect: writes the trace, says where the time went. Collective. */
int trainer_account(struct trainer *trainer);

/* The summary as a JSON object. Rank 0, after trainer_run. */
struct json;
void trainer_summary(struct trainer *trainer, struct json *json);

void trainer_destroy(struct trainer *trainer);

#endif
