/* Allreduce in two steps of messages: every chunk has a home among the workers that adds up the
 * gradients (reduce-scatter) and sends the sum to all (allgather); every worker then applies the
 * rule itself. The bytes are those of a ring; all peers talk at once, so two trips suffice whatever
 * the number of ranks, and the sum is the parameter server's to the last bit. */
#include "plan/cost.h"
#include "sync/home.h"
#include "sync/sync_internal.h"

#include <stdlib.h>

/* ---- the plan ---- */

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

/* ---- steps; one bit has the same ---- */

static int allreduce_open(struct sync *sync, int bucket)
{
    struct home *home;

    if (!sync->worker)
        return 0;
    home = sync->buckets[bucket].own = calloc(1, sizeof *home);
    return home ? home_open(sync, bucket, true, false, home)
                : error_memory(sizeof *home, "an allreduce");
}

static void allreduce_close(struct sync *sync, int bucket)
{
    struct home *home = sync->buckets[bucket].own;

    if (home)
        home_close(sync, home);
    free(home);
    sync->buckets[bucket].own = NULL;
}

const struct scheme_steps steps_allreduce = {
    .open = allreduce_open,
    .close = allreduce_close,
    .post = home_post,
    .accept = home_accept,
    .cleared = home_cleared,
    .history = home_history,
    .describe_wait = home_describe_wait,
    .everywhere = true,
    .home_norms = true,
};

const struct scheme scheme_allreduce = {
    .name = "allreduce",
    .label = "allreduce",
    .help = "reduced at each chunk's home, then broadcast",
    .home = HOME_WORKERS,
    .sliced = true,
    .mergeable = true,
    .trees = true,
    .lossless = true,
    .codec = choose_codec,
    .codec_back = true,
    .traffic = plan_home_traffic,
    .memory = count_memory,
    .cost = estimate,
    .steps = &steps_allreduce,
};
