/* The choice of schemes by what is played, against every choice that a user could have named. */
#include <check.h>
#include <math.h>

#include "simulate/choose.h"
#include "forecast/layer_times.h"
#include "tests/simulate/simulate_groups.h"
#include "tests/suite.h"
#include "util/error.h"
#include "util/rng.h"

enum { DRAWS = 48 };

static int ranks = 16; /* a test runs in a process of its own, and may set another number */

static const struct group groups[LAYERS] = {TWO_CONVOLUTIONS, FULLY_CONNECTED(16)};

/* Links of 20 MB/s to 2 GB/s, products of 0.2 to 20 TFLOP/s. */
static struct cost_cluster draw(uint32_t number)
{
    struct cost_cluster cluster = only_link;
    struct rng rng = rng_make(1, RNG_DUMMY, number, 0);

    cluster.latency_seconds = 50e-6;
    cluster.message_seconds = 5e-6;
    cluster.link_Bps = 2e7 * pow(10, rng_below(&rng, 0, 1000) / 500.0);
    cluster.gemm_flops = 2e11 * pow(10, rng_below(&rng, 1, 1000) / 500.0);
    cluster.sum_Bps = 1e10;
    return cluster;
}

/* A question that owns what it points at. */
struct asked {
    struct cost_cluster cluster;
    struct plan_options how;
    struct choose_question question;
};

static void ask(struct asked *a, const struct cost_cluster *cluster, const struct layer_times *work)
{
    a->cluster = *cluster;
    a->how = (struct plan_options){.registry = sync_schemes,
                                   .nranks = ranks,
                                   .iter_size = 1,
                                   .sizes.chunk = cost_sizes_for(cluster).chunk,
                                   .sizes.merge = COST_SIZE_CHOSEN,
                                   .sizes.window = COST_SIZE_CHOSEN};
    a->question = (struct choose_question){.how = &a->how,
                                           .groups = groups,
                                           .play = {.work = work,
                                                    .overlap = COST_OVERLAP_WFBP,
                                                    .cluster = &a->cluster,
                                                    .ranks_per_node = 1}};
}

static struct choose_answer answer_to(const struct asked *a)
{
    struct choose_answer answer;

    ck_assert_msg(!choose_comm(&a->question, &answer), "%s", error_text());
    return answer;
}

static double play(const struct choose_question *question, struct comm comm, const struct way *ways,
                   size_t merge, size_t window)
{
    struct plan_options how = *question->how;
    struct simulate_options options = question->play;
    struct simulate_result result;
    struct plan *plan;

    how.comm = comm;
    how.ways = ways;
    how.sizes.merge = merge;
    how.sizes.window = window;
    ck_assert_msg(!plan_create(&how, LAYERS, groups, &plan), "%s", error_text());
    options.plan = plan;
    ck_assert_msg(!simulate_run(&options, &result, NULL), "%s", error_text());
    plan_destroy(plan);
    return result.seconds;
}

/* Each group by the lossless scheme that is shortest for it alone. */
static double play_cheapest(const struct asked *a, size_t merge, size_t window)
{
    struct cost table[LAYERS * WAYS_MOST];
    struct way cheapest[LAYERS];
    struct ways ways;

    ways_list(sync_schemes, WIRE_FP32, NULL, &ways);
    ck_assert_msg(!cost_table(&a->cluster, &a->how, &ways, LAYERS, groups, table) &&
                      !simulate_table(&a->question.play, &a->how, &ways, LAYERS, groups, table),
                  "%s", error_text());
    for (int g = 0; g < LAYERS; g++) {
        const struct cost *row = table + g * ways.n, *best = NULL;
        for (const struct cost *c = row; c < row + ways.n; c++)
            if (c->possible && (!best || c->seconds < best->seconds))
                best = c;
        ck_assert_ptr_nonnull(best);
        cheapest[g] = ways.way[best - row];
    }
    return play(&a->question, (struct comm){.policy = COMM_AUTO}, cheapest, merge, window);
}

