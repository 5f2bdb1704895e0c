/* Tests, snapshots, stops, kills and resumes in all orders. A training of a few iterations is
 * played on a disk in memory: its files appear and go one by one, and at any moment between two of
 * them it may be killed, or told to stop, and is resumed, up to twice. The judge is the run that
 * never stopped. Only the moments are played here: what is due, what counts and what stays is
 * course.c's and kept_list.c's. */
#include "keep/kept_list.h"
#include "job/course.h"
#include "tests/suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* Without the note that Check takes of each assertion in a file: there are millions. */
#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

enum { END = 6, FAULTS = 2, NONE = -1 };
enum fault_kind { NO_FAULT, STOP, KILL };

/* At the moment of that number, after the writer has taken so many steps more. */
struct fault {
    enum fault_kind kind;
    int moment, steps;
};

struct setting {
    const char *name;
    double scores[END + 1]; /* by iteration */
    int test_every, save_every, keep, stop_after;
    bool keeps_best;
};

enum writer_step { WRITE_MODEL, WRITE_STATE, NOTE, PRUNE, LINK_MODEL, LINK_STATE, NOTE_NAMED };

struct disk {
    bool model[END + 1], state[END + 1];
    char memory[END + 1][256];  /* of a state */
    int best_model, best_state; /* which iterations PREFIX_best's two files are */
    struct course_best noted;   /* by PREFIX.run */
    bool done;                  /* likewise: the run came to its end */
    bool extra[END + 1];        /* snapshots that may be there without being due */
};

/* A process that trains. */
struct process {
    const struct setting *setting;
    struct disk *disk;
    struct course course;
    struct kept_list kept;
    int pending; /* the snapshot that was handed over, and is not written; NONE */
    bool only_best;
    char memory[256];
    enum writer_step step;
    struct fault fault;
    bool eager; /* the writer is never behind */
    bool stopping, dead,
        spent; /* told to stop; killed; the fault asks for more steps than there are */
    int moments;
};

