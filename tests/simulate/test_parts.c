/* What simulation adds to a plan's messages, and other systems, against seconds worked out by
 * hand. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "forecast/systems.h"
#include "tests/simulate/simulate_groups.h"
#include "tests/suite.h"
#include "util/error.h"

/* Small, then two of 4 MB; the last one is a layer alone where a net has one. */
static const struct group groups[LAYERS] = {TWO_CONVOLUTIONS,
                                            {.name = "conv3",
                                             .layer = 2,
                                             .begin = 2000 + BIG,
                                             .elems = BIG,
                                             .nparams = 1,
                                             .params = &big_param,
                                             .trains = true}};

static struct cost_cluster cluster;
static struct plan_options how;
static struct simulate_options options;
static int nlayers;
static struct layer_join *joins;

static void start(int ranks)
{
    cluster = only_link;
    how = (struct plan_options){.registry = sync_schemes,
                                .comm = {.policy = COMM_SCHEME, .scheme = &scheme_ps},
                                .nranks = ranks,
                                .iter_size = 1,
                                .sizes.chunk = 2 << 20};
    options = (struct simulate_options){
        .cluster = &cluster, .ranks_per_node = 1, .overlap = COST_OVERLAP_BACKWARD};
    nlayers = 1;
    joins = NULL;
}

static void start_baseline(const char *name, int ranks)
{
    const struct system *baseline;

    start(ranks);
    ck_assert_int_eq(systems_parse(sync_schemes, "--comm", name, &how.comm, &baseline), 0);
    how.sizes.chunk = baseline->chunk_bytes;
    how.in_turn = baseline->in_turn;
    options.overlap = baseline->overlap;
    options.manner = baseline->manner;
}

static struct simulate_result run(void)
{
    const struct layer_times work = {.nlayers = nlayers,
                                     .forward = ten,
                                     .backward = twenty,
                                     .join = joins,
                                     .ngroups = nlayers,
                                     .layer = layers};
    struct group one = groups[LAYERS - 1];
    struct simulate_result result;
    struct plan *plan;

    one.layer = 0;
    one.begin = 0;
    how.sizes.window = cost_sizes_for(&cluster).window;
    ck_assert_msg(plan_create(&how, nlayers, nlayers == 1 ? &one : groups, &plan) == 0, "%s",
                  error_text());
    options.plan = plan;
    options.work = &work;
    ck_assert_msg(simulate_run(&options, &result, NULL) == 0, "%s", error_text());
    plan_destroy(plan);
    return result;
}

static void takes(double wanted, double part)
{
    double found = run().seconds;

    ck_assert_msg(fabs(found - wanted) <= part * wanted, "%.9g s, expected %.9g", found, wanted);
}

/* ---- slower parts: two ranks by PS send 2 MB, and 2 MB back: 36 ms without them ---- */

START_TEST(copies_come_before_the_first_send_and_after_the_last_answer)
{
    start(2);
    takes(0.036, 1e-6);
    cluster.device_Bps = 1e9; /* 4 ms each way */
    takes(0.036 + 2 * 4e-3, 1e-6);
    options.overlap = COST_OVERLAP_NONE;
    options.manner.copies_wait = true;
    takes(0.036 + 2 * 4e-3, 1e-6);
}
END_TEST

START_TEST(who_is_alone_copies_only_where_it_knows_no_other_way)
{
    start(1);
    cluster.device_Bps = 1e9;
    takes(0.03, 1e-6);
    options.manner.syncs_alone = true;
    takes(0.03 + 2 * 4e-3, 1e-6);
}
END_TEST

START_TEST(copies_of_one_layer_hide_behind_the_passes_of_others)
{
    double hidden, waited;

    start(2);
    nlayers = LAYERS;
    cluster.device_Bps = 1e9;
    hidden = run().seconds;
    options.overlap = COST_OVERLAP_NONE;
    options.manner.copies_wait = true;
    waited = run().seconds;
    /* both large layers are back before the small one is posted; then all of it was in the way */
    ck_assert_double_le(hidden, 0.09 + 2e-3 + 1e-4);
    ck_assert_double_ge(waited, 0.09 + 2 * 8e-3 + 2e-3);
}
END_TEST

START_TEST(a_thread_sends_and_receives_in_turn)
{
    start(2);
    cluster.thread_Bps = 0.25e9; /* 4 ms for 2 MB: out, in, out, in */
    takes(0.03 + 4 * 4e-3, 1e-6);
}
END_TEST

START_TEST(headers_take_room_on_a_link)
{
    start(2);
    cluster.header_bytes = 250e3; /* an eighth of 2 MB, each way */
    takes(0.0365, 1e-6);
}
END_TEST

START_TEST(a_leaf_is_left_on_a_narrow_way)
{
    start(2);
    options.leaf_nodes = 1;
    options.oversubscription = 4; /* 8 ms up, a latency later as many down */
    takes(0.03 + 2 * 9e-3, 1e-6);
    options.leaf_nodes = 2; /* nobody leaves it */
    takes(0.036, 1e-6);
}
END_TEST

