/* Sufficient factor broadcasting (Xie et al., "Lighter-Communication Distributed Machine Learning
 * via Sufficient Factor Broadcasting", UAI'16): each worker sends its factors (factors.h) to all
 * others instead of m*n numbers; every worker rebuilds the same sum and applies the solver itself.
 *
 * Receives are posted one iteration ahead, into the second of two slots: nothing arrives
 * unexpected, and a worker that is ahead does not clog its own wire with rows that nobody takes.
 *
 * Where each worker has many rows, the product is taken worker by worker, while the rows of the
 * later ones are on their way; in the order of ranks, so that the sum has the same bits everywhere.
 */
#include "sync/factors.h"

#include "util/error.h"

#include <stdlib.h>

enum { WHAT_OUT, WHAT_IN };

/* Every further product reads and writes the whole gradient again: with fewer rows a worker that
 * costs more than there is to hide (RESULTS.md). */
enum { ROWS_WORTH_A_PRODUCT = 128 };

struct sfb {
    struct factors factors;
    bool *here[2];            /* per slot and worker: its rows are here and not yet in `in_order` */
    _Atomic int64_t in_order; /* iteration * workers + how many workers in a row have theirs here */
    float *history; /* nhistory blocks of the group's elems; or, in the engine's memory: */
    struct remote_history remote_history;
};

/* Whether products are taken worker by worker. */
static bool by_worker(const struct sync *sync, const struct sfb *sfb)
{
    return !sync->remote && sfb->factors.rows_each >= ROWS_WORTH_A_PRODUCT;
}

static int open_order(const struct sync *sync, struct sfb *sfb)
{
    size_t workers = (size_t)sync->plan->nworkers;

    sfb->here[0] = calloc(2 * workers, sizeof *sfb->here[0]);
    if (!sfb->here[0])
        return error_memory(2 * workers * sizeof *sfb->here[0], "sufficient factors");
    sfb->here[1] = sfb->here[0] + workers;
    atomic_store(&sfb->in_order, sync->options.iteration * sync->plan->nworkers);
    return 0;
}

static int sfb_open(struct sync *sync, int group)
{
    size_t blocks = sync_history_blocks(sync);
    size_t elems = sync->plan->groups[group].elems * blocks;
    struct sfb *sfb;

    if (!sync->worker)
        return 0;
    sfb = calloc(1, sizeof *sfb);
    sync->groups[group].own = sfb;
    if (!sfb)
        return error_memory(sizeof *sfb, "sufficient factors");
    if (open_order(sync, sfb))
        return -1;
    if (sync->remote) {
        if (remote_history_open(sync, sync->plan->groups[group].name,
                                sync->plan->groups[group].elems, &sfb->remote_history))
            return -1;
        return factors_open(sync, group, &sfb->factors);
    }
    sfb->history = calloc(elems, sizeof *sfb->history);
    if (!sfb->history)
        return error_memory(elems * sizeof *sfb->history, "history");
    return factors_open(sync, group, &sfb->factors);
}

static void sfb_close(struct sync *sync, int group)
{
    struct sfb *sfb = sync->groups[group].own;

    if (!sfb)
        return;
    factors_close(sync, &sfb->factors);
    if (sync->remote)
        remote_history_close(sync, &sfb->remote_history);
    free(sfb->history);
    free(sfb->here[0]);
    free(sfb);
    sync->groups[group].own = NULL;
}

/* The slot's rows were sent two iterations ago, and those sends are over. */
static int sfb_stage(struct sync *sync, int group, int micro)
{
    struct group_state *state = &sync->groups[group];
    struct sfb *sfb = state->own;

    return factors_stage(sync, group, &sfb->factors, (int)(state->posted & 1), micro);
}

static int expect(struct sync *sync, int group, int64_t iteration)
{
    struct sfb *sfb = sync->groups[group].own;
    int chunk = sync->plan->first_chunk[group];

    for (int w = 0; w < sync->plan->nworkers; w++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER,
                                    .group = group,
                                    .chunk = chunk,
                                    .peer = w,
                                    .what = WHAT_IN,
                                    .slot = (int)(iteration & 1),
                                    .idle = true};
        if (w != sync->rank &&
            progress_receive(sync, sync->data, factors_rows(&sfb->factors, w, transfer.slot),
                             factors_floats(sync, group, w), tag_of(sync, false, chunk, iteration),
                             transfer))
            return -1;
    }
    return 0;
}

/* A worker's rows of the running iteration, or of the next, are here. */
static void take(struct sync *sync, int group, int worker, int slot)
{
    struct sfb *sfb = sync->groups[group].own;
    int64_t iteration = sync->groups[group].running - 1, count;

    sfb->here[slot][worker] = true;
    if (slot != (int)(iteration & 1))
        return;
    count = atomic_load(&sfb->in_order) - iteration * sync->plan->nworkers;
    for (; count < sync->plan->nworkers && sfb->here[slot][count]; count++)
        sfb->here[slot][count] = false;
    atomic_store_explicit(&sfb->in_order, iteration * sync->plan->nworkers + count,
                          memory_order_release);
    if (by_worker(sync, sfb))
        progress_wake(sync);
}

