/* Keeps the list of a run's snapshots: decides which stay, and which is the best. Uses neither
 * files nor threads. The snapshot writer reports events (a test was the best, a snapshot is on
 * disk, PREFIX_best names it), and asks which snapshots to remove. */
#ifndef POSEIDON_KEEP_KEPT_LIST_H
#define POSEIDON_KEEP_KEPT_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct kept_best {
    int64_t iteration; /* iteration of the snapshot; -1: none */
    double score;
};

struct kept_list {
    int keep; /* > 0: number of newest snapshots that stay besides the best; 0: all */
    struct kept {
        int64_t iteration;
        bool only_best; /* saved only because its test was the best, not by schedule */
    } * entries;        /* snapshots on disk, the oldest first. Owned */
    int count;
    struct kept_best best;    /* best snapshot on disk */
    struct kept_best awaited; /* newest snapshot marked as best; becomes `best` once on disk */
    int64_t named;            /* iteration of the snapshot that PREFIX_best names; -1: unknown */
};

/* Starts an empty list. */
void kept_open(struct kept_list *list, int keep);

/* Frees the entries. */
void kept_free(struct kept_list *list);

/* Adds a snapshot on disk from an earlier start of the run. Fails without memory. */
int kept_add(struct kept_list *list, int64_t iteration, bool only_best);

/* Marks the snapshot of `iteration` as the best so far, by its test's score. The snapshot is on
 * disk, is being written, or will be saved next. */
void kept_mark_best(struct kept_list *list, int64_t iteration, double score);

/* Returns true if the snapshot of `iteration` was the last to be marked as best. */
bool kept_is_awaited(const struct kept_list *list, int64_t iteration);

/* Notes that the snapshot of `iteration` is now on disk. Fails without memory. */
int kept_written(struct kept_list *list, int64_t iteration, bool only_best);

/* Returns true if the best snapshot on disk still lacks the name PREFIX_best. */
bool kept_is_unnamed(const struct kept_list *list);

/* Notes that PREFIX_best now names the snapshot of `iteration`. */
void kept_name_best(struct kept_list *list, int64_t iteration);

/* Removes a surplus snapshot from the list, for the caller to delete; returns false if all
 * snapshots stay. The best stays, and the former best until PREFIX_best names the new best. With
 * `keep` 0, snapshots saved by schedule stay. While `named` is unknown, all stay. */
bool kept_take_surplus(struct kept_list *list, int64_t *iteration);

/* Returns the iteration of the newest snapshot on disk; -1: none. */
int64_t kept_newest(const struct kept_list *list);

#endif
