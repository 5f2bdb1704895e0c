/* Engines with memory of their own: the way of gradients to the host and of parameters back, beside
 * the computation.
 *
 * A gradient that travels encoded is encoded in that memory, and only what it has become is copied
 * (outbox.c).
 *
 * Where MPI reaches that memory by itself (direct.c), only what the host computes with is copied:
 * gradients and parameters of the chunks that are served here. All else goes straight, a gradient
 * when the computation has passed it, which is all that its ticket then tells.
 *
 * When backward has run a layer, its gradient's copy is asked for at once, behind the computation;
 * the progress thread, told of the group as ever, posts it when the copy is there. The other way
 * round it starts the copy of new parameters itself, as soon as the last of them came, and the
 * compute thread only has what it runs next wait for it: neither thread waits for a copy. */
#include "sync/outbox.h"
#include "sync/stale.h"

#include "util/error.h"

#include <stdlib.h>

static void *context_of(const struct sync *sync)
{
    return sync->net->engine->context;
}

int remote_open(struct sync *sync)
{
    if (!sync->remote)
        return 0;
    sync->waiting = calloc((size_t)sync->plan->nbuckets * (size_t)(2 + sync->options.staleness) + 1,
                           sizeof *sync->waiting);
    if (!sync->waiting)
        return error_memory((size_t)sync->plan->nbuckets * sizeof *sync->waiting,
                            "groups on their way");
    for (int g = 0; g < sync->plan->nbuckets; g++)
        if (sync->remote->ticket_create(context_of(sync), &sync->groups[g].down) ||
            sync->remote->ticket_create(context_of(sync), &sync->groups[g].up) ||
            (sync->team && sync->remote->ticket_create(context_of(sync), &sync->groups[g].passed)))
            return -1;
    return 0;
}

void remote_close(struct sync *sync)
{
    for (int g = 0; sync->remote && sync->groups && g < sync->plan->nbuckets; g++) {
        sync->remote->ticket_destroy(context_of(sync), sync->groups[g].down);
        sync->remote->ticket_destroy(context_of(sync), sync->groups[g].up);
        sync->remote->ticket_destroy(context_of(sync), sync->groups[g].passed);
    }
    free(sync->waiting);
    engine_close(&sync->host_engine);
}

const struct engine *remote_host_engine(struct sync *sync)
{
    const struct engine_options options = {.threads = sync->options.threads};

    if (!sync->remote)
        return sync->options.engine;
    if (!sync->host_engine.i && engine_open("cpu", &options, &sync->host_engine))
        return NULL;
    return &sync->host_engine;
}

float *remote_slots_alloc(struct sync *sync, size_t elems, const char *what)
{
    void *memory = NULL;

    if (sync->remote)
        return sync->remote->host_alloc(context_of(sync), elems * sizeof(float), what, &memory)
                   ? NULL
                   : memory;
    memory = calloc(elems, sizeof(float));
    if (!memory)
        error_memory(elems * sizeof(float), what);
    return memory;
}

void remote_slots_free(struct sync *sync, float *slots)
{
    if (sync->remote)
        sync->remote->host_free(context_of(sync), slots);
    else
        free(slots);
}

/* Messages to and from this rank's own chunks are none. */
bool remote_goes_straight(const struct sync *sync, int chunk)
{
    const struct plan *plan = sync->plan;

    return sync->direct && sync->groups[plan->chunks[chunk].bucket].lag == 0 &&
           plan_home(plan, chunk) != sync->rank;
}

/* The host has no use for the gradient itself. */
static bool gradient_stays(const struct sync *sync, int chunk)
{
    return remote_goes_straight(sync, chunk) || outbox_encodes(sync, chunk);
}

/* Those that come from a server are parameters when they arrive. */
static bool parameters_straight(const struct sync *sync, int chunk)
{
    const struct syncer_i *syncer = sync->groups[sync->plan->chunks[chunk].bucket].syncer;

    return remote_goes_straight(sync, chunk) && (syncer == &syncer_ps || syncer == &syncer_adam);
}

const float *remote_gradient(const struct sync *sync, int chunk)
{
    return (remote_goes_straight(sync, chunk) ? sync->net->remote_grads : sync->net->grads) +
           sync->plan->chunks[chunk].begin;
}

float *remote_parameters(const struct sync *sync, int chunk)
{
    return (parameters_straight(sync, chunk) ? sync->net->remote_values : sync->values) +
           sync->plan->chunks[chunk].begin;
}

/* The new ones are in the engine's memory already, once the group's transfers are over. */
static bool parameters_there(const struct sync *sync, int chunk)
{
    return parameters_straight(sync, chunk) || ps_updates_remotely(sync, chunk);
}

/* Copies the group, which begins there in both arenas, but for some of its chunks; neighbours
 * together. */
static int copy_others(struct sync *sync, int group,
                       bool (*left_out)(const struct sync *sync, int chunk), float *host,
                       float *memory,
                       int (*copy)(void *context, const struct engine_rows *rows,
                                   struct engine_ticket *ticket),
                       struct engine_ticket *ticket)
{
    const struct plan *plan = sync->plan;
    size_t at = 0;

    for (int c = plan->buckets[group].first_chunk, end = bucket_end(plan, group); c < end;) {
        struct engine_rows rows = {.host = host + at, .memory = memory + at, .rows = 1};
        bool skip = left_out(sync, c);

        for (; c < end && left_out(sync, c) == skip; c++)
            rows.width += plan->chunks[c].elems;
        rows.host_stride = rows.stride = rows.width;
        if (!skip && copy(context_of(sync), &rows, ticket))
            return -1;
        at += rows.width;
    }
    return 0;
}

