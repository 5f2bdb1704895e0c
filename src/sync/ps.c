/* Sharded parameter server. A worker sends its gradient of every chunk to the chunk's server and
 * receives the new parameters into its arena; a server sums the gradients (collect.h), applies
 * the solver once, and sends the chunk back at once, not waiting for other chunks. A worker's own
 * chunks never touch the network: server and worker share the arena.
 *
 * Where the worker's engine has memory of its own, a server may apply the solver there
 * (options.update_remotely): the chunk's sum goes up, the new values come back, and the progress
 * thread does other things meanwhile.
 *
 * Adam's way (adam.c) is a parameter server too, whose sums come from factors. */
#include "sync/collect.h"
#include "sync/outbox.h"
#include "sync/stale.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

enum { WHAT_GRADIENT_OUT, WHAT_GRADIENT_IN, WHAT_PARAMETERS_OUT, WHAT_PARAMETERS_IN };

/* A chunk that this rank serves. */
struct served {
    struct collect collect;
    bool ready;        /* summed */
    bool updating;     /* in the engine's memory */
    bool cleared;      /* the clipping scale of this iteration is known; true without clipping */
    double weight;     /* of the last update, for the order of sends */
    int sends;         /* parameters of the last iteration still being sent */
    float *values;     /* the arena's; a copy of its own where the worker here may lag behind */
    float *own_values; /* that copy, or NULL */
    float *
        history; /* nhistory blocks of the chunk's elems; NULL where it is in the engine's memory */
    struct remote_history remote_history;
    struct engine_ticket *ticket; /* of an update there; NULL: on the host */
};

struct ps {
    int nserved;
    struct served *served;
    int *index;               /* per chunk: in served, -1 */
    int *updating, nupdating; /* in served: being updated in the engine's memory, in order; room for
                                 each twice, as the end of one update may begin the next */
    int64_t updates;          /* chunks updated and sent, over the whole run */
    int64_t first;            /* iteration of the start */
};

static bool by_server(const struct sync *sync, int chunk)
{
    const struct syncer_i *syncer = sync->groups[sync->plan->chunks[chunk].bucket].syncer;

    return syncer == &syncer_ps || syncer == &syncer_adam;
}

bool ps_serves(const struct sync *sync, int chunk)
{
    const struct ps *ps = sync->ps;

    return ps && ps->index[chunk] >= 0;
}

/* A worker that may lag behind has values of its own. */
bool ps_updates_remotely(const struct sync *sync, int chunk)
{
    return sync->remote && sync->options.update_remotely && sync->options.staleness == 0 &&
           ps_serves(sync, chunk);
}

static int open_served(struct sync *sync, struct served *served, int chunk)
{
    const struct chunk *c = &sync->plan->chunks[chunk];
    size_t blocks = sync_history_blocks(sync);
    bool receives = sync->plan->buckets[c->bucket].scheme->home == HOME_SERVERS,
         remote = ps_updates_remotely(sync, chunk);

    served->cleared = sync->options.clip <= 0;
    if (remote && (sync->remote->ticket_create(sync->net->engine->context, &served->ticket) ||
                   remote_history_open(sync, sync->plan->buckets[c->bucket].name, c->elems,
                                       &served->remote_history)))
        return -1;
    if (!remote)
        served->history = calloc(c->elems * blocks, sizeof(float));
    served->values = remote ? remote_served_values(sync, chunk) : sync->values + c->begin;
    if (receives && sync->options.staleness > 0)
        served->values = served->own_values = malloc(c->elems * sizeof(float));
    if ((!remote && !served->history) || !served->values)
        return error_memory(c->elems * (blocks + 1) * sizeof(float), "a parameter server's chunk");
    return collect_open(sync, chunk, receives, receives ? 1 + sync->options.staleness : 1,
                        &served->collect);
}

