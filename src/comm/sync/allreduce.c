/* Allreduce in two steps of messages: every chunk's home, a worker, adds up the gradients
 * (reduce-scatter) and sends the sum to all (allgather); every worker then applies the rule itself.
 * The bytes are a ring's; but all peers talk at once, so two steps suffice for any number of ranks.
 * The sum equals the parameter server's to the last bit. */
#include "plan/cost.h"
#include "sync/home.h"
#include "sync/sync_internal.h"
#include "plan/for_schemes.h"

/* ---- the plan ---- */

static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{
    double bytes = (double)plan->buckets[bucket].elems * sizeof(float);

    out->sum_seconds = plan->nworkers > 1 ? bytes / cluster->sum_Bps : 0;
    out->compute_seconds = cost_update_seconds(cluster, bytes);
}

/* ---- steps, of one bit, too ---- */

const struct scheme_steps steps_allreduce = {
    .state_bytes = sizeof(struct home),
    .open = home_open,
    .post = home_post,
    .go_on = home_go_on,
    .accept = home_accept,
    .cleared = home_cleared,
    .history = home_history,
    .residual = home_residual,
    .everywhere = true,
    .home_norms = true,
};

const struct scheme scheme_allreduce = {
    .name = "allreduce",
    .label = "allreduce",
    .help = "each chunk is added up on one rank, then broadcast",
    .home = HOME_WORKERS,
    .sliced = true,
    .mergeable = true,
    .trees = true,
    .lossless = true,
    .codec = plan_wire_codec,
    .codec_back = true,
    .traffic = plan_home_traffic,
    .memory = home_count_totals,
    .cost = estimate,
    .steps = &steps_allreduce,
};
