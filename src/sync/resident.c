/* One rank alone, on an engine with memory of its own: gradients, history and parameters stay there, and the
 * solver's rule is one more thing that is run. Nobody waits for anything. */
#include "sync/sync_internal.h"

#include "util/error.h"

#include <stdlib.h>

static int resident_open(struct sync *sync, int group)
{
    struct remote_history *history = calloc(1, sizeof *history);

    sync->groups[group].own = history;
    return history ? remote_history_open(sync, sync->plan->groups[group].name, sync->plan->groups[group].elems,
                                         history)
                   : error_memory(sizeof *history, "history");
}

static void resident_close(struct sync *sync, int group)
{
    struct remote_history *history = sync->groups[group].own;

    if (history)
        remote_history_close(sync, history);
    free(history);
    sync->groups[group].own = NULL;
}

/* The gradient is where it is needed. */
static int resident_rebuild(struct sync *sync, int group, int64_t iteration)
{
    (void)sync;
    (void)group;
    (void)iteration;
    return 0;
}

static int resident_settle(struct sync *sync, int group, int64_t iteration)
{
    const struct remote_history *history = sync->groups[group].own;

    return remote_update(sync, group, iteration, sync->scale * sync->clip.scale, history->memory);
}

static float *resident_history(struct sync *sync, int group)
{
    return remote_history_read(sync, sync->groups[group].own);
}

static int resident_restore(struct sync *sync, int group)
{
    return remote_history_restore(sync, sync->groups[group].own);
}

const struct syncer_i syncer_resident = {
    .scheme = SCHEME_NONE,
    .open = resident_open,
    .close = resident_close,
    .rebuild = resident_rebuild,
    .settle = resident_settle,
    .history = resident_history,
    .restore = resident_restore,
    .local = true,
    .stays = true,
};
