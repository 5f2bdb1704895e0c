/* One rank alone, on an engine with memory of its own: gradients, history and parameters stay there, and the
 * solver's rule is one more thing that is run. Nobody waits for anything. */
#include "sync/sync_internal.h"

#include "util/error.h"

#include <stdlib.h>

static int local_open(struct sync *sync, int group)
{
    struct remote_history *history = calloc(1, sizeof *history);

    sync->groups[group].own = history;
    return history ? remote_history_open(sync, group, history) : error_memory(sizeof *history, "history");
}

static void local_close(struct sync *sync, int group)
{
    struct remote_history *history = sync->groups[group].own;

    if (history)
        remote_history_close(sync, history);
    free(history);
    sync->groups[group].own = NULL;
}

/* The gradient is where it is needed. */
static int local_rebuild(struct sync *sync, int group, int64_t iteration)
{
    (void)sync;
    (void)group;
    (void)iteration;
    return 0;
}

static int local_settle(struct sync *sync, int group, int64_t iteration)
{
    const struct remote_history *history = sync->groups[group].own;

    return remote_update(sync, group, iteration, sync->scale * sync->clip.scale, history->memory);
}

static float *local_history(struct sync *sync, int group)
{
    return remote_history_read(sync, sync->groups[group].own);
}

static int local_restore(struct sync *sync, int group)
{
    return remote_history_restore(sync, sync->groups[group].own);
}

const struct syncer_i syncer_local = {
    .scheme = SCHEME_PS, /* what it stands for in tables: a server of one */
    .open = local_open,
    .close = local_close,
    .rebuild = local_rebuild,
    .settle = local_settle,
    .history = local_history,
    .restore = local_restore,
    .local = true,
};
