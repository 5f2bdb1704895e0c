/* Which way is taken to be the fastest, by a clock that the ways themselves set: what each run
 * takes, and whether another program disturbed it, is written down in a table. */
#include "engine/cpu/cpu_internal.h"
#include "engine/cpu/fastest.h"
#include "tests/suite.h"
#include "util/error.h"

#include <string.h>

enum { RUNS = 8 };

struct machine {
    double now, waited;
};

/* Run i takes seconds[i], and the last ones what the last given one does; 0 ends the list. In
 * waited[i] of them a thread had no core. */
struct fake {
    struct machine *machine;
    double seconds[RUNS], waited[RUNS];
    bool fails;
    int runs;
};

static double fake_seconds(void *context)
{
    return ((struct machine *)context)->now;
}

static double fake_waited(void *context)
{
    return ((struct machine *)context)->waited;
}

static int fake_run(void *context)
{
    struct fake *fake = context;
    int i = fake->runs;

    ck_assert_int_lt(fake->runs, RUNS);
    while (i > 0 && fake->seconds[i] <= 0)
        i--;
    fake->machine->now += fake->seconds[i];
    fake->machine->waited += fake->waited[fake->runs++];
    return fake->fails ? error_set("this way leads nowhere") : 0;
}

static int find(struct fake fakes[], int n, int *which, bool *sure)
{
    struct machine machine = {.now = 1000, .waited = 7};
    const struct fastest_clock clock = {fake_seconds, fake_waited, &machine};
    struct fastest_way ways[FASTEST_WAYS];

    for (int i = 0; i < n; i++) {
        fakes[i].machine = &machine;
        ways[i] = (struct fastest_way){fake_run, &fakes[i]};
    }
    return fastest_find(ways, n, &clock, which, sure);
}

START_TEST(the_fastest_of_several_is_taken)
{
    struct fake fakes[] = {{.seconds = {1.0}}, {.seconds = {0.9}}, {.seconds = {0.8}}};
    bool sure;
    int which;

    ck_assert(find(fakes, 3, &which, &sure) == 0);
    ck_assert_int_eq(which, 2);
    ck_assert(sure);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(fakes[i].runs, 4);
}
END_TEST

START_TEST(the_usual_way_stays_where_another_gains_less_than_a_twentieth)
{
    struct fake little[] = {{.seconds = {1.0}}, {.seconds = {0.96}}},
                enough[] = {{.seconds = {1.0}}, {.seconds = {0.94}}};
    bool sure;
    int which;

    ck_assert(find(little, 2, &which, &sure) == 0 && which == 0 && sure);
    ck_assert(find(enough, 2, &which, &sure) == 0 && which == 1 && sure);
}
END_TEST

START_TEST(the_first_round_does_not_count)
{
    struct fake warm[] = {{.seconds = {0.1, 1.0}}, {.seconds = {5.0, 0.9}}};
    bool sure;
    int which;

    ck_assert(find(warm, 2, &which, &sure) == 0);
    ck_assert_int_eq(which, 1);
}
END_TEST

START_TEST(what_is_plainly_slower_is_run_twice_and_no_more)
{
    struct fake three[] = {{.seconds = {2.0}}, {.seconds = {1.0}}, {.seconds = {0.9}}},
                two[] = {{.seconds = {1.0}}, {.seconds = {2.0}}}, one[] = {{.seconds = {1.0}}};
    bool sure;
    int which;

    ck_assert(find(three, 3, &which, &sure) == 0 && which == 2 && sure);
    ck_assert_int_eq(three[0].runs, 2);
    ck_assert_int_eq(three[1].runs, 4);
    ck_assert_int_eq(three[2].runs, 4);
    ck_assert(find(two, 2, &which, &sure) == 0 && which == 0 && sure);
    ck_assert_int_eq(two[0].runs, 2);
    ck_assert_int_eq(two[1].runs, 2);
    ck_assert(find(one, 1, &which, &sure) == 0 && which == 0 && sure);
}
END_TEST

START_TEST(disturbed_runs_do_not_count_where_there_are_others)
{
    struct fake fakes[] = {{.seconds = {1.0, 0.2, 1.0}, .waited = {0, 0.1}},
                           {.seconds = {0.8, 0.8, 3.0}, .waited = {0, 0, 2, 2, 2, 2, 2, 2}}};
    bool sure;
    int which;

    ck_assert(find(fakes, 2, &which, &sure) == 0);
    ck_assert_int_eq(which, 1);
    ck_assert(sure);
}
END_TEST

