/* The run: whose snapshots are written and resumed, under which prefix. Rank 0 holds it; on other
 * ranks all fields are zero but those marked "on all ranks". */
#ifndef POSEIDON_KEEP_RUN_H
#define POSEIDON_KEEP_RUN_H

#include "snapshot/checkpoint.h"
#include "keep/snapshot_writer.h"
#include "keep/prefix_lock.h"
#include "keep/run_file.h"
#include "job/job.h"
#include "util/sha256.h"
#include "util/strbuf.h"

struct course;
struct rates;
struct scores;
struct sync;

struct training_run {
    const struct job *job; /* borrowed, as are both nets */
    bool (*told_to_stop)(const enum signal_effect effects[SIGNALS]); /* signals_stop_pending */
    struct net *net;                /* to train; NULL: before it is made */
    struct net *average;            /* its parameters average the weights; NULL: no average */
    bool keeps;                     /* the run writes snapshots: it has a lock and PREFIX.run */
    char *path;                     /* of PREFIX.run. Owned */
    struct run_file file;           /* PREFIX.run as this run writes it. Owned */
    struct run_file found;          /* PREFIX.run as found at start; .run "": no file. Owned */
    struct prefix_lock *lock;       /* Owned */
    struct snapshot_writer *writer; /* NULL before the first snapshot. Owned */
    struct checkpoint_list list;    /* solver states under the prefix, for --resume. Owned */
    struct strbuf about;            /* text of what is trained, hashed in `digest`. Owned */
    char digest[SHA256_HEX];
    int64_t global_batch;     /* of the resumed run; 0: unknown. On all ranks */
    char *saved_plan;         /* plan of the resumed run; NULL: unknown. On all ranks. Owned */
    char *plan;               /* plan of this run, for its snapshots. Owned */
    char *model;              /* path of the resumed model; NULL: none. Owned */
    double residuals_bytes;   /* per snapshot; 0: the schemes have none. On all ranks */
    double residuals_seconds; /* of the last writing of residuals */
    double ends; /* rank 0's deadline, by this rank's clock_seconds; INFINITY: none. On all ranks */
};

/* Locks the prefix and finds the run to resume. run->job and told_to_stop are set, all other
 * fields are zero. Before nets are made. Collective. */
int run_open_all(struct training_run *run);

/* Fails if the run to resume trains something else; after `about`, `digest` and max_iter are known.
 * Rank 0. */
int run_check_same(struct training_run *run);

/* Reads the run's newest readable solver state into the net, `history` and *at. *resumed stays
 * false if the run has no state. Rank 0. */
int run_resume(struct training_run *run, float *history, struct train_state *at, bool *resumed);

/* Whether the resumed state is this run's own snapshot of `iteration`, in the form in which the run
 * writes, so that it need not be written again. */
bool run_has_written(const struct training_run *run, int64_t iteration);

/* Whether training from `at` has nothing left to do, not even an interrupted last test; logs it.
 * Rank 0. */
bool run_is_finished(const struct training_run *run, const struct train_state *at);

/* Reads the solver state of --snapshot=FILE into the net, `history` and *at. Rank 0. */
int run_take_state(struct training_run *run, const char *path, float *history,
                   struct train_state *at);

/* Deals the residuals of the resumed state (if `resumed`) to the ranks that keep them. Before
 * sync_start. Collective. */
int run_load_residuals_all(struct training_run *run, struct sync *sync,
                           const struct train_state *at, bool resumed);

/* Writes all ranks' residuals to files of the snapshot of state->iteration, and lists them in
 * state->residuals; if they cannot be written, the list is empty, with a warning. Collective. */
int run_save_residuals_all(struct training_run *run, struct sync *sync, struct train_state *state);

/* Removes residuals of `iteration` that belong to no snapshot, unless another run has the prefix.
 * Rank 0. */
void run_drop_residuals(const struct training_run *run, int64_t iteration);

/* --keep-best: finds the best test whose snapshot exists, of a resumed run. Collective. */
int run_find_best_all(struct training_run *run, bool resumed, struct scores *scores);

/* Notes in PREFIX.run that training begins at iteration `first` with `plan`, which the run takes
 * over. Fails if it is the fourth start in a row without a newer snapshot. Rank 0. */
int run_begin(struct training_run *run, int64_t first, char *plan);

/* Notes in PREFIX.run that training ended; stopped: before max_iter. Rank 0. */
int run_end(struct training_run *run, bool stopped);

/* Allocates the memory for snapshots, if the run writes any. Rank 0. */
int run_expect_saving(struct training_run *run);

/* Copies parameters (host memory), history and state, to be written as a snapshot while training
 * goes on. Fails if a value is not finite, if another run has the prefix, and if an earlier
 * snapshot could not be composed. Rank 0. */
int run_save(struct training_run *run, const struct rates *rates, const float *history,
             const struct train_state *state);

/* After the last iteration, number `end`: fails if a parameter is not finite, unless a snapshot of
 * that iteration has compared them. Rank 0. */
int run_check_values(struct training_run *run, const struct rates *rates, int64_t end);

/* --keep-best: keeps the snapshot of iteration course->best, which is written or saved next. Rank
 * 0. */
int run_mark_best(struct training_run *run, const struct course *course);

/* Path of the best model, for the caller to free; NULL: no memory. */
char *run_best_model(const struct training_run *run);

/* Waits until the last snapshot is on disk; fails if it cannot be written. patient: retries until
 * the run's deadline. Rank 0. */
int run_finish_saving(struct training_run *run, bool patient);

/* Seconds from copy to disk of a snapshot; before the first one an estimate. Rank 0. */
double run_saving_seconds(const struct training_run *run);

/* After a failure of training, whose message stays: writes the snapshots that were copied, and
 * unlocks the prefix. */
void run_abandon(struct training_run *run);

/* Unlocks the prefix and frees everything. */
void run_close(struct training_run *run);

#endif
