/* The plan: chunks, homes, bytes. */
#include <check.h>
#include <stdlib.h>

#include "plan/for_schemes.h"
#include "tests/plan/groups.h"
#include "tests/suite.h"
#include "util/error.h"

static struct plan *make(const char *comm, int nranks, int servers, size_t chunk)
{
    struct plan_options options = {.registry = sync_schemes,
                                   .nranks = nranks,
                                   .servers = servers,
                                   .sizes.chunk = chunk,
                                   .iter_size = 1};
    struct plan *plan = NULL;

    ck_assert_int_eq(comm_parse(sync_schemes, "--comm", comm, &options.comm), 0);
    ck_assert_msg(plan_create(&options, 3, groups, &plan) == 0, "%s", error_text());
    return plan;
}

START_TEST(chunks_cover_every_group_once_and_none_exceeds_the_limit)
{
    struct plan *plan = make("ps", 4, 0, (size_t)_i);

    for (int g = 0; g < 3; g++) {
        size_t at = groups[g].begin;
        int c = plan->buckets[g].first_chunk, end = c + plan->buckets[g].nchunks;
        for (; c < end && plan->chunks[c].bucket == g && plan->chunks[c].begin == at &&
               plan->chunks[c].elems * sizeof(float) <= (size_t)_i && plan->chunks[c].elems > 0;
             c++)
            at += plan->chunks[c].elems;
        ck_assert_msg(c == end, "chunk %d of group %d: %zu elements from %zu, expected from %zu", c,
                      g, plan->chunks[c].elems, plan->chunks[c].begin, at);
        ck_assert_uint_eq(at, groups[g].begin + groups[g].elems);
    }
    plan_destroy(plan);
}
END_TEST

START_TEST(no_server_holds_more_than_one_chunk_above_another)
{
    struct plan *plan = make("ps", 7, 0, 4096);
    size_t load[7] = {0}, least = SIZE_MAX, most = 0;

    for (int c = 0; c < plan->nchunks; c++)
        if (plan->buckets[plan->chunks[c].bucket].scheme == &scheme_ps)
            load[plan->chunks[c].home] += plan->chunks[c].elems * sizeof(float);
    for (int s = 0; s < 7; s++) {
        least = load[s] < least ? load[s] : least;
        most = load[s] > most ? load[s] : most;
    }
    ck_assert_uint_le(most - least, 4096);
    plan_destroy(plan);
}
END_TEST

START_TEST(bytes_follow_the_published_formulas)
{
    /* Summed over ranks, PS moves 2*MN per remote worker-server pair, SFB K(M+N) per ordered pair.
     */
    for (int servers = 0; servers <= 2; servers++) {
        struct plan *ps = make("ps", 6, servers, 1 << 21), *sfb = make("sfb", 6, servers, 1 << 21);
        uint64_t workers = (uint64_t)ps->nworkers, remote = workers - (servers ? 0 : 1);
        uint64_t sent_ps = 0, received_ps = 0, sent_sfb = 0;
        for (int r = 0; r < 6; r++) {
            struct traffic t = plan_traffic(ps, 1, r);
            sent_ps += t.sent;
            received_ps += t.received;
            t = plan_traffic(sfb, 1, r);
            sent_sfb += t.sent;
            ck_assert_uint_eq(t.sent, r < ps->nworkers ? (workers - 1) * 4 * (50 + 4099) * 4 : 0);
        }
        ck_assert_uint_eq(sent_ps, 2 * remote * 4100 * 50 * 4);
        ck_assert_uint_eq(received_ps, sent_ps);
        ck_assert_uint_eq(sent_sfb, workers * (workers - 1) * 4 * (50 + 4099) * 4);
        plan_destroy(ps);
        plan_destroy(sfb);
    }
}
END_TEST

/* All ranks together send both factors and the bias to their homes and back; what does not get half
 * as long by it goes as it is. */
