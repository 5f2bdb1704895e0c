/* PRIVATE to src/solver: what a trainer consists of, and the steps it goes through.
 *
 *     trainer_create: trainer_open_trace (nets are made) trainer_find_nodes (nets are built)
 *                     trainer_plan (weights are loaded) trainer_place_updates trainer_start_clock
 *     trainer_run:    the loop: trainer_agree_signals, trainer_share_statistics, trainer_test
 *                     its end:  trainer_gather_figures (sync is destroyed) trainer_report */
#ifndef POSEIDON_SOLVER_TRAINER_INTERNAL_H
#define POSEIDON_SOLVER_TRAINER_INTERNAL_H

#include "solver/cores.h"
#include "solver/trainer.h"

#include "engine/rule.h"
#include "plan/probe.h"
#include "report/clocks.h"
#include "report/figures.h"
#include "snapshot/checkpoint.h"
#include "snapshot/keeper.h"
#include "snapshot/prefix_lock.h"
#include "snapshot/run_file.h"
#include "solver/nets.h"
#include "solver/policy.h"
#include "sync/node.h"
#include "util/sha256.h"
#include "util/strbuf.h"
#include "util/topology.h"

/* What all ranks know of signals that some of them have got (agree_signals.c). */
struct trainer_signals {
    int64_t asked;             /* before which iteration the open question stands; -1: none does */
    int64_t next;              /* before which iteration the next one is asked */
    int64_t iteration;         /* rank 0: before which one it asked last */
    double seconds;            /* rank 0: the clock then */
    enum signal_effect effect; /* agreed on and not done yet */
    double slowest;            /* rank 0: seconds of the slowest iteration of late */
    double passed;             /* rank 0: the clock at the last iteration's end; 0: not yet */
    double saved;              /* rank 0: the clock at the last snapshot; first: at the start */
    bool warned;               /* rank 0: of the launcher's patience */
    bool keep;                 /* the stop wants a snapshot whatever the solver says */
    bool enough;               /* the stop is --stop-after's: the run is over */
};

/* What rates and an early stop remember of losses and tests (rates.c, early_stop.c). The same on
 * all workers, but for sum. */
struct trainer_memory {
    struct policy_memory policy;
    int32_t step;  /* plateau: current_step, once the rate has dropped in this run */
    bool dropped;  /* it has */
    double sum;    /* plateau: this worker's losses since the last smoothed one */
    int64_t count; /* of as many iterations */
    double best;   /* the best score of the first test net so far; NAN: none yet */
    int64_t best_iteration;
    int tests;   /* since then */
    bool enough; /* as many as --stop-after */
};

/* Whose snapshots are written and read (run.c). Rank 0's; elsewhere empty, but for `about`. */
struct trainer_run {
    bool keeps;                  /* snapshots are written: there are a lock and PREFIX.run */
    char *path;                  /* of PREFIX.run. Owned */
    struct run_file file;        /* as it is to be written. Owned */
    struct run_file found;       /* as it was found; .run "": there was none. Owned */
    struct prefix_lock *lock;    /* Owned */
    struct keeper *keeper;       /* writes them; NULL: before the first one. Owned */
    struct checkpoint_list list; /* states under the prefix; of --resume. Owned */
    struct strbuf about;         /* what is trained, as the run's digest is made of. Owned */
    char digest[SHA256_HEX];
    int64_t global_batch; /* of the run that is resumed; 0: it does not say. On all ranks */
    char *kept_plan;      /* likewise its plan; NULL: it says none. Owned */
    char *plan;           /* as it is written. Owned */
};

/* "Owned" is freed by trainer_destroy. */
struct trainer {
    /* given to trainer_create, borrowed */
    const struct trainer_options *options;
    struct log *log;
    MPI_Comm world;

