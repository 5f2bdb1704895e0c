/* The run: name and prefix of the snapshots that training writes and resumes from. Rank 0 holds the
 * run. On other ranks all fields are zero except those marked "on all ranks". */
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
    struct net *net;     /* net to train; NULL: before it is made */
    struct net *average; /* net whose parameters average the weights; NULL: no average */
    struct run_shared {
        bool resumes;         /* a state is read on rank 0, or starting fails */
        int64_t global_batch; /* samples per iteration of the resumed run; 0: unknown */
        double ends;          /* rank 0's deadline in this rank's clock_seconds; INFINITY: none */
    } shared;                 /* found by rank 0. On all ranks */
    bool keeps;               /* snapshots are written, with a lock and PREFIX.run */
    char *path;               /* path of PREFIX.run. Owned */
    struct run_file file;     /* PREFIX.run as the run writes it. Owned */
    struct run_file found;    /* PREFIX.run at the start; .run "": no file. Owned */
    struct run_pulse pulse;   /* this start's; `seen` is set when it is written */
    struct prefix_lock *lock; /* Owned */
    struct snapshot_writer *writer; /* NULL before the first snapshot. Owned */
    struct checkpoint_list list;    /* solver states under the prefix, for --resume. Owned */
    struct strbuf about;            /* description of what is trained, hashed in `digest`. Owned */
    char digest[SHA256_HEX];
    char *saved_plan;         /* plan of the resumed run; NULL: unknown. On all ranks. Owned */
    char *plan;               /* plan of this run, for its snapshots. Owned */
    char *model;              /* path of the resumed model; NULL: none. Owned */
    double residuals_bytes;   /* bytes of residuals per snapshot; 0: none. On all ranks */
    double residuals_seconds; /* seconds of the last writing of residuals */
    double stall;             /* seconds that the last snapshot stopped training */
    bool told_pace;           /* the log has said how far apart snapshots are */
};

/* Locks the prefix and finds the run to resume; before nets are made. The caller has set run->job
 * and told_to_stop, and zeroed the rest. Collective. */
int run_open_all(struct training_run *run);

/* Fails if the run to resume trains something else. After `about`, `digest` and max_iter are known.
 * Rank 0. */
int run_check_same(struct training_run *run);

/* Reads the run's newest readable solver state into the net, `history` and *at. *resumed stays
 * false if the run has no state. Rank 0. */
int run_resume(struct training_run *run, float *history, struct train_state *at, bool *resumed);

/* Returns true if the resumed state is this run's own snapshot of `iteration`, in the file format
 * that the run writes, so that no new snapshot is needed. */
bool run_has_written(const struct training_run *run, int64_t iteration);

/* Returns true if training from `at` has nothing left to do, not even an interrupted last test, and
 * logs this. Rank 0. */
bool run_is_finished(const struct training_run *run, const struct train_state *at);

/* Reads the solver state of --snapshot=FILE into the net, `history` and *at. Rank 0. */
int run_take_state(struct training_run *run, const char *path, float *history,
                   struct train_state *at);

/* Distributes the resumed state's residuals (if `resumed`) to the ranks that keep them; before
 * sync_start. Collective. */
int run_load_residuals_all(struct training_run *run, struct sync *sync,
                           const struct train_state *at, bool resumed);

/* Writes all ranks' residuals to files of the snapshot of state->iteration, and lists the files in
 * state->residuals. After a failure warns and leaves the list empty. Collective. */
int run_save_residuals_all(struct training_run *run, struct sync *sync, struct train_state *state);

/* Removes residuals of `iteration` that belong to no snapshot, unless another run holds the prefix.
 * Rank 0. */
void run_drop_residuals(const struct training_run *run, int64_t iteration);

/* Finds the best test of a resumed run whose snapshot exists (--keep-best). Collective. */
int run_find_best_all(struct training_run *run, bool resumed, struct scores *scores);

/* Notes in PREFIX.run that training begins at iteration `first`. Takes ownership of `plan`. Fails
 * at the fourth start in a row that got no further. Rank 0. */
int run_begin(struct training_run *run, int64_t first, char *plan);

/* Notes that `reached` iterations are done, after this start's seconds of training with its tests,
 * and of standing still for snapshots. Before each iteration. Rank 0. */
void run_beat(struct training_run *run, int64_t reached, double trained, double saving);

/* Returns the sums over all starts of the run up to the last run_beat. Rank 0. */
struct run_ledger run_ledger(const struct training_run *run);

/* Notes in PREFIX.run that training ended. stopped: before max_iter. Rank 0. */
int run_end(struct training_run *run, bool stopped);

/* Allocates the memory for snapshots, if the run writes any. Rank 0. */
int run_expect_saving(struct training_run *run);

/* Copies parameters (host memory), history and state, to be written as a snapshot during training.
 * Fails if a value is not finite, if another run holds the prefix, or if an earlier snapshot could
 * not be composed. Rank 0. */
int run_save(struct training_run *run, const struct rates *rates, const float *history,
             const struct train_state *state);

/* Fails if a parameter is not finite after the last iteration, number `end`. Rank 0. */
int run_check_values(struct training_run *run, const struct rates *rates, int64_t end);

/* Marks the snapshot of course->best as the best (--keep-best); it is on disk or saved next. Rank
 * 0. */
int run_mark_best(struct training_run *run, const struct course *course);

/* Returns the path of the best model, for the caller to free; NULL: no memory. */
char *run_best_model(const struct training_run *run);

/* Waits until the last snapshot is on disk; fails if it cannot be written. patient: retries until
 * the run's deadline. Rank 0. */
int run_finish_saving(struct training_run *run, bool patient);

/* Returns the seconds from copy to disk of a snapshot; an estimate before the first one. Rank 0. */
double run_saving_seconds(const struct training_run *run);

/* Parses --snapshot-every into a struct saving_pace: a duration, or a fraction of the time as
 * "1%". */
int saving_pace_parse(const char *option, const char *text, void *target);

/* Returns true if --snapshot-every wants a snapshot `since` seconds after the last one. With a
 * fraction P%: if `since` is at least saving_apart. Logs once if snapshots become rare. Rank 0. */
bool run_saving_is_due(struct training_run *run, double since);

/* Returns the seconds between two snapshots, each of which costs `each` seconds: training's stall
 * plus the writer's processor time. They are at most the fraction `share` of the time. A run of
 * many starts saves sooner where that loses less (Young, CACM 17(9), 1974); so does a young run, at
 * most at four times that share. */
double saving_apart(double share, double each, const struct run_ledger *sum);

/* Writes copied snapshots and unlocks the prefix after a failure, whose error message is kept. */
void run_abandon(struct training_run *run);

/* Unlocks the prefix and frees everything. */
void run_close(struct training_run *run);

#endif
