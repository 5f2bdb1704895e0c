/* Times transfers in a second synchronisation, whose update changes nothing. */
#include "report/isolated.h"

#include "util/agree.h"
#include "util/alloc.h"

#include <stdlib.h>

enum { ALONE_ROUNDS = 3 }; /* the quickest counts: the first round warms up */

/* Times a bucket. The wait follows the post at once, so it lasts as long as the transfer. */
static int time_bucket(struct sync *sync, const struct plan *plan, int bucket, double *seconds)
{
    int first = plan->buckets[bucket].first_group, end = first + plan->buckets[bucket].ngroups;
    double start, zero = 0;

    if (sync_sum(sync, &zero, 1)) /* all ranks start together */
        return -1;
    start = sync_stats(sync)->buckets[bucket].stall_seconds;
    for (int g = end - 1; g >= first; g--)
        if (sync_post(sync, g, true))
            return -1;
    if (sync_wait(sync, first))
        return -1;
    *seconds = sync_stats(sync)->buckets[bucket].stall_seconds - start;
    return 0;
}

static int time_round(struct sync *sync, const struct plan *plan, int round, double *alone)
{
    for (int b = plan->nbuckets - 1; b >= 0; b--) {
        double seconds;
        if (!plan->buckets[b].scheme)
            continue;
        if (time_bucket(sync, plan, b, &seconds))
            return -1;
        if (round == 0 || seconds < alone[b])
            alone[b] = seconds;
    }
    return sync_flush(sync);
}

/* Times all buckets. alone: per bucket, 0 if nothing is moved. Collective. */
static int time_buckets(MPI_Comm world, const struct plan *plan, const struct sync_model *model,
                        const struct sync_options *like, double *alone)
{
    const struct sync_update no_update = {.describe = NULL};
    /* takes training's options on messages and the watchdog, but none that delays an update until
     * all layers are ready or ends a wait before its transfer */
    const struct sync_options options = {.overlap = true,
                                         .sends = like->sends,
                                         .node = like->node,
                                         .gather = like->gather,
                                         .direct = like->direct,
                                         .update_on_device = like->update_on_device,
                                         .threads = like->threads,
                                         .watch = like->watch};
    struct sync *sync;
    int rank, status;

    MPI_Comm_rank(world, &rank);
    if (sync_create(world, plan, model, &no_update, &options, &sync))
        return -1;
    status = sync_start(sync); /* a rank that cannot start closes at once */
    for (int i = 0; i < ALONE_ROUNDS && !status; i++)
        status =
            plan_is_worker(plan, rank) ? time_round(sync, plan, i, alone) : sync_wait_all(sync, i);
    status = sync_close(sync, status);
    sync_destroy(sync);
    if (status)
        return -1;
    return agree_max(world, alone, plan->nbuckets);
}

int isolated_measure(MPI_Comm world, const struct plan *plan, const struct sync_model *model,
                     const struct sync_options *like, struct figures *figures)
{
    double *alone = alloc_array((size_t)plan->nbuckets, sizeof *alone, "the report");
    int status = error_agree(world, alone ? 0 : -1);

    if (!status)
        status = time_buckets(world, plan, model, like, alone);
    for (int i = 0; i < figures->nlayers && !status; i++)
        figures->layers[i].alone_seconds = alone[figures->layers[i].bucket];
    free(alone);
    return status;
}