int remote_fetch_gradient(struct sync *sync, int group)
{
    struct group_state *state = &sync->groups[group];
    const struct engine_remote_i *i = sync->remote;
    const struct engine_rows none = {.rows = 0};
    size_t begin = sync->plan->buckets[group].begin;
    float *host, *memory;

    if (!i || state->syncer->factors || state->syncer->local)
        return 0;
    memory = sync->net->remote_grads + begin;
    host = state->lag > 0 ? stale_gradient(sync, group, state->posted, begin)
                          : sync->net->grads + begin;
    /* perhaps nothing is fetched */
    if (sync->direct &&
        (sync->team ? i->fetch_stored : i->copy)(context_of(sync), &none, state->down))
        return -1;
    if (outbox_encode(sync, group, state->down))
        return -1;
    return copy_others(sync, group, gradient_stays, host, memory,
                       sync->team ? i->fetch_stored : i->fetch,
                       state->lag > 0 ? stale_fetch(sync, group, state->posted) : state->down);
}

int remote_fetched(struct sync *sync, int group)
{
    struct group_state *state = &sync->groups[group];

    return sync->remote->ready(
        context_of(sync), state->lag > 0 ? stale_fetch(sync, group, state->running) : state->down);
}

int remote_store_values(struct sync *sync, int group, bool settled)
{
    const struct syncer_i *syncer = sync->groups[group].syncer;
    size_t begin = sync->plan->buckets[group].begin;

    if (!sync->remote || syncer->stays || syncer->local || sync_settles(sync, group) != settled)
        return 0;
    return copy_others(sync, group, parameters_there, sync->net->values + begin,
                       sync->net->remote_values + begin, sync->remote->store,
                       sync->groups[group].up);
}

int remote_order(struct sync *sync, int group)
{
    if (!sync->remote || sync->groups[group].syncer->local)
        return 0;
    return sync->remote->order(context_of(sync), sync->groups[group].up);
}

int remote_order_staged(struct sync *sync, int group)
{
    return sync->remote ? sync->remote->order(context_of(sync), sync->groups[group].down) : 0;
}

int remote_update(struct sync *sync, int group, int64_t iteration, float scale, float *history,
                  bool stored)
{
    const struct bucket *g = &sync->plan->buckets[group];

    return update_range(sync, group,
                        &(struct update){.place = stored ? UPDATE_STORED : UPDATE_IN_TURN,
                                         .iteration = iteration,
                                         .scale = scale,
                                         .begin = g->begin,
                                         .elems = g->elems,
                                         .values = sync->net->remote_values + g->begin,
                                         .grad = sync->net->remote_grads + g->begin,
                                         .history = history,
                                         .stride = g->elems});
}

float *remote_served_values(const struct sync *sync, int chunk)
{
    bool straight = sync->direct && ps_updates_remotely(sync, chunk);

    return (straight ? sync->net->remote_values : sync->values) + sync->plan->chunks[chunk].begin;
}

/* The gradient's own place takes the sum: it has left for the host, and the next one comes after
 * the next forward pass, which waits for this. */
int remote_serve(struct sync *sync, int chunk, int64_t iteration, float scale, float *sum,
                 float *history, struct engine_ticket *ticket)
{
    const struct chunk *c = &sync->plan->chunks[chunk];
    float *values = sync->net->remote_values + c->begin,
          *grads = sync->net->remote_grads + c->begin;
    const struct engine_rows up = {.host = sum, .memory = grads, .width = c->elems, .rows = 1};
    const struct engine_rows back = {.host = sync->net->values + c->begin,
                                     .memory = values,
                                     .width = c->elems,
                                     .rows = sync->direct ? 0 : 1};
    const struct update update = {.place = UPDATE_STORED,
                                  .iteration = iteration,
                                  .scale = scale,
                                  .begin = c->begin,
                                  .elems = c->elems,
                                  .values = values,
                                  .grad = grads,
                                  .history = history,
                                  .stride = c->elems};

    if (sync->remote->store(context_of(sync), &up, ticket) ||
        update_range(sync, c->bucket, &update))
        return -1;
    return sync->remote->fetch_stored(context_of(sync), &back, ticket);
}

int remote_history_open(struct sync *sync, const char *layer, size_t elems,
                        struct remote_history *out)
{
    const struct engine *engine = sync->net->engine;
    size_t blocks = sync_history_blocks(sync);
    void *memory = NULL;

    out->elems = blocks * elems;
    if (engine->i->alloc(engine->context, out->elems * sizeof(float), "the solver's history",
                         &memory))
        return error_context("layer '%s'", layer);
    out->memory = memory;
    return 0;
}

void remote_history_close(struct sync *sync, struct remote_history *history)
{
    const struct engine *engine = sync->net->engine;

    engine->i->free(engine->context, history->memory);
    free(history->host);
    *history = (struct remote_history){.memory = NULL};
}

static struct tensor history_tensor(const struct remote_history *history)
{
    return (struct tensor){.shape = {.naxes = 1, .dim = {(int64_t)history->elems}},
                           .bytes = history->elems * sizeof(float),
                           .data = history->memory};
}

float *remote_history_read(struct sync *sync, struct remote_history *history)
{
    struct tensor tensor = history_tensor(history);

    if (!history->host)
        history->host = malloc(history->elems * sizeof *history->host);
    if (!history->host) {
        error_memory(history->elems * sizeof *history->host, "history on the host");
        return NULL;
    }
    return sync->net->engine->i->read(context_of(sync), &tensor, history->host) ? NULL
                                                                                : history->host;
}

int remote_history_restore(struct sync *sync, struct remote_history *history)
{
    struct tensor tensor = history_tensor(history);

    return history->host ? sync->net->engine->i->write(context_of(sync), &tensor, history->host)
                         : 0;
}