START_TEST(a_way_up_is_shared_by_all_of_a_leaf)
{
    double alone;

    start(8);
    options.leaf_nodes = 4;
    options.oversubscription = 1;
    alone = run().seconds;
    options.oversubscription = 4; /* four ranks on one link: 4/7 of their bytes take four times */
    ck_assert_double_ge(run().seconds, 0.03 + 2 * 4e-3 * 4 / 8 * 4);
    ck_assert_double_ge(run().seconds, alone + 5e-3);
}
END_TEST

/* ---- workers that are unlike ---- */

START_TEST(the_slower_worker_sets_the_pace)
{
    const struct simulate_pace half[] = {{1, 1}, {0.5, 1}}, dealt[] = {{1, 4. / 3}, {0.5, 2. / 3}};

    start(2);
    options.paces = half;
    takes(0.06 + 6e-3, 1e-6);
    options.work = &one_layer;
    ck_assert_double_eq(simulate_passes(&options, 2), 2 * layer_times_total(&one_layer));
    options.paces = dealt; /* both take 40 ms */
    takes(0.04 + 6e-3, 1e-6);
}
END_TEST

START_TEST(who_leads_others_is_as_slow_as_the_slowest_of_them)
{
    const struct simulate_pace one[8] = {{1, 1}, {1, 1}, {1, 1}, {1, 1},
                                         {1, 1}, {1, 1}, {1, 1}, {0.25, 1}};
    static const int node[8] = {0, 0, 0, 0, 1, 1, 1, 1};

    start(8);
    options.paces = one;
    cluster.link_Bps = 1e30;
    cluster.latency_seconds = 0;
    takes(0.12, 1e-6);
    options.most_endpoints = 2; /* blocks */
    takes(0.12, 1e-6);
    how.nodes = node;
    options.ranks_per_node = 4;
    takes(0.12, 1e-6);
}
END_TEST

/* ---- passes that wait for sums of all ---- */

START_TEST(sums_go_up_and_down_a_tree_and_who_is_early_waits)
{
    static struct layer_join both[] = {{1, 8e3}, {3, 0}}; /* forward; backward */
    const struct simulate_pace half[] = {{1, 1}, {0.5, 1}};
    double all = 2 * 4 * 1e-3 + 2 * 8e-6;
    struct simulate_result result;

    start(2);
    joins = both;
    takes(0.036 + all, 1e-6);
    result = run();
    ck_assert_double_eq_tol(result.join_share, all / result.seconds, 1e-6);
    cluster.message_seconds = 1e-6;
    takes(0.036 + all + 2 * 4e-6, 1e-4);
    cluster.message_seconds = 0;
    options.paces = half; /* one waits for the other's 30 ms */
    takes(0.066 + all, 1e-6);
    result = run();
    ck_assert_double_eq_tol(result.join_share, (all + 0.03 / 2) / result.seconds, 0.01);
    options.paces = NULL;
    options.ranks_per_node = 2; /* in memory */
    takes(0.03, 1e-3);
    start(1); /* nobody to wait for */
    joins = both;
    takes(0.03, 1e-6);
    start(8); /* three steps each way */
    how.comm = (struct comm){.policy = COMM_NONE};
    joins = both;
    takes(0.03 + 3 * all, 1e-6);
}
END_TEST

/* Backward's sum stands behind the gradient that the layer above posted 20 ms before. */
START_TEST(sums_stand_behind_what_is_on_the_links)
{
    static struct layer_join second[2 * LAYERS];
    struct simulate_result result;

    start(2);
    nlayers = LAYERS;
    second[LAYERS + 1].sums = 1;
    joins = second;
    result = run();
    ck_assert_double_le(result.join_share * result.seconds, 3e-3); /* they are gone */
    cluster.link_Bps = 5e7;                                        /* 2 MB take 40 ms */
    result = run();
    ck_assert_double_ge(result.join_share * result.seconds, 22e-3);
}
END_TEST

/* ---- other systems ---- */

START_TEST(whole_tensors_crowd_one_server)
{
    start_baseline("caffe-ps", 5);
    /* 16 MB leave it one after the other, so that gradients come back as much apart: the last
     * one is waited for */
    takes(0.03 + 1e-3 + 4 * 4e-3 + 1e-3 + 4e-3, 1e-6);
}
END_TEST

START_TEST(parameters_go_to_servers_in_turn)
{
    const struct group_param both[] = {{.elems = 1900}, {.elems = 100}};
    const int homes[] = {0, 2, 0};
    struct group mine[LAYERS];
    struct plan *plan;

    memcpy(mine, groups, sizeof mine);
    mine[0].nparams = 2;
    mine[0].params = both;
    start_baseline("tf-ps", 3);
    ck_assert_msg(plan_create(&how, LAYERS, mine, &plan) == 0, "%s", error_text());
    for (int b = 0; b < LAYERS; b++)
        ck_assert_int_eq(plan_home(plan, plan->buckets[b].first_chunk), homes[b]);
    plan_destroy(plan);
}
END_TEST

