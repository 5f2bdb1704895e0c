/* The plan of several ranks a node: its leaders, what they send, rails, slices of factors. */
#include <check.h>

#include "tests/plan/groups.h"
#include "tests/suite.h"
#include "util/error.h"

START_TEST(one_worker_of_a_node_sends_for_all)
{
    static const int nodes[7] = {0, 0, 0, 1, 1, 1, 2};
    static const int locals[3] = {3, 3, 1}, leader[3] = {0, 3, 6};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, &scheme_sfb},
                                   .nranks = 8,
                                   .servers = 1,
                                   .nodes = nodes,
                                   .sizes.chunk = 4096,
                                   .iter_size = 2};
    const uint64_t row = (50 + 4099) * sizeof(float), conv = 1000 * sizeof(float);
    struct plan *plan, *other;

    ck_assert_msg(plan_create(&options, 3, groups, &plan) == 0, "%s", error_text());
    ck_assert_int_eq(plan->ncomputing, 7);
    ck_assert_int_eq(plan->nworkers, 3);
    ck_assert_int_eq(plan->most_locals, 3);
    ck_assert_int_eq(plan->world_rank[3], 7); /* the server */
    for (int r = 0; r < 7; r++) {
        bool leads = r == leader[nodes[r]];
        uint64_t rows = 4 * 2 * (uint64_t)locals[nodes[r]]; /* batch 4, iter_size 2 */
        struct traffic fc = plan_traffic(plan, 1, r), ps = plan_traffic(plan, 0, r);
        ck_assert_int_eq(plan->leader[r], nodes[r]);
        ck_assert_int_eq(plan_leads(plan, r), leads);
        ck_assert(plan_is_worker(plan, r));
        ck_assert_uint_eq(fc.sent, leads ? 2 * rows * row : 0);
        ck_assert_uint_eq(fc.received, leads ? (4 * 2 * 7 - rows) * row : 0);
        ck_assert_uint_eq(ps.sent, leads ? conv : 0);
        ck_assert_uint_eq(ps.received, leads ? conv : 0);
    }
    ck_assert(!plan_is_worker(plan, 7));
    ck_assert_uint_eq(plan_traffic(plan, 0, 7).sent, 3 * conv);
    options.nodes = NULL;
    ck_assert_msg(plan_create(&options, 3, groups, &other) == 0, "%s", error_text());
    ck_assert_uint_ne(plan_digest(plan, 1), plan_digest(other, 1));
    plan_destroy(plan);
    plan_destroy(other);
}
END_TEST

/* Leaders of three, three and one ranks; many rows at once, and in rounds. */
START_TEST(factors_travel_in_slices_of_a_chunk_at_most)
{
    static const int nodes[7] = {0, 1, 0, 1, 0, 1, 2};
    static const size_t chunks[] = {4, 5000, 4096, 100000, 1 << 21};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, &scheme_sfb},
                                   .nranks = 7,
                                   .nodes = nodes,
                                   .iter_size = 6,
                                   .wire = _i < 10 ? WIRE_FP32 : WIRE_BF16,
                                   .sizes.chunk = chunks[_i / 2 % 5],
                                   .factor_bytes = _i % 2 ? 4000000 : 1 << 30};
    size_t all, largest = 0, size = _i < 10 ? 4 : 2, chunk = chunks[_i / 2 % 5];
    struct plan *plan;

    ck_assert_msg(plan_create(&options, 3, groups, &plan) == 0, "%s", error_text());
    const struct bucket *b = &plan->buckets[1];
    ck_assert_int_eq(plan->buckets[0].slices, 1);
    ck_assert_int_eq(b->rounds > 1, _i % 2);
    all = (size_t)plan_round_rows(plan, 1) * (50 + 4099);
    for (int rows = 0; rows <= 1; rows++) { /* of the largest leader; of one with fewer */
        size_t elems = rows ? all / 3 : all;
        ck_assert_uint_eq(plan_slice_begin(b, elems, 0), 0);
        ck_assert_uint_eq(plan_slice_begin(b, elems, b->slices), elems);
        for (int s = 0; s < b->slices; s++) {
            size_t slice = plan_slice_begin(b, elems, s + 1) - plan_slice_begin(b, elems, s);
            largest = slice > largest ? slice : largest;
        }
    }
    ck_assert(largest * size <= chunk || b->slices == 1 << 16);
    ck_assert(b->slices == 1 || (size_t)(b->slices - 1) * chunk < all * size);
    ck_assert_uint_eq(plan_factor_bytes(plan, 1, -1), plan_factor_elems(plan, 1, -1) * size);
    for (int r = 0; r < 7; r++)
        ck_assert_uint_eq(plan_traffic(plan, 1, r).messages,
                          plan_leads(plan, r) ? 2 * (uint64_t)b->rounds * (uint64_t)b->slices : 0);
    plan_destroy(plan);
}
END_TEST