int ps_open(struct sync *sync)
{
    const struct plan *plan = sync->plan;
    struct ps *ps = calloc(1, sizeof *ps);

    sync->ps = ps;
    if (!ps)
        return error_memory(sizeof *ps, "the parameter server");
    ps->index = malloc(((size_t)plan->nchunks + 1) * sizeof *ps->index);
    ps->served = calloc((size_t)plan->nchunks + 1, sizeof *ps->served);
    ps->updating = calloc(2 * (size_t)plan->nchunks + 1, sizeof *ps->updating);
    ps->first = sync->options.iteration;
    if (!ps->index || !ps->served || !ps->updating)
        return error_memory((size_t)plan->nchunks * sizeof *ps->served, "the parameter server");
    for (int c = 0; c < plan->nchunks; c++)
        ps->index[c] = -1;
    for (int c = 0; c < plan->nchunks; c++) {
        if (!by_server(sync, c) || plan_home(plan, c) != sync->rank)
            continue;
        ps->index[c] = ps->nserved++;
        if (open_served(sync, &ps->served[ps->index[c]], c))
            return -1;
    }
    return 0;
}

void ps_close(struct sync *sync)
{
    struct ps *ps = sync->ps;

    if (!ps)
        return;
    for (int i = 0; ps->served && i < ps->nserved; i++) {
        collect_close(sync, &ps->served[i].collect);
        if (ps->served[i].ticket)
            sync->remote->ticket_destroy(sync->net->engine->context, ps->served[i].ticket);
        if (ps->served[i].remote_history.memory)
            remote_history_close(sync, &ps->served[i].remote_history);
        free(ps->served[i].history);
        free(ps->served[i].own_values);
    }
    free(ps->updating);
    free(ps->served);
    free(ps->index);
    free(ps);
    sync->ps = NULL;
}

float *ps_history(struct sync *sync, int chunk)
{
    struct ps *ps = sync->ps;
    struct served *served = &ps->served[ps->index[chunk]];

    return served->history ? served->history : remote_history_read(sync, &served->remote_history);
}

int ps_restore(struct sync *sync)
{
    struct ps *ps = sync->ps;
    int status = 0;

    for (int i = 0; i < ps->nserved && !status; i++)
        if (!ps->served[i].history)
            status = remote_history_restore(sync, &ps->served[i].remote_history);
    return status;
}

float *ps_sum(struct sync *sync, int chunk)
{
    struct ps *ps = sync->ps;

    return ps->served[ps->index[chunk]].collect.sum;
}

int ps_start(struct sync *sync)
{
    struct ps *ps = sync->ps;

    for (int i = 0; i < ps->nserved; i++) {
        struct served *served = &ps->served[i];
        const struct chunk *chunk = &sync->plan->chunks[served->collect.chunk];
        if (served->own_values)
            memcpy(served->own_values, sync->values + chunk->begin, chunk->elems * sizeof(float));
        if (collect_start(sync, &served->collect, WHAT_GRADIENT_IN))
            return -1;
    }
    return 0;
}

/* A dedicated server's compute thread waits for whole iterations. */
static void count_update(struct sync *sync)
{
    struct ps *ps = sync->ps;

    ps->updates++;
    atomic_store_explicit(&sync->served, ps->first + ps->updates / ps->nserved,
                          memory_order_release);
    if (ps->updates % ps->nserved == 0)
        progress_wake(sync);
}

/* One of the worker's transfers of that iteration is over. */
static int finish_one(struct sync *sync, int group, int64_t iteration)
{
    if (sync->groups[group].lag == 0)
        return progress_finish_one(sync, group);
    stale_finish_one(sync, group, iteration);
    return 0;
}

/* The worker on the server's own rank gets its parameters too. */
static int hand_over(struct sync *sync, const struct served *served, int64_t iteration)
{
    const struct chunk *chunk = &sync->plan->chunks[served->collect.chunk];

    if (served->own_values)
        memcpy(stale_values(sync, chunk->bucket, iteration, chunk->begin), served->own_values,
               chunk->elems * sizeof(float));
    return finish_one(sync, chunk->bucket, iteration);
}

static int send_parameters(struct sync *sync, struct served *served, int64_t iteration)
{
    int c = served->collect.chunk;
    const struct chunk *chunk = &sync->plan->chunks[c];

    for (int w = 0; w < sync->plan->nworkers; w++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER,
                                    .group = chunk->bucket,
                                    .chunk = c,
                                    .peer = w,
                                    .what = WHAT_PARAMETERS_OUT,
                                    .weight = served->weight};
        if (sync->worker && w == sync->rank)
            continue;
        served->sends++;
        if (progress_send(sync, sync->data, served->values, chunk->elems,
                          tag_of(sync, true, c, iteration), transfer))
            return -1;
    }
    return 0;
}

