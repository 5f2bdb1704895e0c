/* Costs of one layer. Bytes are whole numbers and equal what plan_traffic adds up over the ranks;
 * everything else is double: the figures it comes from are measurements. */
#include "plan/cost.h"

#include "util/units.h"

#include <math.h>
#include <stdio.h>

/* A sum reads two words and writes one; an update with one history reads three and writes two. */
#define UPDATE_PER_SUM (5.0 / 3.0)

/* Quantising reads gradient and residual and writes the residual, unless an engine does it in
 * memory of its own; the result is read back once by each rank: passes over the layer beside the
 * sum itself, each about one copy (two words). */
#define QUANTISE_PASSES  1.5
#define READ_BACK_PASSES 0.5

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static int locals_of(const struct cost_setup *setup)
{
    return setup->locals > 1 ? setup->locals : 1;
}

/* Of what a rank exchanges evenly with the other ranks of `all`, the share that leaves its node. */
static double remote_share(const struct cost_setup *setup, int all)
{
    if (all <= 1 || setup->ranks_per_node >= all)
        return 0;
    return (double)(all - setup->ranks_per_node) / (double)(all - 1);
}

/* `bytes` one way per rank; `sharing` ranks of a node do so at once. */
static double on_wire(const struct cost_cluster *cluster, double bytes, double remote, int sharing)
{
    return larger(bytes * remote * sharing / cluster->link_Bps,
                  bytes * (1 - remote) / cluster->local_Bps);
}

static double per_rank_on_wire(const struct cost_cluster *cluster, const struct cost_setup *setup,
                               double bytes)
{
    int all = setup->nworkers, sharing = setup->ranks_per_node < all ? setup->ranks_per_node : all;

    return on_wire(cluster, bytes, remote_share(setup, all), sharing);
}

double cost_host_update_rate(const struct cost_cluster *cluster)
{
    return cluster->sum_Bps / UPDATE_PER_SUM;
}

bool cost_updates_remotely(const struct cost_cluster *cluster)
{
    return cluster->serve_Bps > cost_host_update_rate(cluster);
}

static double update_seconds(const struct cost_cluster *cluster, double bytes)
{
    return bytes / cost_host_update_rate(cluster);
}

/* Of a server that is a worker and can do it in its engine's memory. */
static double worker_update_seconds(const struct cost_cluster *cluster, double bytes)
{
    return cost_updates_remotely(cluster) ? bytes / cluster->serve_Bps
                                          : update_seconds(cluster, bytes);
}

/* trips: messages that can only follow each other; overlap: into how many pieces link and progress
 * thread share the work. */
static void total_up(struct cost *cost, const struct cost_cluster *cluster, double trips,
                     double overlap)
{
    double overhead = cost->messages * cluster->message_seconds;
    double link = cost->wire_seconds + overhead;

    cost->stolen_seconds = cluster->core_share *
                           (cost->sum_seconds + larger(cost->worker.sent, cost->worker.received) /
                                                    cluster->transport_Bps);
    cost->latency_seconds = trips * cluster->latency_seconds + overhead;
    cost->busy_seconds = larger(link, cost->sum_seconds);
    cost->seconds = cost->busy_seconds + smaller(link, cost->sum_seconds) / larger(overlap, 1) +
                    trips * cluster->latency_seconds + cost->skew_seconds + cost->compute_seconds;
}

static double engine_update_seconds(const struct cost_cluster *cluster, double bytes)
{
    return cluster->update_Bps > 0 ? bytes / cluster->update_Bps
                                   : worker_update_seconds(cluster, bytes);
}

static size_t bounded(double bytes, size_t least, size_t most)
{
    size_t whole = bytes > (double)most ? most : (size_t)bytes;

    return (whole > least ? whole : least) & ~(size_t)4095;
}

struct cost_sizes cost_sizes_for(const struct cost_cluster *cluster)
{
    double trip = (cluster->latency_seconds + cluster->message_seconds) * cluster->link_Bps;
    size_t chunk = bounded(20 * trip, 64 << 10, 4 << 20);

    return (struct cost_sizes){
        .chunk = chunk, .merge = bounded(4 * trip, 32 << 10, 256 << 10), .window = 16 * chunk};
}

