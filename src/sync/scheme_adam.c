/* Project Adam's way (Chilimbi et al., OSDI 2014): factors go to the layer's owner, which rebuilds
 * the gradient, applies the rule, and sends the whole matrix back. */
#include "plan/cost.h"
#include "plan/plan.h"

static int owner_of(const struct plan *plan, int bucket)
{
    return plan_home(plan, plan->buckets[bucket].first_chunk);
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static struct traffic count_traffic(const struct plan *plan, int bucket, int leader)
{
    const struct bucket *b = &plan->buckets[bucket];
    bool worker = leader < plan->nworkers;
    uint64_t others = (uint64_t)plan->nworkers - (worker ? 1 : 0);
    uint64_t mine = worker ? plan_factor_bytes(plan, bucket, leader) : 0;
    uint64_t all = plan_factor_bytes(plan, bucket, -1);

    if (leader == owner_of(plan, bucket))
        return (struct traffic){.sent = times(others, b->back_bytes),
                                .received = all == UINT64_MAX ? all : all - mine,
                                .messages = others * (uint64_t)b->nchunks};
    if (worker)
        return (struct traffic){.sent = mine, .received = b->back_bytes, .messages = 1};
    return (struct traffic){0};
}

/* The owner keeps all workers' factors and the sum that they make, a worker its own factors. */
static uint64_t count_memory(const struct plan *plan, int bucket, int leader)
{
    if (leader == owner_of(plan, bucket))
        return plan_factor_bytes(plan, bucket, -1) + plan->buckets[bucket].elems * sizeof(float);
    return leader < plan->nworkers ? plan_factor_bytes(plan, bucket, leader) : 0;
}

/* The owner's in and out directions are used one after the other: factors, then all of the matrix
 * to everybody. */
static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{

    double bytes = (double)plan->buckets[bucket].elems * sizeof(float);
    double in = cost_link_seconds(cluster, plan, out->server.received);
    double back = cost_link_seconds(cluster, plan, out->server.sent);

    out->trips = plan_is_alone(plan) ? 0 : 2;
    out->pieces = 1;
    out->skew_seconds = in < back ? in : back;
    out->sum_seconds =
        cost_rebuild_seconds(cluster, plan, bucket) + cost_update_seconds(cluster, bytes);
    out->compute_seconds = cost_stage_seconds(cluster, plan, bucket);
}

const struct scheme scheme_adam = {
    .name = "adam",
    .label = "Adam",
    .help = "factors to each layer's owner, the whole matrix back",
    .home = HOME_OWNER,
    .factors = true, /* and auto is not offered it: the owner sends all that PS spreads */
    .traffic = count_traffic,
    .memory = count_memory,
    .cost = estimate,
};
