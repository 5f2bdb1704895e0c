/* Sufficient factor broadcasting (Xie et al., "Lighter-Communication Distributed Machine Learning via
 * Sufficient Factor Broadcasting", UAI'16): each worker sends its factors (factors.h) to all others instead
 * of m*n numbers; every worker rebuilds the same sum and applies the solver itself.
 *
 * Receives are posted one iteration ahead, into the second of two slots: nothing arrives unexpected, and
 * a worker that is ahead does not clog its own wire with rows that nobody takes. */
#include "sync/factors.h"

#include "util/error.h"

#include <stdlib.h>

enum { WHAT_OUT, WHAT_IN };

struct sfb {
    struct factors factors;
    int arrived[2]; /* per slot: rows of other workers that are here */
    float *history; /* nhistory blocks of the group's elems; or, in the engine's memory: */
    struct remote_history remote_history;
};

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
    if (sync->remote) {
        if (remote_history_open(sync, group, &sfb->remote_history))
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
    free(sfb);
    sync->groups[group].own = NULL;
}

/* The slot's rows were sent two iterations ago, and those sends are over. */
static int sfb_stage(struct sync *sync, int group, int micro)
{
    struct group_state *state = &sync->groups[group];
    struct sfb *sfb = state->own;

    return factors_stage(sync, group, micro,
                         factors_own(sync, &sfb->factors, (int)(state->posted & 1)));
}

static int expect(struct sync *sync, int group, int64_t iteration)
{
    struct sfb *sfb = sync->groups[group].own;
    int chunk = sync->plan->first_chunk[group];

    for (int w = 0; w < sync->plan->nworkers; w++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER, .group = group, .chunk = chunk, .peer = w,
                                    .what = WHAT_IN, .slot = (int)(iteration & 1), .idle = true};
        if (w != sync->rank &&
            progress_receive(sync, sync->data, factors_rows(&sfb->factors, w, transfer.slot),
                             factors_floats(sync, group, w), tag_of(sync, false, chunk, iteration), transfer))
            return -1;
    }
    return 0;
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

    state->pending = 2 * others - sfb->arrived[slot] + 1;
    sfb->arrived[slot] = 0;
    if (expect(sync, group, iteration + 1))
        return -1;
    /* everybody starts with the rank after its own: no receiver gets all at once */
    for (int i = 1; i <= others; i++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER, .group = group, .chunk = chunk,
                                    .peer = (sync->rank + i) % sync->plan->nworkers, .what = WHAT_OUT};
        if (progress_send(sync, sync->data, factors_rows(&sfb->factors, sync->rank, slot),
                          factors_floats(sync, group, sync->rank), tag_of(sync, false, chunk, iteration),
                          transfer))
            return -1;
    }
    return finish_one(sync, group, slot); /* this rank's own */
}

static int sfb_complete(struct sync *sync, const struct transfer *transfer)
{
    struct group_state *state = &sync->groups[transfer->group];
    struct sfb *sfb = state->own;

    /* rows of an iteration that this rank has not come to */
    if (transfer->what == WHAT_IN && transfer->slot != (int)((state->running - 1) & 1))
        sfb->arrived[transfer->slot]++;
    else
        return finish_one(sync, transfer->group, (int)((state->running - 1) & 1));
    return 0;
}

static int sfb_rebuild(struct sync *sync, int group, int64_t iteration)
{
    struct sfb *sfb = sync->groups[group].own;

    return factors_rebuild(sync, group, &sfb->factors, (int)(iteration & 1),
                           (sync->remote ? sync->net->remote_grads : sync->net->grads) +
                               sync->plan->groups[group].begin);
}

static int sfb_settle(struct sync *sync, int group, int64_t iteration)
{
    const struct param_group *g = &sync->plan->groups[group];
    struct sfb *sfb = sync->groups[group].own;

    if (sync->remote)
        return remote_update(sync, group, iteration, sync->scale * sync->clip.scale,
                             sfb->remote_history.memory);
    update_range(sync, group, iteration, sync->scale * sync->clip.scale, g->begin, g->elems,
                 sync->values + g->begin, sync->net->grads + g->begin, sfb->history, g->elems);
    return 0;
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
    .rebuild = sfb_rebuild,
    .settle = sfb_settle,
    .history = sfb_history,
    .restore = sfb_restore,
    .factors = true,
    .stays = true,
};
