/* The cost model of one layer: bytes against the figures computed from the paper's Table 1 and
 * against closed forms, processors' seconds against closed forms. How long it takes by itself:
 * tests/simulate. */
#include <math.h>

#include "tests/plan/cost_common.h"
#include "tests/suite.h"

/* Sent plus received, in millions of parameters: the unit of Table 1. */
static double millions(const struct cost_side *side)
{
    return (side->sent + side->received) / 4e6;
}

START_TEST(bytes_equal_the_papers_worked_example)
{
    struct group fc = connected(4096, 4096, 32);
    struct plan_options both = shared(8), apart = dedicated(8, 8);
    struct cost c;

    c = cost_of(&usual, &both, &fc, ps);
    ck_assert_double_eq_tol(millions(&c.worker), 58.720256, 1e-6);
    c = cost_of(&usual, &apart, &fc, ps);
    ck_assert_double_eq_tol(millions(&c.worker), 33.554432, 1e-6);
    ck_assert_double_eq_tol(millions(&c.server), 33.554432, 1e-6);
    c = cost_of(&usual, &both, &fc, sfb);
    ck_assert_double_eq_tol(millions(&c.worker), 3.670016, 1e-6);
    c = cost_of(&usual, &both, &fc, adam);
    ck_assert_double_eq_tol(millions(&c.server), 119.27552, 1e-5); /* the owner is a worker too */
    ck_assert_double_eq_tol(millions(&c.worker), 17.03936, 1e-5);
    c = cost_of(&usual, &apart, &fc, adam);
    ck_assert_double_eq_tol(millions(&c.server), 136.314880, 1e-5);
}
END_TEST

/* Millions of parameters per node, PS and SFB, at 2, 4, 8, 16 and 32 nodes; -1: no figure. */
static const struct {
    const char *layer;
    int64_t m, n, k;
    double ps[5], sfb[5];
} vectors[] = {
    {"VGG19 fc6",
     4096,
     25088,
     32,
     {205.52, 308.28, 359.66, 385.35, 398.20},
     {1.87, 5.60, 13.07, 28.02, 57.90}},
    {"VGG19 fc7",
     4096,
     4096,
     32,
     {33.55, 50.33, 58.72, 62.91, 65.01},
     {0.52, 1.57, 3.67, 7.86, 16.25}},
    {"VGG19 fc8",
     1000,
     4096,
     32,
     {8.19, 12.29, 14.34, 15.36, 15.87},
     {0.33, 0.98, 2.28, 4.89, 10.11}},
    {"VGG19-22K fc8",
     21841,
     4096,
     32,
     {178.92, 268.38, 313.11, 335.48, 346.66},
     {1.66, 4.98, 11.62, 24.90, 51.46}},
    {"GoogLeNet fc", 1000, 1024, 128, {-1, 3.07, 3.58, 3.84, -1}, {-1, 1.55, 3.63, 7.77, -1}},
    {"Inception-V3 fc", 1000, 2048, 32, {-1, -1, -1, -1, 7.94}, {-1, -1, -1, -1, 6.05}},
    {"AlexNet fc6", 4096, 9216, 256, {-1, -1, -1, 141.56, 146.28}, {-1, -1, -1, 102.24, 211.29}},
    {"AlexNet fc7", 4096, 4096, 256, {-1, -1, -1, 62.914560, -1}, {-1, -1, -1, 62.914560, -1}},
    {"AlexNet fc8", 1000, 4096, 256, {-1, -1, 14.34, -1, -1}, {-1, -1, 18.26, -1, -1}},
};