static int chunk_summed(struct sync *sync, struct served *served);

/* The new values are there: expect the next gradients, send the parameters. */
static int chunk_updated(struct sync *sync, struct served *served)
{
    int64_t iteration = served->collect.iteration;

    if (collect_next(sync, &served->collect, WHAT_GRADIENT_IN) ||
        send_parameters(sync, served, iteration))
        return -1;
    if (sync->worker && hand_over(sync, served, iteration))
        return -1;
    if (served->sends == 0)
        count_update(sync);
    return collect_add(sync, &served->collect) ? chunk_summed(sync, served) : 0; /* all ran ahead */
}

/* The sum is complete and may be applied: here, or in the engine's memory, which ps_poll sees the
 * end of. */
static int update_chunk(struct sync *sync, struct served *served)
{
    const struct chunk *chunk = &sync->plan->chunks[served->collect.chunk];
    struct ps *ps = sync->ps;
    struct update update = {.place = UPDATE_ON_HOST,
                            .iteration = served->collect.iteration,
                            .scale = sync->scale * sync->clip.scale,
                            .begin = chunk->begin,
                            .elems = chunk->elems,
                            .values = served->values,
                            .grad = collect_sum(sync, &served->collect),
                            .history = served->history,
                            .stride = chunk->elems};
    int64_t start = trace_begin(sync->options.trace);
    int status;

    served->ready = false;
    served->cleared = sync->options.clip <= 0;
    if (served->ticket) {
        served->updating = true;
        ps->updating[ps->nupdating++] = (int)(served - ps->served);
        return remote_serve(sync, served->collect.chunk, update.iteration, update.scale,
                            served->collect.sum, served->remote_history.memory, served->ticket);
    }
    served->weight = progress_weight(sync, update.grad, served->values, chunk->elems);
    status = update_range(sync, chunk->bucket, &update);
    trace_span(sync->options.trace, TRACE_PROGRESS, TRACE_UPDATE,
               sync->plan->buckets[chunk->bucket].layer, start);
    return status ? -1 : chunk_updated(sync, served);
}

bool ps_busy(const struct sync *sync)
{
    const struct ps *ps = sync->ps;

    return ps->nupdating > 0;
}

int ps_poll(struct sync *sync)
{
    struct ps *ps = sync->ps;
    int over = 0, status = 0;

    while (over < ps->nupdating && status == 0) {
        struct served *served = &ps->served[ps->updating[over]];
        int ready = sync->remote->ready(sync->net->engine->context, served->ticket);
        if (ready == 0)
            break;
        over++;
        served->updating = false;
        status = ready < 0 ? -1 : chunk_updated(sync, served);
    }
    ps->nupdating -= over;
    memmove(ps->updating, ps->updating + over, (size_t)ps->nupdating * sizeof *ps->updating);
    return status ? -1 : over;
}

/* Values may not change under a send that is not known to be over. */
static int try_update(struct sync *sync, struct served *served)
{
    return served->ready && served->cleared && served->sends == 0 ? update_chunk(sync, served) : 0;
}

static int chunk_summed(struct sync *sync, struct served *served)
{
    const struct chunk *chunk = &sync->plan->chunks[served->collect.chunk];

    served->ready = true;
    if (sync->options.clip > 0)
        return clip_chunk_ready(
            sync, served->collect.chunk,
            clip_sumsq(collect_sum(sync, &served->collect), chunk->elems, sync_mean(sync)));
    return try_update(sync, served);
}

int ps_summed(struct sync *sync, int chunk)
{
    struct ps *ps = sync->ps;

    return chunk_summed(sync, &ps->served[ps->index[chunk]]);
}

int ps_update_all(struct sync *sync)
{
    struct ps *ps = sync->ps;

    for (int i = 0; i < ps->nserved; i++) {
        ps->served[i].cleared = true;
        if (try_update(sync, &ps->served[i]))
            return -1;
    }
    return 0;
}

