/* How cores are shared among ranks and divided between computing and communication; that threads
 * stay where they are put. */
#define _GNU_SOURCE
#include "job/cores.h"
#include "tests/suite.h"
#include "util/thread.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

static cpu_set_t from_to(int first, int last)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (int c = first; c <= last; c++)
        CPU_SET(c, &set);
    return set;
}

static void assert_set(const cpu_set_t *found, int first, int last)
{
    cpu_set_t expected = from_to(first, last);

    ck_assert(!memcmp(found, &expected, sizeof expected));
}

/* A rank alone on the first cores of a machine, `threads` asked for. */
static void place_alone(int cores, int threads, int expected, bool placed)
{
    cpu_set_t mask = from_to(0, cores - 1);
    struct cores c;
    int found;

    cores_divide(&mask, 1, 0, cores, &c);
    ck_assert_int_eq(c.allowed, cores);
    ck_assert_int_eq(c.threads, cores);
    ck_assert_int_eq(c.sharers, 1);
    ck_assert_int_eq(c.idle, 0);
    found = cores_place(&c, threads);
    ck_assert_msg(found == expected && c.placed == placed,
                  "%d cores, %d threads: %d compute, %splaced", cores, threads, found,
                  c.placed ? "" : "not ");
    assert_set(&c.set[CORES_ALL], 0, cores - 1);
    assert_set(&c.set[CORES_COMPUTE], 0, cores - (placed ? 2 : 1));
    assert_set(&c.set[CORES_WIRE], placed ? cores - 1 : 0, cores - 1);
}

