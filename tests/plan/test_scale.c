/* Plans for many ranks: messages and memory of a rank stay within bounds that do not grow with the
 * number of ranks, the same work is dealt to all, and trees reach everybody. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/cost.h"
#include "plan/tree.h"
#include "layers/layer.h"
#include "net/net.h"
#include "spec/netdef.h"
#include "spec/read.h"
#include "tests/plan/schemes.h"
#include "tests/suite.h"
#include "util/error.h"

static const int sizes[] = {64, 256, 1024};

/* ---- ResNet-50 ---- */

static struct text_doc *doc;
static struct net_def *def;
static struct net *net;

static void open_net(void)
{
    struct layer_env env = {.look_only = true, .nranks = 1};
    const char *folder = getenv("abs_top_srcdir");
    char path[4096];

    snprintf(path, sizeof path, "%s/models/resnet50/train_val.prototxt", folder ? folder : ".");
    ck_assert_msg(!spec_read_net_of(path, layer_check_type, false, &doc) &&
                      !net_def_create(doc, (const Caffe__NetParameter *)text_root(doc),
                                      CAFFE__PHASE__TRAIN, NULL, &def) &&
                      !net_create(def, true, &env, NULL, &net),
                  "%s", error_text());
}

static void close_net(void)
{
    net_destroy(net);
    net_def_destroy(def);
    text_free(doc);
}

static struct plan *plan_of(const char *comm, int ranks)
{
    struct plan_options options = {.registry = sync_schemes,
                                   .nranks = ranks,
                                   .iter_size = 1,
                                   .sizes.chunk = COST_USUAL_SIZES.chunk,
                                   .sizes.merge = COST_USUAL_SIZES.merge};
    struct plan *plan;

    ck_assert_int_eq(comm_parse(sync_schemes, "--comm", comm, &options.comm), 0);
    ck_assert_msg(!plan_create(&options, net->ngroups, net->groups, &plan), "%s", error_text());
    return plan;
}

/* A gradient and an answer for every 64 kB and for every bucket, along a tree's edge for its steps;
 * and, straight, what a home of two chunks sends. */
START_TEST(messages_of_a_rank_are_bounded_by_bytes_and_not_by_ranks)
{
    int ranks = sizes[_i % 3];
    struct plan *plan = plan_of(_i < 3 ? "ps" : "allreduce", ranks);
    uint64_t efficient = 4 * net->elems / (64 << 10), buckets = (uint64_t)plan->nbuckets, all = 0,
             chunks = 0;

    for (int b = 0; b < plan->nbuckets; b++)
        chunks += plan->buckets[b].scheme ? (uint64_t)plan->buckets[b].nchunks : 0;
    ck_assert_uint_le(chunks, efficient + buckets);
    for (int r = 0; r < ranks; r++) {
        uint64_t messages = plan_messages(plan, r);
        ck_assert_msg(messages <= 2 * (efficient + buckets) + 2 * (uint64_t)ranks,
                      "rank %d of %d sends %llu messages", r, ranks, (unsigned long long)messages);
        all += messages;
    }
    /* each chunk costs every rank but its home one message each way */
    ck_assert_uint_eq(all, 2 * chunks * (uint64_t)(ranks - 1));
    plan_destroy(plan);
}
END_TEST

START_TEST(memory_and_bytes_of_a_rank_are_bounded_by_the_parameters)
{
    int ranks = sizes[_i % 3];
    struct plan *plan = plan_of(_i < 3 ? "ps" : "allreduce", ranks);
    uint64_t parameters = 4 * net->elems, sent = 0, received = 0;

    for (int r = 0; r < ranks; r++) {
        uint64_t mine = 0;
        for (int b = 0; b < plan->nbuckets; b++) {
            struct traffic t = plan_traffic(plan, b, r);
            mine += t.sent;
            sent += t.sent;
            received += t.received;
        }
        ck_assert_uint_le(plan_memory(plan, r), 2 * parameters + PLAN_MEMORY_FREE);
        ck_assert_uint_le(mine, 3 * parameters);
    }
    ck_assert_uint_eq(sent, received);
    plan_destroy(plan);
}
END_TEST

START_TEST(no_home_has_two_chunks_of_a_bucket_that_leaves_others_without)
{
    struct plan *plan = plan_of("ps", sizes[_i]);

    for (int b = 0; b < plan->nbuckets; b++) {
        const struct bucket *bucket = &plan->buckets[b];
        int most = (bucket->nchunks + plan->nservers - 1) / plan->nservers;
        for (int s = bucket->first_share; s < bucket->first_share + bucket->nshares; s++) {
            ck_assert_int_le(plan->shares[s].chunks, most);
            ck_assert(s == bucket->first_share || plan->shares[s].home > plan->shares[s - 1].home);
        }
    }
    plan_destroy(plan);
}
END_TEST

