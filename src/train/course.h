/* The course of a training between its iterations: which tests and snapshots are due, which test
 * was the best, and whether training stops early. Plain numbers, without files or threads: the
 * training loop reports each event by a function.
 *
 *     event               function          what it changes
 *     a test is over      course_tested     best, early, counted
 *     a snapshot begins   course_remember   nothing: the snapshot keeps the three
 *                         course_saved      saved
 *     a run is resumed    course_recall     the three are those of its snapshot
 *
 * A kill and a stop change nothing: what they lose is what the snapshot does not have. A run that
 * is resumed at iteration N tests again there, as Caffe does; since `counted` is in the snapshot,
 * that test counts once, whether the snapshot came before it or after it. So best and early are
 * those of the run that never stopped. Which files stay is for snapshot/kept_list.h. */
#ifndef POSEIDON_TRAIN_COURSE_H
#define POSEIDON_TRAIN_COURSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct course {
    /* what is asked for; constant */
    int64_t first;              /* the iteration that training starts with */
    int test_every, save_every; /* iterations; 0: never */
    bool tests_first;           /* before iteration 0, too */
    bool tests_last;            /* behind the last iteration, whatever test_every divides */
    bool saves, saves_last;     /* snapshots are written; behind the last iteration, too */
    bool keeps_best;
    int stop_after;            /* > 0: tests in a row without a better one that end training */
    int best_sign, early_sign; /* of these scores more is better: 1; less is: -1 */

    /* what has happened */
    struct course_best {
        int64_t
            iteration; /* -1: none. Nothing is trained at iteration 0, and it is never the best */
        double score;
    } best;
    struct course_early {
        int64_t iteration;
        double score; /* NAN: none yet */
        int tests;    /* since then */
    } early;
    int64_t counted; /* the last test of test_every that counted; -1: none */
    int64_t saved;   /* the last snapshot that was begun, or that training starts from; -1: none */
};

/* Whether a test or a snapshot of every `every` iterations (0: never) is due at `iteration`. */
static inline bool course_is_due(int every, int64_t iteration)
{
    return every > 0 && iteration % every == 0;
}

/* What has happened: nothing. */
void course_open(struct course *course);

/* What is due before that iteration. */
bool course_tests_at(const struct course *course, int64_t iteration);
bool course_saves_at(const struct course *course, int64_t iteration);

/* What is due behind the last one, after `end` iterations. stopped: before its time, and that asks
 * for a snapshot. */
bool course_tests_last(const struct course *course, int64_t end);
bool course_saves_last(const struct course *course, int64_t end, bool stopped);

/* A test is over, whose score for the best and whose score for the early stop are these: a sum of
 * what follows. */
enum {
    COURSE_BETTER = 1,    /* it is the best so far */
    COURSE_SAVE = 2,      /* its snapshot is to be kept, and has not begun */
    COURSE_FRUITLESS = 4, /* it counted, and was no better for the early stop */
};
int course_tested(struct course *course, int64_t iteration, double score, double early_score);

/* Whether stop_after tests in a row were no better, so that training is to end. */
bool course_is_over(const struct course *course);

/* The snapshot of that iteration begins. */
void course_saved(struct course *course, int64_t iteration);

/* What a snapshot keeps, as text; name: of the score that best is by. And back: best only where it
 * is by that name. False: the text is none of these. */
void course_remember(const struct course *course, const char *name, char *text, size_t bytes);
bool course_recall(struct course *course, const char *name, const char *text);

/* --keep-best, of a run that is resumed: the best test whose snapshot is there, of the one that
 * PREFIX.run notes (`noted`) and the one that was recalled. PREFIX.run's may be of an iteration
 * that the run has left behind, or older than the other; the recalled one's snapshot may have gone
 * when a better one came. *gone: one that should be there, and no other is; its iteration is -1:
 * none. */
struct course_best course_find_best(const struct course *course, struct course_best noted,
                                    bool (*file_exists)(const void *context, int64_t iteration),
                                    const void *context, struct course_best *gone);

#endif
