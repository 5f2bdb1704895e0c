/* The cost model: bytes against the figures computed from the paper's Table 1 and against closed
 * forms, seconds against closed forms, the choice against exhaustive search. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/timeline.h"
#include "tests/suite.h"
#include "util/error.h"
#include "util/rng.h"

/* Nothing but the link costs anything. */
static const struct cost_cluster only_link = {.link_Bps = 1e9,
                                              .local_Bps = 1e30,
                                              .gemm_flops = 1e30,
                                              .copy_Bps = 1e30,
                                              .sum_Bps = 1e30,
                                              .transport_Bps = 1e30};

static const struct cost_cluster usual = {.latency_seconds = 30e-6,
                                          .message_seconds = 3e-6,
                                          .link_Bps = 1.25e9,
                                          .local_Bps = 4e9,
                                          .gemm_flops = 2e11,
                                          .copy_Bps = 8e9,
                                          .sum_Bps = 4e9,
                                          .transport_Bps = 2e9};

/* Repeatable: number `which` of draw `draw`, below n. */
static uint32_t pick(uint32_t which, uint64_t draw, uint32_t n)
{
    struct rng rng = rng_make(7, RNG_DUMMY, which, draw);

    return rng_below(&rng, 0, n);
}

static const struct scheme *ps, *sfb, *allreduce, *adam, *onebit;

static void find_schemes(void)
{
    ps = scheme_find("ps");
    sfb = scheme_find("sfb");
    allreduce = scheme_find("allreduce");
    adam = scheme_find("adam");
    onebit = scheme_find("onebit");
    ck_assert(ps && sfb && allreduce && adam && onebit);
}

/* Every worker serves. */
static struct plan_options shared(int nodes)
{
    return (struct plan_options){.nranks = nodes, .iter_size = 1, .chunk_bytes = 2 << 20};
}

static struct plan_options dedicated(int workers, int servers)
{
    struct plan_options how = shared(workers + servers);

    how.servers = servers;
    return how;
}

static struct plan *plan_of(const struct plan_options *how, struct comm comm, int ngroups,
                            const struct group *groups)
{
    struct plan_options options = *how;
    struct plan *plan;

    options.comm = comm;
    ck_assert_msg(plan_create(&options, ngroups, groups, &plan) == 0, "%s", error_text());
    return plan;
}

/* The group by itself; NULL: no traffic. */
static struct cost cost_of(const struct cost_cluster *cluster, const struct plan_options *how,
                           const struct group *group, const struct scheme *scheme)
{
    struct comm comm = {.policy = scheme ? COMM_SCHEME : COMM_NONE, .scheme = scheme};
    struct plan *plan = plan_of(how, comm, 1, group);
    struct cost cost;

    cost_plan(cluster, plan, &cost);
    plan_destroy(plan);
    return cost;
}

static const struct scheme *paper_of(const struct plan_options *how, const struct group *group)
{
    struct plan *plan = plan_of(how, (struct comm){.policy = COMM_PAPER}, 1, group);
    const struct scheme *scheme = plan->buckets[0].scheme;

    plan_destroy(plan);
    return scheme;
}

/* Work whose layers have one group each. */
static struct cost_work work_of(int layers, double *forward, double *backward, int *layer)
{
    for (int l = 0; l < layers; l++)
        layer[l] = l;
    return (struct cost_work){.nlayers = layers,
                              .forward = forward,
                              .backward = backward,
                              .ngroups = layers,
                              .layer = layer};
}

static struct cost_iteration iterate(const struct cost_work *work, const struct cost *costs,
                                     enum cost_overlap overlap)
{
    struct cost_iteration iteration;
    struct timeline *line;

    ck_assert_int_eq(timeline_create(work, work->ngroups, work->layer, overlap, &line), 0);
    timeline_play(line, costs, &iteration);
    timeline_destroy(line);
    return iteration;
}

static struct cost_answer choose(const struct cost_work *work, const struct cost_cluster *cluster,
                                 const struct plan_options *how, const struct group *groups,
                                 enum cost_overlap overlap)
{
    struct cost_question question = {.work = work,
                                     .cluster = cluster,
                                     .how = how,
                                     .registry = scheme_registry,
                                     .groups = groups,
                                     .overlap = overlap};
    struct cost_answer answer;