    /* who this rank is */
    int rank, nranks; /* in world */
    int nworkers;     /* ranks that compute: the lowest ones */
    bool worker;      /* this rank is one of them; else it is a dedicated server */
    bool blank;       /* the engine computes nothing: no data, losses, tests, snapshots */
    int threads;      /* of this rank's computation on the host; 0: the engine's default */
    struct topology topology;
    struct cores cores;   /* of world; threads are placed on them as they are started */
    struct strbuf places; /* where ranks compute, in lines; rank 0's. Owned */

    /* what is trained; of the solver file and the options */
    struct text_doc *doc;                 /* the solver file. Owned */
    const Caffe__SolverParameter *solver; /* its message, a part of doc */
    struct solver_nets defs;              /* the nets' definitions. Owned */
    char *notices;                        /* what is to be said of the files. Owned */
    struct rule rule;                     /* how parameters change */
    struct policy policy;                 /* how the learning rate does */
    int max_iter, iter_size;              /* the last iteration's end; passes per iteration */
    int batch;                            /* samples of one pass on one rank */
    int global_batch;                     /* > 0: wanted, of an iteration over all workers */
    uint64_t seed;

    /* what computes */
    struct engine engine; /* .i NULL: not open. Owned */
    struct net *net;      /* to train; on dedicated servers created and not built. Owned */
    struct net **tests;   /* defs.ntests of them; NULL on dedicated servers. Owned */

    /* what communicates; set-up's decisions (setup.c) */
    struct node_map nodes;    /* who adds up together; .node NULL: every worker for itself. Owned */
    struct node *node;        /* this rank's node; NULL: likewise. Owned */
    char team[64];            /* the library by which a node's engines add up, in words */
    struct probe probe;       /* the cluster's figures, for messages of the length that is planned,
                                 not dilated */
    bool probed;              /* they are there */
    struct cost_sizes sizes;  /* of messages */
    struct group *groups;     /* of net, as the plan sees them. Owned */
    struct plan *plan;        /* Owned */
    double predicted_seconds; /* of an iteration, by the cost model; 0: not asked */
    bool update_remotely;     /* as in sync_options */
    struct sync_model model;  /* the net, as sync sees it */
    struct sync_options sync_options; /* what sync was made with */
    struct sync *sync; /* from trainer_create until training is over, then NULL. Owned */

    /* where training starts */
    struct trainer_run run;
    struct train_state at;
    bool resumed;   /* from a snapshot: there is a history */
    float *rates;   /* of iterations at.iteration to max_iter-1, worked out beforehand: a server may
                       need one before its compute thread gets there; plateau's when the iteration
                       before is over. Owned */
    int32_t *steps; /* the policy's current_step after each of them, for snapshots. Owned */
    struct trainer_memory memory;

    /* the loop's */
    struct trainer_signals signals;
    double ends;          /* rank 0's deadline, by this rank's clock_seconds; INFINITY: none */
    int64_t end;          /* iterations done when training was over: max_iter, or less if stopped */
    bool stopped;         /* by a signal */
    float *losses;        /* the last average_loss losses, a ring. Owned */
    int64_t nlosses;      /* ever put in */
    double train_seconds; /* iterations alone, without tests and snapshots */
    double train_stall;   /* of these: this rank waited for the network */
    double paused_stall;  /* waited in tests and snapshots */
    int saves;            /* snapshots between iterations */
    double saving_stall;  /* seconds that training stood still for them */
    double display_seconds; /* of train_seconds at the last display */
    int64_t display_iter;   /* iteration of the last display */
    double final_loss;   /* smoothed, over all workers, of the last iteration; NAN: none was run */
    double warm_seconds; /* train_seconds after the first WARM_ITERATIONS of this run */
    int warm_iterations; /* these, once there are as many again; else 0 */
    double trained_seconds;   /* train_seconds so far, at the end of the last iteration */
    struct curves *curves;    /* rank 0, with --csv or --tensorboard; else NULL. Owned */
    uint64_t records;         /* of the training data; 0: not known */
    int64_t scores_iteration; /* at which the scores were taken */
    double *scores;  /* outputs of the last test of the first test net; NULL: none yet. Owned */
    int best_output; /* its number among the first test net's; -1: --keep-best is not given */
    int64_t best;    /* iteration of the best test so far; -1: none. On all workers */
    double best_score;
    int best_sign;      /* -1: less is better; else 1 */
    int last_snapshot;  /* iteration, -1: none */
    int bad_losses;     /* of this rank, in a row; --on-nan=skip */
    int64_t skips_told; /* rank 0: updates left out that it has told of */
    float *statistics;  /* running averages as they were before the iteration; NULL: --on-nan=skip
                           is not asked for, or the net has none. Owned */
    char *damage;       /* rank 0: a line for each damaged record that was left out. Owned */
    struct late *late;  /* late.c; NULL: nobody can be late. Owned */