/* By the player, asked again from outside: how much longer it takes where each group goes by what
 * is shortest for it alone. */
static double compare(uint32_t number)
{
    static const char *const named[] = {"ps", "sfb", "allreduce", "paper"};
    struct cost_cluster cluster = draw(number);
    struct plan_sizes sizes = cost_sizes_for(&cluster);
    struct comm by = {.policy = COMM_AUTO};
    struct choose_answer answer;
    struct asked a;
    double own;

    ask(&a, &cluster, &three_layers);
    answer = answer_to(&a);
    ck_assert_double_eq_tol(
        play(&a.question, by, answer.way, answer.sizes.merge, answer.sizes.window), answer.seconds,
        1e-9 * answer.seconds);
    ck_assert_int_eq(answer.nrows, 5); /* the four below, and the mixes */
    for (int i = 0; i < answer.nrows; i++)
        ck_assert_double_le(answer.seconds, answer.row[i].seconds);
    ck_assert_double_eq(answer.seconds, answer.row[answer.taken].seconds);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(comm_parse(sync_schemes, "--comm", named[i], &by), 0);
        for (int merged = 0; merged < 2; merged++) {
            double other = play(&a.question, by, NULL, merged ? sizes.merge : 0, sizes.window);
            ck_assert_msg(answer.seconds <= other * (1 + 1e-9),
                          "cluster %u: %s takes %.9g s, what was chosen %.9g", number, named[i],
                          other, answer.seconds);
        }
    }
    own = play_cheapest(&a, sizes.merge, sizes.window) / answer.seconds;
    choose_answer_free(&answer);
    return own;
}

START_TEST(no_named_choice_is_shorter)
{
    ck_assert_double_ge(compare((uint32_t)_i), 1 - 1e-9);
}
END_TEST

/* Else playing whole plans would be for nothing. */
START_TEST(playing_all_together_sees_what_layers_alone_do_not)
{
    ranks = 24;
    ck_assert_double_gt(compare(18), 1.04);
}
END_TEST

/* Where all traffic hides behind the passes, nothing is shorter than the paper's rule. */
START_TEST(ties_go_to_the_papers_rule)
{
    struct cost_cluster fast = only_link;
    struct choose_answer answer;
    struct asked a;

    fast.link_Bps = 1e30;
    fast.latency_seconds = 0;
    ask(&a, &fast, &three_layers);
    answer = answer_to(&a);
    ck_assert_int_eq(answer.row[answer.taken].comm.policy, COMM_PAPER);
    ck_assert_double_eq_tol(answer.seconds, 0.09, 1e-9);
    choose_answer_free(&answer);
}
END_TEST

/* A fast link whose ranks may send no more than a slow one carries is that slow one. */
START_TEST(a_cap_changes_the_choice)
{
    struct cost_cluster cluster = only_link;
    struct choose_answer wide, capped;
    const double cap = 1e7;
    struct asked a;

    cluster.latency_seconds = 0;
    cluster.gemm_flops = 1e11; /* SFB's products take longer than a fast link needs for PS */
    cluster.link_Bps = 1e11;
    ask(&a, &cluster, &three_layers);
    wide = answer_to(&a);
    cost_cap(&cluster, cap, 1);
    ask(&a, &cluster, &three_layers);
    a.question.play.bytes_per_second = cap;
    capped = answer_to(&a);
    ck_assert_str_ne(wide.way[2].scheme->name, "sfb");
    ck_assert_str_eq(capped.way[2].scheme->name, "sfb");
    ck_assert_double_gt(capped.seconds, 8. * BIG / 2 / cap); /* PS's bytes of conv2 alone */
    choose_answer_free(&wide);
    choose_answer_free(&capped);
}
END_TEST

