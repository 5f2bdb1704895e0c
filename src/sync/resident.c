/* One rank alone, on an engine with memory of its own: gradients, history and parameters stay there, and the
 * solver's rule is one more thing that is run. Nobody waits for anything.
 *
 * So it is for the leader of a team that is the only node, once the sum is there. The rule is applied beside the
 * computation, unless clipping has to see all gradients first. */
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

/* The team's sum: whatever is run after this thread has seen the group done finds it, or what it became. */
static int resident_post(struct sync *sync, int group, int64_t iteration)
{
    const struct remote_history *history = sync->groups[group].own;
    const struct engine_rows none = {.rows = 0};

    sync->groups[group].pending = 1;
    if ((sync->options.clip <= 0 && remote_update(sync, group, iteration, sync->scale, history->memory, true)) ||
        sync->remote->fetch_stored(sync->net->engine->context, &none, sync->groups[group].up))
        return -1;
    return progress_finish_one(sync, group);
}

/* The gradient is where it is needed. */
static int resident_rebuild(struct sync *sync, int group, int64_t iteration)
{
    (void)iteration;
    return remote_order(sync, group);
}

static int resident_settle(struct sync *sync, int group, int64_t iteration)
{
    const struct remote_history *history = sync->groups[group].own;

    return remote_update(sync, group, iteration, sync->scale * sync->clip.scale, history->memory, false);
}

static float *resident_history(struct sync *sync, int group)
{
    return remote_history_read(sync, sync->groups[group].own);
}

static int resident_restore(struct sync *sync, int group)
{
    return remote_history_restore(sync, sync->groups[group].own);
}

#define RESIDENT_COMMON                                                                            \
    .scheme = SCHEME_NONE, .open = resident_open, .close = resident_close,                         \
    .history = resident_history, .restore = resident_restore, .stays = true

const struct syncer_i syncer_resident = {
    RESIDENT_COMMON, .rebuild = resident_rebuild, .settle = resident_settle, .local = true};
const struct syncer_i syncer_team = {RESIDENT_COMMON, .post = resident_post};
const struct syncer_i syncer_team_clipped = {
    RESIDENT_COMMON, .post = resident_post, .rebuild = resident_rebuild, .settle = resident_settle};