    size_t room; /* bytes that this rank's nets may take; 0: as many as there are */

    /* of a dry run, rank 0 */
    struct strbuf survey; /* lines about data. Owned */
    struct strbuf unfit;  /* why the run cannot train, clauses between "; ". Owned */

    /* what is left of it */
    struct trace *trace;              /* NULL: nothing is recorded. Owned */
    struct clock_offset clock_before; /* this rank's clock before training; with trace */
    struct figures figures;           /* rank 0, after the loop; elsewhere empty. Owned */
};

/* ---- setup.c, schemes.c ---- */

/* Between net_create and net_build: forms the nodes that options->hierarchy asks for, if any, of
 * the ranks of a machine that share memory or whose engines make a team. Collective; fails on all
 * ranks together. */
int trainer_find_nodes(struct trainer *trainer);

/* How many ranks lead a node, after trainer_find_nodes: options->leaders, else all of the only one,
 * which share its memory. The same on all ranks. */
int trainer_leaders(const struct trainer *trainer);

/* Chooses schemes and makes the plan; nets and engine must be there. Collective; fails on all ranks
 * together. */
int trainer_plan(struct trainer *trainer);

/* kept_plan.c: the plan as snapshots have it, and back: false, and nothing is changed but `scheme`,
 * where the text is of other ranks or another net. scheme: as many places as the net has groups.
 * Not collective. */
void trainer_describe_plan(const struct trainer *trainer, struct strbuf *out);
bool trainer_read_plan(const struct trainer *trainer, const char *text, struct cost_sizes *sizes,
                       const struct scheme **scheme);

/* kept_plan.c: whether the run that is resumed had the same ranks, and none of them added up
 * together; not with options->measure. The same on all ranks. */
bool trainer_kept_apart(const struct trainer *trainer);

/* Decides where this rank's server updates, after the plan, and says so. Collective; fails on all
 * ranks together. */
int trainer_place_updates(struct trainer *trainer);

/* Measures the cluster into trainer->probe, once. Collective; no traffic may be under way. */
int trainer_probe(struct trainer *trainer);

/* Leaders that share a machine's link, as the cost model wants it; after trainer_probe. Not
 * collective. */
int trainer_leaders_per_host(const struct trainer *trainer);

/* ---- alike.c ---- */

/* Whether all ranks were given the same, of the files and the options that must agree; says what
 * differs, and which ranks have what. After the solver file is read. Collective; fails on all ranks
 * together. */
int trainer_compare_ranks(struct trainer *trainer);

/* What the run trains, into trainer->run.about and its digest: solver, net, data and seed, as far
 * as they decide which parameters come out. Compares all ranks' data on the way. After net_create,
 * before net_build. Collective; fails on all ranks together. */
int trainer_identify(struct trainer *trainer);

/* ---- survey.c, dry_run.c ---- */

/* What the data layers read, into trainer->survey, and what is wrong with it, into
 * trainer->unfit. After net_create, before net_build. Rank 0. */
int trainer_look_at_data(struct trainer *trainer);

/* ---- room.c ---- */

/* Of a dry run: whether the parameters can lie in the memory that is left, and how much of it there
 * is for this rank's nets, trainer->room. After the engine is open, before anything is allocated.
 */
int trainer_check_room(struct trainer *trainer);