    ck_assert_msg(cost_choose(&question, &answer) == 0, "%s", error_text());
    return answer;
}

static struct group connected(int64_t m, int64_t n, int64_t k)
{
    return (struct group){.name = "fc",
                          .elems = (size_t)(m * n),
                          .nparams = 1,
                          .trains = true,
                          .factorable = true,
                          .m = m,
                          .n = n,
                          .k = k};
}

static struct group plain(size_t elems)
{
    return (struct group){.name = "conv", .elems = elems, .nparams = 1, .trains = true};
}

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

/* VGG19: convolutions as (in, out) pairs of 3x3, then the three fully connected layers. */
static int vgg19(struct group groups[19], int64_t classes, int64_t batch)
{
    static const int channels[17] = {3,   64,  64,  128, 128, 256, 256, 256, 256,
                                     512, 512, 512, 512, 512, 512, 512, 512};
    const int64_t sizes[4] = {25088, 4096, 4096, classes};

    for (int i = 0; i < 16; i++)
        groups[i] =
            plain((size_t)channels[i] * (size_t)channels[i + 1] * 9 + (size_t)channels[i + 1]);
    for (int i = 0; i < 3; i++) {
        groups[16 + i] = connected(sizes[i + 1], sizes[i], batch);
        groups[16 + i].elems += (size_t)sizes[i + 1];
    }
    return 19;
}

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
    uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, b = 4 * g->elems, f = 4 * rows * (m + n);
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
    struct plan *plan = plan_of(how, (struct comm){COMM_SCHEME, allreduce}, 1, g);
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
        how.chunk_bytes = 4 + pick(5, draw, 100000);
        how.iter_size = 1 + (int)pick(6, draw, 3);
        how.wire = pick(9, draw, 3) ? WIRE_FP32 : WIRE_BF16;
        how.nodes = nodes;
        for (int w = 0; w < workers * locals; w++)
            nodes[w] = w / locals;
        expect_bytes(&how, workers, &fc);
        for (int s = 0; scheme_registry[s]; s++)
            expect_sides(&how, workers, &fc, scheme_registry[s]);
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

START_TEST(seconds_follow_the_link_the_latency_and_the_product)
{
    struct group fc = connected(1000, 1000, 10);
    struct cost_cluster cluster = only_link;
    struct plan_options setup = shared(5);
    struct cost c;

    setup.chunk_bytes = 4000; /* 1000 chunks, 200 a server */
    c = cost_of(&cluster, &setup, &fc, ps);
    ck_assert_double_eq_tol(c.seconds, 2 * 4e6 * 0.8 / 1e9, 1e-12);
    cluster.latency_seconds = 1;
    cluster.message_seconds = 0.001;
    c = cost_of(&cluster, &setup, &fc, ps); /* 800 gradients away, 200 chunks to 4 workers */
    ck_assert_double_eq_tol(c.seconds, 0.0064 + 2 + 1.6, 1e-9);
    c = cost_of(&cluster, &setup, &fc, allreduce);
    ck_assert_double_eq_tol(c.seconds, 0.0064 + 2 + 1.6, 1e-9);
    setup.chunk_bytes = 1 << 20; /* 5 pieces, one each: 4 away, 4 back */
    c = cost_of(&cluster, &setup, &fc, allreduce);
    ck_assert_double_eq_tol(c.seconds, 0.0064 + 2 + 0.008, 1e-9);
    cluster.latency_seconds = cluster.message_seconds = 0;
    cluster.gemm_flops = 1e9; /* 4 others' 10 rows: 2 * 1e6 * 40 operations */
    c = cost_of(&cluster, &setup, &fc, sfb);
    ck_assert_double_eq_tol(c.compute_seconds, 0.08, 1e-9);
    ck_assert_double_eq_tol(c.seconds, 0.08 + 4 * 10 * 2000 * 4 / 1e9, 1e-9);
}
END_TEST

