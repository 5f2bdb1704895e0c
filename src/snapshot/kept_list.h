/* Which snapshots of a run stay, and which of them is the best: a plain list without files and
 * threads. Its owner tells it what has happened (a test was the best, a snapshot is on the disk,
 * PREFIX_best names it), and asks which snapshots are to be removed. */
#ifndef POSEIDON_SNAPSHOT_KEPT_LIST_H
#define POSEIDON_SNAPSHOT_KEPT_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct kept_best {
    int64_t iteration; /* -1: none */
    double score;
};

struct kept_list {
    int keep; /* > 0: the number of newest ones that stay, besides the best; 0: all that were due */
    struct kept {
        int64_t iteration;
        bool only_best; /* nothing but its score had it saved */
    } * entries;        /* on the disk, the oldest first. Owned */
    int count;
    struct kept_best best;    /* on the disk */
    struct kept_best awaited; /* the newest that was marked; the same as `best` once it is there */
    int64_t named;            /* the iteration that is PREFIX_best; -1: it is not known */
};

void kept_open(struct kept_list *list, int keep);
void kept_free(struct kept_list *list);

/* A snapshot is on the disk since before, or that the list is not to wait for. */
int kept_add(struct kept_list *list, int64_t iteration, bool only_best);

/* A test was the best so far; its snapshot is on the disk or on its way, or it comes next. */
void kept_mark_best(struct kept_list *list, int64_t iteration, double score);

/* Whether the best is to be of that iteration: a snapshot that begins only now is there for nothing
 * else. */
bool kept_is_awaited(const struct kept_list *list, int64_t iteration);

/* The snapshot of that iteration is on the disk. */
int kept_written(struct kept_list *list, int64_t iteration, bool only_best);

/* The best one on the disk is not PREFIX_best yet; it is now. */
bool kept_is_unnamed(const struct kept_list *list);
void kept_name_best(struct kept_list *list, int64_t iteration);

/* Takes one that is to be removed from the list; false: all may stay. The best one stays, and the
 * one that is PREFIX_best until the best is; all do while it is not known which that is. */
bool kept_take_surplus(struct kept_list *list, int64_t *iteration);

/* Of the newest; -1: there is none. */
int64_t kept_newest(const struct kept_list *list);

#endif
