/* The seam of schemes: a scheme of the test's own, in a registry of the test's own, is planned,
 * priced, chosen and named like any other; nothing else knows it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "device/codec.h"
#include "simulate/choose.h"
#include "tests/plan/schemes.h"
#include "tests/suite.h"
#include "util/error.h"
#include "plan/for_schemes.h"

/* ---- a scheme that whispers: every worker sends a byte for each of 16 parameters to the next ----
 */

enum { SHARE = 16, LEAST = 1000 };

static bool can_whisper(const struct group *group)
{
    return group->elems >= LEAST;
}

static size_t whisper_unit(const struct bucket *bucket)
{
    (void)bucket;
    return 10;
}

static const struct codec *whisper_codec(const struct plan *plan, int chunk)
{
    return plan->chunks[chunk].elems % 2 == 0 ? &codec_bf16 : NULL;
}

static struct traffic whisper_traffic(const struct plan *plan, int bucket, int leader)
{
    uint64_t bytes = plan->buckets[bucket].elems / SHARE;

    if (leader >= plan->nworkers)
        return (struct traffic){0};
    return (struct traffic){.sent = bytes, .received = bytes, .messages = 1};
}

static uint64_t whisper_memory(const struct plan *plan, int bucket, int leader)
{
    (void)leader;
    return plan->buckets[bucket].elems;
}

static void whisper_cost(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                         struct cost *out)
{
    (void)cluster;
    (void)plan;
    out->compute_seconds = 1e-9 * (double)plan->buckets[bucket].elems;
}

static const struct scheme whisper = {
    .name = "whisper",
    .label = "Whisper",
    .help = "a byte for sixteen parameters, to the next worker",
    .home = HOME_NOBODY,
    .lossless = true,
    .can_move = can_whisper,
    .unit = whisper_unit,
    .codec = whisper_codec,
    .traffic = whisper_traffic,
    .memory = whisper_memory,
    .cost = whisper_cost,
};

static const struct scheme *const registry[] = {&scheme_ps, &whisper, NULL};

/* ---- three layers, the first too small to be whispered ---- */

static const struct group groups[] = {
    {.name = "small", .begin = 0, .elems = 160, .trains = true},
    {.name = "wide",
     .begin = 160,
     .elems = 64 * 100 + 64,
     .trains = true,
     .factorable = true,
     .m = 64,
     .n = 100,
     .k = 8},
    {.name = "deep", .begin = 6624, .elems = 100000, .trains = true},
};

static const struct cost_cluster cluster = {.latency_seconds = 30e-6,
                                            .message_seconds = 3e-6,
                                            .link_Bps = 1e8,
                                            .local_Bps = 4e9,
                                            .gemm_flops = 2e11,
                                            .copy_Bps = 8e9,
                                            .sum_Bps = 4e9,
                                            .transport_Bps = 2e9};

static struct plan_options options_of(struct comm comm)
{
    return (struct plan_options){.registry = registry,
                                 .comm = comm,
                                 .nranks = 4,
                                 .iter_size = 1,
                                 .sizes = {.chunk = 1 << 16, .window = COST_SIZE_CHOSEN}};
}

static struct plan *plan_of(struct comm comm)
{
    struct plan_options options = options_of(comm);
    struct plan *plan;

    ck_assert_msg(plan_create(&options, 3, groups, &plan) == 0, "%s", error_text());
    return plan;
}

static struct comm comm_of(const char *name)
{
    struct comm comm;

    ck_assert_msg(comm_parse(registry, "--comm", name, &comm) == 0, "%s", error_text());
    return comm;
}

START_TEST(a_registry_names_its_schemes)
{
    char help[COMM_HELP_BYTES];
    struct comm comm = comm_of("whisper");

    ck_assert_int_eq(comm.policy, COMM_SCHEME);
    ck_assert_ptr_eq(comm.scheme, &whisper);
    ck_assert_str_eq(comm_name(comm), "whisper");
    ck_assert_str_eq(comm_name(comm_of("paper")), "paper");
    ck_assert_int_ne(comm_parse(registry, "--comm", "sfb", &comm), 0);
    ck_assert_ptr_nonnull(strstr(error_text(), "expected one of auto, paper, none, ps, whisper"));
    ck_assert_int_ne(comm_parse(sync_schemes, "--comm", "whisper", &comm), 0);
    comm_help(registry, 4, help);
    ck_assert_ptr_nonnull(
        strstr(help, "\n    whisper: a byte for sixteen parameters, to the next worker"));
    ck_assert_str_eq(scheme_label(&whisper), "Whisper");
}
END_TEST

