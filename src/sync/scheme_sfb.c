/* Sufficient factor broadcasting (Xie et al., UAI 2016): every worker sends its factors to all
 * others, and all rebuild the gradient and apply the rule. */
#include "plan/cost.h"
#include "plan/plan.h"

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static struct traffic count_traffic(const struct plan *plan, int bucket, int leader)
{
    uint64_t others = (uint64_t)plan->nworkers - 1, mine, all;

    if (leader >= plan->nworkers)
        return (struct traffic){0};
    mine = plan_factor_bytes(plan, bucket, leader);
    all = plan_factor_bytes(plan, bucket, -1);
    return (struct traffic){.sent = times(others, mine),
                            .received = all == UINT64_MAX ? times(others, mine) : all - mine,
                            .messages = others};
}

/* Everybody's factors of two iterations: those of the next may come while these are used. */
static uint64_t count_memory(const struct plan *plan, int bucket, int leader)
{
    return leader < plan->nworkers ? times(2, plan_factor_bytes(plan, bucket, -1)) : 0;
}

static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{
    double bytes = (double)plan->buckets[bucket].elems * sizeof(float);

    out->trips = plan->nworkers > 1 ? 1 : 0;
    out->pieces = 1;
    out->compute_seconds = cost_stage_seconds(cluster, plan, bucket) +
                           cost_rebuild_seconds(cluster, plan, bucket) +
                           cost_engine_update_seconds(cluster, bytes);
}

const struct scheme scheme_sfb = {
    .name = "sfb",
    .label = "SFB",
    .help = "sufficient factors of fully connected layers to all",
    .home = HOME_NOBODY,
    .factors = true,
    .lossless = true,
    .traffic = count_traffic,
    .memory = count_memory,
    .cost = estimate,
};