static int arrive(struct sync *sync, int chunk, int worker, int slot, const void *own)
{
    struct ps *ps = sync->ps;
    struct served *served = &ps->served[ps->index[chunk]];

    collect_arrive(sync, &served->collect, worker, slot, own);
    if (served->ready ||
        served->updating) /* the sum of an earlier iteration waits for its sends, or is used */
        return 0;
    return collect_add(sync, &served->collect) ? chunk_summed(sync, served) : 0;
}

int ps_expect_parameters(struct sync *sync, int chunk, int64_t iteration)
{
    const struct chunk *c = &sync->plan->chunks[chunk];
    struct transfer transfer = {.kind = TRANSFER_SYNCER,
                                .group = c->bucket,
                                .chunk = chunk,
                                .peer = plan_home(sync->plan, chunk),
                                .what = WHAT_PARAMETERS_IN};
    float *to = remote_parameters(sync, chunk);

    if (sync->groups[c->bucket].lag > 0) {
        to = stale_values(sync, c->bucket, iteration, c->begin);
        transfer.slot = (int)(iteration % (1 + sync->options.staleness));
    }
    return progress_receive(sync, sync->data, to, c->elems, tag_of(sync, true, chunk, iteration),
                            transfer);
}

/* How many transfers the worker waits for: a chunk of its own, or a gradient and the parameters. */
static void count_pending(struct sync *sync, int group, int64_t iteration)
{
    const struct plan *plan = sync->plan;
    const struct ps *ps = sync->ps;
    struct group_state *state = &sync->groups[group];
    int pending = 0;

    for (int c = plan->buckets[group].first_chunk; c < bucket_end(plan, group); c++)
        pending += ps->index[c] >= 0 ? 1 : 2;
    if (state->lag > 0)
        ((struct stale *)state->own)->pending[iteration % (state->lag + 1)] = pending;
    else
        state->pending = pending;
}

static int ps_post(struct sync *sync, int group, int64_t iteration)
{
    const struct plan *plan = sync->plan;
    struct ps *ps = sync->ps;
    int lag = sync->groups[group].lag, slot = (int)(iteration % (lag + 1));

    count_pending(sync, group, iteration);
    for (int c = plan->buckets[group].first_chunk; c < bucket_end(plan, group); c++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER,
                                    .group = group,
                                    .chunk = c,
                                    .slot = slot,
                                    .peer = plan_home(plan, c),
                                    .what = WHAT_GRADIENT_OUT};
        const float *gradient = lag > 0
                                    ? stale_gradient(sync, group, iteration, plan->chunks[c].begin)
                                    : remote_gradient(sync, c);
        const void *out = outbox_fill(sync, c, gradient);
        if (lag > 0)
            transfer.weight =
                progress_weight(sync, gradient, stale_newest(sync, group, plan->chunks[c].begin),
                                plan->chunks[c].elems);
        if (ps->index[c] >= 0) {
            if (arrive(sync, c, sync->rank, slot, out))
                return -1;
        } else if (ps_expect_parameters(sync, c, iteration) ||
                   progress_send(sync, sync->data, out,
                                 plan_gradient_bytes(plan, c) / sizeof(float),
                                 tag_of(sync, false, c, iteration), transfer)) {
            return -1;
        }
    }
    return 0;
}

int ps_complete(struct sync *sync, const struct transfer *transfer)
{
    struct ps *ps = sync->ps;
    struct served *served;

    switch (transfer->what) {
    case WHAT_GRADIENT_IN:
        return arrive(sync, transfer->chunk, transfer->peer, transfer->slot, NULL);
    case WHAT_PARAMETERS_OUT:
        served = &ps->served[ps->index[transfer->chunk]];
        if (--served->sends > 0)
            return 0;
        count_update(sync);
        return try_update(sync, served);
    default:
        return finish_one(sync, transfer->group, transfer->slot);
    }
}

const struct syncer_i syncer_ps = {
    .open = stale_open,
    .close = stale_close,
    .stage = stale_stage,
    .post = ps_post,
    .complete = ps_complete,
};