/* A layer that others join carries its part of their messages' overhead. */
static double own_messages(const struct cost_setup *setup, const struct param_group *group,
                           double messages)
{
    double bytes = (double)group->elems * sizeof(float);

    return bytes < (double)setup->merge_bytes ? messages * bytes / (double)setup->merge_bytes
                                              : messages;
}

/* How a group is cut, as plan_create does: pieces of `size` elements dealt evenly to `homes`. */
struct cut {
    double bytes;       /* of all, as gradients travel */
    uint64_t exact;     /* the same */
    double pieces, own; /* in all, of the home that has most */
    double most;        /* gradient bytes of that home */
};

static uint64_t gradient_bytes(const struct cost_setup *setup, uint64_t elems)
{
    bool half = setup->wire == WIRE_BF16 && setup->nworkers > 1;

    return half ? plus(times(elems, 2), 3) / 4 * 4 : times(elems, sizeof(float));
}

static struct cut cut_group(const struct cost_setup *setup, const struct param_group *group,
                            int homes)
{
    uint64_t size = setup->chunk_bytes / sizeof(float), elems = group->elems;
    uint64_t part = (elems + (uint64_t)homes - 1) / (uint64_t)homes;
    struct cut cut;

    part = part < PLAN_LEAST_PART ? PLAN_LEAST_PART : part;
    size = part < size ? part : size;
    cut.exact = plus(times(elems / size, gradient_bytes(setup, size)),
                     elems % size ? gradient_bytes(setup, elems % size) : 0);
    cut.bytes = (double)gradient_bytes(setup, elems);
    cut.pieces = ceil((double)elems / (double)size);
    cut.own = ceil(cut.pieces / homes);
    cut.most = smaller(cut.bytes, cut.own * (double)gradient_bytes(setup, size));
    return cut;
}

static void cost_dedicated_ps(struct cost *cost, const struct cost_cluster *cluster,
                              const struct cost_setup *setup, const struct param_group *group,
                              const struct cut *cut)
{
    double b = (double)group->elems * sizeof(float), p1 = setup->nworkers,
           share = p1 / setup->nservers;
    double remote = setup->ranks_per_node >= setup->nworkers + setup->nservers ? 0 : 1;
    int workers = setup->ranks_per_node < setup->nworkers ? setup->ranks_per_node : setup->nworkers;
    int servers = setup->ranks_per_node < setup->nservers ? setup->ranks_per_node : setup->nservers;

    cost->bytes =
        times((uint64_t)setup->nworkers, plus(cut->exact, times(group->elems, sizeof(float))));
    cost->worker = (struct cost_side){cut->bytes, b};
    cost->server = (struct cost_side){b * share, cut->bytes * share};
    cost->messages = own_messages(setup, group, larger(cut->pieces, cut->own * p1));
    cost->wire_seconds =
        larger(on_wire(cluster, b, remote, workers), on_wire(cluster, b * share, remote, servers));
    cost->skew_seconds = larger(0, on_wire(cluster, p1 * cut->most * b / cut->bytes, remote, 1) -
                                       cost->wire_seconds);
}

/* Every worker is a home of its part: `back` bytes return for the gradient bytes of `cut`. The home
 * of most sends and receives more than the others. */
static void cost_shared(struct cost *cost, const struct cost_cluster *cluster,
                        const struct cost_setup *setup, const struct param_group *group,
                        const struct cut *cut, double back)
{
    double p1 = setup->nworkers, each = (cut->bytes + back) * (p1 - 1) / p1;
    double grows = back / cut->bytes, most_back = cut->most * grows;
    double sent = (p1 - 1) * most_back + cut->bytes - cut->most;
    double received = (p1 - 1) * cut->most + back - most_back;

    cost->worker = (struct cost_side){each, each};
    if (setup->nworkers > 1)
        cost->messages = own_messages(setup, group, cut->pieces - cut->own + cut->own * (p1 - 1));
    cost->wire_seconds = per_rank_on_wire(cluster, setup, each);
    cost->skew_seconds = larger(
        0, on_wire(cluster, larger(sent, received), remote_share(setup, setup->nworkers), 1) -
               cost->wire_seconds);
}

