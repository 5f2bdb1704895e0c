/* The simulator against seconds worked out by hand and against the plan's bytes, and what must hold
 * whatever the figures. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "tests/simulate/simulate_groups.h"
#include "tests/suite.h"
#include "util/error.h"

static const struct cost_cluster usual = {.latency_seconds = 30e-6,
                                          .message_seconds = 3e-6,
                                          .link_Bps = 1.25e9,
                                          .local_Bps = 4e9,
                                          .gemm_flops = 4e12,
                                          .copy_Bps = 8e9,
                                          .sum_Bps = 4e9,
                                          .transport_Bps = 2e9};

/* A fully connected layer of 1000 x 1000 with 32 rows. */
static const struct group one[] = {{.name = "fc",
                                    .elems = BIG,
                                    .nparams = 1,
                                    .params = &big_param,
                                    .trains = true,
                                    .outputs = 1000,
                                    .factorable = true,
                                    .m = 1000,
                                    .n = 1000,
                                    .k = 32}};

/* A small convolution, a large one, a fully connected layer. */
static const struct group three[LAYERS] = {TWO_CONVOLUTIONS, FULLY_CONNECTED(32)};

/* The same, with 16,384 rows. */
static const struct group wide[LAYERS] = {TWO_CONVOLUTIONS, FULLY_CONNECTED(16384)};

static const char *const schemes[] = {"ps", "sfb", "allreduce", "adam", "onebit", "lowrank"};
enum { SCHEMES = sizeof schemes / sizeof *schemes };

static struct plan_options among(int ranks, const char *scheme)
{
    return (struct plan_options){
        .registry = sync_schemes,
        .comm = {.policy = scheme ? COMM_SCHEME : COMM_NONE,
                 .scheme = scheme ? scheme_find(sync_schemes, scheme) : NULL},
        .nranks = ranks,
        .iter_size = 1,
        .sizes.chunk = 8 << 20,
    };
}

struct setting {
    const struct layer_times *work;
    const struct group *groups;
    const struct cost_cluster *cluster;
    enum cost_overlap overlap;
    int ranks_per_node, most_endpoints;
    double cap;
    int iterations;
    bool meters;
};

static struct simulate_result run(const struct setting *setting, const struct plan_options *how,
                                  struct plan **keep, struct simulate_rank *ranks)
{
    struct simulate_options options = {.cluster = setting->cluster,
                                       .work = setting->work,
                                       .overlap = setting->overlap,
                                       .ranks_per_node =
                                           setting->ranks_per_node ? setting->ranks_per_node : 1,
                                       .bytes_per_second = setting->cap,
                                       .most_endpoints = setting->most_endpoints,
                                       .iterations = setting->iterations,
                                       .meters = setting->meters};
    struct plan_options with = *how;
    struct simulate_result result;
    struct plan *plan;

    with.sizes.window = cost_sizes_for(setting->cluster).window;
    ck_assert_msg(plan_create(&with, setting->work->ngroups, setting->groups, &plan) == 0, "%s",
                  error_text());
    options.plan = plan;
    ck_assert_msg(simulate_run(&options, &result, ranks) == 0, "%s", error_text());
    if (keep)
        *keep = plan;
    else
        plan_destroy(plan);
    return result;
}

static double seconds_of(const struct setting *setting, const struct plan_options *how)
{
    return run(setting, how, NULL, NULL).seconds;
}

static void is_about(double found, double wanted, double part)
{
    ck_assert_msg(fabs(found - wanted) <= part * wanted, "%.9g s, expected %.9g", found, wanted);
}

/* ---- closed forms ---- */

START_TEST(one_rank_computes_and_updates)
{
    const struct setting setting = {.work = &one_layer, .groups = one, .cluster = &usual};
    struct plan_options how = among(1, NULL);
    /* five words are moved where a sum moves three */
    double update = 4.0 * BIG * 5 / 3 / usual.sum_Bps;
    struct simulate_result result = run(&setting, &how, NULL, NULL);

    is_about(result.seconds, 0.03 + update, 1e-9);
    is_about(result.stall_share, update / (0.03 + update), 1e-9);
    ck_assert_uint_eq(result.sent, 0);
}
END_TEST

