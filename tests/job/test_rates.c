/* Learning rates and smoothed losses of a run, and what a snapshot keeps of them. The sum over the
 * workers is this program's: no MPI is linked. */
#include "job/rates.h"
#include "job/course.h"
#include "tests/suite.h"
#include "util/error.h"

#include <check.h>
#include <math.h>

struct sync {
    double others; /* what the other workers bring */
    int sums;      /* how many there were */
};

int sync_sum(struct sync *sync, double *values, int count)
{
    ck_assert_int_eq(count, 1);
    values[0] += sync->others;
    sync->sums++;
    return 0;
}

static const struct policy plateau = {
    .type = POLICY_PLATEAU,
    .solver = &(const Caffe__SolverParameter){
        .base_lr = 1, .gamma = 0.5F, .plateau_winsize = (int32_t[]){2, 2}, .n_plateau_winsize = 2}};
static const struct policy fixed = {.type = POLICY_FIXED,
                                    .solver = &(const Caffe__SolverParameter){.base_lr = 1}};

START_TEST(the_smoothed_loss_is_the_mean_of_the_last_ones)
{
    const struct train_state at = {0};
    struct rates rates;

    ck_assert_int_eq(rates_open(&rates, &fixed, 3, &at), 0);
    ck_assert_double_eq(rates_smoothed(&rates), 0);
    rates_put(&rates, 8);
    ck_assert_double_eq(rates_smoothed(&rates), 8);
    for (int i = 1; i <= 4; i++)
        rates_put(&rates, i);
    ck_assert_double_eq(rates_smoothed(&rates), 3); /* of 2, 3, 4 */
    rates_close(&rates);
}
END_TEST

START_TEST(a_resumed_run_counts_steps_from_those_of_its_snapshot)
{
    int32_t values[] = {10, 20};
    const Caffe__SolverParameter solver = {
        .base_lr = 1, .gamma = 0.1F, .stepvalue = values, .n_stepvalue = 2};
    const struct policy steps = {.type = POLICY_MULTISTEP, .solver = &solver};
    const struct train_state at = {.iteration = 15, .current_step = 1};
    struct rates rates;

    ck_assert_int_eq(rates_open(&rates, &steps, 1, &at), 0);
    ck_assert_int_eq(rates_step(&rates, 15), 1); /* nothing was trained yet */
    ck_assert_float_eq_tol(rates_of(&rates, 15), 0.1F, 1e-8F);
    ck_assert_float_eq_tol(rates_of(&rates, 20), 0.01F, 1e-8F);
    ck_assert_int_eq(rates_step(&rates, 20), 1);
    ck_assert_int_eq(rates_step(&rates, 21), 2);
    rates_close(&rates);
}
END_TEST

START_TEST(plateau_follows_the_loss_of_all_workers)
{
    const struct train_state at = {0};
    struct sync sync = {.others = 9};
    struct rates rates;
    bool dropped;

    ck_assert_int_eq(rates_open(&rates, &plateau, 1, &at), 0);
    /* this worker's loss falls, and the other's rises as much: no minimum after the first */
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(rates_follow(&rates, &sync, 2, i, 1.0 - i, &dropped), 0);
        ck_assert(!dropped);
        ck_assert_float_eq(rates_of(&rates, i + 1), 1);
        sync.others++;
    }
    ck_assert_double_eq(rates.memory.least, 5);
    ck_assert_int_eq(rates_follow(&rates, &sync, 2, 2, -1, &dropped), 0);
    ck_assert(dropped);
    ck_assert_float_eq(rates_of(&rates, 3), 0.5F);
    ck_assert_float_eq(rates_of(&rates, 2), 1); /* the wire may still ask */
    rates_close(&rates);
}
END_TEST