static void cost_ps(struct cost *cost, const struct cost_cluster *cluster,
                    const struct cost_setup *setup, const struct param_group *group)
{
    struct cut cut = cut_group(setup, group, setup->nservers);
    double b = (double)group->elems * sizeof(float), p1 = setup->nworkers, p2 = setup->nservers;

    if (setup->dedicated) {
        cost_dedicated_ps(cost, cluster, setup, group, &cut);
    } else {
        cost_shared(cost, cluster, setup, group, &cut, b);
        cost->bytes = times((uint64_t)setup->nworkers - 1,
                            plus(cut.exact, times(group->elems, sizeof(float))));
    }
    cost->sum_seconds = (cost->messages > 0 ? b * p1 / p2 / cluster->sum_Bps : 0) +
                        (setup->dedicated ? update_seconds(cluster, b / p2)
                                          : worker_update_seconds(cluster, b / p2));
    total_up(cost, cluster, cost->messages > 0 ? 2 : 0, p1);
}

/* Rows of factors that one speaker sends. */
static uint64_t rows_of(const struct cost_setup *setup, const struct param_group *group)
{
    return times(times((uint64_t)group->k, (uint64_t)setup->iter_size), (uint64_t)locals_of(setup));
}

static double factor_bytes(const struct cost_setup *setup, const struct param_group *group)
{
    return (double)sizeof(float) * (double)rows_of(setup, group) *
           ((double)group->m + (double)group->n);
}

static uint64_t whole_factor_bytes(const struct cost_setup *setup, const struct param_group *group)
{
    return times(times(rows_of(setup, group), (uint64_t)group->m + (uint64_t)group->n),
                 sizeof(float));
}

/* Backprop leaves the rank's own outer products to the rebuilding, so only the others' are extra.
 */
static double rebuild_seconds(const struct cost_cluster *cluster, const struct cost_setup *setup,
                              const struct param_group *group)
{
    return 2.0 * (double)group->m * (double)group->n * (double)group->k * setup->iter_size *
           (setup->nworkers * locals_of(setup) - 1) / cluster->gemm_flops;
}

static void cost_sfb(struct cost *cost, const struct cost_cluster *cluster,
                     const struct cost_setup *setup, const struct param_group *group)
{
    double f = factor_bytes(setup, group), peers = setup->nworkers - 1;

    cost->bytes = times(times((uint64_t)setup->nworkers, (uint64_t)setup->nworkers - 1),
                        whole_factor_bytes(setup, group));
    cost->worker = (struct cost_side){f * peers, f * peers};
    cost->messages = peers;
    cost->wire_seconds = per_rank_on_wire(cluster, setup, f * peers);
    cost->compute_seconds = f / locals_of(setup) / cluster->copy_Bps +
                            rebuild_seconds(cluster, setup, group) +
                            engine_update_seconds(cluster, (double)group->elems * sizeof(float));
    total_up(cost, cluster, peers > 0 ? 1 : 0, 1);
}

static void cost_allreduce(struct cost *cost, const struct cost_cluster *cluster,
                           const struct cost_setup *setup, const struct param_group *group)
{
    struct cut cut = cut_group(setup, group, setup->nworkers);
    double b = (double)group->elems * sizeof(float);

    cost_shared(cost, cluster, setup, group, &cut, cut.bytes);
    cost->bytes = times((uint64_t)setup->nworkers - 1, times(2, cut.exact));
    cost->sum_seconds = cost->messages > 0 ? b / cluster->sum_Bps : 0;
    cost->compute_seconds = update_seconds(cluster, b);
    total_up(cost, cluster, cost->messages > 0 ? 2 : 0, setup->nworkers);
}

/* The owner is a worker or a dedicated server. Its in and out directions are used one after the
 * other: factors, then all of the matrix to everybody. */
