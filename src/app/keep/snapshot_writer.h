/* Writes snapshots in a thread, during training. The compute thread copies the parameters and the
 * history into the writer's memory and continues; the writer composes the files, computes their
 * checksums and writes them to disk.
 *
 * The writer tries every snapshot at least once. A snapshot that cannot be written (no space, an
 * I/O error, a missing folder) is tried again after 10 s, then 20 s, and so on up to five minutes,
 * until it succeeds or the next snapshot replaces it; the best snapshot is never replaced before it
 * is written. Each failure is a warning, and older snapshots stay on disk. The best snapshot on
 * disk gets PREFIX_best as a second name. A snapshot that was saved only as the best is removed
 * when a better one has that name. Not collective: rank 0 calls. */
#ifndef POSEIDON_KEEP_SNAPSHOT_WRITER_H
#define POSEIDON_KEEP_SNAPSHOT_WRITER_H

#include "snapshot/checkpoint.h"
#include "keep/kept_list.h"

struct snapshot_writer;

struct snapshot_writer_options {
    const char *prefix;        /* borrowed */
    bool binary;               /* Caffe's binary format */
    const struct net *net;     /* borrowed, outlives the writer */
    int nhistory;              /* number of history blocks, each of net->elems floats */
    const struct net *average; /* moving average of the net's weights, in host memory at every save;
                                  NULL: none. Borrowed, outlives the writer */
    int keep; /* > 0: number of snapshots to keep besides the best; the oldest known to the writer
                 is removed after each new snapshot. 0: all stay */
    struct log *log; /* borrowed */
    void *context;   /* first argument of the three functions below; borrowed */
    /* Fails if another run holds the prefix. Writer's thread, before each file. */
    int (*check)(void *context);
    /* Notes that the snapshot of `iteration` is on disk; on failure the writer tries again.
     * Writer's thread. */
    int (*written)(void *context, int64_t iteration);
    /* Returns true to make snapshot_writer_finish give up. Caller's thread. */
    bool (*hurries)(void *context);
};

/* Allocates a copy of parameters and history, and starts the thread. The caller destroys *out. */
int snapshot_writer_create(const struct snapshot_writer_options *options,
                           struct snapshot_writer **out);

/* Adds a snapshot of an earlier start of the run, so that `keep` counts it; once per snapshot, the
 * oldest first. only_best: the snapshot was saved only as the best, and is removed when a better
 * one is on disk. Fails without memory. */
int snapshot_writer_add(struct snapshot_writer *writer, int64_t iteration, bool only_best);

/* Removes surplus snapshots, by `keep`. A resumed run calls this after snapshot_writer_add and
 * snapshot_writer_mark_best. */
void snapshot_writer_prune(struct snapshot_writer *writer);

/* Marks the snapshot of `iteration` as the best, by its test's score: it is on disk, or saved next
 * only as the best. The former best stays until the new best is on disk. */
void snapshot_writer_mark_best(struct snapshot_writer *writer, int64_t iteration, double score);

/* Returns iteration and score of the best snapshot on disk; false: there is none. */
bool snapshot_writer_best(struct snapshot_writer *writer, int64_t *iteration, double *score);

/* Copies parameters, history (nhistory blocks of net->elems floats), state and owner, for the
 * thread to write. Waits until the previous snapshot was tried once. Fails like checkpoint_fill,
 * and after a failed `check` or a snapshot that could not be composed, since later snapshots would
 * fail, too. */
int snapshot_writer_save(struct snapshot_writer *writer, const float *history,
                         const struct train_state *state, const struct snapshot_owner *owner);

/* Makes room on disk for a snapshot's residuals (checkpoint_write_residuals). Waits like
 * snapshot_writer_save, then removes an unfinished snapshot that the snapshot of `iteration`
 * replaces. */
void snapshot_writer_make_room(struct snapshot_writer *writer, int64_t iteration);

/* Returns the path of the newest solver state on disk, for the caller to free; NULL: none. */
char *snapshot_writer_newest(struct snapshot_writer *writer);

/* Waits up to `seconds` at the end of training until every saved snapshot is on disk. Tries each
 * snapshot at least once, and creates a missing folder. Fails if the last or the best snapshot
 * could not be written; the message has the last failure and the newest state on disk. writer NULL:
 * returns 0. */
int snapshot_writer_finish(struct snapshot_writer *writer, double seconds);

/* Cost of the last snapshot; zeros before the first snapshot. */
struct snapshot_cost {
    double seconds; /* seconds from copy to disk */
    double work;    /* processor seconds of the thread */
    bool pending;   /* a snapshot waits for its first try, or is being written */
};

/* Returns the cost; writer NULL: zeros. */
struct snapshot_cost snapshot_writer_cost(struct snapshot_writer *writer);

/* Ends the thread after the file being written; NULL is allowed. */
void snapshot_writer_destroy(struct snapshot_writer *writer);

#endif