START_TEST(layer_smaller_than_its_servers_burdens_some_links)
{
    struct group conv = plain(1000);
    struct plan_options setup = shared(5);
    struct cost c = cost_of(&only_link, &setup, &conv, ps);

    /* one chunk, one server: its link takes 4 gradients; spread over all layers it is 2b * 4/5 */
    ck_assert_double_eq_tol(c.wire_seconds, 2 * 4e3 * 0.8 / 1e9, 1e-15);
    ck_assert_double_eq_tol(c.wire_seconds + c.skew_seconds, 4 * 4e3 / 1e9, 1e-15);
    c = cost_of(&only_link, &setup, &conv, allreduce); /* a piece of 4096 at least */
    ck_assert_double_gt(c.skew_seconds, 0);
    conv.elems = 5 * 4096;
    ck_assert_double_lt(cost_of(&only_link, &setup, &conv, ps).skew_seconds, 1e-12);
    ck_assert_double_lt(cost_of(&only_link, &setup, &conv, allreduce).skew_seconds, 1e-12);
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
    ck_assert(cost_of(&device, &setup, &fc, ps).seconds == host.seconds);
    device.serve_Bps = 4 * rate;
    ck_assert(cost_updates_remotely(&device));
    there = cost_of(&device, &setup, &fc, ps);
    ck_assert_double_eq_tol(host.sum_seconds - there.sum_seconds, bytes / 5 * 0.75 / rate, 1e-12);
    ck_assert(cost_of(&device, &setup, &fc, sfb).seconds <
              cost_of(&usual, &setup, &fc, sfb).seconds);
    there = cost_of(&device, &setup, &fc, sfb);
    device.update_Bps = rate / 2; /* a profile's figure is that of the passes' engine */
    ck_assert_double_eq_tol(cost_of(&device, &setup, &fc, sfb).compute_seconds -
                                there.compute_seconds,
                            bytes * 1.75 / rate, 1e-12);
    ck_assert(cost_of(&device, &setup, &fc, ps).seconds < host.seconds);
    /* dedicated servers train on nothing */
    ck_assert(cost_of(&device, &apart, &fc, ps).seconds ==
              cost_of(&usual, &apart, &fc, ps).seconds);
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
    double forward = 0.1, backward = 0.2;
    int layer[2];
    struct cost_work work = work_of(1, &forward, &backward, layer);
    struct cost_answer answer;

    busy.core_share = 0.5;
    together = cost_of(&busy, &setup, &fc, ps);
    ck_assert(apart.stolen_seconds == 0 && together.bytes == apart.bytes);
    ck_assert_double_eq_tol(together.stolen_seconds, 0.5 * (apart.sum_seconds + 6.4e6 / 2e9),
                            1e-12);
    ck_assert_double_eq_tol(together.seconds, apart.seconds,
                            1e-12); /* alone there is nothing to steal from */
    /* nothing is stolen while the passes wait for the network anyway */
    ck_assert_double_eq_tol(iterate(&work, &together, COST_OVERLAP_WFBP).seconds,
                            0.3 + apart.seconds, 1e-9);
    /* PS's traffic hides for free behind a large layer above it, unless it takes that layer's core
     */
    struct group two[2] = {plain(1), connected(4096, 4096, 4)};
    double forwards[2] = {0.5, 0.001}, backwards[2] = {1, 0.001};
    work = work_of(2, forwards, backwards, layer);
    busy = usual;
    busy.gemm_flops = 2e10;
    two[1].begin = 16;
    answer = choose(&work, &busy, &setup, two, COST_OVERLAP_WFBP);
    ck_assert_ptr_ne(answer.scheme[1], sfb);
    cost_answer_free(&answer);
    busy.core_share = 1;
    answer = choose(&work, &busy, &setup, two, COST_OVERLAP_WFBP);
    ck_assert_ptr_eq(answer.scheme[1], sfb);
    cost_answer_free(&answer);
}
END_TEST