START_TEST(low_rank_moves_factors_where_they_are_half_of_the_matrix)
{
    static const struct group_param params[2] = {{.elems = 60 * 30, .lr_mult = 1},
                                                 {.elems = 60, .lr_mult = 2}};
    struct group layer = {.name = "conv",
                          .elems = 60 * 30 + 60,
                          .nparams = 2,
                          .params = params,
                          .trains = true,
                          .outputs = 60};
    struct plan_options options = {
        .registry = sync_schemes, .nranks = 7, .sizes.chunk = 256, .iter_size = 1};
    struct plan *plan;
    char comm[16];

    for (int rank = 1; rank <= 10; rank++) {
        uint64_t sent = 0, received = 0;
        snprintf(comm, sizeof comm, "lowrank:%d", rank);
        ck_assert_int_eq(comm_parse(sync_schemes, "--comm", comm, &options.comm), 0);
        ck_assert_str_eq(comm_name(options.comm), comm);
        ck_assert_msg(plan_create(&options, 1, &layer, &plan) == 0, "%s", error_text());
        for (int r = 0; r < 7; r++) {
            sent += plan_traffic(plan, 0, r).sent;
            received += plan_traffic(plan, 0, r).received;
        }
        ck_assert_uint_eq(sent, 2 * 6 * 4 * ((60 + 30) * (uint64_t)rank + 60));
        ck_assert_uint_eq(received, sent);
        plan_destroy(plan);
    }
    options.comm.rank = 11; /* 990 of 1800 */
    ck_assert_int_ne(plan_create(&options, 1, &layer, &plan), 0);
    ck_assert_ptr_nonnull(strstr(error_text(), "no layer's gradient is large enough"));
    options.comm = (struct comm){.policy = COMM_SCHEME, .scheme = options.comm.scheme};
    layer.outputs = 0; /* no matrix, and no rank was named */
    ck_assert_msg(plan_create(&options, 1, &layer, &plan) == 0, "%s", error_text());
    ck_assert_ptr_eq(plan->buckets[0].scheme, &scheme_ps);
    plan_destroy(plan);
}
END_TEST

START_TEST(schemes_follow_the_mode)
{
    struct plan *plan = make("sfb", 4, 0, 4096);

    ck_assert_ptr_eq(plan->buckets[0].scheme, &scheme_ps);
    ck_assert_ptr_eq(plan->buckets[1].scheme, &scheme_sfb);
    ck_assert_ptr_null(plan->buckets[2].scheme);
    plan_destroy(plan);
    plan = make("paper", 4, 0, 4096);
    ck_assert_ptr_eq(plan->buckets[1].scheme, &scheme_sfb);
    plan_destroy(plan);
    plan = make("ps", 4, 0, 4096);
    ck_assert_ptr_eq(plan->buckets[1].scheme, &scheme_ps);
    plan_destroy(plan);
    plan = make("sfb", 1, 0, 4096); /* nobody to broadcast to */
    ck_assert_ptr_eq(plan->buckets[1].scheme, &scheme_ps);
    plan_destroy(plan);
}
END_TEST

START_TEST(digest_tells_plans_apart)
{
    struct plan *a = make("sfb", 4, 0, 4096), *b = make("sfb", 4, 0, 4096);
    struct plan *c = make("ps", 4, 0, 4096), *d = make("sfb", 4, 0, 8192);

    ck_assert_uint_eq(plan_digest(a, 1), plan_digest(b, 1));
    ck_assert_uint_ne(plan_digest(a, 1), plan_digest(b, 2));
    ck_assert_uint_ne(plan_digest(a, 1), plan_digest(c, 1));
    ck_assert_uint_ne(plan_digest(a, 1), plan_digest(d, 1));
    plan_destroy(a);
    plan_destroy(b);
    plan_destroy(c);
    plan_destroy(d);
}
END_TEST

START_TEST(workers_of_unlike_shares_send_unlike_rows)
{
    static const int parts[3] = {3, 1, 2};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, &scheme_sfb},
                                   .nranks = 3,
                                   .parts = parts,
                                   .batch = 1,
                                   .sizes.chunk = 1 << 20,
                                   .iter_size = 2};
    const uint64_t row = (50 + 4099) * sizeof(float);
    struct plan *plan, *other;

    ck_assert_msg(plan_create(&options, 3, groups, &plan) == 0, "%s", error_text());
    for (int r = 0; r < 3; r++) {
        uint64_t rows = 4 * 2 * (uint64_t)parts[r]; /* 4 of a part, iter_size 2 */
        ck_assert_uint_eq(plan_traffic(plan, 1, r).sent, 2 * rows * row);
        ck_assert_uint_eq(plan_traffic(plan, 1, r).received, (4 * 2 * 6 - rows) * row);
    }
    ck_assert_int_eq(plan_most_rows(plan, 1), 4 * 2 * 3);
    options.parts = NULL;
    ck_assert_msg(plan_create(&options, 3, groups, &other) == 0, "%s", error_text());
    ck_assert_uint_ne(plan_digest(plan, 1), plan_digest(other, 1));
    plan_destroy(plan);
    plan_destroy(other);
}
END_TEST

