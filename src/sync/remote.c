/* Engines with memory of their own: the way of gradients to the host and of parameters back, beside the
 * computation.
 *
 * When backward has run a layer, its gradient's copy is asked for at once, behind the computation; the
 * progress thread, told of the group as ever, posts it when the copy is there. The other way round it starts
 * the copy of new parameters itself, as soon as the last of them came, and the compute thread only has what
 * it runs next wait for it: neither thread waits for a copy. */
#include "sync/stale.h"

#include "util/error.h"

#include <stdlib.h>

static void *context_of(const struct sync *sync)
{
    return sync->net->engine->context;
}

int remote_open(struct sync *sync)
{
    sync->remote = sync->worker && sync->net->engine ? sync->net->engine->i->remote : NULL;
    if (!sync->remote)
        return 0;
    sync->waiting = calloc((size_t)sync->plan->ngroups * (size_t)(2 + sync->options.staleness) + 1,
                           sizeof *sync->waiting);
    if (!sync->waiting)
        return error_memory((size_t)sync->plan->ngroups * sizeof *sync->waiting, "groups on their way");
    for (int g = 0; g < sync->plan->ngroups; g++)
        if (sync->remote->ticket_create(context_of(sync), &sync->groups[g].down) ||
            sync->remote->ticket_create(context_of(sync), &sync->groups[g].up))
            return -1;
    return 0;
}

void remote_close(struct sync *sync)
{
    for (int g = 0; sync->remote && sync->groups && g < sync->plan->ngroups; g++) {
        sync->remote->ticket_destroy(context_of(sync), sync->groups[g].down);
        sync->remote->ticket_destroy(context_of(sync), sync->groups[g].up);
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
        return sync->remote->host_alloc(context_of(sync), elems * sizeof(float), what, &memory) ? NULL : memory;
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

static struct engine_rows rows_of(const struct sync *sync, int group, float *host, float *memory)
{
    const struct param_group *g = &sync->plan->groups[group];

    return (struct engine_rows){.host = host + g->begin, .host_stride = g->elems,
                                .memory = memory + g->begin, .stride = g->elems, .width = g->elems,
                                .rows = 1};
}

int remote_fetch_gradient(struct sync *sync, int group)
{
    struct group_state *state = &sync->groups[group];
    struct engine_rows rows;

    if (!sync->remote || state->syncer->factors || state->syncer->local)
        return 0;
    rows = rows_of(sync, group, sync->net->grads, sync->net->remote_grads);
    if (state->lag == 0)
        return sync->remote->fetch(context_of(sync), &rows, state->down);
    rows.host = stale_gradient(sync, group, state->posted, sync->plan->groups[group].begin);
    return sync->remote->fetch(context_of(sync), &rows, stale_fetch(sync, group, state->posted));
}

int remote_fetched(struct sync *sync, int group)
{
    struct group_state *state = &sync->groups[group];

    return sync->remote->ready(context_of(sync),
                               state->lag > 0 ? stale_fetch(sync, group, state->running) : state->down);
}

int remote_store_values(struct sync *sync, int group, bool settled)
{
    const struct syncer_i *syncer = sync->groups[group].syncer;
    struct engine_rows rows;

    if (!sync->remote || syncer->stays || syncer->local || sync_settles(sync, group) != settled)
        return 0;
    rows = rows_of(sync, group, sync->net->values, sync->net->remote_values);
    return sync->remote->store(context_of(sync), &rows, sync->groups[group].up);
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

int remote_update(struct sync *sync, int group, int64_t iteration, float scale, float *history)
{
    const struct param_group *g = &sync->plan->groups[group];
    size_t at = g->begin;

    for (int p = g->first; p < g->first + g->nparams; p++) {
        const struct param *param = &sync->net->params[p];
        size_t n = shape_elems(&param->shape);
        if (sync->update.apply_remote(sync->update.context, iteration, scale, param->lr_mult,
                                      param->decay_mult, sync->net->remote_values + at,
                                      sync->net->remote_grads + at, history + (at - g->begin), g->elems,
                                      n))
            return error_context("layer '%s': the update", g->name);
        at += n;
    }
    return 0;
}

int remote_history_open(struct sync *sync, int group, struct remote_history *out)
{
    const struct engine *engine = sync->net->engine;
    const struct param_group *g = &sync->plan->groups[group];
    size_t blocks = sync_history_blocks(sync);
    void *memory = NULL;

    out->elems = blocks * g->elems;
    if (engine->i->alloc(engine->context, out->elems * sizeof(float), "the solver's history", &memory))
        return error_context("layer '%s'", g->name);
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
                           .bytes = history->elems * sizeof(float), .data = history->memory};
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
    return sync->net->engine->i->read(context_of(sync), &tensor, history->host) ? NULL : history->host;
}

int remote_history_restore(struct sync *sync, struct remote_history *history)
{
    struct tensor tensor = history_tensor(history);

    return history->host ? sync->net->engine->i->write(context_of(sync), &tensor, history->host) : 0;
}
