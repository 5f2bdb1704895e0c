/* The sharded parameter server: gradients go to the chunk's server, which adds them up, applies the
 * solver's rule, and sends the new parameters back. A worker's own chunks never use the network:
 * server and worker share the arena. */
#include "plan/cost.h"
#include "sync/home.h"
#include "sync/sync_internal.h"
#include "plan/for_schemes.h"

/* ---- the plan ---- */

/* Estimates the cost of a server, which adds up and updates its part of the bucket. */
static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{
    double share = (double)plan->buckets[bucket].elems * sizeof(float) / plan->nservers;

    out->sum_seconds = plan_is_alone(plan) ? 0 : share * plan->nworkers / cluster->sum_Bps;
    out->sum_seconds += plan->dedicated ? cost_update_seconds(cluster, share)
                                        : cost_worker_update_seconds(cluster, share);
}

/* ---- steps ---- */

static const struct scheme_steps steps_ps = {
    .state_bytes = sizeof(struct home),
    .serves = true,
    .open = home_open,
    .start = home_start,
    .post = home_post,
    .go_on = home_go_on,
    .accept = home_accept,
    .cleared = home_cleared,
    .history = home_history,
    .restore = home_restore,
    .residual = home_residual,
    .home_norms = true,
    .lags = true,
};

const struct scheme scheme_ps = {
    .name = "ps",
    .label = "PS",
    .help = "sharded parameter server on all workers, or on dedicated servers",
    .home = HOME_SERVERS,
    .sliced = true,
    .mergeable = true,
    .trees = true,
    .lossless = true,
    .codec = plan_wire_codec,
    .traffic = plan_home_traffic,
    .memory = plan_home_memory,
    .cost = estimate,
    .steps = &steps_ps,
};