/* Eight passes hide eight times the traffic, and send eight times the factors. */
START_TEST(micro_batches_are_played_as_passes)
{
    struct cost_cluster cluster = only_link;
    double forward[LAYERS], backward[LAYERS];
    struct layer_times work = {.nlayers = LAYERS,
                               .forward = forward,
                               .backward = backward,
                               .ngroups = LAYERS,
                               .layer = layers};
    struct choose_answer one, eight;
    struct asked a;

    cluster.latency_seconds = 0;
    cluster.link_Bps = 8e7;
    ask(&a, &cluster, &three_layers);
    one = answer_to(&a);
    for (int l = 0; l < LAYERS; l++) {
        forward[l] = three_layers.forward[l];
        backward[l] = three_layers.backward[l];
    }
    layer_times_repeat(&work, 8);
    ck_assert_double_eq_tol(layer_times_total(&work), 8 * 0.09, 1e-9);
    ask(&a, &cluster, &work);
    a.how.iter_size = 8;
    eight = answer_to(&a);
    ck_assert_str_eq(one.way[2].scheme->name, "sfb");
    ck_assert_str_ne(eight.way[2].scheme->name, "sfb");
    ck_assert_double_ge(eight.seconds, 8 * 0.09);
    ck_assert_double_lt(eight.seconds, 8 * one.seconds);
    choose_answer_free(&one);
    choose_answer_free(&eight);
}
END_TEST

START_TEST(what_the_user_gives_is_kept)
{
    struct cost_cluster cluster = draw(7);
    struct choose_answer answer;
    struct asked a;

    ask(&a, &cluster, &three_layers);
    a.how.sizes.merge = 12345;
    a.how.sizes.window = 54321;
    a.question.whole_gradients = true;
    answer = answer_to(&a);
    ck_assert_uint_eq(answer.sizes.merge, 12345);
    ck_assert_uint_eq(answer.sizes.window, 54321);
    for (int i = 0; i < answer.nrows; i++) {
        ck_assert_int_ne(answer.row[i].comm.policy, COMM_PAPER); /* it sends factors */
        ck_assert_uint_eq(answer.row[i].sizes.merge, 12345);
        ck_assert_uint_eq(answer.row[i].sizes.window, 54321);
    }
    for (int g = 0; g < LAYERS; g++)
        ck_assert(!answer.way[g].scheme->factors);
    choose_answer_free(&answer);
}
END_TEST

/* What a user could name beside it, by the player asked again from outside: nothing is more than
 * the part that no rounding is worth faster, and the exact answer is the one without --lossy. */
static double choose_with(const char *text, uint32_t number, struct choose_answer *out)
{
    struct cost_cluster cluster = draw(number);
    struct plan_sizes sizes = cost_sizes_for(&cluster);
    struct choose_answer exact;
    struct ways lossy;
    struct asked a;
    double best;

    ck_assert_int_eq(ways_parse_lossy(sync_schemes, "--lossy", text, &lossy), 0);
    ask(&a, &cluster, &three_layers);
    exact = answer_to(&a);
    a.question.lossy = &lossy;
    *out = answer_to(&a);
    ck_assert_double_eq(out->exact_seconds, exact.seconds);
    best = exact.seconds;
    for (int w = 0; w < lossy.n; w++) {
        struct way way = lossy.way[w];
        struct comm by = {.policy = COMM_SCHEME, .scheme = way.scheme, .rank = way.rank};
        double named;
        if (!way.scheme)
            by.scheme = sync_schemes[0];
        a.how.wire = way.wire;
        named = play(&a.question, by, NULL, sizes.merge, sizes.window);
        best = named < best ? named : best;
    }
    ck_assert_msg(out->seconds <= best * 1.011, "cluster %u: %.9g by name, %.9g", number, best,
                  out->seconds);
    a.how.wire = WIRE_FP32;
    ck_assert_double_eq_tol(play(&a.question, (struct comm){.policy = COMM_AUTO}, out->way,
                                 out->sizes.merge, out->sizes.window),
                            out->seconds, 1e-9 * out->seconds);
    choose_answer_free(&exact);
    return out->exact_seconds / out->seconds;
}