START_TEST(workers_of_unlike_grains_send_the_sums_of_whole_branches)
{
    static const struct {
        int grains[3], first[4];
        struct plan_branch branches[6];
    } cases[] = {{{5, 3}, {0, 2, 4}, {{0, 2}, {4, 0}, {5, 0}, {6, 1}}},
                 {{6, 2}, {0, 2, 3}, {{0, 2}, {4, 1}, {6, 1}}},
                 {{2, 1, 1}, {0, 1, 2, 3}, {{0, 1}, {2, 0}, {3, 0}}},
                 {{1, 3, 2}, {0, 1, 3, 4}, {{0, 0}, {1, 0}, {2, 1}, {4, 1}}},
                 {{2, 4}, {0, 1, 3}, {{0, 1}, {2, 1}, {4, 1}}}};

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int n = cases[c].grains[2] ? 3 : 2;
        struct plan_options options = {.registry = sync_schemes,
                                       .comm = {COMM_SCHEME, sync_schemes[0]},
                                       .nranks = n,
                                       .grains = cases[c].grains,
                                       .sizes.chunk = 1 << 20,
                                       .iter_size = 1};
        uint64_t sent = 0, expected = 0;
        struct plan *plan;

        ck_assert_msg(plan_create(&options, 3, groups, &plan) == 0, "%s", error_text());
        ck_assert_mem_eq(plan->first_branch, cases[c].first, (size_t)(n + 1) * sizeof(int));
        for (int b = 0; b < plan->first_branch[n]; b++) {
            ck_assert_int_eq(plan->branches[b].begin, cases[c].branches[b].begin);
            ck_assert_int_eq(plan->branches[b].level, cases[c].branches[b].level);
        }
        /* the one chunk's home gets the others' sums, and sends the parameters back */
        for (int r = 0; r < n; r++) {
            bool home = plan_home(plan, 0) == r;
            sent += plan_traffic(plan, 0, r).sent;
            expected += home ? (uint64_t)n - 1 : (uint64_t)plan_branches(plan, r);
        }
        ck_assert_int_eq(plan->buckets[0].nchunks, 1);
        ck_assert_uint_eq(sent, expected * plan->chunks[0].elems * sizeof(float));
        plan_destroy(plan);
    }
}
END_TEST

/* Of 2 GB, by workers of one, two and one sums each: MPI counts a message in an int. */
START_TEST(a_chunk_leaves_room_for_all_sums_of_a_rank)
{
    static const int grains[3] = {2, 4, 2};
    const struct group large = {.name = "ip", .elems = 1000000000, .trains = true};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, sync_schemes[0]},
                                   .nranks = 3,
                                   .grains = grains,
                                   .sizes.chunk = (size_t)1 << 31,
                                   .iter_size = 1};
    struct plan *plan;
    size_t elems = 0;

    ck_assert_msg(plan_create(&options, 1, &large, &plan) == 0, "%s", error_text());
    ck_assert_int_eq(plan_branches(plan, 1), 2);
    for (int c = 0; c < plan->nchunks; c++) {
        ck_assert_uint_le(2 * plan_gradient_bytes(plan, c), INT32_MAX);
        elems += plan->chunks[c].elems;
    }
    ck_assert_uint_eq(elems, large.elems);
    plan_destroy(plan);
}
END_TEST

START_TEST(what_is_left_of_an_iteration_goes_before_the_next_one)
{
    struct plan *plan = make("ps", 4, 0, 4096);

    ck_assert_int_eq(plan->nbuckets, 3);
    for (int64_t iteration = 0; iteration <= INT64_C(10000000000); iteration += 5000000000) {
        ck_assert(plan_urgency(plan, 0, iteration) < plan_urgency(plan, 2, iteration));
        ck_assert(plan_urgency(plan, 2, iteration) < plan_urgency(plan, 0, iteration + 1));
    }
    plan_destroy(plan);
}
END_TEST

START_TEST(every_server_gets_a_part_of_a_large_layer)
{
    static const struct group one = {.name = "fc", .elems = 400000, .nparams = 1, .trains = true};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, &scheme_ps},
                                   .nranks = 8,
                                   .sizes.chunk = 2 << 20,
                                   .iter_size = 1};
    struct plan *plan;
    unsigned homes = 0;

    ck_assert_msg(plan_create(&options, 1, &one, &plan) == 0, "%s", error_text());
    ck_assert_int_eq(plan->nchunks, 8);
    for (int c = 0; c < plan->nchunks; c++)
        homes |= 1u << plan->chunks[c].home;
    ck_assert_uint_eq(homes, 0xff);
    plan_destroy(plan);
}
END_TEST