START_TEST(ranks_of_a_node_share_its_link)
{
    struct group fc = connected(500, 500, 10);
    struct plan_options setup = shared(8);
    double alone, four;

    alone = cost_of(&only_link, &setup, &fc, sfb).seconds;
    setup.leaders_per_host = 4;
    four = cost_of(&only_link, &setup, &fc, sfb).seconds;
    ck_assert_double_eq_tol(four, alone * 4 * 4 / 7,
                            1e-12); /* four ranks, 4 of 7 peers elsewhere */
    setup.leaders_per_host = 8;
    ck_assert_double_lt(cost_of(&only_link, &setup, &fc, sfb).seconds, alone * 1e-9);
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
    for (int s = 0; scheme_registry[s]; s++) {
        const struct scheme *scheme = scheme_registry[s];
        struct group fc = connected(10, 10, 2);
        struct cost c = cost_of(&usual, &setup, &frozen, scheme), row[8];
        ck_assert(!c.possible && c.seconds == 0 && c.bytes == 0);
        c = cost_of(&usual, &lone, &fc, scheme);
        ck_assert_msg(c.bytes == 0 && c.worker.sent == 0 && c.worker.received == 0 &&
                          c.wire_seconds == 0,
                      "%s", scheme->name);
        ck_assert_int_eq(cost_table(&usual, &setup, scheme_registry, 1, &conv, row), 0);
        ck_assert_int_eq(row[s].possible, scheme == ps || scheme == allreduce);
        ck_assert(row[s].possible || row[s].seconds == 0);
        ck_assert_ptr_eq(row[s].scheme, scheme);
    }
    ck_assert_ptr_eq(cost_of(&usual, &setup, &conv, sfb).scheme, ps);
    ck_assert_ptr_null(cost_of(&usual, &setup, &frozen, sfb).scheme);
}
END_TEST

START_TEST(bytes_beyond_64_bits_saturate)
{
    struct group fc = connected(1 << 20, 1 << 20, 1 << 20);
    struct plan_options setup = shared(65536);

    setup.chunk_bytes = 1 << 30;
    ck_assert_uint_eq(cost_of(&usual, &setup, &fc, ps).bytes, UINT64_C(65535) << 43);
    ck_assert_uint_eq(cost_of(&usual, &setup, &fc, sfb).bytes, UINT64_MAX);
    ck_assert(isfinite(cost_of(&usual, &setup, &fc, sfb).seconds));
}
END_TEST

/* Two layers: forward 1 and 2 seconds, backward 3 and 4. */
static double two_layers(double busy0, double busy1, enum cost_overlap overlap)
{
    double forward[2] = {1, 2}, backward[2] = {3, 4};
    int layer[2];
    struct cost_work work = work_of(2, forward, backward, layer);
    struct cost costs[2] = {{.seconds = busy0, .busy_seconds = busy0},
                            {.seconds = busy1, .busy_seconds = busy1}};
    struct cost_iteration iteration = iterate(&work, costs, overlap);

    ck_assert_double_eq(iteration.compute_seconds, 10);
    ck_assert_double_eq_tol(iteration.exposed_seconds, iteration.seconds - 10, 1e-12);
    return iteration.seconds;
}

START_TEST(iteration_is_what_the_timeline_by_hand_says)
{
    /* hidden altogether: the last layer's 3 s go under the first one's backward */
    ck_assert_double_eq_tol(two_layers(0, 3, COST_OVERLAP_BACKWARD), 10, 1e-12);
    ck_assert_double_eq_tol(two_layers(0, 3, COST_OVERLAP_NONE), 13, 1e-12);
    /* 6 s from t = 4: 3 are left at 7; the first layer's 1 s waits for them unless it is more
     * urgent */
    ck_assert_double_eq_tol(two_layers(1, 6, COST_OVERLAP_BACKWARD), 14, 1e-12);
    /* first layer 7..8, forward 8..9, the other's rest 8..11, forward 11..13 */
    ck_assert_double_eq_tol(two_layers(1, 6, COST_OVERLAP_WFBP), 13, 1e-12);
    ck_assert_double_eq_tol(two_layers(1, 6, COST_OVERLAP_NONE), 17, 1e-12);
}
END_TEST

enum { RANDOM_LAYERS = 9 };

struct random_net {
    double forward[RANDOM_LAYERS], backward[RANDOM_LAYERS];
    struct group groups[RANDOM_LAYERS];
    int layer[RANDOM_LAYERS];
    struct cost_work work;
};

static double draw_log(uint32_t which, uint64_t draw, double least, double most)
{
    return least * pow(most / least, (double)pick(which, draw, 1000) / 1000);
}

static void random_net_fill(struct random_net *net, uint64_t draw, int layers)
{
    for (int l = 0; l < layers; l++) {
        uint64_t d = draw * RANDOM_LAYERS + (uint64_t)l;
        net->forward[l] = draw_log(0, d, 1e-4, 1e-1);
        net->backward[l] = 2 * net->forward[l];
        net->groups[l] = pick(1, d, 2) ? connected((int64_t)draw_log(2, d, 10, 5000),
                                                   (int64_t)draw_log(3, d, 10, 9000),
                                                   (int64_t)draw_log(4, d, 1, 256))
                                       : plain((size_t)draw_log(5, d, 100, 3e6));
    }
    net->work = work_of(layers, net->forward, net->backward, net->layer);
}