/* The model's sums over classes of ranks are the plan's sums over all ranks. */
START_TEST(the_model_counts_the_plans_bytes)
{
    struct plan *plan = plan_of(_i < 3 ? "paper" : "allreduce", sizes[_i % 3]);
    struct cost_cluster cluster = {.link_Bps = 1e9,
                                   .local_Bps = 1e9,
                                   .gemm_flops = 1e12,
                                   .copy_Bps = 1e10,
                                   .sum_Bps = 1e10,
                                   .transport_Bps = 1e10};
    struct cost *costs = calloc((size_t)plan->nbuckets, sizeof *costs);

    ck_assert_ptr_nonnull(costs);
    cost_plan(&cluster, plan, costs);
    for (int b = 0; b < plan->nbuckets; b++) {
        uint64_t bytes = 0, most = 0;
        for (int r = 0; r < sizes[_i % 3]; r++) {
            struct traffic t = plan_traffic(plan, b, r);
            bytes += t.sent;
            most = t.sent > most ? t.sent : most;
        }
        ck_assert_uint_eq(costs[b].bytes, bytes);
        if (!plan->buckets[b].log_steps)
            ck_assert_double_eq(costs[b].busiest, (double)most);
        else /* other ranks than the homes may be a little busier */
            ck_assert_double_ge(costs[b].busiest, 0.5 * (double)most);
    }
    free(costs);
    plan_destroy(plan);
}
END_TEST

START_TEST(trees_are_for_few_homes_among_many_ranks)
{
    static const struct group few = {.name = "few", .elems = 10000, .trains = true},
                              many = {.name = "many", .elems = 64 << 20, .trains = true};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, &scheme_ps},
                                   .iter_size = 1,
                                   .sizes.chunk = 1 << 20};
    const struct {
        const struct group *group;
        int ranks, servers;
        enum wire_format wire;
        bool lags;
        int tree_leaders;
        bool tree;
    } cases[] = {
        {&few, 31, 0, WIRE_FP32, false, 0, false},  {&few, 64, 0, WIRE_FP32, false, 0, true},
        {&few, 64, 1, WIRE_FP32, false, 0, false},  {&few, 64, 0, WIRE_BF16, false, 0, false},
        {&few, 64, 0, WIRE_FP32, true, 0, false},   {&many, 64, 0, WIRE_FP32, false, 0, false},
        {&few, 1024, 0, WIRE_FP32, false, 0, true}, {&many, 1024, 0, WIRE_FP32, false, 0, false},
        {&many, 3, 0, WIRE_FP32, false, 3, true},   {&many, 2, 0, WIRE_FP32, false, 3, false},
        {&few, 64, 0, WIRE_FP32, false, 65, false}, {&few, 3, 1, WIRE_FP32, false, 2, false},
        {&few, 3, 0, WIRE_BF16, false, 2, false},   {&few, 3, 0, WIRE_FP32, true, 2, false},
        {&few, 1, 0, WIRE_FP32, false, 1, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan *plan;
        options.nranks = cases[i].ranks;
        options.servers = cases[i].servers;
        options.wire = cases[i].wire;
        options.lags = cases[i].lags;
        options.tree_leaders = cases[i].tree_leaders;
        ck_assert_int_eq(plan_create(&options, 1, cases[i].group, &plan), 0);
        ck_assert_msg(plan->buckets[0].log_steps == cases[i].tree, "case %zu", i);
        plan_destroy(plan);
    }
}
END_TEST

/* VGG-16's fc6 has three chunks and a bit for each of 256 homes. */
START_TEST(parts_larger_than_a_chunk_are_cut_evenly)
{
    static const struct group group = {.name = "fc6", .elems = 25088 * 4096 + 4096, .trains = true};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, &scheme_ps},
                                   .nranks = sizes[_i],
                                   .iter_size = 1,
                                   .sizes.chunk = COST_USUAL_SIZES.chunk};
    uint64_t even = group.elems / (uint64_t)sizes[_i];
    struct plan *plan;

    ck_assert_int_eq(plan_create(&options, 1, &group, &plan), 0);
    ck_assert_int_eq(plan->nshares, sizes[_i]);
    for (int c = 0; c < plan->nchunks; c++)
        ck_assert_uint_le(plan->chunks[c].elems * sizeof(float), COST_USUAL_SIZES.chunk);
    for (int s = 0; s < plan->nshares; s++)
        ck_assert_uint_le(plan->shares[s].elems, even + even / 50);
    plan_destroy(plan);
}
END_TEST