static void cost_adam(struct cost *cost, const struct cost_cluster *cluster,
                      const struct cost_setup *setup, const struct param_group *group)
{
    uint64_t peers = (uint64_t)setup->nworkers - (setup->dedicated ? 0 : 1);
    double b = (double)group->elems * sizeof(float), f = factor_bytes(setup, group),
           p = (double)peers;
    double remote = remote_share(setup, (int)peers + 1);
    double in = on_wire(cluster, f * p, remote, 1), out = on_wire(cluster, b * p, remote, 1);

    cost->bytes =
        times(peers, plus(whole_factor_bytes(setup, group), times(group->elems, sizeof(float))));
    cost->server = (struct cost_side){b * p, f * p};
    if (peers)
        cost->worker = (struct cost_side){f, b};
    cost->messages = p;
    cost->wire_seconds = larger(in, out);
    cost->skew_seconds = smaller(in, out);
    cost->sum_seconds = rebuild_seconds(cluster, setup, group) + update_seconds(cluster, b);
    cost->compute_seconds = f / locals_of(setup) / cluster->copy_Bps;
    total_up(cost, cluster, peers > 0 ? 2 : 0, 1);
}

static uint64_t quantised_bytes(const struct param_group *group)
{
    uint64_t m = (uint64_t)group->m, n = (uint64_t)group->n;
    uint64_t row = plus(times((n + 31) / 32, 4), 2 * sizeof(float));

    return plus(times(m, row), times(group->elems - (size_t)(m * n), sizeof(float)));
}

static void cost_onebit(struct cost *cost, const struct cost_cluster *cluster,
                        const struct cost_setup *setup, const struct param_group *group)
{
    uint64_t q = quantised_bytes(group), peers = (uint64_t)setup->nworkers - 1;
    double b = (double)group->elems * sizeof(float),
           each = 2 * (double)q * (double)peers / setup->nworkers,
           passes = READ_BACK_PASSES + (cluster->serve_Bps > 0 ? 0 : QUANTISE_PASSES);

    cost->bytes = times(times(2, peers), q);
    cost->worker = (struct cost_side){each, each};
    cost->messages = 2 * (double)peers;
    cost->wire_seconds = per_rank_on_wire(cluster, setup, each);
    cost->sum_seconds = peers > 0 ? b / cluster->sum_Bps + passes * b / cluster->copy_Bps : 0;
    cost->compute_seconds = update_seconds(cluster, b);
    total_up(cost, cluster, peers > 0 ? 2 : 0, setup->nworkers);
}

static bool can_travel(const struct param_group *group, enum scheme scheme)
{
    switch (scheme) {
    case SCHEME_SFB:
    case SCHEME_ADAM:
    case SCHEME_ONEBIT:
        return group->factorable;
    case SCHEME_NONE:
    case SCHEME_PS:
    case SCHEME_ALLREDUCE:
        return true;
    case SCHEMES:
        break;
    }
    return false;
}

/* The ranks of a node add up before anything travels, a slice each. */
static void add_up_first(struct cost *cost, const struct cost_cluster *cluster,
                         const struct cost_setup *setup, const struct param_group *group)
{
    double share = (double)(locals_of(setup) - 1) / locals_of(setup);
    double seconds = share * (double)group->elems * sizeof(float) / cluster->sum_Bps;

    cost->sum_seconds += seconds;
    cost->stolen_seconds += cluster->core_share * seconds;
    cost->busy_seconds = larger(cost->busy_seconds, cost->sum_seconds);
    cost->seconds += seconds;
}

struct cost cost_of(const struct cost_cluster *cluster, const struct cost_setup *setup,
                    const struct param_group *group, enum scheme scheme)
{
    struct cost cost = {.scheme = scheme, .possible = group->trains && can_travel(group, scheme)};

    if (!cost.possible)
        return cost;
    switch (scheme) {
    case SCHEME_PS:
        cost_ps(&cost, cluster, setup, group);
        break;
    case SCHEME_SFB:
        cost_sfb(&cost, cluster, setup, group);
        break;
    case SCHEME_ALLREDUCE:
        cost_allreduce(&cost, cluster, setup, group);
        break;
    case SCHEME_ADAM:
        cost_adam(&cost, cluster, setup, group);
        break;
    case SCHEME_ONEBIT:
        cost_onebit(&cost, cluster, setup, group);
        break;
    case SCHEME_NONE:
    case SCHEMES:
        cost.sum_seconds = update_seconds(cluster, (double)group->elems * sizeof(float));
        total_up(&cost, cluster, 0, 1);
        break;
    }
    if (scheme == SCHEME_PS || scheme == SCHEME_ALLREDUCE || scheme == SCHEME_ONEBIT)
        add_up_first(&cost, cluster, setup, group);
    return cost;
}