static struct plan_options random_setup(uint64_t draw)
{
    int workers = 2 + (int)pick(6, draw, 31);

    return pick(7, draw, 3) ? shared(workers)
                            : dedicated(workers, 1 + (int)pick(8, draw, (uint32_t)workers));
}

static struct cost_cluster random_cluster(uint64_t draw)
{
    struct cost_cluster cluster = usual;

    cluster.link_Bps = draw_log(9, draw, 1e7, 1e10);
    cluster.latency_seconds = draw_log(10, draw, 1e-6, 1e-3);
    cluster.gemm_flops = draw_log(11, draw, 1e10, 1e13);
    return cluster;
}

START_TEST(more_overlap_is_never_slower_and_never_beats_the_bound)
{
    for (uint64_t draw = 0; draw < 300; draw++) {
        struct random_net net;
        struct cost costs[RANDOM_LAYERS];
        struct plan_options setup = random_setup(draw);
        struct cost_cluster cluster = random_cluster(draw);
        struct cost_iteration none, backward, wfbp;
        double busy = 0;
        random_net_fill(&net, draw, RANDOM_LAYERS);
        for (int g = 0; g < RANDOM_LAYERS; g++) {
            costs[g] = cost_of(&cluster, &setup, &net.groups[g], allreduce);
            /* without trips: a layer that was overtaken would have its own still to go */
            costs[g].seconds = costs[g].busy_seconds + costs[g].compute_seconds;
            busy += costs[g].busy_seconds;
        }
        none = iterate(&net.work, costs, COST_OVERLAP_NONE);
        backward = iterate(&net.work, costs, COST_OVERLAP_BACKWARD);
        wfbp = iterate(&net.work, costs, COST_OVERLAP_WFBP);
        ck_assert_double_le(backward.seconds, none.seconds * (1 + 1e-12));
        ck_assert_double_le(wfbp.seconds, backward.seconds * (1 + 1e-12));
        ck_assert_double_ge(wfbp.seconds,
                            (wfbp.compute_seconds > busy ? wfbp.compute_seconds : busy) *
                                (1 - 1e-12));
        ck_assert_double_eq_tol(none.seconds, none.compute_seconds + busy, 1e-9 * none.seconds);
    }
}
END_TEST

/* The shortest iteration over all combinations, and over each single scheme. */
static double exhaustive(const struct random_net *net, const struct cost_cluster *cluster,
                         const struct plan_options *setup, double *single)
{
    const struct scheme *const candidates[3] = {ps, sfb, allreduce};
    int ngroups = net->work.ngroups, all = 1;
    double best = HUGE_VAL;

    *single = HUGE_VAL;
    for (int g = 0; g < ngroups; g++)
        all *= 3;
    for (int code = 0; code < all; code++) {
        struct cost costs[RANDOM_LAYERS];
        struct cost_iteration iteration;
        bool possible = true, uniform = true;
        int first = code % 3;
        for (int g = 0, rest = code; g < ngroups; g++, rest /= 3) {
            costs[g] = cost_of(cluster, setup, &net->groups[g], candidates[rest % 3]);
            possible &= scheme_can_move(candidates[rest % 3], &net->groups[g]);
            uniform &= rest % 3 == first;
        }
        if (!possible)
            continue;
        iteration = iterate(&net->work, costs, COST_OVERLAP_WFBP);
        best = iteration.seconds < best ? iteration.seconds : best;
        if (uniform)
            *single = iteration.seconds < *single ? iteration.seconds : *single;
    }
    return best;
}