/* Each child's sum has a place: all together one for every edge. */
START_TEST(a_tree_keeps_a_sum_for_each_edge)
{
    static const struct group group = {.name = "few", .elems = 10000, .trains = true};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, &scheme_ps},
                                   .nranks = sizes[_i],
                                   .iter_size = 1,
                                   .sizes.chunk = 1 << 20};
    uint64_t all = 0;
    struct plan *plan;

    ck_assert_int_eq(plan_create(&options, 1, &group, &plan), 0);
    ck_assert(plan->buckets[0].log_steps);
    for (int r = 0; r < sizes[_i]; r++) {
        uint64_t mine = plan_memory(plan, r);
        ck_assert_uint_le(mine, (uint64_t)tree_steps(sizes[_i]) * group.elems * sizeof(float));
        all += mine;
    }
    ck_assert_uint_eq(all, (uint64_t)(sizes[_i] - 1) * group.elems * sizeof(float));
    plan_destroy(plan);
}
END_TEST

/* ---- trees ---- */

/* What the rank has after adding its children's, in their order, as a text of the additions. */
static void add_up(int n, int root, int rank, char *out, size_t bytes)
{
    int children[TREE_MOST_CHILDREN], count = tree_children(n, root, rank, children);
    char *mine = malloc(bytes), *theirs = malloc(bytes);

    ck_assert(mine && theirs);
    snprintf(out, bytes, "%d", rank);
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(tree_parent(n, root, children[i]), rank);
        snprintf(mine, bytes, "%s", out);
        add_up(n, root, children[i], theirs, bytes);
        if (children[i] > rank) /* a sum of two does not depend on who is named first */
            snprintf(out, bytes, "(%s %s)", mine, theirs);
        else
            snprintf(out, bytes, "(%s %s)", theirs, mine);
    }
    free(mine);
    free(theirs);
}

START_TEST(every_root_gets_the_same_additions)
{
    for (int n = 1; n <= 40; n++) {
        char first[1024], other[1024];
        add_up(n, 0, 0, first, sizeof first);
        if (n == 6)
            ck_assert_str_eq(first, "(((0 1) (2 3)) (4 5))");
        for (int root = 1; root < n; root++) {
            add_up(n, root, root, other, sizeof other);
            ck_assert_str_eq(other, first);
            ck_assert_int_eq(tree_parent(n, root, root), -1);
        }
    }
}
END_TEST

START_TEST(no_rank_is_further_from_the_root_than_the_steps)
{
    ck_assert_int_eq(tree_steps(1), 0);
    ck_assert_int_eq(tree_steps(2), 1);
    ck_assert_int_eq(tree_steps(1024), 10);
    ck_assert_int_eq(tree_steps(1025), 11);
    for (int n = 1; n <= 1100; n = n < 70 ? n + 1 : n * 3)
        for (int rank = 0, root = n / 3; rank < n; rank++) {
            int steps = 0;
            for (int at = rank; at != root; at = tree_parent(n, root, at))
                ck_assert_int_le(++steps, tree_steps(n));
        }
}
END_TEST

START_TEST(trees_of_different_roots_load_different_ranks)
{
    enum { N = 1024, HOMES = 128 };
    int load[N] = {0}, children[TREE_MOST_CHILDREN];

    for (int root = 0; root < HOMES; root++)
        for (int rank = 0; rank < N; rank++)
            load[rank] += tree_children(N, root, rank, children);
    for (int rank = 0; rank < N; rank++) /* one each would be even; ten more are a root's */
        ck_assert_int_le(load[rank], 2 * HOMES + 10);
}
END_TEST

SUITE("scale")
{
    TCase *many = suite_case(suite, "many ranks");
    TCase *trees = suite_case(suite, "trees");

    tcase_add_unchecked_fixture(many, open_net, close_net);
    tcase_add_loop_test(many, messages_of_a_rank_are_bounded_by_bytes_and_not_by_ranks, 0, 6);
    tcase_add_loop_test(many, memory_and_bytes_of_a_rank_are_bounded_by_the_parameters, 0, 6);
    tcase_add_loop_test(many, no_home_has_two_chunks_of_a_bucket_that_leaves_others_without, 0, 3);
    tcase_add_loop_test(many, the_model_counts_the_plans_bytes, 0, 6);
    tcase_add_test(many, trees_are_for_few_homes_among_many_ranks);
    tcase_add_loop_test(many, parts_larger_than_a_chunk_are_cut_evenly, 0, 3);
    tcase_add_loop_test(many, a_tree_keeps_a_sum_for_each_edge, 0, 3);
    tcase_add_test(trees, every_root_gets_the_same_additions);
    tcase_add_test(trees, no_rank_is_further_from_the_root_than_the_steps);
    tcase_add_test(trees, trees_of_different_roots_load_different_ranks);
}
