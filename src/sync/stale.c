/* Slots of gradients and parameters. */
#include "sync/stale.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

static size_t slot_of(const struct stale *stale, int64_t iteration)
{
    return (size_t)(iteration % stale->depth);
}

int stale_open(struct sync *sync, int group)
{
    int depth = sync->options.staleness + 1;
    size_t elems = sync->plan->buckets[group].elems;
    struct stale *stale;

    if (!sync->worker || depth == 1)
        return 0;
    stale = calloc(1, sizeof *stale);
    sync->groups[group].own = stale;
    if (!stale)
        return error_memory(sizeof *stale, "staleness");
    stale->depth = depth;
    stale->elems = elems;
    stale->complete = sync->options.iteration;
    stale->pending = calloc((size_t)depth, sizeof *stale->pending);
    stale->fetches = calloc((size_t)depth, sizeof *stale->fetches);
    if (!stale->pending || !stale->fetches)
        return error_memory((size_t)depth * sizeof *stale->fetches, "staleness");
    for (int i = 0; sync->remote && i < depth; i++)
        if (sync->remote->ticket_create(sync->net->engine->context, &stale->fetches[i]))
            return -1;
    stale->gradients =
        remote_slots_alloc(sync, (size_t)depth * elems, "the copies that --staleness needs");
    stale->values =
        remote_slots_alloc(sync, (size_t)depth * elems, "the copies that --staleness needs");
    return stale->gradients && stale->values ? 0 : -1;
}

void stale_close(struct sync *sync, int group)
{
    struct stale *stale = sync->groups[group].own;

    if (!stale)
        return;
    for (int i = 0; sync->remote && stale->fetches && i < stale->depth; i++)
        sync->remote->ticket_destroy(sync->net->engine->context, stale->fetches[i]);
    remote_slots_free(sync, stale->gradients);
    remote_slots_free(sync, stale->values);
    free(stale->fetches);
    free(stale->pending);
    free(stale);
    sync->groups[group].own = NULL;
}

int stale_stage(struct sync *sync, int group, int micro)
{
    struct group_state *state = &sync->groups[group];
    const struct bucket *g = &sync->plan->buckets[group];

    if (state->own && !sync->remote && micro == sync->plan->options.iter_size - 1)
        memcpy(stale_gradient(sync, group, state->posted, g->begin), sync->net->grads + g->begin,
               g->elems * sizeof(float));
    return 0;
}

float *stale_gradient(struct sync *sync, int group, int64_t iteration, size_t begin)
{
    struct stale *stale = sync->groups[group].own;

    return stale->gradients + slot_of(stale, iteration) * stale->elems +
           (begin - sync->plan->buckets[group].begin);
}

float *stale_values(struct sync *sync, int group, int64_t iteration, size_t begin)
{
    struct stale *stale = sync->groups[group].own;

    return stale->values + slot_of(stale, iteration) * stale->elems +
           (begin - sync->plan->buckets[group].begin);
}

struct engine_ticket *stale_fetch(struct sync *sync, int group, int64_t iteration)
{
    struct stale *stale = sync->groups[group].own;

    return stale->fetches[slot_of(stale, iteration)];
}

/* The copy reads the slot for a while. It is filled anew after iteration newest - 1 + depth was
 * posted here: behind that iteration's gradient, and so behind the copy. */
static int values_store(struct sync *sync, int group, int64_t newest)
{
    const struct bucket *g = &sync->plan->buckets[group];
    struct engine_rows rows = {.host = stale_values(sync, group, newest - 1, g->begin),
                               .host_stride = g->elems,
                               .memory = sync->net->remote_values + g->begin,
                               .stride = g->elems,
                               .width = g->elems,
                               .rows = 1};
    void *context = sync->net->engine->context;

    if (sync->remote->store_in_turn(context, &rows, sync->groups[group].up))
        return -1;
    return sync->remote->order(context, sync->groups[group].up);
}

const float *stale_newest(struct sync *sync, int group, size_t begin)
{
    const struct stale *stale = sync->groups[group].own;

    return stale->complete > sync->options.iteration
               ? stale_values(sync, group, stale->complete - 1, begin)
               : NULL;
}

void stale_finish_one(struct sync *sync, int group, int64_t iteration)
{
    struct group_state *state = &sync->groups[group];
    struct stale *stale = state->own;

    if (--stale->pending[slot_of(stale, iteration)] > 0)
        return;
    while (stale->complete < state->running && stale->pending[slot_of(stale, stale->complete)] == 0)
        stale->complete++;
    atomic_store_explicit(&state->done, stale->complete, memory_order_release);
    progress_wake(sync);
}

int64_t stale_take(struct sync *sync, int group)
{
    struct group_state *state = &sync->groups[group];
    const struct bucket *g = &sync->plan->buckets[group];
    int64_t newest = atomic_load_explicit(&state->done, memory_order_acquire);

    if (sync->remote) {
        /* the next gradient is written where this one is read */
        if (sync->remote->order(sync->net->engine->context,
                                stale_fetch(sync, group, state->posted - 1)))
            return -1;
        return newest > state->settled && values_store(sync, group, newest) ? -1 : newest;
    }
    if (newest > state->settled)
        memcpy(sync->values + g->begin, stale_values(sync, group, newest - 1, g->begin),
               g->elems * sizeof(float));
    return newest;
}