/* 16 kB of the first factor to its home and back, then of the second. */
START_TEST(two_ranks_by_low_rank_take_four_messages_one_after_another)
{
    const struct setting setting = {.work = &one_layer, .groups = one, .cluster = &only_link};
    struct plan_options how = among(2, "lowrank");

    is_about(seconds_of(&setting, &how), 0.03 + 4 * (1e-3 + 16e3 / 1e9), 1e-6);
}
END_TEST

START_TEST(two_ranks_by_ps_take_a_gradient_and_an_answer)
{
    const struct setting setting = {.work = &one_layer, .groups = one, .cluster = &only_link};
    struct plan_options how = among(2, "ps");

    /* two homes with half of 4 MB each; the answer leaves when the gradient is there */
    how.sizes.chunk = 2 << 20;
    is_about(seconds_of(&setting, &how), 0.03 + 2 * (1e-3 + 2e-3), 1e-6);
}
END_TEST

/* 20 ms of gradient and, a millisecond's trip after its end, 20 ms of answer. */
START_TEST(a_link_is_full_while_messages_leave)
{
    struct cost_cluster slow = only_link;
    const struct setting setting = {
        .work = &one_layer, .groups = one, .cluster = &slow, .iterations = 4, .meters = true};
    struct plan_options how = among(2, "ps");
    struct link_meter worst;

    slow.link_Bps = 1e8;
    how.sizes.chunk = 2 << 20;
    worst = run(&setting, &how, NULL, NULL).burst;
    ck_assert_double_ge(worst.full_seconds, 0.038 - 0.002 / 4); /* a slot that is under way */
    ck_assert_double_le(worst.full_seconds, 0.040 + 1e-9);
    ck_assert_double_ge(worst.longest_seconds, 0.019 - 1e-9);
    ck_assert_double_le(worst.longest_seconds, 0.020 + 1e-9);
    ck_assert_uint_ge(worst.most_queued, 2 * BIG - 100000);
    ck_assert_uint_le(worst.most_queued, 2 * BIG + 100000);
}
END_TEST

START_TEST(two_ranks_by_sfb_take_the_factors)
{
    const struct setting setting = {.work = &one_layer, .groups = one, .cluster = &only_link};
    struct plan_options how = among(2, "sfb");

    is_about(seconds_of(&setting, &how), 0.03 + 1e-3 + 4 * 32 * 2000 / 1e9, 1e-6);
}
END_TEST

START_TEST(every_message_costs_its_sender)
{
    struct cost_cluster cluster = only_link;
    const struct setting setting = {.work = &one_layer, .groups = one, .cluster = &cluster};
    struct plan_options how = among(2, "sfb");

    cluster.message_seconds = 5e-3;
    is_about(seconds_of(&setting, &how), 0.03 + 5e-3 + 1e-3 + 4 * 32 * 2000 / 1e9, 1e-6);
}
END_TEST

START_TEST(a_server_receives_from_one_worker_after_the_other)
{
    const struct setting setting = {.work = &one_layer, .groups = one, .cluster = &only_link};
    struct plan_options how = among(5, "ps");

    /* four workers, one server. Answers come 4 ms apart, so the next gradients do not queue: only
     * the last one, of 4 MB, is waited for, then 16 MB leave */
    how.servers = 1;
    is_about(seconds_of(&setting, &how), 0.03 + 1e-3 + 4e-3 + 1e-3 + 16e-3, 1e-6);
}
END_TEST

START_TEST(ranks_of_a_node_share_its_link)
{
    struct setting setting = {
        .work = &one_layer, .groups = one, .cluster = &only_link, .ranks_per_node = 2};
    struct plan_options how = among(4, "sfb");

    /* two ranks send to two others over one link: four messages, but the second rank is behind the
     * first by one of them */
    is_about(seconds_of(&setting, &how), 0.03 + 1e-3 + 3.0 * 4 * 32 * 2000 / 1e9, 1e-6);
    setting.ranks_per_node = 4; /* all in memory */
    is_about(seconds_of(&setting, &how), 0.03, 1e-6);
}
END_TEST

