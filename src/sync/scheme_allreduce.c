/* Allreduce: gradients are added up at the chunk's home, one of the workers, the sum goes to all of
 * them (reduce-scatter and allgather), and everybody applies the rule. */
#include "engine/codec.h"
#include "plan/cost.h"
#include "plan/plan.h"

static const struct codec *choose_codec(const struct plan *plan, int chunk)
{
    (void)chunk;
    return plan->options.wire == WIRE_BF16 && plan->nworkers > 1 ? &codec_bf16 : NULL;
}

/* The whole bucket's sum is kept beside the home's places. */
static uint64_t count_memory(const struct plan *plan, int bucket, int leader)
{
    uint64_t sum = plan->buckets[bucket].elems * sizeof(float);

    return leader < plan->nworkers ? plan_home_memory(plan, bucket, leader) + sum : 0;
}

static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{
    double bytes = (double)plan->buckets[bucket].elems * sizeof(float);

    out->trips = plan->nworkers > 1 ? 2 : 0;
    out->pieces = plan->nworkers;
    out->sum_seconds = plan->nworkers > 1 ? bytes / cluster->sum_Bps : 0;
    out->compute_seconds = cost_update_seconds(cluster, bytes);
}

const struct scheme scheme_allreduce = {
    .name = "allreduce",
    .label = "allreduce",
    .help = "reduced at each chunk's home, then broadcast",
    .home = HOME_WORKERS,
    .mergeable = true,
    .lossless = true,
    .codec = choose_codec,
    .codec_back = true,
    .traffic = plan_home_traffic,
    .memory = count_memory,
    .cost = estimate,
};