static const struct setting settings[] = {
    {"each iteration is saved", {.1, .2, .5, .3, .5, .4, .1}, 1, 1, 0, 3, true},
    {"no snapshot but the best", {.1, .2, .5, .3, .2, .6, .1}, 1, 0, 0, 3, true},
    {"the last test is the best", {.1, .4, .3, .2, .5, .3, .9}, 2, 3, 1, 0, true},
    {"the best is not kept", {.1, .4, .3, .5, .2, .3, .1}, 1, 2, 0, 2, false},
    {"one stays besides the best", {.9, .2, .3, .4, .3, .2, .1}, 1, 2, 1, 3, true},
    {"scores that are no numbers", {.1, NAN, .3, NAN, .2, .1, .6}, 1, 2, 2, 4, true},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* ---- the writer ---- */

static bool has_work(const struct process *p)
{
    return p->pending != NONE || p->step != WRITE_MODEL || kept_is_unnamed(&p->kept);
}

static void note(struct process *p)
{
    if (p->kept.best.iteration >= 0)
        p->disk->noted = (struct course_best){p->kept.best.iteration, p->kept.best.score};
}

/* As writer.c has it: the model before its state, PREFIX.run before anything is removed, the names
 * of the best last. */
static void writer_step(struct process *p)
{
    struct disk *disk = p->disk;
    int64_t surplus;

    if (!has_work(p))
        return;
    switch (p->step) {
    case WRITE_MODEL:
        if (p->pending != NONE) {
            disk->model[p->pending] = true;
            p->step = WRITE_STATE;
        } else
            p->step = LINK_MODEL;
        break;
    case WRITE_STATE:
        disk->state[p->pending] = true;
        strcpy(disk->memory[p->pending], p->memory);
        HOLDS(kept_written(&p->kept, p->pending, p->only_best) == 0);
        p->step = NOTE;
        break;
    case NOTE:
        note(p);
        p->pending = NONE;
        p->step = PRUNE;
        break;
    case PRUNE:
        if (kept_take_surplus(&p->kept, &surplus))
            disk->state[surplus] = disk->model[surplus] = false;
        else
            p->step = WRITE_MODEL;
        break;
    case LINK_MODEL:
        disk->best_model = (int)p->kept.best.iteration;
        p->step = LINK_STATE;
        break;
    case LINK_STATE:
        disk->best_state = (int)p->kept.best.iteration;
        p->step = NOTE_NAMED;
        break;
    case NOTE_NAMED:
        note(p);
        kept_name_best(&p->kept, p->kept.best.iteration);
        p->step = PRUNE;
        break;
    }
}

static void drain(struct process *p)
{
    while (has_work(p))
        writer_step(p);
}

/* ---- the compute thread ---- */

/* A moment at which something may happen; false: the process is dead. */
static bool lives(struct process *p)
{
    if (p->dead)
        return false;
    if (p->eager)
        drain(p);
    if (p->moments++ != p->fault.moment || p->fault.kind == NO_FAULT)
        return true;
    for (int i = 0; i < p->fault.steps && !p->spent; i++) {
        p->spent = !has_work(p);
        writer_step(p);
    }
    p->stopping |= p->fault.kind == STOP;
    p->dead |= p->fault.kind == KILL;
    for (int i = 0; i < p->kept.count && p->dead; i++)
        p->disk->extra[p->kept.entries[i].iteration] |= p->kept.entries[i].only_best;
    return !p->dead;
}

/* The next snapshot waits for the one before. */
static void save(struct process *p, int iteration)
{
    if (p->pending != NONE)
        drain(p);
    course_saved(&p->course, iteration);
    course_remember(&p->course, "accuracy", p->memory, sizeof p->memory);
    p->pending = iteration;
    p->only_best = kept_is_awaited(&p->kept, iteration);
}

/* Interrupted where a stop comes during it. False: dead. */
static bool test(struct process *p, int iteration, bool *interrupted)
{
    double score = p->setting->scores[iteration];
    int effects;

    *interrupted = p->stopping;
    if (!lives(p))
        return false;
    *interrupted |= p->stopping;
    if (*interrupted)
        return true;
    effects = course_tested(&p->course, iteration, score, score);
    if ((effects & COURSE_BETTER) && p->course.keeps_best)
        kept_mark_best(&p->kept, iteration, score);
    if (!lives(p))
        return false;
    if (effects & COURSE_SAVE)
        save(p, iteration);
    return lives(p);
}

/* As loop.c has it. False: dead. */
static bool run(struct process *p)
{
    int i = (int)p->course.first;
    bool interrupted = false, stopped = false;

    for (; i < END; i++) {
        stopped = p->stopping || course_is_over(&p->course);
        if (!stopped && course_saves_at(&p->course, i))
            save(p, i);
        if (!lives(p))
            return false;
        if (!stopped && course_tests_at(&p->course, i) && !test(p, i, &interrupted))
            return false;
        stopped |= p->stopping || course_is_over(&p->course);
        if (stopped)
            break;
    }
    if (course_saves_last(&p->course, i, p->stopping))
        save(p, i);
    if (p->stopping)
        p->disk->extra[i] = true;
    if (!lives(p) || (!stopped && course_tests_last(&p->course, i) && !test(p, i, &interrupted)))
        return false;
    stopped |= interrupted;
    while (has_work(p)) {
        if (!lives(p))
            return false;
        writer_step(p);
    }
    p->disk->done = !(stopped && p->stopping);
    return true;
}

/* ---- a start ---- */

static bool is_there(const void *context, int64_t iteration)
{
    return ((const struct disk *)context)->state[iteration];
}

/* As run.c has it: from the newest state there is. */
static void start(struct process *p, const struct setting *s, struct disk *disk)
{
    struct course_best gone;
    int newest = END;
    int64_t surplus;

    while (newest >= 0 && !disk->state[newest])
        newest--;
    *p = (struct process){.setting = s, .disk = disk, .pending = NONE};
    p->course = (struct course){.first = newest < 0 ? 0 : newest,
                                .test_every = s->test_every,
                                .save_every = s->save_every,
                                .tests_first = true,
                                .saves = true,
                                .saves_last = true,
                                .keeps_best = s->keeps_best,
                                .stop_after = s->stop_after,
                                .best_sign = 1,
                                .early_sign = 1};
    course_open(&p->course);
    kept_open(&p->kept, s->keep);
    if (newest < 0)
        return;
    disk->extra[newest] = true;
    HOLDS(course_recall(&p->course, "accuracy", disk->memory[newest]));
    course_saved(&p->course, newest);
    if (s->keeps_best) {
        p->course.best = course_find_best(&p->course, disk->noted, is_there, disk, &gone);
        HOLDS(gone.iteration == NONE);
        disk->noted = p->course.best;
    }
    for (int i = 0; i <= newest; i++)
        if (disk->state[i])
            HOLDS(kept_add(&p->kept, i,
                           i == p->course.best.iteration && i != newest &&
                               (s->save_every == 0 || i % s->save_every)) == 0);
    if (s->keeps_best && p->course.best.iteration >= 0)
        kept_mark_best(&p->kept, p->course.best.iteration, p->course.best.score);
    while (kept_take_surplus(&p->kept, &surplus))
        disk->state[surplus] = disk->model[surplus] = false;
}

static void open_disk(struct disk *disk)
{
    *disk = (struct disk){.best_model = NONE, .best_state = NONE, .noted.iteration = NONE};
}

/* ---- the judge ---- */

/* Whenever a run ends, however: no state without its model, and what PREFIX.run and PREFIX_best
 * name is there. */
static void check_disk(const struct disk *disk)
{
    for (int i = 0; i <= END; i++)
        HOLDS(disk->model[i] || !disk->state[i]);
    HOLDS(disk->noted.iteration < 0 || disk->state[disk->noted.iteration]);
    HOLDS(disk->best_state == NONE || disk->state[disk->best_state]);
    HOLDS(disk->best_model == NONE || disk->state[disk->best_model]);
}

/* Without --keep more may be there than without faults: what a start began with or a stop saved,
 * and a former best one where a kill came between its successor and its removal. */
static void check_end(const struct setting *s, const struct process *p, const struct disk *disk,
                      const struct process *whole, const struct disk *expected)
{
    const struct course_best *best = &p->course.best, *wanted = &whole->course.best;
    int count = 0;

    HOLDS(best->iteration == wanted->iteration);
    HOLDS(best->score == wanted->score);
    HOLDS(p->course.early.iteration == whole->course.early.iteration);
    HOLDS(p->course.early.tests == whole->course.early.tests);
    HOLDS(p->course.saved == whole->course.saved); /* training ends at the same iteration */
    for (int i = 0; i <= END; i++) {
        count += disk->state[i] - expected->state[i];
        if (s->keep > 0) /* which of the others are the newest depends on what stops have saved */
            continue;
        HOLDS(disk->state[i] || !expected->state[i]);
        HOLDS(expected->state[i] || !disk->state[i] || disk->extra[i]);
    }
    HOLDS(s->keep == 0 || count <= 0);
    HOLDS(disk->state[END] || !expected->state[END]);
    if (!s->keeps_best)
        return;
    HOLDS(disk->noted.iteration == wanted->iteration);
    HOLDS(disk->best_model == wanted->iteration);
    HOLDS(disk->best_state == wanted->iteration);
    HOLDS(disk->state[wanted->iteration]);
}

/* One run with its faults, to its end. Returns whether they all happened. */
static bool play(const struct setting *s, const struct fault *faults, bool eager,
                 const struct process *whole, const struct disk *expected)
{
    struct disk disk;
    struct process p = {.setting = NULL};
    bool happened = true;
    int starts = 0;

    open_disk(&disk);
    do {
        HOLDS(starts <= FAULTS);
        start(&p, s, &disk);
        p.eager = eager;
        p.fault = starts < FAULTS ? faults[starts] : (struct fault){.kind = NO_FAULT};
        happened &= p.fault.kind == NO_FAULT || !run(&p) || p.stopping;
        if (p.fault.kind == NO_FAULT)
            HOLDS(run(&p));
        happened &= !p.spent;
        check_disk(&disk);
        kept_free(&p.kept);
        starts++;
    } while (happened && !disk.done);
    if (happened)
        check_end(s, &p, &disk, whole, expected);
    return happened;
}

START_TEST(whatever_happens_the_end_is_that_of_the_run_that_never_stopped)
{
    const struct setting *s = &settings[_i / 2];
    struct disk expected;
    struct process whole;
    long played = 0;

    open_disk(&expected);
    start(&whole, s, &expected);
    HOLDS(run(&whole));
    kept_free(&whole.kept);
    enum { STEPS = 10 };
    const int choices = 2 * STEPS * whole.moments; /* who is resumed has no more moments */
    for (int a = 0; a < choices; a++) {
        struct fault faults[FAULTS] = {
            {STOP + a % 2, a / 2 / STEPS, a / 2 % STEPS},
        };
        if (!play(s, faults, _i % 2, &whole, &expected))
            continue;
        played++;
        for (int b = 0; b < choices; b++) {
            faults[1] = (struct fault){STOP + b % 2, b / 2 / STEPS, b / 2 % STEPS};
            played += play(s, faults, _i % 2, &whole, &expected);
        }
    }
    ck_assert_int_gt(played, 300); /* else the faults tested nothing */
}
END_TEST

START_TEST(a_test_at_the_first_iteration_of_a_resumed_run_counts_and_that_of_a_new_one_does_not)
{
    struct course course = {.test_every = 10, .keeps_best = true, .best_sign = 1, .early_sign = 1};

    course_open(&course);
    ck_assert_int_eq(course_tested(&course, 0, 0.9, 0.9), 0);
    course.first = 30;
    course_saved(&course, 30); /* resumed from a snapshot of its own */
    ck_assert_int_eq(course_tested(&course, 30, 0.5, 0.5), COURSE_BETTER | COURSE_FRUITLESS);
    course_open(&course); /* from another run's: it has none of its own yet */
    ck_assert_int_eq(course_tested(&course, 30, 0.5, 0.5), COURSE_BETTER | COURSE_SAVE);
}
END_TEST

START_TEST(the_last_test_that_the_command_line_asks_for_is_none_of_the_early_stops)
{
    struct course course = {
        .test_every = 10, .tests_last = true, .stop_after = 1, .best_sign = -1, .early_sign = -1};

    course_open(&course);
    ck_assert_int_eq(course_tested(&course, 10, 1, 1), COURSE_BETTER);
    ck_assert(course_tests_last(&course, 15));
    ck_assert(!course_tests_at(&course, 15));
    ck_assert_int_eq(course_tested(&course, 15, 2, 2), 0);
    ck_assert(!course_is_over(&course));
    course.tests_last = false;
    ck_assert(!course_tests_last(&course, 15));
    course.tests_last = true;
    course.test_every = 0; /* the solver tests never */
    ck_assert(!course_tests_last(&course, 15));
}
END_TEST

SUITE("course")
{
    TCase *tcase = suite_case(suite, "course");

    tcase_add_loop_test(tcase, whatever_happens_the_end_is_that_of_the_run_that_never_stopped, 0,
                        2 * SETTINGS);
    tcase_add_test(
        tcase,
        a_test_at_the_first_iteration_of_a_resumed_run_counts_and_that_of_a_new_one_does_not);
    tcase_add_test(tcase, the_last_test_that_the_command_line_asks_for_is_none_of_the_early_stops);
}
