/* The snapshot writer: a thread that writes snapshots while training goes on. The compute thread
 * hands it a copy of the moment and goes on; what takes long, composing, checksums and the disk, is
 * the writer's.
 *
 * Every snapshot is tried once, and the best until it is there. Another that cannot be written (no
 * space, an I/O error, a folder that is away) is tried again, 10 s later, then 20, and so on up to
 * five minutes, until it succeeds or the next one takes its place; each failure is a warning, and
 * what was written before stays. The best one has PREFIX_best as a second name, which it takes once
 * it is there; one that was saved only for being the best goes when a better one has that name. Not
 * collective: rank 0. */
#ifndef POSEIDON_SNAPSHOT_SNAPSHOT_WRITER_H
#define POSEIDON_SNAPSHOT_SNAPSHOT_WRITER_H

#include "snapshot/checkpoint.h"
#include "snapshot/kept_list.h"

struct snapshot_writer;

struct snapshot_writer_options {
    const char *prefix;    /* borrowed */
    bool binary;           /* Caffe's binary form */
    const struct net *net; /* borrowed, outlives the writer */
    int nhistory;          /* blocks of net->elems floats */
    int keep;              /* > 0: the number of snapshots that stay, besides the best one; older
                              ones that the writer knows of go when a new one is there */
    struct log *log;       /* borrowed */
    void *context;         /* of the three below; two on the writer's thread */
    int (*check)(void *context); /* before each writing; fails where nothing may be written */
    int (*written)(void *context, int64_t iteration); /* it is there */
    bool (*hurries)(void *context); /* in snapshot_writer_finish: whether to wait no longer */
};

/* Makes room for a copy: parameters and history once more. Starts the thread. */
int snapshot_writer_create(const struct snapshot_writer_options *options,
                           struct snapshot_writer **out);

/* A snapshot that was there before, for `keep`; those of the run, the oldest first. only_best: it
 * goes when a better one is there. */
int snapshot_writer_add(struct snapshot_writer *writer, int64_t iteration, bool only_best);

/* After these, and the best of them: removes what is not to stay, as an earlier start would have.
 */
void snapshot_writer_prune(struct snapshot_writer *writer);

/* The snapshot of that iteration, which is there or is handed over next, is the best by a score:
 * `keep` spares it until a better one is written. Which is handed over next is there only for being
 * the best. */
void snapshot_writer_mark_best(struct snapshot_writer *writer, int64_t iteration, double score);

/* The best one that is there; false: none is. */
bool snapshot_writer_best(struct snapshot_writer *writer, int64_t *iteration, double *score);

/* Copies the moment and returns; waits first until the snapshot before was tried. Fails as
 * checkpoint_fill does, and where one before could not be composed, or `check` forbade it: no later
 * one would do better. */
int snapshot_writer_save(struct snapshot_writer *writer, const float *history,
                         const struct train_state *state, const struct snapshot_owner *owner);

/* The snapshot of that iteration is to come: waits as snapshot_writer_save does, and removes the
 * files of one that it replaces. */
void snapshot_writer_make_room(struct snapshot_writer *writer, int64_t iteration);

/* The path of the newest state that is there; to be freed. NULL: none is. */
char *snapshot_writer_newest(struct snapshot_writer *writer);

/* Training is over: waits until all that was handed over is written, which is tried at least once,
 * and for at most `seconds`; makes the folder again if it is gone. Then -1 with the last
 * failure's message and the state that is left, or where the best snapshot is not there. NULL is
 * fine: 0. */
int snapshot_writer_finish(struct snapshot_writer *writer, double seconds);

/* How long the last snapshot took, from copy to disk; 0: there was none. */
double snapshot_writer_seconds(struct snapshot_writer *writer);

/* Ends the thread, after the writing that is under way; NULL is fine. */
void snapshot_writer_destroy(struct snapshot_writer *writer);

#endif
