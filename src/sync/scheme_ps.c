/* The sharded parameter server: gradients go to the chunk's server, which adds them up, applies the
 * rule, and sends new parameters back. */
#include "engine/codec.h"
#include "plan/cost.h"
#include "plan/plan.h"

static const struct codec *choose_codec(const struct plan *plan, int chunk)
{
    (void)chunk;
    return plan->options.wire == WIRE_BF16 && plan->nworkers > 1 ? &codec_bf16 : NULL;
}

/* A server adds up and updates its part of the bucket. */
static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{
    double share = (double)plan->buckets[bucket].elems * sizeof(float) / plan->nservers;

    out->trips = plan_is_alone(plan) ? 0 : 2;
    out->pieces = plan->nworkers;
    out->sum_seconds = plan_is_alone(plan) ? 0 : share * plan->nworkers / cluster->sum_Bps;
    out->sum_seconds += plan->dedicated ? cost_update_seconds(cluster, share)
                                        : cost_worker_update_seconds(cluster, share);
}

const struct scheme scheme_ps = {
    .name = "ps",
    .label = "PS",
    .help = "sharded parameter server, every worker holds a shard (default: --servers)",
    .home = HOME_SERVERS,
    .mergeable = true,
    .lossless = true,
    .codec = choose_codec,
    .traffic = plan_home_traffic,
    .memory = plan_home_memory,
    .cost = estimate,
};