START_TEST(a_hundredth_of_a_run_is_no_disturbance)
{
    struct fake fakes[] = {{.seconds = {1.0}, .waited = {0, 0.009, 0.009, 0.009}},
                           {.seconds = {0.9}, .waited = {0.008, 0.008, 0.008, 0.008}}};
    bool sure;
    int which;

    ck_assert(find(fakes, 2, &which, &sure) == 0);
    ck_assert_int_eq(which, 1);
    ck_assert(sure);
    ck_assert_int_eq(fakes[0].runs, 4);
}
END_TEST

START_TEST(a_choice_among_disturbed_runs_is_not_sure)
{
    struct fake fakes[] = {{.seconds = {1.0}},
                           {.seconds = {0.9}, .waited = {1, 1, 1, 1, 1, 1, 1, 1}}};
    bool sure;
    int which;

    ck_assert(find(fakes, 2, &which, &sure) == 0);
    ck_assert_int_eq(which, 1);
    ck_assert(!sure);
    ck_assert_int_eq(fakes[0].runs, RUNS);
    ck_assert_int_eq(fakes[1].runs, RUNS);
}
END_TEST

START_TEST(what_is_plainly_slower_need_not_be_undisturbed)
{
    struct fake slow[] = {{.seconds = {2.0}, .waited = {1, 1, 1, 1, 1, 1, 1, 1}},
                          {.seconds = {1.0}}},
                never[] = {{.seconds = {2.0}, .waited = {1, 1, 1, 1, 1, 1, 1, 1}},
                           {.seconds = {1.0}, .waited = {1, 1, 1, 1, 1, 1, 1, 1}}};
    bool sure;
    int which;

    ck_assert(find(slow, 2, &which, &sure) == 0 && which == 1 && sure);
    ck_assert_int_eq(slow[0].runs, 4);
    ck_assert(find(never, 2, &which, &sure) == 0 && which == 1 && !sure);
    ck_assert_int_eq(never[0].runs, RUNS);
}
END_TEST

START_TEST(a_way_that_fails_ends_it)
{
    struct fake fakes[] = {{.seconds = {1.0}}, {.seconds = {0.5}, .fails = true}};
    bool sure;
    int which;

    ck_assert(find(fakes, 2, &which, &sure) == -1);
    ck_assert_str_eq(error_text(), "this way leads nowhere");
    ck_assert_int_eq(fakes[0].runs, 1);
}
END_TEST

/* Longer work than the other, by what it does: the machine's own clock sees that. */
static int sum(void *context)
{
    volatile double total = 0;

    for (long i = 0; i < *(const long *)context; i++)
        total += (double)i;
    return 0;
}

START_TEST(the_machines_clock_tells_a_hundred_times_the_work)
{
    long much = 20000000, little = 200000;
    const struct fastest_way ways[] = {{sum, &much}, {sum, &little}};
    bool sure;
    int which;

    ck_assert(fastest_find(ways, 2, NULL, &which, &sure) == 0);
    ck_assert_int_eq(which, 1);
}
END_TEST

START_TEST(a_key_is_the_machine_a_bar_and_the_work)
{
    const struct cpu_engine engine = {.threads = 3};
    char key[CHOICES_KEY_BYTES], again[CHOICES_KEY_BYTES], *bar;

    fastest_key(&engine, key, "work,n%d", 5);
    ck_assert(strncmp(key, "cpu", 3) == 0);
    bar = strchr(key, '|');
    ck_assert_ptr_nonnull(bar);
    ck_assert_str_eq(bar, "|work,n5");
    *bar = '\0';
    ck_assert_ptr_nonnull(strstr(key, ",t3"));
    fastest_key(&(struct cpu_engine){.threads = 4}, again, "work,n%d", 5);
    ck_assert(strncmp(key, again, strlen(key)) != 0);
}
END_TEST

SUITE("fastest")
{
    TCase *tcase = suite_case(suite, "fastest");

    tcase_add_test(tcase, the_fastest_of_several_is_taken);
    tcase_add_test(tcase, the_usual_way_stays_where_another_gains_less_than_a_twentieth);
    tcase_add_test(tcase, the_first_round_does_not_count);
    tcase_add_test(tcase, what_is_plainly_slower_is_run_twice_and_no_more);
    tcase_add_test(tcase, disturbed_runs_do_not_count_where_there_are_others);
    tcase_add_test(tcase, a_choice_among_disturbed_runs_is_not_sure);
    tcase_add_test(tcase, a_hundredth_of_a_run_is_no_disturbance);
    tcase_add_test(tcase, what_is_plainly_slower_need_not_be_undisturbed);
    tcase_add_test(tcase, a_way_that_fails_ends_it);
    tcase_add_test(tcase, the_machines_clock_tells_a_hundred_times_the_work);
    tcase_add_test(tcase, a_key_is_the_machine_a_bar_and_the_work);
}
