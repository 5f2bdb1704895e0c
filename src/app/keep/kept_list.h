/* Which snapshots of a run stay, and which of them is the best: a plain list without files and
 * threads. The snapshot writer tells the list what has happened (a test was the best, a snapshot is
 * on disk, PREFIX_best names it), and asks which snapshots to remove. */
#ifndef POSEIDON_KEEP_KEPT_LIST_H
#define POSEIDON_KEEP_KEPT_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct kept_best {
    int64_t iteration; /* -1: none */
    double score;
};

struct kept_list {
    int keep; /* > 0: newest snapshots that stay, besides the best; 0: all scheduled ones stay */
    struct kept {
        int64_t iteration;
        bool only_best; /* saved only because its test was the best, not by schedule */
    } * entries;        /* snapshots on disk, the oldest first. Owned */
    int count;
    struct kept_best best;    /* the best snapshot on disk */
    struct kept_best awaited; /* the newest snapshot marked as best; equal to `best` once on disk */
    int64_t named;            /* the iteration that PREFIX_best is a name of; -1: unknown */
};

/* Begins an empty list. */
void kept_open(struct kept_list *list, int keep);

/* Frees the entries. */
void kept_free(struct kept_list *list);

/* Adds a snapshot that is on disk and that nobody awaits: an earlier start of the run wrote it.
 * Fails without memory. */
int kept_add(struct kept_list *list, int64_t iteration, bool only_best);

/* The test of `iteration` was the best so far. The snapshot of that iteration is on disk, is being
 * written, or is saved next. */
void kept_mark_best(struct kept_list *list, int64_t iteration, double score);

/* Whether `iteration` is that of the snapshot marked as best last. */
bool kept_is_awaited(const struct kept_list *list, int64_t iteration);

/* The snapshot of `iteration` is now on disk. Fails without memory. */
int kept_written(struct kept_list *list, int64_t iteration, bool only_best);

/* Whether the best snapshot on disk still lacks the name PREFIX_best. */
bool kept_is_unnamed(const struct kept_list *list);

/* PREFIX_best is now a name of the snapshot of `iteration`. */
void kept_name_best(struct kept_list *list, int64_t iteration);

/* Takes a snapshot that shall be removed off the list; false if all shall stay. The best snapshot
 * stays; the former best one stays until PREFIX_best names the new one; and all stay while `named`
 * is unknown. */
bool kept_take_surplus(struct kept_list *list, int64_t *iteration);

/* The iteration of the newest snapshot on disk; -1 if there is none. */
int64_t kept_newest(const struct kept_list *list);

#endif
