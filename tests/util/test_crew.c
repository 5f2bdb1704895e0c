/* Threads that do jobs beside the one that gives them. */
#include <check.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/suite.h"
#include "util/crew.h"
#include "util/error.h"

enum { THREADS = 3, JOBS = 7, ROUNDS = 200 };

struct work {
    int value[JOBS];    /* plain: handed over with the job */
    _Atomic int inside; /* jobs under way at a time, until THREADS were */
    _Atomic bool opened;
    int fails; /* this job; -1: none */
};

static int add_one(void *context, int job)
{
    struct work *work = context;

    work->value[job]++;
    return job == work->fails ? error_set("job %d failed", job) : 0;
}

/* Over only when as many as there are threads have begun. */
static int meet(void *context, int job)
{
    struct work *work = context;

    (void)job;
    if (atomic_fetch_add(&work->inside, 1) + 1 == THREADS)
        atomic_store(&work->opened, true);
    while (!atomic_load(&work->opened))
        sched_yield();
    return 0;
}

static struct crew *crew_of(struct work *work, int (*what)(void *context, int job))
{
    const struct crew_options options = {
        .threads = THREADS, .jobs = JOBS, .work = what, .context = work};
    struct crew *crew;

    ck_assert_int_eq(crew_create(&options, &crew), 0);
    ck_assert(!crew_busy(crew));
    return crew;
}

static int take(struct crew *crew, int *job)
{
    int status;

    while ((status = crew_take(crew, job)) == 0)
        sched_yield();
    return status;
}

START_TEST(every_job_is_done_once_and_comes_back)
{
    struct work work = {.fails = -1};
    struct crew *crew = crew_of(&work, add_one);

    for (int round = 1; round <= ROUNDS; round++) {
        int seen[JOBS] = {0}, job;
        for (job = 0; job < JOBS; job++)
            crew_give(crew, job);
        for (int i = 0; i < JOBS; i++) {
            ck_assert(crew_busy(crew));
            ck_assert_int_eq(take(crew, &job), 1);
            ck_assert_int_eq(work.value[job], round);
            ck_assert_int_eq(seen[job]++, 0);
        }
        ck_assert(!crew_busy(crew));
        ck_assert_int_eq(crew_take(crew, &job), 0);
    }
    crew_destroy(crew);
}
END_TEST

START_TEST(all_threads_work_at_a_time)
{
    struct work work = {.fails = -1};
    struct crew *crew = crew_of(&work, meet);
    int job;

    for (job = 0; job < THREADS; job++)
        crew_give(crew, job);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(take(crew, &job), 1);
    crew_destroy(crew);
}
END_TEST

START_TEST(a_job_that_fails_says_why_to_who_gave_it)
{
    struct work work = {.fails = 2};
    struct crew *crew = crew_of(&work, add_one);
    int job;

    crew_give(crew, 2);
    ck_assert_int_eq(take(crew, &job), -1);
    ck_assert_str_eq(error_text(), "job 2 failed");
    crew_destroy(crew);
}
END_TEST

START_TEST(it_ends_with_jobs_that_nobody_took)
{
    struct work work = {.fails = -1};
    struct crew *crew = crew_of(&work, add_one);

    for (int job = 0; job < JOBS; job++)
        crew_give(crew, job);
    crew_destroy(crew);
    for (int job = 0; job < JOBS; job++)
        ck_assert_int_le(work.value[job], 1);
    crew_destroy(NULL);
    ck_assert(!crew_busy(NULL));
}
END_TEST

SUITE("crew")
{
    TCase *tcase = suite_case(suite, "crew");

    tcase_add_test(tcase, every_job_is_done_once_and_comes_back);
    tcase_add_test(tcase, all_threads_work_at_a_time);
    tcase_add_test(tcase, a_job_that_fails_says_why_to_who_gave_it);
    tcase_add_test(tcase, it_ends_with_jobs_that_nobody_took);
}
