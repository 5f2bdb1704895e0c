/* How ranks agree on signals, in one process: each rank is a monitor here, and the sums of their
 * questions are this program's. No MPI is linked. */
#include "watch/monitor.h"
#include "tests/suite.h"
#include "util/clock.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <string.h>

enum { RANKS = 3, QUESTIONS = 8 };

/* The sums of the questions, and one rank's way to them. */
struct sums {
    double value[QUESTIONS][SYNC_ASK_VALUES];
    int ranks[QUESTIONS];
};

struct sync {
    struct sums *sums;
    int asked, answered;
};

int sync_ask(struct sync *sync, const double values[SYNC_ASK_VALUES])
{
    ck_assert_int_eq(sync->asked, sync->answered);
    ck_assert_int_lt(sync->asked, QUESTIONS);
    for (int i = 0; i < SYNC_ASK_VALUES; i++)
        sync->sums->value[sync->asked][i] += values[i];
    sync->sums->ranks[sync->asked++]++;
    return 0;
}

int sync_answer(struct sync *sync, double values[SYNC_ASK_VALUES])
{
    ck_assert_int_lt(sync->answered, sync->asked);
    ck_assert_int_eq(sync->sums->ranks[sync->answered], RANKS); /* else it would wait for ever */
    memcpy(values, sync->sums->value[sync->answered++], sizeof *sync->sums->value);
    return 0;
}

static double saving_seconds;

double run_saving_seconds(const struct training_run *run)
{
    (void)run;
    return saving_seconds;
}

bool run_saving_is_due(struct training_run *run, double since)
{
    double every = run->job->options->snapshot_every.seconds;

    return every > 0 && since >= every;
}

struct ranks {
    struct trainer_options options;
    struct training_run run;
    struct sums sums;
    struct sync sync[RANKS];
    struct job job[RANKS];
    struct monitor monitor[RANKS];
};

static void make(struct ranks *r)
{
    *r = (struct ranks){.options.signals = {[SIGNAL_INT] = SIGNAL_STOP,
                                            [SIGNAL_HUP] = SIGNAL_SNAPSHOT,
                                            [SIGNAL_TERM] = SIGNAL_STOP},
                        .run = {.job = &r->job[0], .shared.ends = INFINITY}};
    saving_seconds = 0;
    for (int i = 0; i < RANKS; i++) {
        r->sync[i].sums = &r->sums;
        r->job[i] = (struct job){.options = &r->options, .rank = i, .nranks = RANKS};
        r->monitor[i] =
            (struct monitor){.job = &r->job[i],
                             .run = &r->run,
                             .signals = {.asked = -1, .lag = 1, .saved = clock_seconds()}};
    }
    ck_assert_int_eq(signals_catch(r->options.signals), 0);
}

/* All ranks come to that iteration; the signal, if not 0, to rank `hit` before. */
static void come_to(struct ranks *r, int64_t iteration, int signal, int hit, bool enough)
{
    for (int i = 0; i < RANKS; i++) {
        if (signal && i == hit)
            raise(signal);
        ck_assert_int_eq(
            monitor_ask(&r->monitor[i], &r->sync[i], i == 0 && enough, iteration, false), 0);
    }
}

START_TEST(a_signal_to_one_rank_takes_effect_on_all_at_the_same_iteration)
{
    struct ranks r;

    make(&r);
    come_to(&r, 0, SIGTERM, 2, false);
    for (int i = 0; i < RANKS; i++)
        ck_assert_int_eq(r.monitor[i].signals.effect, SIGNAL_NOTHING);
    come_to(&r, 1, 0, 0, false);
    for (int i = 0; i < RANKS; i++) {
        ck_assert_int_eq(r.monitor[i].signals.effect, SIGNAL_STOP);
        ck_assert(r.monitor[i].signals.keep);
        ck_assert(!r.monitor[i].signals.enough);
    }
}
END_TEST

START_TEST(an_answer_waits_for_ranks_that_may_be_behind)
{
    struct ranks r;

    make(&r);
    for (int i = 0; i < RANKS; i++)
        r.monitor[i].signals.lag = 3;
    come_to(&r, 0, SIGHUP, 1, false);
    come_to(&r, 1, 0, 0, false);
    come_to(&r, 2, 0, 0, false);
    ck_assert_int_eq(r.monitor[0].signals.effect, SIGNAL_NOTHING);
    come_to(&r, 3, 0, 0, false);
    for (int i = 0; i < RANKS; i++)
        ck_assert_int_eq(r.monitor[i].signals.effect, SIGNAL_SNAPSHOT);
}
END_TEST

