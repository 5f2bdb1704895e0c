/* A second life of src/sync, with an update that changes nothing. */
#include "report/alone.h"

#include "util/agree.h"
#include "util/alloc.h"

#include <stdlib.h>

enum { ALONE_ROUNDS = 3 }; /* the quickest counts: the first one warms up */

static void apply_nothing(void *context, int64_t iteration, float scale, float lr_mult,
                          float decay_mult, float *value, const float *grad, float *history,
                          size_t stride, size_t n)
{
    (void)context, (void)iteration, (void)scale, (void)lr_mult, (void)decay_mult;
    (void)value, (void)grad, (void)history, (void)stride, (void)n;
}

static int apply_nothing_remote(void *context, int64_t iteration, float scale, float lr_mult,
                                float decay_mult, float *value, const float *grad, float *history,
                                size_t stride, size_t n, bool stored)
{
    (void)stored;
    apply_nothing(context, iteration, scale, lr_mult, decay_mult, value, grad, history, stride, n);
    return 0;
}

/* The wait follows the post at once, so what it lasts is the transfer. */
static int time_group(struct sync *sync, const struct plan *plan, int group, double *seconds)
{
    int first = plan->first_member[group], end = plan->first_member[group + 1];
    double start, nothing = 0;

    if (sync_sum(sync, &nothing, 1)) /* all start together */
        return -1;
    start = sync_stats(sync)->group_stall_seconds[group];
    for (int m = end - 1; m >= first; m--)
        if (sync_post(sync, m, true))
            return -1;
    if (sync_wait(sync, first))
        return -1;
    *seconds = sync_stats(sync)->group_stall_seconds[group] - start;
    return 0;
}

static int time_round(struct sync *sync, const struct plan *plan, int round, double *alone)
{
    for (int g = plan->ngroups - 1; g >= 0; g--) {
        double seconds;
        if (plan->scheme[g] == SCHEME_NONE)
            continue;
        if (time_group(sync, plan, g, &seconds))
            return -1;
        if (round == 0 || seconds < alone[g])
            alone[g] = seconds;
    }
    return sync_flush(sync);
}

/* alone: per group, 0 where nothing is moved. Collective. */
static int time_groups(MPI_Comm world, const struct plan *plan, struct net *net,
                       const struct sync_options *like, double *alone)
{
    struct sync_update nothing = {.apply = apply_nothing, .apply_remote = apply_nothing_remote};
    struct sync_options options = *like;
    struct sync *sync;
    int rank, status;

    options.overlap = true;
    options.clip = 0;
    options.staleness = 0; /* else nobody would wait for the transfers */
    options.iteration = 0;
    options.trace = NULL;
    MPI_Comm_rank(world, &rank);
    if (sync_create(world, plan, net, &nothing, &options, &sync))
        return -1;
    status = error_agree(world, sync_start(sync));
    for (int i = 0; i < ALONE_ROUNDS && !status; i++)
        status =
            plan_is_worker(plan, rank) ? time_round(sync, plan, i, alone) : sync_wait_all(sync, i);
    status = sync_close(sync, status);
    sync_destroy(sync);
    if (status)
        return -1;
    MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, alone, plan->ngroups, MPI_DOUBLE, MPI_MAX, world));
    return 0;
fail:
    return -1;
}

int alone_measure(MPI_Comm world, const struct plan *plan, struct net *net,
                  const struct sync_options *like, struct figures *figures)
{
    double *alone = alloc_array((size_t)plan->ngroups, sizeof *alone, "the report");
    int status = error_agree(world, alone ? 0 : -1);

    if (!status)
        status = time_groups(world, plan, net, like, alone);
    for (int i = 0; i < figures->nlayers && !status; i++)
        figures->layers[i].alone_seconds = alone[figures->layers[i].group];
    free(alone);
    return status;
}