/* What tables show: the same without the passes. */
START_TEST(a_group_by_itself_takes_its_trips_its_bytes_and_its_products)
{
    static const struct group frozen[LAYERS] = {
        {.name = "frozen"}, TWO_CONVOLUTIONS}; /* no factors: SFB can move neither */
    struct cost_cluster cluster = only_link;
    struct simulate_options like = {.cluster = &cluster, .ranks_per_node = 1};
    struct plan_options how = among(2, NULL);
    const struct simulate_pace half[] = {{1, 1}, {0.5, 0.5}}; /* its products take twice as long */
    const struct scheme *by_ps = scheme_find(sync_schemes, "ps");
    const struct scheme *by_sfb = scheme_find(sync_schemes, "sfb");
    const struct ways ways = {.way = {{.scheme = by_ps}, {.scheme = by_sfb}}, .n = 2};
    struct cost table[2 * LAYERS];
    double ps, sfb;

    how.sizes.chunk = 2 << 20;
    ck_assert_int_eq(simulate_group(&like, &how, one, ways.way[0], &ps), 0);
    is_about(ps, 2 * (1e-3 + 2e-3), 1e-6);
    ck_assert_int_eq(simulate_group(&like, &how, one, ways.way[1], &sfb), 0);
    is_about(sfb, 1e-3 + 4 * 32 * 2000 / 1e9, 1e-6);
    cluster.gemm_flops = 1e9; /* the other's 32 rows: 2 * 1e6 * 32 operations */
    ck_assert_int_eq(simulate_group(&like, &how, one, ways.way[1], &sfb), 0);
    is_about(sfb, 0.064 + 1e-3 + 4 * 32 * 2000 / 1e9, 1e-6);
    like.paces = half;
    ck_assert_int_eq(simulate_group(&like, &how, one, ways.way[1], &sfb), 0);
    is_about(sfb, 0.128, 1e-6); /* the other's factors come meanwhile */
    ck_assert_int_eq(cost_table(&cluster, &how, &ways, LAYERS, frozen, table), 0);
    ck_assert_int_eq(simulate_table(&like, &how, &ways, LAYERS, frozen, table), 0);
    for (int i = 0; i < 2 * LAYERS; i++) /* a row for each group: ps, sfb */
        ck_assert_msg((table[i].seconds > 0) == (i >= 2 && i % 2 == 0), "%d: %g s", i,
                      table[i].seconds);
    is_about(table[4].seconds, ps, 1e-6); /* as large as `one`, by the same way */
}
END_TEST

START_TEST(the_cap_slows_senders)
{
    struct setting setting = {.work = &one_layer, .groups = one, .cluster = &only_link};
    struct plan_options how = among(8, "ps");
    double free = seconds_of(&setting, &how), bytes = 2.0 * 4 * BIG * 7 / 8;

    setting.cap = 1e8; /* a tenth of the link; 20 ms of it may be saved up */
    ck_assert_double_ge(seconds_of(&setting, &how), 0.03 + bytes / setting.cap - 0.04 - free);
    ck_assert_double_ge(seconds_of(&setting, &how), free);
}
END_TEST

/* Factors of 131 MB that leave a worker three times, with a window of 64 MB: whole, they hold back
 * what the next pass needs first, and one link after the other waits for them. */
