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
 * A killed or stopped run loses only what happened after its last snapshot. A run that is resumed
 * at iteration N tests again there, as Caffe does; since `counted` is in the snapshot, that test
 * counts once, whether the snapshot was written before or after it. So best and early are those of
 * a run that never stopped. keep/kept_list.h decides which files stay. */
#ifndef POSEIDON_JOB_COURSE_H
#define POSEIDON_JOB_COURSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct course {
    /* settings; constant */
    int64_t first;              /* iteration that training starts with */
    int test_every, save_every; /* iterations; 0: never */
    bool tests_first;           /* a test before iteration 0 */
    bool tests_last;            /* a test after the last iteration, even if test_every says no */
    bool saves, saves_last;     /* snapshots are written; also after the last iteration */
    bool keeps_best;
    int stop_after; /* > 0: end of training after this number of tests in a row without a better
                       score */
    int best_sign, early_sign; /* 1: a larger score is better; -1: a smaller one */

    /* state */
    struct course_best {
        int64_t iteration; /* -1: no test. Never 0, which is before any training */
        double score;
    } best;
    struct course_early {
        int64_t iteration;
        double score; /* NAN: none yet */
        int tests;    /* tests since `iteration` */
    } early;
    int64_t counted; /* iteration of the last test counted for the early stop; -1: none */
    int64_t saved;   /* iteration of the last snapshot begun, or resumed from; -1: none */
};

/* Returns true if a test or a snapshot of every `every` iterations (0: never) is due at
 * `iteration`. */
static inline bool course_is_due(int every, int64_t iteration)
{
    return every > 0 && iteration % every == 0;
}

/* Sets the state to no tests and no snapshots; the settings stay. */
void course_open(struct course *course);

/* Returns true if a test is due before `iteration`. */
bool course_tests_at(const struct course *course, int64_t iteration);

/* Returns true if a snapshot is due before `iteration`. */
bool course_saves_at(const struct course *course, int64_t iteration);

/* Returns true if a test is due after the last iteration. end: number of iterations done. */
bool course_tests_last(const struct course *course, int64_t end);

/* Returns true if a snapshot is due after the last iteration. stopped: a signal or a time limit
 * ended training early, and asks for a snapshot. */
bool course_saves_last(const struct course *course, int64_t end, bool stopped);

/* Flags that course_tested returns. */
enum {
    COURSE_BETTER = 1, /* the test is the best so far */
    COURSE_SAVE = 2,   /* a snapshot of the test's iteration must be written, and has not begun */
    COURSE_FRUITLESS = 4, /* the test counted for the early stop, without a better score */
};
int course_tested(struct course *course, int64_t iteration, double score, double early_score);

/* Returns true if training must end: stop_after tests in a row had no better score. */
bool course_is_over(const struct course *course);

/* Notes that the snapshot of `iteration` begins. */
void course_saved(struct course *course, int64_t iteration);

/* Writes best, early and counted as text for a snapshot. name: the output whose score decides the
 * best. */
void course_remember(const struct course *course, const char *name, char *text, size_t bytes);

/* Reads the text of course_remember. Takes `best` only if output `name` decided it. Returns false
 * if the text is damaged. */
bool course_recall(struct course *course, const char *name, const char *text);

/* Returns the best test whose snapshot exists, for --keep-best of a resumed run: `noted` from
 * PREFIX.run, or the recalled test. `noted` may be later than the resumed iteration, or older than
 * the recalled test, whose snapshot may be removed after a better one. *gone: the better of both if
 * neither snapshot exists; else iteration -1. */
struct course_best course_find_best(const struct course *course, struct course_best noted,
                                    bool (*file_exists)(const void *context, int64_t iteration),
                                    const void *context, struct course_best *gone);

#endif