START_TEST(a_call_takes_its_receiver_longer_the_more_it_brings)
{
    start_baseline("tf-ps", 2);
    options.manner.call_seconds = 1e-3;
    options.manner.calls_Bps = 0.5e9; /* 8 ms for 4 MB */
    options.manner.half_rate_bytes = 4e6;
    options.manner.called_Bps = 1e30;
    takes(0.03 + 2 * (1e-3 + 1e-3 + 2 * 8e-3), 1e-6);
    options.manner.called_Bps = 0.1e9; /* 40 ms: what is not sent cannot be received */
    takes(0.03 + 2 * (1e-3 + 40e-3), 1e-6);
}
END_TEST

START_TEST(nobody_reads_before_all_is_updated)
{
    double late;

    start_baseline("tf-ps", 2);
    nlayers = LAYERS;
    options.overlap = COST_OVERLAP_WFBP;
    cluster.sum_Bps = 0.1e9;
    options.manner.calls_Bps = options.manner.called_Bps = 1e30;
    options.manner.call_seconds = 0;
    /* the second layer's last gradient comes after 75 ms; then it is added up and updated */
    late = 75e-3 + 2 * 4e6 / cluster.sum_Bps + cost_update_seconds(&cluster, 4e6);
    takes(late, 0.01);
    options.manner.sums_late = false; /* forward begins while that goes on */
    ck_assert_double_le(run().seconds, late - 0.01);
}
END_TEST

START_TEST(a_ring_takes_steps_and_bytes)
{
    struct simulate_result result;

    start_baseline("ring", 4);
    options.manner.cycle_seconds = 0;
    takes(0.03 + 6 * 1e-3 + 2 * 4e-3 * 3 / 4, 1e-6);
    result = run();
    ck_assert_uint_eq(result.sent, 2 * (uint64_t)4 * BIG * 3);
    ck_assert_uint_eq(result.received, result.sent);
}
END_TEST

START_TEST(a_ring_of_one_node_is_not_on_its_link)
{
    start_baseline("ring", 4);
    options.manner.cycle_seconds = 0;
    options.ranks_per_node = 4;
    cluster.local_Bps = 4e9;
    takes(0.03 + 2 * 1e-3 * 3 / 4, 1e-6);
}
END_TEST

START_TEST(a_ring_waits_for_the_end_of_a_cycle)
{
    start_baseline("ring", 2);
    options.manner.cycle_seconds = 50e-3;
    /* 6 ms of ring from a multiple of 50 on, 30 of passes: 14 before the next */
    takes(50e-3, 1e-6);
}
END_TEST

START_TEST(a_ring_fuses_what_became_ready_meanwhile)
{
    double fused;

    start_baseline("ring", 32); /* 62 ms of start-up, 20 ms between layers */
    nlayers = LAYERS;
    options.manner.cycle_seconds = 0;
    fused = run().seconds;
    options.manner.fusion_bytes = 1; /* each by itself */
    ck_assert_double_ge(run().seconds, fused + 60e-3);
}
END_TEST

SUITE("parts")
{
    TCase *parts = suite_case(suite, "slower parts"), *others = suite_case(suite, "other systems"),
          *unlike = suite_case(suite, "workers that are unlike"),
          *sums = suite_case(suite, "passes that wait for sums");

    tcase_add_test(parts, copies_come_before_the_first_send_and_after_the_last_answer);
    tcase_add_test(parts, who_is_alone_copies_only_where_it_knows_no_other_way);
    tcase_add_test(parts, copies_of_one_layer_hide_behind_the_passes_of_others);
    tcase_add_test(parts, a_thread_sends_and_receives_in_turn);
    tcase_add_test(parts, headers_take_room_on_a_link);
    tcase_add_test(parts, a_leaf_is_left_on_a_narrow_way);
    tcase_add_test(parts, a_way_up_is_shared_by_all_of_a_leaf);
    tcase_add_test(unlike, the_slower_worker_sets_the_pace);
    tcase_add_test(unlike, who_leads_others_is_as_slow_as_the_slowest_of_them);
    tcase_add_test(sums, sums_go_up_and_down_a_tree_and_who_is_early_waits);
    tcase_add_test(sums, sums_stand_behind_what_is_on_the_links);
    tcase_add_test(others, whole_tensors_crowd_one_server);
    tcase_add_test(others, parameters_go_to_servers_in_turn);
    tcase_add_test(others, a_call_takes_its_receiver_longer_the_more_it_brings);
    tcase_add_test(others, nobody_reads_before_all_is_updated);
    tcase_add_test(others, a_ring_takes_steps_and_bytes);
    tcase_add_test(others, a_ring_of_one_node_is_not_on_its_link);
    tcase_add_test(others, a_ring_waits_for_the_end_of_a_cycle);
    tcase_add_test(others, a_ring_fuses_what_became_ready_meanwhile);
}