START_TEST(bytes_equal_the_computed_vectors)
{
    struct group fc = connected(vectors[_i].m, vectors[_i].n, vectors[_i].k);

    for (int i = 0, nodes = 2; i < 5; i++, nodes *= 2) {
        struct plan_options setup = shared(nodes);
        struct cost by_ps = cost_of(&usual, &setup, &fc, ps);
        struct cost by_sfb = cost_of(&usual, &setup, &fc, sfb);
        struct cost all = cost_of(&usual, &setup, &fc, allreduce);
        if (vectors[_i].ps[i] >= 0)
            ck_assert_double_eq_tol(millions(&by_ps.worker), vectors[_i].ps[i], 0.0051);
        if (vectors[_i].sfb[i] >= 0)
            ck_assert_double_eq_tol(millions(&by_sfb.worker), vectors[_i].sfb[i], 0.0051);
        ck_assert_double_eq_tol(all.worker.sent, by_ps.worker.sent, 1e-9 * by_ps.worker.sent);
        /* who wins by bytes alone is the paper's rule */
        ck_assert_ptr_eq(paper_of(&setup, &fc), by_sfb.bytes <= by_ps.bytes ? sfb : ps);
    }
}
END_TEST
START_TEST(whole_networks_move_the_computed_gigabytes)
{
    static const double all_ps[2][5] = {{1.15, 1.72, 2.01, 2.16, 2.23},
                                        {1.83, 2.75, 3.21, 3.44, 3.55}};
    static const double hybrid[2][5] = {{0.17, 0.27, 0.36, 0.46, 0.65},
                                        {0.18, 0.29, 0.39, 0.54, 0.81}};
    struct group groups[19];
    uint64_t parameters = 0;

    vgg19(groups, _i ? 21841 : 1000, 32);
    for (int g = 0; g < 19; g++)
        parameters += groups[g].elems;
    ck_assert_uint_eq(parameters, _i ? 229052817 : 143667240);
    for (int i = 0, nodes = 2; i < 5; i++, nodes *= 2) {
        struct plan_options setup = shared(nodes);
        double by_ps = 0, by_rule = 0;
        for (int g = 0; g < 19; g++) {
            struct cost c = cost_of(&usual, &setup, &groups[g], ps);
            by_ps += c.worker.sent + c.worker.received;
            c = cost_of(&usual, &setup, &groups[g], paper_of(&setup, &groups[g]));
            by_rule += c.worker.sent + c.worker.received;
        }
        ck_assert_double_eq_tol(by_ps / 1e9, all_ps[_i][i], 0.0051);
        ck_assert_double_eq_tol(by_rule / 1e9, hybrid[_i][i], 0.0051);
    }
}
END_TEST

/* Bytes that all ranks send, by the formulas: of b bytes of gradient, f of one leader's factors, q
 * in one bit a weight. */
static void expect_bytes(const struct plan_options *how, int workers, const struct group *g)
{
    bool apart = how->servers > 0;
    uint64_t p = (uint64_t)workers, others = p - 1, peers = apart ? p : p - 1;
    uint64_t rows = (uint64_t)(g->k * how->iter_size * ((how->nranks - how->servers) / workers));
    uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, b = 4 * g->elems;
    uint64_t f = (how->wire == WIRE_BF16 ? 2 : 4) * rows * (m + n);
    uint64_t q = m * (4 * ((n + 31) / 32) + 8) + 4 * (g->elems - m * n);

    ck_assert_uint_eq(cost_of(&usual, how, g, sfb).bytes, p * others * f);
    ck_assert_uint_eq(cost_of(&usual, how, g, adam).bytes, peers * (f + b));
    ck_assert_uint_eq(cost_of(&usual, how, g, onebit).bytes, 2 * others * q);
    if (how->wire == WIRE_FP32) {
        ck_assert_uint_eq(cost_of(&usual, how, g, ps).bytes, peers * 2 * b);
        ck_assert_uint_eq(cost_of(&usual, how, g, allreduce).bytes, others * 2 * b);
        return;
    }
    /* two bytes a parameter, and two more where a chunk's number of them is odd */
    struct plan *plan =
        plan_of(how, (struct comm){.policy = COMM_SCHEME, .scheme = allreduce}, 1, g);
    uint64_t chunks = (uint64_t)plan->nchunks, sum = cost_of(&usual, how, g, allreduce).bytes;
    ck_assert_uint_ge(sum, others * b);
    ck_assert_uint_le(sum, others * 2 * (b / 2 + 2 * chunks));
    plan_destroy(plan);
}

/* Means over the roles' ranks make the whole again. */
static void expect_sides(const struct plan_options *how, int workers, const struct group *g,
                         const struct scheme *scheme)
{
    struct cost c = cost_of(&usual, how, g, scheme);
    bool owned = scheme->home == HOME_OWNER, apart = how->servers > 0;
    int leaders = workers - (owned && !apart), servers = owned ? 1 : how->servers;
    double bytes = (double)c.bytes;

    ck_assert_double_eq_tol(c.worker.sent * leaders + c.server.sent * servers, bytes, 1e-9 * bytes);
    ck_assert_double_eq_tol(c.worker.received * leaders + c.server.received * servers, bytes,
                            1e-9 * bytes);
    ck_assert_double_ge(c.busiest, c.worker.sent);
    ck_assert_double_ge(c.busiest, c.server.received);
}

