/* No synchronisation: every worker applies its own gradient. The ceiling that a cluster's speed is
 * compared with; what is trained is as many nets as there are workers. */
#include "sync/sync_internal.h"

#include "util/error.h"

#include <stdlib.h>

static int local_open(struct sync *sync, int group)
{
    size_t blocks = sync_history_blocks(sync);
    size_t elems = sync->plan->groups[group].elems * blocks;

    if (!sync->worker)
        return 0;
    sync->groups[group].own = calloc(elems, sizeof(float));
    return sync->groups[group].own ? 0 : error_memory(elems * sizeof(float), "history");
}

static void local_close(struct sync *sync, int group)
{
    free(sync->groups[group].own);
    sync->groups[group].own = NULL;
}

static int local_post(struct sync *sync, int group, int64_t iteration)
{
    (void)iteration;
    sync->groups[group].pending = 1;
    return progress_finish_one(sync, group);
}

static int local_settle(struct sync *sync, int group, int64_t iteration)
{
    const struct param_group *g = &sync->plan->groups[group];

    return update_group(sync, group, iteration, 1.0f / (float)sync->plan->options.iter_size,
                        sync->net->grads + g->begin, sync->groups[group].own);
}

static float *local_history(struct sync *sync, int group)
{
    return sync->groups[group].own;
}

const struct syncer_i syncer_local = {
    .scheme = SCHEME_NONE,
    .open = local_open,
    .close = local_close,
    .post = local_post,
    .settle = local_settle,
    .history = local_history,
};