enum scheme cost_single(const struct cost_setup *setup, const struct param_group *group,
                        enum scheme scheme, bool paper)
{
    if (!group->trains || (!paper && scheme == SCHEME_NONE))
        return SCHEME_NONE;
    if (paper)
        return group->factorable && setup->nworkers > 1 &&
                       plan_prefers_sfb(group->m, group->n, (int64_t)rows_of(setup, group),
                                        setup->nworkers, setup->nservers)
                   ? SCHEME_SFB
                   : SCHEME_PS;
    if (setup->nworkers == 1 && scheme != SCHEME_ALLREDUCE)
        return SCHEME_PS;
    return can_travel(group, scheme) ? scheme : SCHEME_PS;
}

/* The cheapest of the others that `allowed` has; scheme SCHEMES: there is none. */
static struct cost runner_up(const struct cost_cluster *cluster, const struct cost_setup *setup,
                             const struct param_group *group, enum scheme chosen,
                             cost_schemes_t allowed)
{
    struct cost best = {.scheme = SCHEMES};

    for (int s = SCHEME_PS; s < SCHEMES; s++) {
        struct cost other = cost_of(cluster, setup, group, (enum scheme)s);
        if (s != (int)chosen && (allowed & 1u << s) && other.possible &&
            (best.scheme == SCHEMES || other.seconds < best.seconds))
            best = other;
    }
    return best;
}

static double busiest_bytes(const struct cost *cost)
{
    return larger(larger(cost->worker.sent, cost->worker.received),
                  larger(cost->server.sent, cost->server.received));
}

void cost_explain(const struct cost_cluster *cluster, const struct cost_setup *setup,
                  const struct param_group *group, enum scheme chosen, cost_schemes_t allowed,
                  char *out, size_t bytes)
{
    struct cost mine = cost_of(cluster, setup, group, chosen);
    struct cost other = runner_up(cluster, setup, group, chosen, allowed);
    char b0[COST_CELL], b1[COST_CELL], s0[COST_CELL], s1[COST_CELL], c0[COST_CELL];

    if (!group->trains) {
        snprintf(out, bytes, "does not train");
        return;
    }
    if (setup->nworkers == 1 && !setup->dedicated) {
        snprintf(out, bytes, "one worker, nothing to send");
        return;
    }
    cost_print_bytes(busiest_bytes(&mine), b0);
    cost_print_seconds(mine.seconds, s0);
    if (other.scheme == SCHEMES) {
        snprintf(out, bytes, "%s is all that is allowed%s: %s, %s", scheme_name(chosen),
                 group->factorable ? "" : " for a layer without factors", b0, s0);
        return;
    }
    cost_print_bytes(busiest_bytes(&other), b1);
    cost_print_seconds(other.seconds, s1);
    if (mine.seconds <= other.seconds) {
        snprintf(c0, sizeof c0, "%s", "");
        if (mine.compute_seconds > 0.01 * mine.seconds)
            cost_print_seconds(mine.compute_seconds, c0);
        snprintf(out, bytes, "%s%s takes %s and %s%s%s%s, %s %s and %s",
                 group->factorable ? "" : "no factors; ", scheme_name(chosen), b0, s0,
                 *c0 ? " (" : "", c0, *c0 ? " of it computing)" : "", scheme_name(other.scheme), b1,
                 s1);
    } else if (mine.compute_seconds + mine.stolen_seconds <
               other.compute_seconds + other.stolen_seconds) {
        cost_print_seconds(other.compute_seconds + other.stolen_seconds, c0);
        snprintf(out, bytes,
                 "%s alone is faster, %s and not %s, but %s of that is computing: nothing hides it",
                 scheme_name(other.scheme), s1, s0, c0);
    } else {
        snprintf(out, bytes,
                 "%s alone is faster, %s and not %s, but keeps the other layers waiting longer",
                 scheme_name(other.scheme), s1, s0);
    }
}

void cost_print_bytes(double bytes, char out[COST_CELL])
{
    units_print_bytes(bytes, out);
}

void cost_print_seconds(double seconds, char out[COST_CELL])
{
    units_print_seconds(seconds, out);
}