START_TEST(bytes_equal_the_formulas_for_any_shape)
{
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t draw = (uint64_t)(_i * 1000) + i;
        struct group fc =
            connected(1 + (int64_t)pick(0, draw, 700), 2 + (int64_t)pick(1, draw, 700),
                      1 + (int64_t)pick(2, draw, 40));
        int workers = 2 + (int)pick(3, draw, 12), locals = 1 + (int)pick(10, draw, 3);
        int servers = pick(7, draw, 2) ? 1 + (int)pick(8, draw, 5) : 0, nodes[16 * 3];
        struct plan_options how = dedicated(workers * locals, servers);
        fc.elems += pick(4, draw, 2) ? (size_t)fc.m : 0;
        how.sizes.chunk = 4 + pick(5, draw, 100000);
        how.iter_size = 1 + (int)pick(6, draw, 3);
        how.wire = pick(9, draw, 3) ? WIRE_FP32 : WIRE_BF16;
        how.nodes = nodes;
        for (int w = 0; w < workers * locals; w++)
            nodes[w] = w / locals;
        expect_bytes(&how, workers, &fc);
        for (int s = 0; sync_schemes[s]; s++)
            expect_sides(&how, workers, &fc, sync_schemes[s]);
    }
}
END_TEST

START_TEST(sides_add_up_to_all_bytes)
{
    struct group fc = connected(100, 70, 3);
    struct plan_options setup = shared(5);
    struct cost c = cost_of(&usual, &setup, &fc, adam);

    ck_assert_double_eq_tol(c.worker.sent * 4 + c.server.sent, (double)c.bytes, 1e-6);
    ck_assert_double_eq_tol(c.worker.received * 4 + c.server.received, (double)c.bytes, 1e-6);
    c = cost_of(&usual, &setup, &fc, onebit);
    /* 100 rows of 70 bits in 3 words and two values; both ways, all pairs: 2 * 4 * 100 * (12 + 8)
     */
    ck_assert_uint_eq(c.bytes, 16000);
    ck_assert_double_eq_tol(c.worker.sent * 5, 16000, 1e-6);
    c = cost_of(&usual, &setup, &fc, NULL);
    ck_assert_uint_eq(c.bytes, 0);
}
END_TEST

START_TEST(servers_update_where_it_is_faster)
{
    struct group fc = connected(1000, 1000, 10);
    struct plan_options setup = shared(5), apart = dedicated(5, 2);
    struct cost_cluster device = usual;
    struct cost host = cost_of(&usual, &setup, &fc, ps), there;
    double bytes = 4.0 * (double)fc.elems, rate = cost_host_update_rate(&usual);

    ck_assert(!cost_updates_remotely(&usual)); /* no memory but the host's */
    device.serve_Bps = 0.9 * rate;
    ck_assert(!cost_updates_remotely(&device));
    ck_assert(cost_of(&device, &setup, &fc, ps).sum_seconds == host.sum_seconds);
    device.serve_Bps = 4 * rate;
    ck_assert(cost_updates_remotely(&device));
    there = cost_of(&device, &setup, &fc, ps);
    ck_assert_double_eq_tol(host.sum_seconds - there.sum_seconds, bytes / 5 * 0.75 / rate, 1e-12);
    ck_assert(cost_of(&device, &setup, &fc, sfb).compute_seconds <
              cost_of(&usual, &setup, &fc, sfb).compute_seconds);
    there = cost_of(&device, &setup, &fc, sfb);
    device.update_Bps = rate / 2; /* a profile's figure is that of the passes' engine */
    ck_assert_double_eq_tol(cost_of(&device, &setup, &fc, sfb).compute_seconds -
                                there.compute_seconds,
                            bytes * 1.75 / rate, 1e-12);
    ck_assert(cost_of(&device, &setup, &fc, ps).sum_seconds < host.sum_seconds);
    /* dedicated servers train on nothing */
    ck_assert(cost_of(&device, &apart, &fc, ps).sum_seconds ==
              cost_of(&usual, &apart, &fc, ps).sum_seconds);
}
END_TEST

START_TEST(engines_quantise_in_memory_of_their_own)
{
    struct group fc = connected(1000, 1000, 10);
    struct plan_options setup = shared(5);
    struct cost_cluster device = usual;
    double words = 3, bytes = 4.0 * (double)fc.elems; /* two read and one written */

    device.serve_Bps = 0.1 * cost_host_update_rate(&usual);
    ck_assert_double_eq_tol(cost_of(&usual, &setup, &fc, onebit).sum_seconds -
                                cost_of(&device, &setup, &fc, onebit).sum_seconds,
                            words / 2 * bytes / usual.copy_Bps, 1e-12);
}
END_TEST