START_TEST(choice_is_within_a_hundredth_of_the_best_of_all_combinations)
{
    for (uint64_t draw = 0; draw < 60; draw++) {
        struct random_net net;
        struct plan_options setup = random_setup(draw);
        struct cost_cluster cluster = random_cluster(draw);
        struct cost_answer answer;
        double best, single;
        random_net_fill(&net, draw + 1000, 6);
        best = exhaustive(&net, &cluster, &setup, &single);
        answer = choose(&net.work, &cluster, &setup, net.groups, COST_OVERLAP_WFBP);
        ck_assert_msg(answer.iteration.seconds <= best * 1.01, "draw %d: chosen %g, best %g",
                      (int)draw, answer.iteration.seconds, best);
        ck_assert_double_le(answer.iteration.seconds, single * 1.001);
        for (int g = 0; g < 6; g++)
            ck_assert(scheme_can_move(answer.scheme[g], &net.groups[g]));
        cost_answer_free(&answer);
    }
}
END_TEST

/* One fully connected layer and next to no computation: the cheapest alone is the cheapest. */
static const struct scheme *choose_one(const struct cost_cluster *cluster,
                                       const struct plan_options *how, const struct group *group)
{
    double forward = 1e-9, backward = 1e-9;
    int layer;
    struct cost_work work = work_of(1, &forward, &backward, &layer);
    struct cost_answer answer = choose(&work, cluster, how, group, COST_OVERLAP_WFBP);
    const struct scheme *chosen = answer.scheme[0];

    cost_answer_free(&answer);
    return chosen;
}

START_TEST(choice_differs_from_the_papers_rule_where_the_rule_errs)
{
    struct group fc7 = connected(4096, 4096, 256), small = connected(64, 1024, 100);
    struct cost_cluster fast = usual, distant = usual;
    struct plan_options setup = shared(8);

    /* 8 nodes: SFB moves half of PS's bytes, but its product takes longer than a fast link saves */
    ck_assert_ptr_eq(paper_of(&setup, &fc7), sfb);
    fast.link_Bps = 1.25e10;
    ck_assert_ptr_ne(choose_one(&fast, &setup, &fc7), sfb);
    ck_assert_ptr_eq(choose_one(&only_link, &setup, &fc7), sfb);
    /* a small layer over a slow distance: SFB has one trip, PS two */
    setup = shared(2);
    ck_assert_ptr_eq(paper_of(&setup, &small), ps);
    distant.latency_seconds = 5e-3;
    ck_assert_ptr_eq(choose_one(&distant, &setup, &small), sfb);
}
END_TEST

START_TEST(few_dedicated_servers_lose_to_allreduce)
{
    struct group conv = plain(10000000);
    struct plan_options setup = dedicated(16, 2);

    ck_assert_ptr_eq(choose_one(&usual, &setup, &conv), allreduce);
    setup = dedicated(16, 16); /* b each way instead of nearly 2b */
    ck_assert_ptr_eq(choose_one(&usual, &setup, &conv), ps);
}
END_TEST

START_TEST(equal_seconds_go_to_fewer_bytes_then_to_the_earlier_scheme)
{
    struct group tie = connected(4096, 4096, 256), conv = plain(1 << 22);
    struct cost_cluster free_of_cost = only_link;
    struct plan_options setup = shared(16);

    setup.chunk_bytes = 4096;
    /* exact tie of bytes and seconds: PS is first in the registry */
    ck_assert_ptr_eq(choose_one(&only_link, &setup, &tie), ps);
    ck_assert_ptr_eq(choose_one(&only_link, &setup, &conv), ps);
    free_of_cost.link_Bps = free_of_cost.gemm_flops = free_of_cost.copy_Bps = INFINITY;
    free_of_cost.sum_Bps = free_of_cost.local_Bps = free_of_cost.transport_Bps = INFINITY;
    tie = connected(1024, 4096, 102);
    ck_assert_ptr_eq(choose_one(&free_of_cost, &setup, &tie), sfb);
}
END_TEST

/* VGG19-22K, batch 32, 0.925 s an iteration on one Titan X (facts of the paper's figures): the
 * hybrid is near linear on 16 nodes of 10 GbE where the parameter server cannot be. */
