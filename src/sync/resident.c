/* One rank alone, on an engine with memory of its own: gradients, history and parameters stay
 * there, and the solver's rule is one more thing that is run. Nobody waits for anything.
 *
 * So it is for the leader of a team that is the only node, once the sum is there. The rule is
 * applied beside the computation, unless clipping has to see all gradients first. */
#include "sync/sync_internal.h"

#include "util/error.h"

#include <stdlib.h>

static int resident_open(struct sync *sync, int group)
{
    struct remote_history *history = calloc(1, sizeof *history);

    sync->groups[group].own = history;
    return history ? remote_history_open(sync, sync->plan->buckets[group].name,
                                         sync->plan->buckets[group].elems, history)
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
    (void)iteration;
    return remote_order(sync, group);
}

static int resident_settle(struct sync *sync, int group, int64_t iteration)
{
    const struct remote_history *history = sync->groups[group].own;

    return remote_update(sync, group, iteration, sync->scale * sync->clip.scale, history->memory,
                         false);
}

/* What was made of the team's sum so far is what the computation finds after remote_order. */
static int note_stored(struct sync *sync, int group)
{
    const struct engine_rows none = {.rows = 0};

    return sync->remote->fetch_stored(sync->net->engine->context, &none, sync->groups[group].up);
}

static int sum_settle(struct sync *sync, int group, int64_t iteration)
{
    const struct remote_history *history = sync->groups[group].own;

    if (remote_update(sync, group, iteration, sync->scale * sync->clip.scale, history->memory,
                      true))
        return -1;
    return note_stored(sync, group);
}

static int sum_post(struct sync *sync, int group, int64_t iteration)
{
    sync->groups[group].pending = 1;
    if (sync->options.clip > 0 ? note_stored(sync, group) : sum_settle(sync, group, iteration))
        return -1;
    return progress_finish_one(sync, group);
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
    .open = resident_open, .close = resident_close, .history = resident_history,                   \
    .restore = resident_restore, .stays = true

const struct syncer_i syncer_resident = {RESIDENT_COMMON, .rebuild = resident_rebuild,
                                         .settle = resident_settle, .local = true};
const struct syncer_i syncer_team = {RESIDENT_COMMON, .post = sum_post};
const struct syncer_i syncer_team_clipped = {RESIDENT_COMMON, .post = sum_post,
                                             .rebuild = resident_rebuild, .settle = sum_settle};