/* Whether options->mbps lets an iteration's messages through. After the plan is made. */
int trainer_check_pace(const struct trainer *trainer);

/* ---- run.c ---- */

/* Takes the prefix, finds which run is to go on, and keeps its global batch where nobody asks for
 * another. Before nets are made. Collective; fails on all ranks together. */
int trainer_open_run(struct trainer *trainer);

/* Whether the run that was found is this one; after trainer_identify. Rank 0. */
int trainer_check_run(struct trainer *trainer);

/* The newest state of the run that can be read, into net, *history and trainer->at;
 * trainer->resumed false: it has none. Rank 0. */
int trainer_resume(struct trainer *trainer, float *history);

/* The state that --snapshot names, likewise. */
int trainer_take_state(struct trainer *trainer, const char *path, float *history);

/* Training begins, training is over in order: into PREFIX.run. A start that is the fourth in a row
 * without a snapshot further on fails. Rank 0. */
int trainer_begin_run(struct trainer *trainer);
int trainer_end_run(struct trainer *trainer);

/* Where snapshots are to come, takes the memory for them now; rank 0. */
int trainer_expect_saving(struct trainer *trainer);

/* Keeps this moment, without waiting for the disk; that iteration is to come. Rank 0, with the
 * values and the history on the host. Fails where another run has the prefix now, and where no
 * snapshot can be composed. */
int trainer_save(struct trainer *trainer, const float *history, const struct train_state *state);

/* The snapshot of iteration trainer->best, written or to come, stays. Rank 0. */
int trainer_mark_best(struct trainer *trainer);

/* Until the last snapshot is written; fails where it cannot be. Rank 0. */
int trainer_finish_saving(struct trainer *trainer);

/* Seconds that a snapshot takes until it is written; before the first one an estimate. Rank 0. */
double trainer_saving_seconds(const struct trainer *trainer);

/* Training failed, with its message, which stays: what was handed over is still written, and the
 * prefix is free. Not collective. */
void trainer_abandon_run(struct trainer *trainer);

/* Frees it all, and the prefix. */
void trainer_close_run(struct trainer *trainer);

/* ---- agree_signals.c ---- */

/* Between two iterations, `iteration` to come: puts into trainer->signals.effect what signals to
 * any rank ask for, the same on all ranks. now: of all signals that have come so far, which waits
 * for all ranks; else of those that came a while ago, and nobody waits. Collective, servers
 * included. */
int trainer_agree_signals(struct trainer *trainer, int64_t iteration, bool now);

/* Rank 0, after an iteration: how long it took. */
void trainer_pace(struct trainer *trainer);

/* Whether a pass that may be left out should be: a signal asks this rank to stop, or the time is
 * nearly over. */
bool trainer_hurries(const struct trainer *trainer);

/* ---- rates.c ---- */

/* Whether the policy goes with the options; not collective. */
int trainer_check_policy(const struct trainer *trainer);

/* Rates as far as they are known, and what the snapshot remembers; when trainer->at is known. Not
 * collective. */
int trainer_work_out_rates(struct trainer *trainer);

/* Plateau, on every worker when that iteration's passes are over: the next one's rate. Collective
 * over the workers where the loss is smoothed. */
int trainer_follow_loss(struct trainer *trainer, int64_t iteration, double loss);

/* The policy's current_step of a snapshot before that iteration. */
int32_t trainer_step(const struct trainer *trainer, int64_t iteration);

/* Puts what must be remembered into a state. Collective over the workers with plateau. */
int trainer_remember(struct trainer *trainer, struct train_state *state);

/* ---- points.c ---- */

/* Opens the files of --csv and --tensorboard, when trainer->at is known. Rank 0. */
int trainer_open_points(struct trainer *trainer);

/* Where a loss is displayed, and where a test is over: a point; nothing where nobody asked. */
void trainer_note_display(struct trainer *trainer, int64_t iteration, double seconds, double loss);
void trainer_note_test(struct trainer *trainer, int test, int64_t iteration, const double *scores);

/* ---- early_stop.c ---- */