static int finish_one(struct sync *sync, int group, int slot)
{
    struct group_state *state = &sync->groups[group];
    struct sfb *sfb = state->own;

    if (state->pending == 1 && factors_store(sync, group, &sfb->factors, slot))
        return -1;
    return progress_finish_one(sync, group);
}

static int sfb_start(struct sync *sync, int group)
{
    return sync->worker ? expect(sync, group, sync->options.iteration) : 0;
}

static int sfb_post(struct sync *sync, int group, int64_t iteration)
{
    struct group_state *state = &sync->groups[group];
    struct sfb *sfb = state->own;
    int chunk = sync->plan->first_chunk[group], slot = (int)(iteration & 1);
    int others = sync->plan->nworkers - 1;

    state->pending = 2 * others + 1;
    for (int w = 0; w <= others; w++)
        state->pending -= sfb->here[slot][w]; /* came before this rank was so far */
    take(sync, group, sync->rank, slot);
    if (expect(sync, group, iteration + 1))
        return -1;
    /* everybody starts with the rank after its own: no receiver gets all at once */
    for (int i = 1; i <= others; i++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER,
                                    .group = group,
                                    .chunk = chunk,
                                    .peer = (sync->rank + i) % sync->plan->nworkers,
                                    .what = WHAT_OUT};
        if (progress_send(sync, sync->data, factors_rows(&sfb->factors, sync->rank, slot),
                          factors_floats(sync, group, sync->rank),
                          tag_of(sync, false, chunk, iteration), transfer))
            return -1;
    }
    return finish_one(sync, group, slot); /* this rank's own */
}

static int sfb_complete(struct sync *sync, const struct transfer *transfer)
{
    int slot = (int)((sync->groups[transfer->group].running - 1) & 1);

    if (transfer->what == WHAT_IN)
        take(sync, transfer->group, transfer->peer, transfer->slot);
    if (transfer->what == WHAT_IN && transfer->slot != slot)
        return 0; /* of an iteration that this rank has not come to */
    return finish_one(sync, transfer->group, slot);
}

static int sfb_ahead(struct sync *sync, int group, int64_t iteration)
{
    struct sfb *sfb = sync->groups[group].own;
    const struct param_group *g = &sync->plan->groups[group];
    int64_t first = iteration * sync->plan->nworkers;

    for (int w = 0; by_worker(sync, sfb) && w < sync->plan->nworkers - 1; w++) {
        int64_t start;
        if (compute_wait(sync, &sfb->in_order, first + w + 1, group))
            return -1;
        start = trace_begin(sync->options.trace);
        if (factors_product(sync, group, &sfb->factors, (int)(iteration & 1), w, w + 1,
                            sync->net->grads + g->begin))
            return -1;
        trace_span(sync->options.trace, TRACE_COMPUTE, TRACE_UPDATE, g->layer, start);
    }
    return 0;
}

static int sfb_rebuild(struct sync *sync, int group, int64_t iteration)
{
    struct sfb *sfb = sync->groups[group].own;

    return factors_rebuild(sync, group, &sfb->factors, (int)(iteration & 1),
                           by_worker(sync, sfb) ? sync->plan->nworkers - 1 : 0,
                           (sync->remote ? sync->net->engine_grads : sync->net->grads) +
                               sync->plan->groups[group].begin);
}

static int sfb_settle(struct sync *sync, int group, int64_t iteration)
{
    const struct param_group *g = &sync->plan->groups[group];
    struct sfb *sfb = sync->groups[group].own;

    if (sync->remote)
        return remote_update(sync, group, iteration, sync->scale * sync->clip.scale,
                             sfb->remote_history.memory, false);
    return update_group(sync, group, iteration, sync->scale * sync->clip.scale,
                        sync->net->grads + g->begin, sfb->history);
}

static float *sfb_history(struct sync *sync, int group)
{
    struct sfb *sfb = sync->groups[group].own;

    return sync->remote ? remote_history_read(sync, &sfb->remote_history) : sfb->history;
}

static int sfb_restore(struct sync *sync, int group)
{
    struct sfb *sfb = sync->groups[group].own;

    return sync->remote && sync->worker ? remote_history_restore(sync, &sfb->remote_history) : 0;
}

const struct syncer_i syncer_sfb = {
    .scheme = SCHEME_SFB,
    .open = sfb_open,
    .close = sfb_close,
    .start = sfb_start,
    .stage = sfb_stage,
    .post = sfb_post,
    .complete = sfb_complete,
    .ahead = sfb_ahead,
    .rebuild = sfb_rebuild,
    .settle = sfb_settle,
    .history = sfb_history,
    .restore = sfb_restore,
    .factors = true,
    .stays = true,
};