START_TEST(every_home_gets_another_ranks_gradient_first)
{
    enum { RANKS = 7 };
    struct plan *plan = make("ps", RANKS, 0, 2000), *apart = make("ps", RANKS, 3, 2000);
    const struct bucket *fc = &plan->buckets[1];
    bool first[RANKS] = {false};

    for (int r = 0; r < RANKS; r++) {
        int chunk = fc->first_chunk + plan_first_sent(plan, 1, r), home = plan_home(plan, chunk);
        ck_assert_msg(home != r && !first[home], "rank %d begins with home %d", r, home);
        first[home] = true;
    }
    /* four workers begin in four quarters of the chunks, none of which is theirs */
    for (int r = 0; r < apart->nworkers; r++)
        ck_assert_int_eq(plan_first_sent(apart, 1, r), r * apart->buckets[1].nchunks / 4);
    plan_destroy(plan);
    plan_destroy(apart);
}
END_TEST

START_TEST(nothing_of_the_callers_is_kept)
{
    struct way *ways = calloc(3, sizeof *ways);
    int *nodes = calloc(4, sizeof *nodes);
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {.policy = COMM_AUTO},
                                   .ways = ways,
                                   .nodes = nodes,
                                   .nranks = 4,
                                   .sizes.chunk = 4096,
                                   .iter_size = 1};
    struct plan *plan;

    ck_assert(ways && nodes);
    ways[1].scheme = &scheme_sfb;
    nodes[2] = nodes[3] = 1;
    ck_assert_msg(plan_create(&options, 3, groups, &plan) == 0, "%s", error_text());
    free(ways);
    free(nodes);
    ck_assert_ptr_null(plan->options.ways);
    ck_assert_ptr_null(plan->options.nodes);
    ck_assert_int_eq(plan->nworkers, 2);
    ck_assert_ptr_eq(plan->buckets[0].scheme, &scheme_ps);
    ck_assert_ptr_eq(plan->buckets[1].scheme, &scheme_sfb);
    plan_destroy(plan);
}
END_TEST

START_TEST(no_message_is_longer_than_mpi_can_count)
{
    const struct group giant = {
        .name = "giant", .elems = (size_t)3 << 31, .nparams = 1, .trains = true};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, &scheme_ps},
                                   .nranks = 2,
                                   .sizes.chunk = (size_t)1 << 40,
                                   .iter_size = 1};
    size_t at = 0;
    struct plan *plan;

    ck_assert_int_eq(plan_create(&options, 1, &giant, &plan), 0);
    for (int c = 0; c < plan->nchunks; c++) {
        ck_assert_uint_eq(plan->chunks[c].begin, at);
        ck_assert_uint_le(plan->chunks[c].elems * sizeof(float), INT32_MAX);
        at += plan->chunks[c].elems;
    }
    ck_assert_uint_eq(at, giant.elems);
    /* 12 GiB for each of two homes, in even pieces below 2 GiB */
    ck_assert_int_eq(plan->nchunks, 14);
    plan_destroy(plan);
}
END_TEST

START_TEST(impossible_requests_are_refused_with_the_reason)
{
    struct comm comm;

    ck_assert_int_ne(comm_parse(sync_schemes, "--comm", "ring", &comm), 0);
    ck_assert_ptr_nonnull(
        strstr(error_text(), "auto, paper, none, ps, sfb, allreduce, adam, onebit"));
}
END_TEST

SUITE("plan")
{
    TCase *tcase = suite_case(suite, "plan");

    tcase_add_loop_test(tcase, chunks_cover_every_group_once_and_none_exceeds_the_limit, 4, 64);
    tcase_add_test(tcase, no_server_holds_more_than_one_chunk_above_another);
    tcase_add_test(tcase, bytes_follow_the_published_formulas);
    tcase_add_test(tcase, low_rank_moves_factors_where_they_are_half_of_the_matrix);
    tcase_add_test(tcase, schemes_follow_the_mode);
    tcase_add_test(tcase, digest_tells_plans_apart);
    tcase_add_test(tcase, workers_of_unlike_shares_send_unlike_rows);
    tcase_add_test(tcase, workers_of_unlike_grains_send_the_sums_of_whole_branches);
    tcase_add_test(tcase, a_chunk_leaves_room_for_all_sums_of_a_rank);
    tcase_add_test(tcase, what_is_left_of_an_iteration_goes_before_the_next_one);
    tcase_add_test(tcase, every_server_gets_a_part_of_a_large_layer);
    tcase_add_test(tcase, every_home_gets_another_ranks_gradient_first);
    tcase_add_test(tcase, nothing_of_the_callers_is_kept);
    tcase_add_test(tcase, no_message_is_longer_than_mpi_can_count);
    tcase_add_test(tcase, impossible_requests_are_refused_with_the_reason);
}