/* Whether the solver tests at all where --stop-after counts tests; not collective. */
int trainer_check_early_stop(const struct trainer *trainer);

/* Compares the scores of that iteration's test, if there are any, with the best so far. */
void trainer_judge_test(struct trainer *trainer, int64_t iteration);

/* ---- checks.c ---- */

/* After a pass whose loss is no number: says in `out` where it arose, or nothing where that cannot
 * be found. The net is of no use afterwards. */
void trainer_find_nonfinite(struct trainer *trainer, const struct run *run, struct strbuf *out);

/* --on-nan=skip, at set-up: refuses what would keep a NaN beyond its iteration. Not collective. */
int trainer_open_skips(struct trainer *trainer);

/* Before and after the passes of an iteration: running averages that became NaN or infinite are
 * what they were before. */
void trainer_keep_statistics(struct trainer *trainer);
void trainer_restore_statistics(struct trainer *trainer);

/* Rank 0: tells of the updates that were left out since it was called last. */
void trainer_tell_skips(struct trainer *trainer);

/* Whether all workers have the same parameters after that many iterations; fails naming the first
 * rank that differs. Collective, servers included. */
int trainer_check_sync(struct trainer *trainer, int64_t iteration);

/* ---- damage.c ---- */

/* A sentence about the data, to the user. Any rank, any thread. */
void trainer_say_of_data(void *trainer, const char *text);

/* Gathers on rank 0 which records of all ranks' training and test data were left out, and says how
 * many. Collective; fails on all ranks together. */
int trainer_gather_damage(struct trainer *trainer);

/* ---- late.c ---- */

/* What follows does nothing where no rank waits for another. Not collective. */
int trainer_open_late(struct trainer *trainer);
void trainer_close_late(struct trainer *trainer);

/* So many doubles of this worker, after so many seconds of training, are added up over the workers
 * and judged: since the last time, who was late? Rank 0 says it and counts. */
size_t trainer_late_values(const struct trainer *trainer);
void trainer_put_late(struct trainer *trainer, double seconds, double *values);
void trainer_judge_late(struct trainer *trainer, int64_t iteration, const double *values);

/* What rank 0 has counted. */
void trainer_tell_late(const struct trainer *trainer, struct figures *figures);

/* ---- best.c ---- */

/* --keep-best, at set-up: finds the output, and what a run that goes on knows of it. Collective. */
int trainer_open_best(struct trainer *trainer);

/* After a test at that iteration: whether it is the best so far; all workers agree. The snapshot of
 * this iteration is to be kept. */
bool trainer_is_best(struct trainer *trainer, int64_t iteration);

/* ---- tester.c ---- */

/* One test of test net i at that iteration: runs its batches, spread over the workers, logs Caffe's
 * lines on rank 0, keeps the scores. *interrupted: a signal asks some rank to stop, and there are
 * no scores. Collective over the workers. */
int trainer_test(struct trainer *trainer, int i, int64_t iteration, bool *interrupted);

/* Averages BatchNorm's running sums over the workers; does nothing on dedicated servers. Every
 * worker calls it. */
int trainer_share_statistics(struct trainer *trainer);

/* ---- outcome.c ---- */

/* Before the nets are made: makes the recorder where one is asked for. Not collective. */
int trainer_open_trace(struct trainer *trainer);

/* Before sync_start: compares clocks. Collective. */
int trainer_start_clock(struct trainer *trainer);

/* After sync_close: gathers every rank's figures on rank 0. Collective; fails on all ranks
 * together. */
int trainer_gather_figures(struct trainer *trainer);

/* After training's synchronisation was destroyed: writes the trace, says where the time went.
 * Collective. */
int trainer_report(struct trainer *trainer);

/* paths.c: the files outside of the user's folder and the solver's that solver and nets name.
 * Rank 0. */
void trainer_log_paths(struct trainer *trainer);

/* start_log.c: the notices, the net's table, where it computes, what was asked for in vain. Rank 0.
 */
void trainer_log_start(struct trainer *t);

#endif