START_TEST(without_a_core_to_spare_traffic_costs_computing)
{
    struct group fc = connected(1000, 1000, 10);
    struct plan_options setup = shared(5);
    struct cost_cluster busy = usual;
    struct cost apart = cost_of(&usual, &setup, &fc, ps), together;

    busy.core_share = 0.5;
    together = cost_of(&busy, &setup, &fc, ps);
    ck_assert(apart.stolen_seconds == 0 && together.bytes == apart.bytes);
    ck_assert_double_eq_tol(together.stolen_seconds, 0.5 * (apart.sum_seconds + 6.4e6 / 2e9),
                            1e-12);
}
END_TEST

START_TEST(leaders_of_a_node_share_its_sums)
{
    static const int nodes[4] = {0, 0, 1, 1};
    struct group conv = plain(1 << 20);
    struct plan_options setup = shared(4);
    struct cost one, two;
    double first = 0.5 * (4 << 20) / usual.sum_Bps; /* the node's own sum: all ranks add anyhow */

    setup.nodes = nodes;
    one = cost_of(&usual, &setup, &conv, &scheme_ps);
    setup.rails = 2;
    two = cost_of(&usual, &setup, &conv, &scheme_ps);
    ck_assert_double_gt(one.sum_seconds, first);
    ck_assert_double_eq_tol(two.sum_seconds - first, (one.sum_seconds - first) / 2, 1e-12);
    ck_assert_uint_eq(two.bytes, one.bytes);
    setup.servers = 1; /* who adds up for all */
    one = cost_of(&usual, &setup, &conv, &scheme_ps);
    setup.rails = 1;
    two = cost_of(&usual, &setup, &conv, &scheme_ps);
    ck_assert_double_eq_tol(two.sum_seconds, one.sum_seconds, 1e-12);
}
END_TEST

START_TEST(impossible_and_frozen_layers_cost_nothing)
{
    struct group conv = plain(100), frozen = connected(10, 10, 2);
    struct plan_options setup = shared(4), lone = shared(1);

    frozen.trains = false;
    for (int s = 0; sync_schemes[s]; s++) {
        const struct scheme *scheme = sync_schemes[s];
        const struct ways way = {.way = {{scheme, scheme->rank, WIRE_FP32}}, .n = 1};
        struct group fc = connected(10, 10, 2);
        struct cost c = cost_of(&usual, &setup, &frozen, scheme), alone;
        ck_assert(!c.possible && c.sum_seconds == 0 && c.bytes == 0);
        c = cost_of(&usual, &lone, &fc, scheme);
        ck_assert_msg(c.bytes == 0 && c.worker.sent == 0 && c.worker.received == 0, "%s",
                      scheme->name);
        ck_assert_int_eq(cost_table(&usual, &setup, &way, 1, &conv, &alone), 0);
        ck_assert_int_eq(alone.possible, scheme == ps || scheme == allreduce);
        ck_assert(alone.possible || alone.sum_seconds + alone.compute_seconds == 0);
        ck_assert_ptr_eq(alone.scheme, scheme);
    }
    ck_assert_ptr_eq(cost_of(&usual, &setup, &conv, sfb).scheme, ps);
    ck_assert_ptr_null(cost_of(&usual, &setup, &frozen, sfb).scheme);
}
END_TEST

START_TEST(bytes_beyond_64_bits_saturate)
{
    struct group fc = connected(1 << 20, 1 << 20, 1 << 20);
    struct plan_options setup = shared(65536);

    setup.sizes.chunk = 1 << 30;
    ck_assert_uint_eq(cost_of(&usual, &setup, &fc, ps).bytes, UINT64_C(65535) << 43);
    ck_assert_uint_eq(cost_of(&usual, &setup, &fc, sfb).bytes, UINT64_MAX);
    ck_assert(isfinite(cost_of(&usual, &setup, &fc, sfb).compute_seconds));
}
END_TEST

