/* Threads that do jobs beside the one that gives them. */
#include <check.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/suite.h"
#include "util/error.h"
#include "util/workers.h"

enum { THREADS = 3, JOBS = 7, ROUNDS = 200 };

struct work {
    int value[JOBS];    /* plain: handed over with the job */
    _Atomic int inside; /* jobs under way at a time, until THREADS were */
    _Atomic bool opened;
    int fails; /* this job; -1: none */
};

static int add_one(void *context, uint64_t job)
{
    struct work *work = context;

    work->value[job]++;
    return (int)job == work->fails ? error_set("job %d failed", (int)job) : 0;
}

/* Over only when as many as there are threads have begun. */
static int meet(void *context, uint64_t job)
{
    struct work *work = context;

    (void)job;
    if (atomic_fetch_add(&work->inside, 1) + 1 == THREADS)
        atomic_store(&work->opened, true);
    while (!atomic_load(&work->opened))
        sched_yield();
    return 0;
}

struct ahead {
    uint64_t number[JOBS]; /* per place */
};

/* Some jobs are over before those in front of them. */
static int leave_number(void *context, uint64_t job)
{
    struct ahead *ahead = context;

    for (uint64_t i = 0; i < job % 3 * 20; i++)
        sched_yield();
    ahead->number[job % JOBS] = job;
    return 0;
}

static struct jobs *jobs_of(struct work *work, int (*what)(void *context, uint64_t job))
{
    const struct jobs_options options = {
        .threads = THREADS, .places = JOBS, .work = what, .context = work};
    struct jobs *jobs;

    ck_assert_int_eq(jobs_create(&options, &jobs), 0);
    ck_assert(!jobs_busy(jobs));
    return jobs;
}

static int take(struct jobs *jobs, uint64_t *job)
{
    int status;

    while ((status = jobs_take(jobs, job)) == 0)
        sched_yield();
    return status;
}

START_TEST(every_job_is_done_once_and_comes_back)
{
    struct work work = {.fails = -1};
    struct jobs *jobs = jobs_of(&work, add_one);

    for (int round = 1; round <= ROUNDS; round++) {
        int seen[JOBS] = {0};
        uint64_t job;
        for (job = 0; job < JOBS; job++)
            jobs_give(jobs, job);
        for (int i = 0; i < JOBS; i++) {
            ck_assert(jobs_busy(jobs));
            ck_assert_int_eq(take(jobs, &job), 1);
            ck_assert_int_eq(work.value[job], round);
            ck_assert_int_eq(seen[job]++, 0);
        }
        ck_assert(!jobs_busy(jobs));
        ck_assert_int_eq(jobs_take(jobs, &job), 0);
    }
    jobs_destroy(jobs);
}
END_TEST

START_TEST(all_threads_work_at_a_time)
{
    struct work work = {.fails = -1};
    struct jobs *jobs = jobs_of(&work, meet);
    uint64_t job;

    for (job = 0; job < THREADS; job++)
        jobs_give(jobs, job);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(take(jobs, &job), 1);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(a_job_that_fails_says_why_to_who_gave_it)
{
    struct work work = {.fails = 2};
    struct jobs *jobs = jobs_of(&work, add_one);
    uint64_t job;

    jobs_give(jobs, 2);
    ck_assert_int_eq(take(jobs, &job), -1);
    ck_assert_str_eq(error_text(), "job 2 failed");
    jobs_destroy(jobs);
}
END_TEST

static struct jobs *jobs_ahead(struct ahead *ahead)
{
    const struct jobs_options options = {
        .threads = THREADS, .places = JOBS, .work = leave_number, .context = ahead};
    struct jobs *jobs;

    ck_assert_int_eq(jobs_create(&options, &jobs), 0);
    return jobs;
}

START_TEST(jobs_come_in_their_order)
{
    struct ahead ahead = {.number = {0}};
    struct jobs *jobs = jobs_ahead(&ahead);
    uint64_t job;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        ck_assert(jobs_next(jobs, ROUNDS, &job));
        ck_assert_uint_eq(job, i);
        ck_assert_uint_eq(ahead.number[job % JOBS], job);
    }
    ck_assert(!jobs_next(jobs, ROUNDS, &job));
    ck_assert(!jobs_next(jobs, ROUNDS, &job));
    jobs_destroy(jobs);
}
END_TEST

START_TEST(jobs_end_before_all_are_asked_for)
{
    struct ahead ahead = {.number = {0}};
    struct jobs *jobs = jobs_ahead(&ahead);
    uint64_t job;

    ck_assert(jobs_next(jobs, UINT64_MAX, &job));
    ck_assert_uint_eq(job, 0);
    jobs_destroy(jobs);
}
END_TEST

START_TEST(it_ends_with_jobs_that_nobody_took)
{
    struct work work = {.fails = -1};
    struct jobs *jobs = jobs_of(&work, add_one);

    for (uint64_t job = 0; job < JOBS; job++)
        jobs_give(jobs, job);
    jobs_destroy(jobs);
    for (uint64_t job = 0; job < JOBS; job++)
        ck_assert_int_le(work.value[job], 1);
    jobs_destroy(NULL);
    ck_assert(!jobs_busy(NULL));
}
END_TEST

SUITE("workers")
{
    TCase *tcase = suite_case(suite, "workers");

    tcase_add_test(tcase, every_job_is_done_once_and_comes_back);
    tcase_add_test(tcase, all_threads_work_at_a_time);
    tcase_add_test(tcase, a_job_that_fails_says_why_to_who_gave_it);
    tcase_add_test(tcase, jobs_come_in_their_order);
    tcase_add_test(tcase, jobs_end_before_all_are_asked_for);
    tcase_add_test(tcase, it_ends_with_jobs_that_nobody_took);
}
