/* Which rank was late, judged from times that are made here. No MPI is linked. */
#include "watch/stragglers.h"
#include "tests/suite.h"

#include <check.h>
#include <string.h>

enum { MOST = 6 };

/* What one rank has seen since the start. */
struct sync {
    struct sync_stats stats;
    struct sync_link links[MOST];
};

const struct sync_stats *sync_stats(struct sync *sync)
{
    return &sync->stats;
}

struct sync_link sync_link(const struct sync *sync, int rank)
{
    return sync->links[rank];
}

static double input_seconds;

void net_input_waits(const struct net *net, uint64_t *count, double *seconds)
{
    (void)net;
    *count = 0;
    *seconds = input_seconds;
}

struct ranks {
    struct owner owner;
    struct trainer_options options;
    int n;
    struct job job[MOST];
    struct sync sync[MOST];
    double input[MOST];
    struct stragglers *of[MOST];
    char host[MOST][TOPOLOGY_HOST_BYTES];
    struct figures_rank figures_ranks[MOST];
    struct figures figures;
};

static void make(struct ranks *r, int n)
{
    *r = (struct ranks){.n = n, .options.exchange.comm.policy = COMM_PAPER};
    r->figures = (struct figures){.nranks = n, .ranks = r->figures_ranks};
    for (int i = 0; i < n; i++) {
        r->job[i] = (struct job){.owner = &r->owner,
                                 .options = &r->options,
                                 .rank = i,
                                 .nranks = n,
                                 .nworkers = n,
                                 .worker = true,
                                 .topology.host = r->host};
        ck_assert_int_eq(stragglers_open(&r->job[i], 0, &r->of[i]), 0);
    }
}

/* All of them after so many seconds: what they saw is added up, and rank 0 judges. */
static void judge(struct ranks *r, int64_t iteration, double seconds, double paused_stall)
{
    size_t count = stragglers_values(r->of[0]);
    double *sums = calloc(count, sizeof *sums), *mine = calloc(count, sizeof *mine);

    ck_assert(sums && mine && count > 0);
    for (int i = 0; i < r->n; i++) {
        input_seconds = r->input[i];
        stragglers_put(r->of[i], &r->sync[i], NULL, seconds, paused_stall, mine);
        for (size_t k = 0; k < count; k++)
            sums[k] += mine[k];
    }
    for (int i = 0; i < r->n; i++)
        stragglers_judge(r->of[i], iteration, sums);
    stragglers_tell(r->of[0], &r->figures);
    free(sums);
    free(mine);
}

static void done(struct ranks *r)
{
    owner_free(&r->owner);
}

static int times_late(const struct ranks *r)
{
    int times = 0;

    for (int i = 0; i < r->n; i++)
        times += r->figures_ranks[i].late.times;
    return times;
}

START_TEST(who_computes_longer_than_the_others_was_late)
{
    struct ranks r;

    make(&r, 3);
    for (int i = 0; i < 3; i++) /* of 10 s all but rank 1 wait for 5 */
        r.sync[i].stats.stall_seconds = i == 1 ? 0 : 5;
    judge(&r, 10, 10, 0);
    ck_assert_int_eq(times_late(&r), 1);
    ck_assert_int_eq(r.figures_ranks[1].late.times, 1);
    ck_assert_double_eq_tol(r.figures_ranks[1].late.seconds[LATE_COMPUTING], 5, 1e-9);
    done(&r);
}
END_TEST

START_TEST(who_waits_for_input_is_late_by_its_input)
{
    struct ranks r;

    make(&r, 2);
    r.sync[0].stats.stall_seconds = 4;
    r.input[1] = 4;
    judge(&r, 10, 10, 0);
    ck_assert_int_eq(r.figures_ranks[1].late.times, 1);
    ck_assert_double_eq_tol(r.figures_ranks[1].late.seconds[LATE_INPUT], 4, 1e-9);
    done(&r);
}
END_TEST