START_TEST(sizes_grow_with_what_a_trip_costs)
{
    struct cost_cluster cluster = usual; /* 33 us at 1.25 GB/s: 41250 bytes a trip */
    struct plan_sizes sizes = cost_sizes_for(&cluster);

    ck_assert_uint_eq(sizes.chunk, 41250 * 20 / 4096 * 4096);
    ck_assert_uint_eq(sizes.merge, 41250 * 4 / 4096 * 4096);
    ck_assert_uint_eq(sizes.window, 16 * sizes.chunk);
    ck_assert_uint_eq(sizes.latency, 41250 / 4096 * 4096);
    cluster.thread_Bps = cluster.link_Bps / 2; /* the window is the whole link's */
    ck_assert_uint_eq(cost_sizes_for(&cluster).chunk, 41250 * 10 / 4096 * 4096);
    ck_assert_uint_eq(cost_sizes_for(&cluster).merge, 41250 * 2 / 4096 * 4096);
    ck_assert_uint_eq(cost_sizes_for(&cluster).window, sizes.window);
    cluster.thread_Bps = 0;
    cluster.link_Bps = 1e3;
    ck_assert_uint_eq(cost_sizes_for(&cluster).chunk, 64 << 10);
    ck_assert_uint_eq(cost_sizes_for(&cluster).merge, 32 << 10);
    cluster.link_Bps = 1e30;
    ck_assert_uint_eq(cost_sizes_for(&cluster).chunk, 4 << 20);
    ck_assert_uint_eq(cost_sizes_for(&cluster).merge, 256 << 10);
}
END_TEST

/* What a worker keeps for the layer where its factors travel, in so many rounds. */
static double memory_of(const struct plan_options *how, const struct group *group, int rounds)
{
    struct plan *plan = plan_of(how, (struct comm){.policy = COMM_SCHEME, .scheme = sfb}, 1, group);
    double bytes = (double)plan_memory(plan, 0);

    ck_assert_int_eq(plan->buckets[0].rounds, rounds);
    ck_assert_uint_eq(plan_messages(plan, 0), (uint64_t)rounds * (uint64_t)(how->nranks - 1));
    plan_destroy(plan);
    return bytes;
}

/* Of 4,096 rows on 64 workers factors would take 4 GB at once: so they go row by row; of 16 rows 17
 * MB in three rounds. Each round adds a product to the last one's. */
START_TEST(factors_that_memory_does_not_hold_cost_rounds)
{
    struct group fc = connected(1024, 1024, 4096);
    struct plan_options setup = shared(64);
    struct cost_cluster adds = only_link;

    adds.sum_Bps = 1e9;
    adds.update_Bps = 1e30;
    ck_assert_double_eq(memory_of(&setup, &fc, 4096), 4096. * 2048 * 4 + 2. * 64 * 2048 * 4);
    fc.k = 16; /* 7 of its rows fit at a time */
    ck_assert_double_eq(memory_of(&setup, &fc, 3), 16. * 2048 * 4 + 2. * 64 * 6 * 2048 * 4);
    ck_assert_double_eq_tol(cost_of(&adds, &setup, &fc, sfb).compute_seconds, 2 * 4e-9 * (1 << 20),
                            1e-12);
    fc.k = 8;
    ck_assert_double_eq(memory_of(&setup, &fc, 1), 2. * 64 * 8 * 2048 * 4);
}
END_TEST

SUITE("cost")
{
    TCase *tcase = suite_case(suite, "cost");

    tcase_add_checked_fixture(tcase, find_schemes, NULL);
    tcase_add_test(tcase, bytes_equal_the_papers_worked_example);
    tcase_add_loop_test(tcase, bytes_equal_the_computed_vectors, 0,
                        (int)(sizeof vectors / sizeof *vectors));
    tcase_add_loop_test(tcase, whole_networks_move_the_computed_gigabytes, 0, 2);
    tcase_add_loop_test(tcase, bytes_equal_the_formulas_for_any_shape, 0, 4);
    tcase_add_test(tcase, sides_add_up_to_all_bytes);
    tcase_add_test(tcase, servers_update_where_it_is_faster);
    tcase_add_test(tcase, engines_quantise_in_memory_of_their_own);
    tcase_add_test(tcase, without_a_core_to_spare_traffic_costs_computing);
    tcase_add_test(tcase, leaders_of_a_node_share_its_sums);
    tcase_add_test(tcase, impossible_and_frozen_layers_cost_nothing);
    tcase_add_test(tcase, bytes_beyond_64_bits_saturate);
    tcase_add_test(tcase, sizes_grow_with_what_a_trip_costs);
    tcase_add_test(tcase, factors_that_memory_does_not_hold_cost_rounds);
}
