/* Copies between host and device: the simulator against seconds worked out by hand, and the choice
 * that goes by it. */
#include <check.h>
#include <math.h>

#include "simulate/choose.h"

#include "tests/simulate/simulate_groups.h"
#include "tests/suite.h"
#include "util/error.h"

static const struct group groups[LAYERS] = {TWO_CONVOLUTIONS,
                                            FULLY_CONNECTED(125)}; /* 1 MB of factors */

static struct cost_cluster cluster;

static struct plan_options by(const char *scheme, int ranks)
{
    return (struct plan_options){
        .registry = sync_schemes,
        .comm = {.policy = COMM_SCHEME, .scheme = scheme_find(sync_schemes, scheme)},
        .nranks = ranks,
        .iter_size = 1,
        .sizes.chunk = 2 << 20,
    };
}

static double play(const struct layer_times *work, const struct group *of,
                   const struct plan_options *how, enum cost_overlap overlap)
{
    struct simulate_options options = {
        .cluster = &cluster, .work = work, .overlap = overlap, .ranks_per_node = 1};
    struct plan_options with = *how;
    struct simulate_result result;
    struct plan *plan;

    with.sizes.window = cost_sizes_for(&cluster).window;
    ck_assert_msg(plan_create(&with, work->ngroups, of, &plan) == 0, "%s", error_text());
    options.plan = plan;
    ck_assert_msg(simulate_run(&options, &result, NULL) == 0, "%s", error_text());
    plan_destroy(plan);
    return result.seconds;
}

/* Of the connected layer alone. */
static void takes(const char *scheme, int ranks, double wanted)
{
    struct plan_options how = by(scheme, ranks);
    struct group fc = groups[LAYERS - 1];
    double played;

    fc.layer = 0;
    fc.begin = 0;
    played = play(&one_layer, &fc, &how, COST_OVERLAP_WFBP);
    ck_assert_msg(fabs(played - wanted) <= 1e-6 * wanted, "%s played: %.9g s, expected %.9g",
                  scheme, played, wanted);
}

START_TEST(a_gradient_leaves_and_parameters_come_back)
{
    cluster = only_link;
    takes("ps", 2, 0.03 + 2 * (1e-3 + 2e-3));
    cluster.device_Bps = 1e9;
    takes("ps", 2, 0.03 + 2 * (1e-3 + 2e-3) + 2 * 4e-3);
}
END_TEST

START_TEST(own_factors_leave_and_those_of_others_come)
{
    cluster = only_link;
    takes("sfb", 4, 0.03 + 1e-3 + 3 * 1e-3);
    cluster.device_Bps = 1e9;
    takes("sfb", 4, 0.03 + 1e-3 + 3 * 1e-3 + 1e-3 + 3 * 1e-3);
}
END_TEST

START_TEST(who_is_alone_copies_nothing)
{
    cluster = only_link;
    cluster.device_Bps = 1e9;
    takes("ps", 1, 0.03);
}
END_TEST

/* Layers of 4 MB and almost nothing: what one layer copies is in the way of the next one's. */
START_TEST(layers_are_copied_one_after_the_other)
{
    enum cost_overlap overlap = (enum cost_overlap)_i;
    struct plan_options how = by("ps", 2);
    /* the first gradient is there after all of backward, or of one layer; then two layers go out,
       and the second one in, 40 ms each; the small one's copies are last, and forward waits */
    double first = overlap == COST_OVERLAP_NONE ? 0.06 : 0.02;
    double wanted = first + 3 * 0.04 + 8e3 / 0.1e9 + 0.03, played;

    cluster = only_link;
    cluster.link_Bps = 1e12;
    cluster.latency_seconds = 0;
    cluster.device_Bps = 0.1e9;
    played = play(&three_layers, groups, &how, overlap);
    ck_assert_msg(fabs(played - wanted) <= 1e-3 * wanted, "played %.9g s, expected %.9g", played,
                  wanted);
}
END_TEST

START_TEST(auto_takes_what_copies_less_where_the_link_is_fast)
{
    static const char *const words[] = {"ps", "sfb"};
    const struct scheme *const registry[] = {scheme_find(sync_schemes, "ps"),
                                             scheme_find(sync_schemes, "sfb"), NULL};
    struct plan_options free = {.registry = registry,
                                .nranks = 4,
                                .iter_size = 1,
                                .sizes = {.chunk = 2 << 20, .window = COST_SIZE_CHOSEN}};
    struct choose_question question = {.how = &free,
                                       .groups = groups,
                                       .play = {.work = &three_layers,
                                                .overlap = COST_OVERLAP_NONE,
                                                .cluster = &cluster,
                                                .ranks_per_node = 1}};
    struct choose_answer answer;
    double seconds[2];

    cluster = only_link;
    cluster.link_Bps = 1e12;
    cluster.gemm_flops = 2.0 * BIG * 125 * 3 / 5e-3; /* the product takes 5 ms */
    for (int copies = 0; copies < 2; copies++) {
        cluster.device_Bps = copies ? 1e9 : 0; /* 8 ms against 4 */
        for (int s = 0; s < 2; s++) {
            struct plan_options how = by(words[s], 4);
            how.comm.policy = COMM_SCHEME;
            seconds[s] = play(&three_layers, groups, &how, COST_OVERLAP_NONE);
        }
        ck_assert_msg(choose_comm(&question, &answer) == 0, "%s", error_text());
        ck_assert_ptr_eq(answer.way[2].scheme, registry[seconds[1] < seconds[0]]);
        choose_answer_free(&answer);
    }
    cluster.gemm_flops *= 5; /* 1 ms */
    ck_assert_msg(choose_comm(&question, &answer) == 0, "%s", error_text());
    ck_assert_ptr_eq(answer.way[2].scheme, registry[1]);
    choose_answer_free(&answer);
}
END_TEST

SUITE("copies")
{
    TCase *tcase = suite_case(suite, "copies between host and device");

    tcase_add_test(tcase, a_gradient_leaves_and_parameters_come_back);
    tcase_add_test(tcase, own_factors_leave_and_those_of_others_come);
    tcase_add_test(tcase, who_is_alone_copies_nothing);
    tcase_add_loop_test(tcase, layers_are_copied_one_after_the_other, 0, COST_OVERLAPS);
    tcase_add_test(tcase, auto_takes_what_copies_less_where_the_link_is_fast);
}