START_TEST(factors_in_slices_hold_nothing_back)
{
    static struct way wishes[LAYERS];
    const struct setting setting = {
        .work = &three_layers, .groups = wide, .cluster = &only_link, .overlap = COST_OVERLAP_WFBP};
    struct plan_options how = among(4, NULL);
    double sliced, whole, links;

    wishes[LAYERS - 1].scheme = scheme_find(sync_schemes, "sfb");
    how.comm = (struct comm){.policy = COMM_AUTO};
    how.ways = wishes;
    how.factor_bytes = (size_t)1 << 31; /* in one round */
    how.sizes.chunk = 4 << 20;
    sliced = seconds_of(&setting, &how);
    how.sizes.chunk = PLAN_LARGEST_MESSAGE;
    whole = seconds_of(&setting, &how);
    /* and while the last layer computes nothing is left to send */
    links = 0.03 + (3 * 4 * 2000 * 16384. + 2 * 3. / 4 * 4 * (BIG + 2000)) / 1e9;
    ck_assert_double_ge(sliced, links);
    ck_assert_double_lt(sliced, 1.03 * links);
    ck_assert_double_gt(whole, 1.2 * sliced);
}
END_TEST

/* ---- bytes ---- */

static void compare_bytes(const char *scheme, int nranks, int servers)
{
    const struct setting setting = {
        .work = &three_layers, .groups = three, .cluster = &usual, .overlap = COST_OVERLAP_WFBP};
    struct plan_options how = among(nranks, scheme);
    struct simulate_rank ranks[64];
    struct simulate_result result;
    uint64_t all = 0;
    struct plan *plan;

    how.servers = servers;
    how.sizes.chunk = 300000;
    result = run(&setting, &how, &plan, ranks);
    for (int r = 0; r < nranks; r++) {
        double sent = 0, received = 0;
        for (int b = 0; b < plan->nbuckets; b++) {
            struct traffic t = plan_traffic(plan, b, r);
            sent += (double)t.sent;
            received += (double)t.received;
            all += t.sent;
        }
        ck_assert_msg(ranks[r].sent == sent && ranks[r].received == received,
                      "%s, rank %d of %d: sent %.0f, received %.0f, planned %.0f, %.0f", scheme, r,
                      nranks, ranks[r].sent, ranks[r].received, sent, received);
    }
    ck_assert_uint_eq(result.sent, all);
    ck_assert_uint_eq(result.received, all);
    plan_destroy(plan);
}

START_TEST(bytes_are_the_plans)
{
    compare_bytes(schemes[_i], 1, 0);
    compare_bytes(schemes[_i], 2, 0);
    compare_bytes(schemes[_i], 7, 0);
    compare_bytes(schemes[_i], 48, 0); /* with trees */
    compare_bytes(schemes[_i], 7, 2);
}
END_TEST

START_TEST(blocks_move_the_plans_bytes)
{
    struct setting setting = {.work = &three_layers,
                              .groups = three,
                              .cluster = &usual,
                              .overlap = COST_OVERLAP_WFBP,
                              .most_endpoints = 16};
    struct plan_options how = among(100, schemes[_i]);
    struct simulate_result result;
    uint64_t all = 0;
    struct plan *plan;

    result = run(&setting, &how, &plan, NULL);
    ck_assert_int_eq(result.members, 7);
    for (int r = 0; r < 100; r++)
        for (int b = 0; b < plan->nbuckets; b++)
            all += plan_traffic(plan, b, r).sent;
    ck_assert_uint_eq(result.sent, all);
    plan_destroy(plan);
}
END_TEST

/* ---- what must hold ---- */

static struct setting busy(enum cost_overlap overlap)
{
    return (struct setting){
        .work = &three_layers, .groups = three, .cluster = &usual, .overlap = overlap};
}

START_TEST(more_bandwidth_is_never_slower)
{
    struct cost_cluster cluster = usual;
    struct setting setting = busy(COST_OVERLAP_WFBP);
    struct plan_options how = among(12, schemes[_i]);
    double before = HUGE_VAL;

    setting.cluster = &cluster;
    how.sizes.chunk = 100000;
    for (cluster.link_Bps = 1e7; cluster.link_Bps < 1e11; cluster.link_Bps *= 2) {
        double seconds = seconds_of(&setting, &how);
        ck_assert_msg(seconds <= before * 1.0001, "%g B/s: %.9g s after %.9g", cluster.link_Bps,
                      seconds, before);
        before = seconds;
    }
    ck_assert_double_ge(before, 0.09);
}
END_TEST