/* What the leader of each bucket's chunks is asked for as a whole, its ranks do together. */
static void check_rails(const struct plan *plan)
{
    for (int c = 0; c < plan->nchunks; c++)
        for (int l = 0; l < plan->nleaders; l++) {
            ck_assert_int_eq(plan->leader[plan_rank(plan, l, c)], l);
            ck_assert(plan_leads(plan, plan_rank(plan, l, c)));
        }
    for (int b = 0; b < plan->nbuckets; b++)
        for (int l = 0; l < plan->nleaders; l++) {
            const struct scheme *scheme = plan->buckets[b].scheme;
            struct traffic all = {0}, sum = {0};
            if (scheme)
                all = scheme->traffic(plan, b, l);
            for (int r = 0; r < plan->options.nranks; r++) {
                struct traffic t = plan_traffic(plan, b, r);
                if (plan->leader[r] != l)
                    continue;
                sum.sent += t.sent;
                sum.received += t.received;
                sum.messages += t.messages;
            }
            ck_assert_uint_eq(sum.sent, all.sent);
            ck_assert_uint_eq(sum.received, all.received);
            ck_assert_uint_eq(sum.messages, all.messages);
        }
    for (int l = 0; l < plan->nleaders; l++) {
        uint64_t all = 0, sum = 0;
        for (int b = 0; b < plan->nbuckets; b++)
            all += plan->buckets[b].scheme ? plan->buckets[b].scheme->memory(plan, b, l) : 0;
        for (int r = 0; r < plan->options.nranks; r++)
            sum += plan->leader[r] == l ? plan_memory(plan, r) : 0;
        ck_assert_uint_eq(sum, all);
    }
}

START_TEST(the_leaders_of_a_node_share_what_one_would_do)
{
    static const int nodes[7] = {0, 1, 0, 1, 0, 1, 2};
    static const char *const comms[] = {"ps", "allreduce", "onebit", "sfb", "adam"};
    static const int first[3] = {0, 1, 6};
    struct plan_options options = {
        .registry = sync_schemes, .nodes = nodes, .sizes.chunk = 4096, .iter_size = 2};

    for (int i = 0; i < 5 * 4 * 2 * 2; i++) {
        int servers = i / 20 % 2;
        struct plan *plan;
        ck_assert(!comm_parse(sync_schemes, "--comm", comms[i % 5], &options.comm));
        options.nranks = 7 + servers;
        options.servers = servers;
        options.rails = i / 5 % 4;
        options.wire = i >= 40 ? WIRE_BF16 : WIRE_FP32;
        options.tree_leaders = i < 40 ? 2 : 0;
        ck_assert_msg(plan_create(&options, 3, groups, &plan) == 0, "%s", error_text());
        ck_assert_int_eq(plan->rails, options.rails ? options.rails : 1);
        check_rails(plan);
        /* the first ranks of a node; the third node has one for all */
        for (int r = 0; r < 7; r++)
            ck_assert_int_eq(plan_leads(plan, r),
                             (r - first[nodes[r]]) / 2 < plan_leaders_of(plan, nodes[r]));
        plan_destroy(plan);
    }
}
END_TEST

START_TEST(rails_carry_alike)
{
    static const int nodes[8] = {0, 0, 1, 1, 2, 2, 3, 3};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, &scheme_ps},
                                   .nranks = 8,
                                   .nodes = nodes,
                                   .rails = 2,
                                   .sizes.chunk = 4096,
                                   .iter_size = 1};
    uint64_t least = UINT64_MAX, most = 0;
    struct plan *plan, *other;

    ck_assert_msg(plan_create(&options, 3, groups, &plan) == 0, "%s", error_text());
    for (int r = 0; r < 8; r++) {
        uint64_t sent = 0;
        for (int b = 0; b < plan->nbuckets; b++)
            sent += plan_traffic(plan, b, r).sent;
        least = sent < least ? sent : least;
        most = sent > most ? sent : most;
    }
    ck_assert_uint_le(most - least, 4 * 2 * 4096); /* a home's part of a chunk or two */
    options.rails = 1;
    ck_assert_msg(plan_create(&options, 3, groups, &other) == 0, "%s", error_text());
    ck_assert_uint_ne(plan_digest(plan, 1), plan_digest(other, 1));
    plan_destroy(other);
    options.rails = 9; /* no more than there are ranks */
    ck_assert_msg(plan_create(&options, 3, groups, &other) == 0, "%s", error_text());
    ck_assert_int_eq(other->rails, 2);
    plan_destroy(plan);
    plan_destroy(other);
}
END_TEST

/* fc: 2 k (P-1) (m+n) <= 2 m n (2P-2)/P for two leaders where k is up to 49; four workers of batch
 * 4 and iter_size 4 are 64 rows. */
START_TEST(the_papers_rule_counts_the_rows_of_a_node)
{
    static const int nodes[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {.policy = COMM_PAPER},
                                   .nranks = 8,
                                   .nodes = nodes,
                                   .sizes.chunk = 4096,
                                   .iter_size = 3};
    struct plan *plan;

    ck_assert_msg(plan_create(&options, 3, groups, &plan) == 0, "%s", error_text());
    ck_assert_ptr_eq(plan->buckets[1].scheme, &scheme_sfb);
    plan_destroy(plan);
    options.iter_size = 4;
    ck_assert_msg(plan_create(&options, 3, groups, &plan) == 0, "%s", error_text());
    ck_assert_ptr_eq(plan->buckets[1].scheme, &scheme_ps);
    plan_destroy(plan);
}
END_TEST

SUITE("plan of nodes")
{
    TCase *tcase = suite_case(suite, "nodes");

    tcase_add_test(tcase, one_worker_of_a_node_sends_for_all);
    tcase_add_test(tcase, the_leaders_of_a_node_share_what_one_would_do);
    tcase_add_test(tcase, rails_carry_alike);
    tcase_add_loop_test(tcase, factors_travel_in_slices_of_a_chunk_at_most, 0, 20);
    tcase_add_test(tcase, the_papers_rule_counts_the_rows_of_a_node);
}