START_TEST(workers_wait_for_each_other_once_a_window)
{
    const struct train_state at = {0};
    struct sync sync = {.others = 6};
    struct rates rates;
    bool dropped;

    ck_assert_int_eq(rates_open(&rates, &plateau, 3, &at), 0);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(rates_follow(&rates, &sync, 2, i, i, &dropped), 0);
    ck_assert_int_eq(sync.sums, 2);
    ck_assert_double_eq(rates.memory.least, 1.5); /* (0 + 1 + 2 + 6) / 2 / 3 */
    rates_close(&rates);
}
END_TEST

START_TEST(a_snapshot_keeps_what_plateau_and_early_stop_remember)
{
    struct train_state at = {0};
    struct sync sync = {.others = 4};
    struct course course = {.test_every = 10}, again, other;
    struct rates rates, resumed;

    course_open(&course);
    course.early = (struct course_early){.score = 0.75, .iteration = 20, .tests = 2};
    course.best = (struct course_best){.score = 0.875, .iteration = 30};
    course.counted = 40;
    course_open(&again);
    course_open(&other);
    ck_assert_int_eq(rates_open(&rates, &plateau, 5, &at), 0);
    rates.memory = (struct policy_memory){.least = 0.1, .event = 7};
    rates.sum = 2;
    rates.count = 3;
    ck_assert_int_eq(rates_remember(&rates, &course, "an accuracy", &sync, 2, &at), 0);
    ck_assert_int_eq(rates_open(&resumed, &plateau, 5, &at), 0);
    ck_assert_int_eq(rates_recall(&resumed, &again, "an accuracy", &at), 0);
    ck_assert_double_eq(resumed.memory.least, 0.1);
    ck_assert_int_eq(resumed.memory.event, 7);
    ck_assert_double_eq(resumed.sum, 3); /* each worker's share of both */
    ck_assert_int_eq(resumed.count, 3);
    ck_assert_double_eq(again.early.score, 0.75);
    ck_assert_int_eq(again.early.iteration, 20);
    ck_assert_int_eq(again.early.tests, 2);
    ck_assert_int_eq(again.counted, 40);
    ck_assert_int_eq(again.best.iteration, 30);
    ck_assert_double_eq(again.best.score, 0.875);
    ck_assert_int_eq(rates_recall(&resumed, &other, "loss", &at),
                     0); /* the best by another score */
    ck_assert_int_eq(other.best.iteration, -1);
    ck_assert_int_eq(other.early.tests, 2);
    rates_close(&rates);
    rates_close(&resumed);
}
END_TEST

START_TEST(a_memory_that_cannot_be_read_is_refused_where_it_is_needed)
{
    const struct train_state at = {.memory = "0x1p0 7 nonsense"};
    const struct train_state old = {.memory = "0x1p0 7 0x0p+0 0 0x1p-1 20 2"};
    struct course course = {.stop_after = 3};
    struct rates rates;

    ck_assert_int_eq(rates_open(&rates, &fixed, 1, &at), 0);
    ck_assert_int_eq(rates_recall(&rates, &course, NULL, &at), -1);
    ck_assert_ptr_nonnull(strstr(error_text(), "\"0x1p0 7 nonsense\""));
    ck_assert_int_eq(rates_recall(&rates, &course, NULL, &old),
                     0); /* of programs before this one */
    ck_assert_int_eq(course.early.tests, 2);
    ck_assert_int_eq(course.counted, -1);
    course.stop_after = 0;
    ck_assert_int_eq(rates_recall(&rates, &course, NULL, &at), 0);
    rates_close(&rates);
}
END_TEST

SUITE("rates")
{
    TCase *tcase = suite_case(suite, "rates");

    tcase_add_test(tcase, the_smoothed_loss_is_the_mean_of_the_last_ones);
    tcase_add_test(tcase, a_resumed_run_counts_steps_from_those_of_its_snapshot);
    tcase_add_test(tcase, plateau_follows_the_loss_of_all_workers);
    tcase_add_test(tcase, workers_wait_for_each_other_once_a_window);
    tcase_add_test(tcase, a_snapshot_keeps_what_plateau_and_early_stop_remember);
    tcase_add_test(tcase, a_memory_that_cannot_be_read_is_refused_where_it_is_needed);
}