START_TEST(overlap_is_never_slower_than_none)
{
    struct plan_options how = among(12, schemes[_i]);
    double seconds[COST_OVERLAPS];

    how.sizes.chunk = 100000;
    for (int o = 0; o < COST_OVERLAPS; o++) {
        struct setting setting = busy((enum cost_overlap)o);
        seconds[o] = seconds_of(&setting, &how);
    }
    ck_assert_double_le(seconds[COST_OVERLAP_BACKWARD], seconds[COST_OVERLAP_NONE] * 1.0001);
    ck_assert_double_le(seconds[COST_OVERLAP_WFBP], seconds[COST_OVERLAP_BACKWARD] * 1.0001);
    ck_assert_double_lt(seconds[COST_OVERLAP_WFBP], seconds[COST_OVERLAP_NONE]);
}
END_TEST

START_TEST(alike_ranks_end_alike)
{
    const struct setting setting = {
        .work = &one_layer, .groups = one, .cluster = &usual, .overlap = COST_OVERLAP_WFBP};
    struct plan_options how = among(16, schemes[_i]);
    struct simulate_rank ranks[16];

    if (scheme_find(sync_schemes, schemes[_i])->home == HOME_OWNER)
        return; /* one of them is not like the others */
    how.sizes.chunk = 4 * BIG / 16;
    run(&setting, &how, NULL, ranks);
    for (int r = 1; r < 16; r++)
        is_about(ranks[r].ended, ranks[0].ended, 0.01);
}
END_TEST

START_TEST(the_same_run_gives_the_same_bits)
{
    struct setting setting = busy(COST_OVERLAP_WFBP);
    struct plan_options how = among(20, schemes[_i]);

    ck_assert_double_eq(seconds_of(&setting, &how), seconds_of(&setting, &how));
}
END_TEST

/* Of blocks the seconds are about those of single ranks. */
START_TEST(blocks_are_as_fast_as_their_ranks)
{
    struct setting setting = busy(COST_OVERLAP_WFBP);
    struct plan_options how = among(96, schemes[_i]);
    double single = seconds_of(&setting, &how);

    setting.most_endpoints = 48;
    is_about(seconds_of(&setting, &how), single, 0.1);
}
END_TEST

SUITE("simulate")
{
    TCase *forms = suite_case(suite, "closed forms"), *bytes = suite_case(suite, "bytes");
    TCase *rules = suite_case(suite, "rules");

    tcase_add_test(forms, one_rank_computes_and_updates);
    tcase_add_test(forms, two_ranks_by_ps_take_a_gradient_and_an_answer);
    tcase_add_test(forms, two_ranks_by_low_rank_take_four_messages_one_after_another);
    tcase_add_test(forms, a_link_is_full_while_messages_leave);
    tcase_add_test(forms, two_ranks_by_sfb_take_the_factors);
    tcase_add_test(forms, every_message_costs_its_sender);
    tcase_add_test(forms, a_server_receives_from_one_worker_after_the_other);
    tcase_add_test(forms, ranks_of_a_node_share_its_link);
    tcase_add_test(forms, a_group_by_itself_takes_its_trips_its_bytes_and_its_products);
    tcase_add_test(forms, the_cap_slows_senders);
    tcase_add_test(rules, factors_in_slices_hold_nothing_back);
    tcase_add_loop_test(bytes, bytes_are_the_plans, 0, SCHEMES);
    tcase_add_loop_test(bytes, blocks_move_the_plans_bytes, 0, SCHEMES);
    tcase_add_loop_test(rules, more_bandwidth_is_never_slower, 0, SCHEMES);
    tcase_add_loop_test(rules, overlap_is_never_slower_than_none, 0, SCHEMES);
    tcase_add_loop_test(rules, alike_ranks_end_alike, 0, SCHEMES);
    tcase_add_loop_test(rules, the_same_run_gives_the_same_bits, 0, SCHEMES);
    tcase_add_loop_test(rules, blocks_are_as_fast_as_their_ranks, 0, SCHEMES);
}
