/* Whose snapshots are written and read. Rank 0's; elsewhere empty, but for what is said to be on
 * all ranks. */
#ifndef POSEIDON_TRAIN_RUN_H
#define POSEIDON_TRAIN_RUN_H

#include "snapshot/checkpoint.h"
#include "snapshot/snapshot_writer.h"
#include "snapshot/prefix_lock.h"
#include "snapshot/run_file.h"
#include "train/job.h"
#include "util/sha256.h"
#include "util/strbuf.h"

struct course;
struct rates;
struct scores;
struct sync;

struct training_run {
    const struct job *job;          /* borrowed, as is the next */
    struct net *net;                /* to train; NULL: before it is made */
    bool keeps;                     /* snapshots are written: there are a lock and PREFIX.run */
    char *path;                     /* of PREFIX.run. Owned */
    struct run_file file;           /* as it is to be written. Owned */
    struct run_file found;          /* as it was found; .run "": there was none. Owned */
    struct prefix_lock *lock;       /* Owned */
    struct snapshot_writer *writer; /* writes them; NULL: before the first one. Owned */
    struct checkpoint_list list;    /* states under the prefix; of --resume. Owned */
    struct strbuf about;            /* what is trained, as the run's digest is made of. Owned */
    char digest[SHA256_HEX];
    int64_t global_batch;     /* of the run that is resumed; 0: it does not say. On all ranks */
    char *saved_plan;         /* likewise its plan; NULL: it says none. On all ranks. Owned */
    char *plan;               /* as it is written. Owned */
    char *model;              /* of the state that was read; NULL: none was. Owned */
    double residuals_bytes;   /* of a snapshot; 0: schemes have none. On all ranks */
    double residuals_seconds; /* that they took last, before the writer's work */
    double ends; /* rank 0's deadline, by this rank's clock_seconds; INFINITY: none. On all ranks */
};

/* Takes the prefix and finds which run is to go on; run->job is set, all else is zero. Before nets
 * are made. */
int run_open_all(struct training_run *run);

/* Whether the run that was found is this one, and goes on, after `about` and `digest` were made and
 * max_iter is known. Rank 0. */
int run_check_same(struct training_run *run);

/* The newest state of the run that can be read, into net, *history and *at; *resumed stays false
 * where it has none. Rank 0. */
int run_resume(struct training_run *run, float *history, struct train_state *at, bool *resumed);

/* Whether that state is one of the run's own snapshots, as it writes them: none to write again. */
bool run_has_written(const struct training_run *run, int64_t iteration);

/* Whether training from `at` on has nothing to do, not even a last test that was interrupted; says
 * so. Rank 0. */
bool run_is_finished(const struct training_run *run, const struct train_state *at);

/* The state that --snapshot names, likewise. */
int run_take_state(struct training_run *run, const char *path, float *history,
                   struct train_state *at);

/* Before sync_start: residuals of the state that was read, if one was (`resumed`), to those who
 * keep such. Collective. */
int run_load_residuals_all(struct training_run *run, struct sync *sync,
                           const struct train_state *at, bool resumed);

/* All ranks' residuals into files of the snapshot of state->iteration, and what they are into
 * state->residuals; where they cannot be written, none, with a warning. Collective. */
int run_save_residuals_all(struct training_run *run, struct sync *sync, struct train_state *state);

/* What of them belongs to no snapshot; not where the prefix is another run's by now. Rank 0. */
void run_drop_residuals(const struct training_run *run, int64_t iteration);

/* --keep-best: the best test of a run that goes on is one whose snapshot is there. Collective. */
int run_find_best_all(struct training_run *run, bool resumed, struct scores *scores);

/* Training begins at iteration `first` with that plan, which becomes the run's; training is over in
 * order: into PREFIX.run. A start that is the fourth in a row without a snapshot further on fails.
 * Rank 0. */
int run_begin(struct training_run *run, int64_t first, char *plan);
int run_end(struct training_run *run, bool stopped);

/* Where snapshots are to come, takes the memory for them now; rank 0. */
int run_expect_saving(struct training_run *run);

/* Keeps this moment, without waiting for the disk; that iteration is to come. Rank 0, with the
 * values and the history on the host. Fails where some of them are not finite, where another run
 * has the prefix now, and where no snapshot can be composed. */
int run_save(struct training_run *run, const struct rates *rates, const float *history,
             const struct train_state *state);

/* Training is over after `end` iterations: fails where the parameters are not all finite; those of
 * a snapshot were looked at. Rank 0. */
int run_check_values(struct training_run *run, const struct rates *rates, int64_t end);

/* The snapshot of iteration course->best, written or to come, stays, where the best is kept. Rank
 * 0.
 */
int run_mark_best(struct training_run *run, const struct course *course);

/* The path under which the best model stays. Freed by the caller; NULL: no memory. */
char *run_best_model(const struct training_run *run);

/* Until the last snapshot is written; fails where it cannot be. patient: it is tried as long as the
 * run may last. Rank 0. */
int run_finish_saving(struct training_run *run, bool patient);

/* Seconds that a snapshot takes until it is written; before the first one an estimate. Rank 0. */
double run_saving_seconds(const struct training_run *run);

/* Training failed, with its message, which stays: what was handed over is still written, and the
 * prefix is free. */
void run_abandon(struct training_run *run);

/* Frees it all, and the prefix. */
void run_close(struct training_run *run);

#endif