START_TEST(a_core_is_kept_where_it_costs_a_twentieth_or_is_left_over)
{
    static const struct {
        int cores, threads, expected;
        bool placed;
    } cases[] = {
        {1, 0, 1, false},   {2, 0, 2, false},    {8, 0, 8, false},   {9, 0, 9, false},
        {19, 0, 19, false}, {20, 0, 19, true},   {64, 0, 63, true},  {1024, 0, 1023, true},
        {1, 1, 1, false},   {2, 1, 1, true},     {2, 2, 2, false},   {8, 7, 7, true},
        {9, 8, 8, true},    {64, 64, 64, false}, {64, 63, 63, true}, {64, 4, 4, true},
        {2, 5, 5, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        place_alone(cases[i].cores, cases[i].threads, cases[i].expected, cases[i].placed);
}
END_TEST

START_TEST(shared_cores_are_divided_and_nothing_is_placed)
{
    cpu_set_t masks[4];
    struct cores c;

    for (int r = 0; r < 4; r++)
        masks[r] = from_to(0, 63);
    for (int threads = 0; threads < 9; threads += 4) {
        cores_divide(masks, 4, 2, 96, &c);
        ck_assert_int_eq(c.sharers, 4);
        ck_assert_int_eq(c.threads, 16);
        ck_assert_int_eq(c.idle, 32);
        ck_assert_int_eq(cores_place(&c, threads), threads ? threads : 16);
        ck_assert(!c.placed);
        for (int use = 0; use < CORES_USES; use++)
            assert_set(&c.set[use], 0, 63);
    }
}
END_TEST

START_TEST(masks_that_overlap_in_part_count_each_core_once)
{
    const cpu_set_t masks[] = {from_to(0, 5), from_to(4, 7), from_to(100, 131)};
    const int threads[] = {5, 3, 32}, sharers[] = {2, 2, 1};
    struct cores c;

    for (int r = 0; r < 3; r++) {
        cores_divide(masks, 3, r, 132, &c);
        ck_assert_int_eq(c.threads, threads[r]);
        ck_assert_int_eq(c.sharers, sharers[r]);
        ck_assert_int_eq(c.idle, 92);
        ck_assert_int_eq(cores_place(&c, 0), r == 2 ? 31 : threads[r]);
        ck_assert(c.placed == (r == 2));
    }
    assert_set(&c.set[CORES_COMPUTE], 100, 130);
    assert_set(&c.set[CORES_WIRE], 131, 131);
}
END_TEST

START_TEST(openmp_settings_stay_in_force)
{
    cpu_set_t mask = from_to(0, 63);
    struct cores c;
    char text[CORES_PLACE_BYTES];

    cores_divide(&mask, 1, 0, 64, &c);
    c.bound = true;
    c.set[CORES_COMPUTE] = from_to(0, 0); /* where OpenMP has put the main thread */
    ck_assert_int_eq(cores_place(&c, 0), 64);
    ck_assert(!c.placed);
    assert_set(&c.set[CORES_COMPUTE], 0, 0);
    assert_set(&c.set[CORES_WIRE], 0, 63);
    cores_describe(&c, 64, text);
    ck_assert_str_eq(text,
                     "64 compute threads on cores 0-63, each where OpenMP's settings bind it");
}
END_TEST

START_TEST(a_line_says_where_a_rank_computes)
{
    cpu_set_t one = from_to(5, 5), two[] = {from_to(8, 9), from_to(8, 9)}, pair;
    struct cores c;
    char text[CORES_PLACE_BYTES];

    cores_divide(&one, 1, 0, 8, &c);
    cores_describe(&c, 1, text);
    ck_assert_str_eq(text, "1 compute thread on core 5");
    cores_describe(&c, 0, text);
    ck_assert_str_eq(text, "the library's compute threads on core 5");
    cores_divide(two, 2, 0, 10, &c);
    cores_describe(&c, 1, text);
    ck_assert_str_eq(text, "1 compute thread on cores 8-9, which 2 ranks share");
    cores_divide(two, 1, 0, 10, &c);
    cores_place(&c, 1);
    cores_describe(&c, 1, text);
    ck_assert_str_eq(text, "1 compute thread on core 8, communication on core 9");
    pair = from_to(0, 6);
    CPU_SET(17, &pair);
    cores_divide(&pair, 1, 0, 18, &c);
    cores_place(&c, 7);
    cores_describe(&c, 7, text);
    ck_assert_str_eq(text, "7 compute threads on cores 0-6, communication on core 17");
}
END_TEST

START_TEST(ranks_with_one_text_have_one_line)
{
    char texts[CORES_LINES + 7][CORES_PLACE_BYTES] = {"a", "b", "", "a", "a", "c", "a"};
    struct strbuf out = {.data = NULL};

    cores_list_ranks((const char(*)[CORES_PLACE_BYTES])texts, 7, &out);
    ck_assert_str_eq(strbuf_text(&out), "Ranks 0, 3-4, 6 each: a\nRank 1: b\nRank 5: c\n");
    strbuf_clear(&out);
    for (int r = 0; r < CORES_LINES + 7; r++)
        snprintf(texts[r], sizeof texts[r], "%d", r);
    cores_list_ranks((const char(*)[CORES_PLACE_BYTES])texts, CORES_LINES, &out);
    ck_assert_ptr_null(strstr(strbuf_text(&out), "not listed"));
    strbuf_clear(&out);
    cores_list_ranks((const char(*)[CORES_PLACE_BYTES])texts, CORES_LINES + 7, &out);
    ck_assert_ptr_nonnull(
        strstr(strbuf_text(&out), "Rank 15: 15\nRanks on 7 other sets of cores: not listed\n"));
    strbuf_free(&out);
}
END_TEST

/* ---- this process ---- */

/* The cores where a thread may run. */
static cpu_set_t cores_of(pthread_t thread)
{
    cpu_set_t mask;

    ck_assert_int_eq(pthread_getaffinity_np(thread, sizeof mask, &mask), 0);
    return mask;
}

static cpu_set_t here(void)
{
    return cores_of(pthread_self());
}

static void *look(void *found)
{
    *(cpu_set_t *)found = here();
    return NULL;
}

static bool same(const cpu_set_t *a, const cpu_set_t *b)
{
    return !memcmp(a, b, sizeof *a);
}

START_TEST(threads_run_where_their_starter_has_entered)
{
    cpu_set_t mask = here(), found;
    struct cores c;
    pthread_t thread;
    int strangers = 0;

    cores_divide(&mask, 1, 0, 1, &c);
    if (c.allowed < 2) {
        fprintf(stderr, "one core: nothing to divide\n");
        return;
    }
    ck_assert_int_eq(cores_place(&c, c.allowed - 1), c.allowed - 1);
    ck_assert(c.placed);
#ifdef _OPENMP
#pragma omp parallel num_threads(3) reduction(+ : strangers) /* also more threads than cores */
    strangers += 0;
#endif
    cores_enter_team(&c, 3);
    for (int use = 0; use < CORES_USES; use++) {
        cores_enter(&c, (enum cores_use)use);
        ck_assert_int_eq(pthread_create(&thread, NULL, look, &found), 0);
        pthread_join(thread, NULL);
        ck_assert(same(&found, &c.set[use]));
    }
#ifdef _OPENMP
#pragma omp parallel num_threads(3) reduction(+ : strangers)
    {
        cpu_set_t mine = here();
        strangers += omp_get_thread_num() > 0 && !same(&mine, &c.set[CORES_COMPUTE]);
    }
#endif
    ck_assert_int_eq(strangers, 0);
}
END_TEST

static void *wait_for(void *mutex)
{
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

START_TEST(a_thread_is_started_on_the_cores_of_another)
{
    cpu_set_t mask = here(), found;
    struct cores c;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t first, second;

    cores_divide(&mask, 1, 0, 1, &c);
    cores_place(&c, c.allowed - 1); /* of one core all threads are there anyway */
    pthread_mutex_lock(&mutex);
    cores_enter(&c, CORES_WIRE);
    ck_assert_int_eq(thread_start(&first, NULL, wait_for, &mutex), 0);
    cores_enter(&c, CORES_COMPUTE);
    ck_assert_int_eq(thread_start(&second, &first, wait_for, &mutex), 0);
    found = cores_of(second);
    ck_assert(same(&found, &c.set[CORES_WIRE]));
    pthread_mutex_unlock(&mutex);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
}
END_TEST

START_TEST(nothing_is_bound_where_nothing_is_placed)
{
    cpu_set_t mask = from_to(0, 0), before = here(), after;
    struct cores c;

    cores_divide(&mask, 1, 0, 1, &c);
    cores_enter(&c, CORES_WIRE);
    after = here();
    ck_assert(same(&before, &after));
}
END_TEST

SUITE("cores")
{
    TCase *tcase = suite_case(suite, "dividing");

    tcase_add_test(tcase, a_core_is_kept_where_it_costs_a_twentieth_or_is_left_over);
    tcase_add_test(tcase, shared_cores_are_divided_and_nothing_is_placed);
    tcase_add_test(tcase, masks_that_overlap_in_part_count_each_core_once);
    tcase_add_test(tcase, openmp_settings_stay_in_force);
    tcase_add_test(tcase, a_line_says_where_a_rank_computes);
    tcase_add_test(tcase, ranks_with_one_text_have_one_line);
    tcase = suite_case(suite, "threads");
    tcase_add_test(tcase, threads_run_where_their_starter_has_entered);
    tcase_add_test(tcase, a_thread_is_started_on_the_cores_of_another);
    tcase_add_test(tcase, nothing_is_bound_where_nothing_is_placed);
}