START_TEST(vgg19_22k_scales_as_the_paper_reports)
{
    struct group groups[19];
    double forward[19], backward[19];
    int layer[19];
    struct cost_work work;
    struct plan_options setup = shared(16), how = setup;
    struct cost_cluster cluster = usual;
    struct cost_iteration by_ps, by_rule;
    struct cost_answer by_auto;

    vgg19(groups, 21841, 32);
    for (int l = 0; l < 19; l++) {
        forward[l] = l < 16 ? 0.29 / 16 : 0.01;
        backward[l] = 2 * forward[l];
    }
    work = work_of(19, forward, backward, layer);
    for (int g = 1; g < 19; g++)
        groups[g].begin = groups[g - 1].begin + (groups[g - 1].elems + 15) / 16 * 16;
    cluster.gemm_flops = 4e12;
    cluster.sum_Bps = cluster.copy_Bps = 1e11;
    cost_work_scale(&work, 0.925);
    ck_assert_double_eq_tol(cost_work_seconds(&work), 0.925, 1e-9);
    how.comm = (struct comm){COMM_SCHEME, ps};
    ck_assert_int_eq(cost_predict(&work, &cluster, &how, groups, COST_OVERLAP_BACKWARD, &by_ps), 0);
    how.comm = (struct comm){.policy = COMM_PAPER};
    ck_assert_int_eq(cost_predict(&work, &cluster, &how, groups, COST_OVERLAP_BACKWARD, &by_rule),
                     0);
    by_auto = choose(&work, &cluster, &setup, groups, COST_OVERLAP_BACKWARD);
    ck_assert_double_lt(16 * 0.925 / by_ps.seconds, 11);
    ck_assert_double_gt(16 * 0.925 / by_rule.seconds, 14.5); /* reported: 15.0 and 15.5 */
    ck_assert_double_le(16 * 0.925 / by_rule.seconds, 16);
    ck_assert_double_le(by_auto.iteration.seconds, by_rule.seconds);
    ck_assert_ptr_eq(by_auto.scheme[16], sfb);
    cost_answer_free(&by_auto);
}
END_TEST

START_TEST(quantities_print_short_and_with_their_unit)
{
    static const struct {
        double value;
        const char *bytes, *seconds;
    } cases[] = {{0, "0 B", "0 us"},        {12, "12 B", "12 s"},        {999.6, "1 kB", "1e+03 s"},
                 {147456, "147 kB", NULL},  {1.2345e9, "1.23 GB", NULL}, {0.00004, NULL, "40 us"},
                 {0.0123, NULL, "12.3 ms"}, {0.9999, NULL, "1 s"},       {99960, "100 kB", NULL}};
    char text[COST_CELL];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].bytes) {
            cost_print_bytes(cases[i].value, text);
            ck_assert_str_eq(text, cases[i].bytes);
        }
        if (cases[i].seconds && cases[i].value < 999) {
            cost_print_seconds(cases[i].value, text);
            ck_assert_str_eq(text, cases[i].seconds);
        }
    }
}
END_TEST

START_TEST(sizes_grow_with_what_a_trip_costs)
{
    struct cost_cluster cluster = usual; /* 33 us at 1.25 GB/s: 41250 bytes a trip */
    struct cost_sizes sizes = cost_sizes_for(&cluster);

    ck_assert_uint_eq(sizes.chunk, 41250 * 20 / 4096 * 4096);
    ck_assert_uint_eq(sizes.merge, 41250 * 4 / 4096 * 4096);
    ck_assert_uint_eq(sizes.window, 16 * sizes.chunk);
    ck_assert_uint_eq(sizes.latency, 41250 / 4096 * 4096);
    cluster.link_Bps = 1e3;
    ck_assert_uint_eq(cost_sizes_for(&cluster).chunk, 64 << 10);
    ck_assert_uint_eq(cost_sizes_for(&cluster).merge, 32 << 10);
    cluster.link_Bps = 1e30;
    ck_assert_uint_eq(cost_sizes_for(&cluster).chunk, 4 << 20);
    ck_assert_uint_eq(cost_sizes_for(&cluster).merge, 256 << 10);
}
END_TEST

/* Forty neighbours of 4 kB, on a network where a message costs that much. */
static struct cost_answer merge_small_layers(double message_seconds, size_t merge_bytes)
{
    enum { LAYERS = 40 };
    double forward[LAYERS], backward[LAYERS];
    int layer[LAYERS];
    struct group groups[LAYERS];
    struct cost_work work = work_of(LAYERS, forward, backward, layer);
    struct cost_cluster cluster = usual;
    struct plan_options setup = shared(16);

    for (int g = 0; g < LAYERS; g++) {
        groups[g] = plain(1024);
        groups[g].begin = (size_t)g * 1024;
        forward[g] = backward[g] = 1e-5;
    }
    cluster.latency_seconds = 0;
    cluster.message_seconds = message_seconds;
    setup.merge_bytes = merge_bytes;
    return choose(&work, &cluster, &setup, groups, COST_OVERLAP_WFBP);
}

