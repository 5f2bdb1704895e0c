/* One bit a gradient, with error feedback (Seide et al., Interspeech 2014): reduced like allreduce.
 * Weights and their sums travel as one bit each and two values a row, biases as floats. */
#include "device/codec.h"
#include "plan/cost.h"
#include "sync/home.h"
#include "sync/steps.h"
#include "plan/for_schemes.h"

/* ---- the plan ---- */

/* Passes over the bucket besides the sum, each about one copy (two words). Quantising reads
 * gradient and residual and writes the residual, unless a device does it in memory of its own; each
 * rank reads the result back once. */
#define QUANTISE_PASSES  1.5
#define READ_BACK_PASSES 0.5

static bool can_move(const struct group *group)
{
    return group->factorable;
}

static size_t find_unit(const struct bucket *bucket)
{
    return (size_t)bucket->n;
}

static const struct codec *choose_codec(const struct plan *plan, int chunk)
{
    const struct chunk *c = &plan->chunks[chunk];
    const struct bucket *bucket = &plan->buckets[c->bucket];

    return c->begin < bucket->begin + (size_t)(bucket->m * bucket->n) ? &codec_onebit : NULL;
}

static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{
    double bytes = (double)plan->buckets[bucket].elems * sizeof(float);
    double passes = READ_BACK_PASSES + (cluster->serve_Bps > 0 ? 0 : QUANTISE_PASSES);

    out->sum_seconds =
        plan->nworkers > 1 ? bytes / cluster->sum_Bps + passes * bytes / cluster->copy_Bps : 0;
    out->compute_seconds = cost_update_seconds(cluster, bytes);
}

const struct scheme scheme_onebit = {
    .name = "onebit",
    .label = "1-bit",
    .help = "quantise fully connected gradients to 1 bit, with error feedback",
    .home = HOME_WORKERS,
    .sliced = true,
    .lossy = true,
    .can_move = can_move,
    .unit = find_unit,
    .codec = choose_codec,
    .codec_back = true,
    .traffic = plan_home_traffic,
    .memory = home_count_totals,
    .cost = estimate,
    .steps = &steps_allreduce,
};
