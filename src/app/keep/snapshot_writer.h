/* The snapshot writer: a thread that writes snapshots while training goes on. The compute thread
 * copies the parameters and the history into the writer's memory and goes on; the writer composes
 * the files, computes their checksums and writes them to disk.
 *
 * The writer tries every snapshot at least once. A snapshot that cannot be written (no space, an
 * I/O error, a missing folder) is tried again 10 s later, then 20 s, and so on up to five minutes,
 * until it succeeds or the next snapshot takes its place; the best snapshot is never replaced
 * before it is written. Each failure is a warning, and older snapshots stay on disk. Once the best
 * snapshot is on disk it gets PREFIX_best as a second name; a snapshot that was saved only because
 * it was the best is removed when a better one has that name. Not collective: rank 0 calls. */
#ifndef POSEIDON_KEEP_SNAPSHOT_WRITER_H
#define POSEIDON_KEEP_SNAPSHOT_WRITER_H

#include "snapshot/checkpoint.h"
#include "keep/kept_list.h"

struct snapshot_writer;

struct snapshot_writer_options {
    const char *prefix;        /* borrowed */
    bool binary;               /* Caffe's binary form */
    const struct net *net;     /* borrowed, outlives the writer */
    int nhistory;              /* count of the history's blocks of net->elems floats */
    const struct net *average; /* the moving average of the net's weights, in host memory at every
                                  save; borrowed, outlives the writer; NULL: none */
    int keep; /* > 0: count of snapshots that stay, besides the best; the writer removes the oldest
                 that it knows after each new snapshot. 0: all stay */
    struct log *log; /* borrowed */
    void *context;   /* first argument of the three functions below; borrowed */
    /* Fails if the prefix is no longer this run's. Writer's thread, before each file. */
    int (*check)(void *context);
    /* Notes that the snapshot of this iteration is on disk; a failure makes the writer try again.
     * Writer's thread. */
    int (*written)(void *context, int64_t iteration);
    /* Returns true to end the wait of snapshot_writer_finish. Caller's thread. */
    bool (*hurries)(void *context);
};

/* Allocates a copy of parameters and history, and starts the thread. The caller destroys *out. */
int snapshot_writer_create(const struct snapshot_writer_options *options,
                           struct snapshot_writer **out);

/* Tells the writer of a snapshot that an earlier start of the run wrote, so that `keep` counts it.
 * Call once per snapshot, the oldest first. only_best: the snapshot was saved only because it was
 * the best, and is removed when a better one is on disk. Fails without memory. */
int snapshot_writer_add(struct snapshot_writer *writer, int64_t iteration, bool only_best);

/* Removes the snapshots that `keep` does not keep. A resumed run prunes after its calls of
 * snapshot_writer_add and snapshot_writer_mark_best. */
void snapshot_writer_prune(struct snapshot_writer *writer);

/* Marks the snapshot of `iteration` as the best, by its test's score. The snapshot is on disk, or
 * is saved next for this reason alone. `keep` spares the best until a better one is on disk. */
void snapshot_writer_mark_best(struct snapshot_writer *writer, int64_t iteration, double score);

/* Gets iteration and score of the best snapshot on disk; false: no snapshot on disk is marked. */
bool snapshot_writer_best(struct snapshot_writer *writer, int64_t *iteration, double *score);

/* Copies parameters, history (nhistory blocks of net->elems floats), state and owner, and returns
 * while the thread writes them. Waits first until the previous snapshot has been tried. Fails as
 * checkpoint_fill does. Fails also after a failed `check` or a snapshot that could not be composed:
 * every later snapshot would fail alike. */
int snapshot_writer_save(struct snapshot_writer *writer, const float *history,
                         const struct train_state *state, const struct snapshot_owner *owner);

/* Makes room for a snapshot's residuals (checkpoint_write_residuals). Waits as snapshot_writer_save
 * does, then removes an unfinished snapshot that the snapshot of `iteration` replaces. */
void snapshot_writer_make_room(struct snapshot_writer *writer, int64_t iteration);

/* Returns the path of the newest solver state on disk, for the caller to free; NULL: none. */
char *snapshot_writer_newest(struct snapshot_writer *writer);

/* Waits at the end of training, at most `seconds`, until every saved snapshot is on disk. Tries
 * each snapshot at least once, and makes a missing folder again. Fails if the last or the best
 * snapshot could not be written; the message has the last failure and the newest state on disk.
 * writer NULL: returns 0. */
int snapshot_writer_finish(struct snapshot_writer *writer, double seconds);

/* Returns the seconds from copy to disk of the last snapshot; 0 before the first snapshot. */
double snapshot_writer_seconds(struct snapshot_writer *writer);

/* Ends the thread, after the file that is being written; NULL is allowed. */
void snapshot_writer_destroy(struct snapshot_writer *writer);

#endif