START_TEST(what_is_lossy_is_taken_where_it_is_faster)
{
    struct choose_answer answer;
    char words[CHOOSE_WORDS];
    double times = choose_with("bf16,lowrank:2,onebit", (uint32_t)_i, &answer);
    int rounded = 0;

    for (int g = 0; g < LAYERS; g++)
        rounded += ways_find(&answer.ways, answer.way[g]) >= answer.nexact;
    ck_assert_int_eq(rounded > 0, answer.taken >= answer.nexact_rows);
    ck_assert(rounded > 0 ? times > 1.01 : times == 1);
    choose_print_lossy(&answer, LAYERS, words);
    ck_assert_int_eq(strstr(words, "nothing is rounded") != NULL, rounded == 0);
    choose_answer_free(&answer);
}
END_TEST

/* The second convolution and the layer behind it have matrices; of 2000 parameters without one
 * nothing is said. */
START_TEST(it_says_what_it_saves_and_what_it_costs)
{
    struct choose_answer answer;
    char words[CHOOSE_WORDS], expected[CHOOSE_WORDS];
    struct asked a;
    struct cost_cluster slow = only_link;
    struct ways lossy;

    slow.link_Bps = 1e7;
    ask(&a, &slow, &three_layers);
    a.question.lossy = &lossy;
    ck_assert_int_eq(ways_parse_lossy(sync_schemes, "--lossy", "lowrank:2", &lossy), 0);
    answer = answer_to(&a);
    choose_print_lossy(&answer, LAYERS, words);
    snprintf(expected, sizeof expected,
             "by the model %.2f times as fast as the best exact plan; 2 of 3 layers travel "
             "as low rank 2: their gradients are rounded, and the rounding error is added to the "
             "next iteration's",
             answer.exact_seconds / answer.seconds);
    ck_assert_str_eq(words, expected);
    ck_assert_double_gt(answer.exact_seconds, 3 * answer.seconds);
    choose_answer_free(&answer);
    a.question.whole_gradients = true; /* as a team of GPUs */
    answer = answer_to(&a);
    ck_assert_double_eq(answer.exact_seconds, answer.seconds);
    choose_answer_free(&answer);
    a.question.whole_gradients = false;
    ck_assert_int_eq(ways_parse_lossy(sync_schemes, "--lossy", "lowrank:1000", &lossy), 0);
    ck_assert_int_ne(choose_comm(&a.question, &answer), 0);
    ck_assert_str_eq(error_text(), "no layer can travel by lowrank:1000; leave it out");
}
END_TEST

START_TEST(one_machine_asks_only_with_figures_that_were_given)
{
    ck_assert(choose_is_asked(2, 2, false));
    ck_assert(choose_is_asked(1, 4, true));
    ck_assert(!choose_is_asked(1, 4, false));
    ck_assert(!choose_is_asked(2, 1, true)); /* the other is a server */
}
END_TEST

SUITE("simulate: choice")
{
    TCase *tcase = suite_case(suite, "choice");

    tcase_add_loop_test(tcase, no_named_choice_is_shorter, 0, DRAWS);
    tcase_add_test(tcase, playing_all_together_sees_what_layers_alone_do_not);
    tcase_add_test(tcase, ties_go_to_the_papers_rule);
    tcase_add_test(tcase, a_cap_changes_the_choice);
    tcase_add_test(tcase, micro_batches_are_played_as_passes);
    tcase_add_test(tcase, what_the_user_gives_is_kept);
    tcase_add_loop_test(tcase, what_is_lossy_is_taken_where_it_is_faster, 0, DRAWS);
    tcase_add_test(tcase, it_says_what_it_saves_and_what_it_costs);
    tcase_add_test(tcase, one_machine_asks_only_with_figures_that_were_given);
}