START_TEST(small_parts_of_the_time_and_moments_are_no_lateness)
{
    struct ranks r;

    make(&r, 2);
    r.sync[0].stats.stall_seconds = 2; /* a fifth */
    judge(&r, 10, 10, 0);
    r.sync[0].stats.stall_seconds += 0.09; /* of 0.1 s more */
    judge(&r, 20, 10.1, 0);
    ck_assert_int_eq(times_late(&r), 0);
    ck_assert_int_eq(r.figures.looks, 2);
    done(&r);
}
END_TEST

START_TEST(each_look_is_at_the_time_since_the_one_before)
{
    struct ranks r;

    make(&r, 2);
    r.sync[0].stats.stall_seconds = 5;
    judge(&r, 10, 10, 0);
    judge(&r, 20, 20, 0); /* nobody waited again */
    ck_assert_int_eq(r.figures_ranks[1].late.times, 1);
    judge(&r, 20, 30, 0); /* no iteration was run */
    ck_assert_int_eq(r.figures.looks, 2);
    done(&r);
}
END_TEST

START_TEST(waits_in_pauses_do_not_count)
{
    struct ranks r;

    make(&r, 2);
    r.sync[0].stats.stall_seconds = r.sync[1].stats.stall_seconds = 5;
    judge(&r, 10, 10, 5);
    ck_assert_int_eq(times_late(&r), 0);
    done(&r);
}
END_TEST

/* Every two ranks have sent each other a megabyte; those of rank `slow` took ten times as long. */
static void send_all(struct ranks *r, int slow)
{
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < r->n; k++)
            if (i != k)
                r->sync[i].links[k] = (struct sync_link){
                    .bytes = 1000000, .ns = i == slow || k == slow ? 100000000 : 10000000};
}

START_TEST(whose_messages_take_longest_holds_up_those_who_wait_for_messages)
{
    struct ranks r;

    make(&r, 5);
    for (int i = 0; i < 5; i++)
        r.sync[i].stats.stall_seconds = 6;
    send_all(&r, 3);
    judge(&r, 10, 10, 0);
    ck_assert_int_eq(times_late(&r), 1);
    ck_assert_int_eq(r.figures_ranks[3].late.times, 1);
    ck_assert(r.figures_ranks[3].late.seconds[LATE_NETWORK] > 3);
    done(&r);
}
END_TEST

START_TEST(of_three_ranks_no_link_is_told_from_the_others)
{
    struct ranks r;

    make(&r, 3);
    for (int i = 0; i < 3; i++)
        r.sync[i].stats.stall_seconds = 6;
    send_all(&r, 2);
    judge(&r, 10, 10, 0);
    ck_assert_int_eq(times_late(&r), 0);
    done(&r);
}
END_TEST

START_TEST(a_worker_alone_is_never_late)
{
    const struct trainer_options options = {.exchange.comm.policy = COMM_PAPER};
    const struct job job = {.options = &options, .nranks = 1, .nworkers = 1};
    struct stragglers *none = NULL;
    struct figures figures = {.looks = 7};

    ck_assert_int_eq(stragglers_open(&job, 0, &none), 0);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(stragglers_values(none), 0);
    stragglers_put(none, NULL, NULL, 1, 0, NULL);
    stragglers_judge(none, 1, NULL);
    stragglers_tell(none, &figures);
    ck_assert_int_eq(figures.looks, 7);
}
END_TEST

SUITE("stragglers")
{
    TCase *tcase = suite_case(suite, "stragglers");

    tcase_add_test(tcase, who_computes_longer_than_the_others_was_late);
    tcase_add_test(tcase, who_waits_for_input_is_late_by_its_input);
    tcase_add_test(tcase, small_parts_of_the_time_and_moments_are_no_lateness);
    tcase_add_test(tcase, each_look_is_at_the_time_since_the_one_before);
    tcase_add_test(tcase, waits_in_pauses_do_not_count);
    tcase_add_test(tcase, whose_messages_take_longest_holds_up_those_who_wait_for_messages);
    tcase_add_test(tcase, of_three_ranks_no_link_is_told_from_the_others);
    tcase_add_test(tcase, a_worker_alone_is_never_late);
}