START_TEST(the_plan_asks_the_scheme)
{
    struct plan *plan = plan_of(comm_of("whisper")), *other = plan_of(comm_of("ps"));

    ck_assert_int_eq(plan->nbuckets, 3);
    ck_assert_ptr_eq(plan->buckets[0].scheme, &scheme_ps); /* it cannot be whispered */
    ck_assert_ptr_eq(plan->buckets[1].scheme, &whisper);
    ck_assert_ptr_eq(plan->buckets[2].scheme, &whisper);
    ck_assert_uint_ne(plan_digest(plan, 1), plan_digest(other, 1));
    for (int r = 0; r < 4; r++) {
        struct traffic t = plan_traffic(plan, 2, r);
        ck_assert_uint_eq(t.sent, 100000 / SHARE);
        ck_assert_uint_eq(t.received, 100000 / SHARE);
        ck_assert_uint_eq(plan_messages(plan, r), plan_traffic(plan, 0, r).messages + 2);
        ck_assert_uint_eq(plan_memory(plan, r),
                          plan_home_memory(plan, 0, r) + 64 * 100 + 64 + 100000);
    }
    plan_destroy(plan);
    plan_destroy(other);
}
END_TEST

/* The weight of the second layer is cut apart from its bias, in units of 10. */
START_TEST(chunks_keep_to_the_schemes_unit_and_codec)
{
    struct plan_options options = options_of(comm_of("whisper"));
    struct plan *plan;
    size_t weight = 0;

    options.sizes.chunk = 1000 * sizeof(float) + 4;
    ck_assert_int_eq(plan_create(&options, 3, groups, &plan), 0);
    for (int c = 0; c < plan->buckets[1].nchunks; c++) {
        int chunk = plan->buckets[1].first_chunk + c;
        const struct chunk *at = &plan->chunks[chunk];
        if (at->begin < groups[1].begin + 6400) {
            ck_assert_uint_eq(at->elems % 10, 0);
            ck_assert_uint_eq(at->rows, at->elems / 10);
            weight += at->elems;
        }
        ck_assert_ptr_eq(plan_codec(plan, chunk), at->elems % 2 ? NULL : &codec_bf16);
        if (at->elems % 2 == 0)
            ck_assert_uint_lt(plan_gradient_bytes(plan, chunk), at->elems * sizeof(float));
        ck_assert_uint_eq(plan_back_bytes(plan, chunk), at->elems * sizeof(float));
    }
    ck_assert_uint_eq(weight, 6400);
    plan_destroy(plan);
}
END_TEST

START_TEST(the_model_prices_and_chooses_it)
{
    double forward[3] = {1e-4, 1e-4, 1e-4}, backward[3] = {2e-4, 2e-4, 2e-4};
    int layer[3] = {0, 1, 2};
    struct layer_times work = {
        .nlayers = 3, .forward = forward, .backward = backward, .ngroups = 3, .layer = layer};
    struct plan_options how = options_of((struct comm){.policy = COMM_AUTO});
    struct choose_question question = {
        .how = &how,
        .groups = groups,
        .play = {
            .work = &work, .overlap = COST_OVERLAP_WFBP, .cluster = &cluster, .ranks_per_node = 1}};
    struct scheme whisper_of_factors = whisper;
    const struct scheme *const with_factors[] = {&scheme_ps, &whisper_of_factors, NULL};
    struct choose_answer answer;
    struct cost table[6];
    struct ways ways;

    ways_list(how.registry, WIRE_FP32, NULL, &ways);
    ck_assert_int_eq(ways.n, 2);
    ck_assert_int_eq(cost_table(&cluster, &how, &ways, 3, groups, table), 0);
    ck_assert(!table[1].possible && table[0].possible);
    ck_assert_uint_eq(table[5].bytes, 4 * (100000 / SHARE));
    ck_assert_double_eq(table[5].messages, 1);
    ck_assert_double_eq_tol(table[5].compute_seconds, 1e-9 * 100000, 1e-12);
    ck_assert_double_eq_tol(table[5].busy_seconds, 6250 / 1e8 + cluster.message_seconds, 1e-12);
    whisper_of_factors.factors = true;
    ck_assert_msg(choose_comm(&question, &answer) == 0, "%s", error_text());
    ck_assert_ptr_eq(answer.way[0].scheme, &scheme_ps);
    ck_assert_ptr_eq(answer.way[1].scheme, &whisper);
    ck_assert_ptr_eq(answer.way[2].scheme, &whisper);
    ck_assert_ptr_eq(answer.row[0].comm.scheme, &scheme_ps);
    ck_assert_double_lt(answer.seconds, 0.6 * answer.row[0].seconds);
    choose_answer_free(&answer);
    how.registry = with_factors;
    ck_assert_msg(choose_comm(&question, &answer) == 0, "%s", error_text());
    ck_assert_ptr_eq(answer.way[2].scheme, &whisper_of_factors);
    choose_answer_free(&answer);
    question.whole_gradients = true;
    ck_assert_msg(choose_comm(&question, &answer) == 0, "%s", error_text());
    ck_assert_ptr_eq(answer.way[2].scheme, &scheme_ps);
    choose_answer_free(&answer);
}
END_TEST

SUITE("scheme")
{
    TCase *tcase = suite_case(suite, "scheme");

    tcase_add_test(tcase, a_registry_names_its_schemes);
    tcase_add_test(tcase, the_plan_asks_the_scheme);
    tcase_add_test(tcase, chunks_keep_to_the_schemes_unit_and_codec);
    tcase_add_test(tcase, the_model_prices_and_chooses_it);
}
