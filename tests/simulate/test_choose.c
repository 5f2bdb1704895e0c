/* The choice of schemes by what is played, against every choice that a user could have named. */
#include <check.h>
#include <math.h>

#include "tests/simulate/simulate_groups.h"
#include "tests/suite.h"
#include "util/error.h"
#include "util/rng.h"

enum { DRAWS = 48, RANKS = 24 };

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

static double play(const struct cost_question *question, const struct simulate_options *options,
                   struct comm comm, const struct scheme *const *schemes, size_t merge)
{
    struct plan_options how = *question->how;
    double seconds;

    how.comm = comm;
    how.schemes = schemes;
    how.merge_bytes = merge;
    ck_assert_msg(!simulate_predict(question, options, &how, &seconds), "%s", error_text());
    return seconds;
}

/* How much longer the cost model's own choice is than the one that was played. */
static double compare(uint32_t number)
{
    static const char *const named[] = {"ps", "sfb", "allreduce", "paper"};
    struct cost_cluster cluster = draw(number);
    struct simulate_options options = {
        .cluster = &cluster, .ranks_per_node = 1, .window = COST_SIZE_CHOSEN};
    struct plan_options how = {.nranks = RANKS,
                               .iter_size = 1,
                               .chunk_bytes = cost_sizes_for(&cluster).chunk,
                               .merge_bytes = COST_SIZE_CHOSEN};
    struct cost_question question = {.work = &three_layers,
                                     .cluster = &cluster,
                                     .how = &how,
                                     .registry = scheme_registry,
                                     .groups = groups,
                                     .overlap = COST_OVERLAP_WFBP};
    struct comm by = {.policy = COMM_AUTO};
    struct cost_answer played, averaged;
    struct simulate_choice choice;
    double seconds, own;

    ck_assert_msg(!simulate_choose(&question, &options, &played, &choice), "%s", error_text());
    seconds = choice.seconds;
    options.window = choice.window;
    ck_assert_msg(!cost_choose(&question, &averaged), "%s", error_text());
    ck_assert_double_eq_tol(play(&question, &options, by, played.scheme, played.merge_bytes),
                            seconds, 1e-9 * seconds);
    own = play(&question, &options, by, averaged.scheme, averaged.merge_bytes);
    ck_assert_double_le(seconds, own);
    for (int i = 0; i < 4; i++) {
        double other;
        ck_assert_int_eq(comm_parse(scheme_registry, named[i], &by), 0);
        other = play(&question, &options, by, NULL, cost_sizes_for(&cluster).merge);
        ck_assert_msg(seconds <= other / 0.989, "cluster %u: %s takes %.6g s, what was chosen %.6g",
                      number, named[i], other, seconds);
    }
    cost_answer_free(&played);
    cost_answer_free(&averaged);
    return own / seconds;
}

START_TEST(no_named_choice_is_shorter)
{
    compare((uint32_t)_i);
}
END_TEST

/* Else playing would be for nothing. */
START_TEST(playing_sees_what_averages_do_not)
{
    ck_assert_double_gt(compare(45), 1.05);
}
END_TEST

SUITE("simulate: choice")
{
    TCase *tcase = suite_case(suite, "choice");

    tcase_add_loop_test(tcase, no_named_choice_is_shorter, 0, DRAWS);
    tcase_add_test(tcase, playing_sees_what_averages_do_not);
}