START_TEST(layers_are_merged_as_messages_cost)
{
    struct cost_answer dear = merge_small_layers(1e-3, COST_SIZE_CHOSEN);
    struct cost_answer apart = merge_small_layers(1e-3, 0);
    struct cost_answer cheap = merge_small_layers(0, COST_SIZE_CHOSEN);

    ck_assert_uint_ge(dear.merge_bytes, 64 << 10);
    ck_assert_double_lt(dear.iteration.seconds, 0.5 * apart.iteration.seconds);
    ck_assert_uint_eq(apart.merge_bytes, 0); /* what the user gave holds */
    ck_assert_uint_lt(cheap.merge_bytes, dear.merge_bytes);
    cost_answer_free(&dear);
    cost_answer_free(&apart);
    cost_answer_free(&cheap);
}
END_TEST

/* Trips are so long that factors, which make one, win by far. Of 4,096 rows on 64 workers they
 * would take 4 GB at once: so they go row by row, and lose; of 16 rows 17 MB in three rounds, which
 * are as many trips. */
START_TEST(factors_that_memory_does_not_hold_cost_rounds)
{
    struct group fc = connected(1024, 1024, 4096);
    struct plan_options setup = shared(64);
    struct cost_cluster distant = only_link;

    distant.latency_seconds = 1;
    distant.link_Bps = 1e30;
    ck_assert_double_eq(cost_of(&distant, &setup, &fc, sfb).memory,
                        4096. * 2048 * 4 + 2. * 64 * 2048 * 4);
    ck_assert_double_eq(cost_of(&distant, &setup, &fc, sfb).trips, 4096);
    fc.k = 16; /* 7 of its rows fit at a time */
    ck_assert_double_eq(cost_of(&distant, &setup, &fc, sfb).trips, 3);
    ck_assert_double_eq(cost_of(&distant, &setup, &fc, sfb).memory,
                        16. * 2048 * 4 + 2. * 64 * 6 * 2048 * 4);
    ck_assert_double_eq(cost_of(&distant, &setup, &fc, sfb).messages, 3 * 63);
    fc.k = 8;
    ck_assert_double_eq(cost_of(&distant, &setup, &fc, sfb).trips, 1);
    ck_assert_double_eq(cost_of(&distant, &setup, &fc, sfb).memory, 2. * 64 * 8 * 2048 * 4);
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
    tcase_add_test(tcase, seconds_follow_the_link_the_latency_and_the_product);
    tcase_add_test(tcase, layer_smaller_than_its_servers_burdens_some_links);
    tcase_add_test(tcase, servers_update_where_it_is_faster);
    tcase_add_test(tcase, engines_quantise_in_memory_of_their_own);
    tcase_add_test(tcase, without_a_core_to_spare_traffic_costs_computing);
    tcase_add_test(tcase, ranks_of_a_node_share_its_link);
    tcase_add_test(tcase, leaders_of_a_node_share_its_sums);
    tcase_add_test(tcase, impossible_and_frozen_layers_cost_nothing);
    tcase_add_test(tcase, bytes_beyond_64_bits_saturate);
    tcase_add_test(tcase, iteration_is_what_the_timeline_by_hand_says);
    tcase_add_test(tcase, more_overlap_is_never_slower_and_never_beats_the_bound);
    tcase_add_test(tcase, choice_is_within_a_hundredth_of_the_best_of_all_combinations);
    tcase_add_test(tcase, choice_differs_from_the_papers_rule_where_the_rule_errs);
    tcase_add_test(tcase, few_dedicated_servers_lose_to_allreduce);
    tcase_add_test(tcase, equal_seconds_go_to_fewer_bytes_then_to_the_earlier_scheme);
    tcase_add_test(tcase, vgg19_22k_scales_as_the_paper_reports);
    tcase_add_test(tcase, sizes_grow_with_what_a_trip_costs);
    tcase_add_test(tcase, layers_are_merged_as_messages_cost);
    tcase_add_test(tcase, factors_that_memory_does_not_hold_cost_rounds);
    tcase_add_test(tcase, quantities_print_short_and_with_their_unit);
}