START_TEST(an_interrupt_leaves_the_snapshot_to_the_solver)
{
    struct ranks r;

    make(&r);
    come_to(&r, 0, SIGINT, 0, false);
    come_to(&r, 1, 0, 0, false);
    ck_assert_int_eq(r.monitor[1].signals.effect, SIGNAL_STOP);
    ck_assert(!r.monitor[1].signals.keep);
}
END_TEST

START_TEST(the_stronger_effect_holds)
{
    struct ranks r;

    make(&r);
    raise(SIGHUP); /* rank 0 takes it, another rank the other */
    come_to(&r, 0, SIGTERM, 1, false);
    come_to(&r, 1, 0, 0, false);
    ck_assert_int_eq(r.monitor[2].signals.effect, SIGNAL_STOP);
}
END_TEST

START_TEST(tests_that_found_nothing_better_end_the_run_on_all_ranks)
{
    struct ranks r;

    make(&r);
    come_to(&r, 0, 0, 0, true);
    come_to(&r, 1, 0, 0, false);
    for (int i = 0; i < RANKS; i++) {
        ck_assert_int_eq(r.monitor[i].signals.effect, SIGNAL_STOP);
        ck_assert(r.monitor[i].signals.enough);
    }
}
END_TEST

START_TEST(the_clock_of_rank_0_stops_all_while_there_is_time_to_save)
{
    struct ranks r;

    make(&r);
    r.options.deadline.whence = "--time-limit";
    r.run.shared.ends = clock_seconds() + 1e6;
    come_to(&r, 0, 0, 0, false);
    come_to(&r, 1, 0, 0, false);
    ck_assert_int_eq(r.monitor[1].signals.effect, SIGNAL_NOTHING);
    ck_assert(!monitor_hurries(&r.monitor[1]));
    make(&r);
    r.options.deadline.whence = "--time-limit";
    r.run.shared.ends = clock_seconds() + 1e6;
    saving_seconds = 1e6;
    come_to(&r, 0, 0, 0, false);
    come_to(&r, 1, 0, 0, false);
    ck_assert_int_eq(r.monitor[1].signals.effect, SIGNAL_STOP);
    ck_assert(r.monitor[1].signals.keep);
    ck_assert(monitor_hurries(&r.monitor[1]));
}
END_TEST

START_TEST(a_snapshot_is_due_by_the_clock_unless_one_comes_anyway)
{
    struct ranks r;

    make(&r);
    r.options.snapshot_every.seconds = 10;
    r.monitor[0].signals.saved -= 1e6;
    come_to(&r, 0, 0, 0, false);
    come_to(&r, 1, 0, 0, false);
    ck_assert_int_eq(r.monitor[2].signals.effect, SIGNAL_SNAPSHOT);
    make(&r);
    come_to(&r, 0, 0, 0, false);
    come_to(&r, 1, 0, 0, false);
    ck_assert_int_eq(r.monitor[2].signals.effect, SIGNAL_NOTHING);
}
END_TEST

START_TEST(all_ranks_ask_again_at_the_iteration_that_rank_0_names)
{
    struct ranks r;

    make(&r);
    come_to(&r, 0, 0, 0, false);
    come_to(&r, 1, 0, 0, false);
    ck_assert_int_ge(r.monitor[0].signals.next, 1);
    for (int i = 1; i < RANKS; i++)
        ck_assert_int_eq(r.monitor[i].signals.next, r.monitor[0].signals.next);
}
END_TEST

SUITE("signals")
{
    TCase *tcase = suite_case(suite, "agreeing");

    tcase_add_test(tcase, a_signal_to_one_rank_takes_effect_on_all_at_the_same_iteration);
    tcase_add_test(tcase, an_answer_waits_for_ranks_that_may_be_behind);
    tcase_add_test(tcase, an_interrupt_leaves_the_snapshot_to_the_solver);
    tcase_add_test(tcase, the_stronger_effect_holds);
    tcase_add_test(tcase, tests_that_found_nothing_better_end_the_run_on_all_ranks);
    tcase_add_test(tcase, the_clock_of_rank_0_stops_all_while_there_is_time_to_save);
    tcase_add_test(tcase, a_snapshot_is_due_by_the_clock_unless_one_comes_anyway);
    tcase_add_test(tcase, all_ranks_ask_again_at_the_iteration_that_rank_0_names);
}
