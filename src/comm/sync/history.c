/* Memory of the history, and the solver's rule piece by piece. */
#include "sync/history.h"

#include "sync/gradient.h"
#include "sync/sync_internal.h"

int history_open_blocks(struct sync *sync, const char *what, size_t elems, size_t blocks,
                        bool on_device, struct history *out)
{
    *out = (struct history){.elems = elems, .blocks = blocks, .on_device = on_device};
    if (!on_device)
        return OWN(&sync->owner, out->memory, elems * blocks, what);
    out->memory = gradient_alloc_on(sync, sync->model.device, elems * blocks, what);
    return out->memory ? 0 : -1;
}

int history_open(struct sync *sync, const char *name, size_t elems, bool on_device,
                 struct history *out)
{
    size_t blocks = sync->update.nhistory > 0 ? (size_t)sync->update.nhistory : 1;

    return history_open_blocks(sync, "the solver's history", elems, blocks, on_device, out)
               ? error_context("layer '%s'", name)
               : 0;
}

/* True if the host reads and writes the history in place. */
static bool history_in_place(const struct sync *sync, const struct history *history)
{
    return !history->on_device || gradient_on_host(sync);
}

int history_view(struct sync *sync, struct history *history, size_t begin, size_t elems,
                 struct history_view *out)
{
    const struct device *device = sync->model.device;

    *out = (struct history_view){.blocks = history->memory + begin, .stride = history->elems};
    if (history_in_place(sync, history))
        return 0;
    if (!history->copy &&
        OWN(&sync->owner, history->copy, history->elems * history->blocks, "history on the host"))
        return -1;
    for (size_t b = 0; b < history->blocks; b++) {
        size_t at = b * history->elems + begin;
        if (device->i->read(device->context, history->memory + at, history->copy + at, elems))
            return -1;
    }
    out->blocks = history->copy + begin;
    return 0;
}

int history_restore(struct sync *sync, struct history *history)
{
    const struct device *device = sync->model.device;

    if (history_in_place(sync, history) || !history->copy)
        return 0;
    return device->i->write(device->context, history->memory, history->copy,
                            history->elems * history->blocks);
}

bool piece_next(const struct sync *sync, struct piece *p)
{
    const struct bucket *b = bucket_of(sync, p->bucket);
    const struct group *groups = sync->plan->groups;
    int last = b->first_group + b->ngroups;

    for (;;) {
        if (p->group >= 0)
            p->at += groups[p->group].params[p->param++].elems;
        while (p->group < 0 || p->param == groups[p->group].nparams) {
            p->group = p->group < 0 ? b->first_group : p->group + 1;
            if (p->group == last)
                return false;
            p->param = 0;
            p->at = groups[p->group].begin;
        }
        size_t end = p->at + groups[p->group].params[p->param].elems;
        p->from = p->at > p->begin ? p->at : p->begin;
        if (end > p->end)
            end = p->end;
        if (p->from < end) {
            p->elems = end - p->from;
            return true;
        }
    }
}

/* One application of the rule to elements [begin, begin + elems) of the arenas; the pointers are to
 * element `begin`. */
struct update {
    int bucket;
    int64_t iteration;
    size_t begin, elems;
    float *values;
    const float *grad;
    const struct history *history;
    enum device_turn turn;
};

static int apply_piece(struct sync *sync, const struct update *u, const struct piece *p)
{
    const struct device *device = sync->model.device;
    const struct group_param *param = &sync->plan->groups[p->group].params[p->param];
    size_t at = p->from - u->begin;
    float *history = u->history->memory + at;
    struct device_update rule;

    if (sync->update.describe(sync->update.context, u->iteration, sync->scale * sync->clip.scale,
                              lars_rate(sync, p->group, p->param), param->decay_mult, &rule))
        return -1;
    if (u->history->on_device)
        return device->i->services->update(device->context, &rule, u->values + at, u->grad + at,
                                           history, u->history->elems, p->elems, u->turn);
    rule_update(&rule, u->values + at, u->grad + at, history, u->history->elems, p->elems);
    return 0;
}

static int apply(struct sync *sync, const struct update *u)
{
    struct piece piece = piece_before(u->bucket, u->begin, u->elems);

    if (sync->clip.skips)
        return 0;
    while (sync->update.describe && piece_next(sync, &piece))
        if (apply_piece(sync, u, &piece))
            return error_context("layer '%s': the update", sync->plan->groups[piece.group].name);
    return 0;
}

int history_update_chunk(struct sync *sync, int chunk, int64_t iteration, float *values,
                         const float *grad, const struct history *history, enum device_turn turn)
{
    const struct chunk *c = chunk_of(sync, chunk);

    return apply(sync, &(struct update){c->bucket, iteration, c->begin, c->elems, values, grad,
                                        history, turn});
}

/* ---- buckets that are updated whole ---- */

int history_update_bucket(struct sync *sync, int bucket, int64_t iteration, enum device_turn turn)
{
    const struct bucket *b = bucket_of(sync, bucket);
    const struct history *history = sync->buckets[bucket].scheme_state;

    return apply(sync, &(struct update){bucket, iteration, b->begin, b->elems,
                                        sync->model.device_values + b->begin,
                                        sync->model.device_grads + b->begin, history, turn});
}

int history_settle(struct sync *sync, int bucket, int64_t iteration)
{
    return history_update_bucket(sync, bucket, iteration, DEVICE_IN_TURN);
}

int history_view_chunk(struct sync *sync, int chunk, struct history_view *out)
{
    const struct chunk *c = chunk_of(sync, chunk);
    struct history *history = sync->buckets[c->bucket].scheme_state;

    return history ? history_view(sync, history, c->begin - bucket_of(sync, c->bucket)->begin,
                                  c->elems, out)
                   : 0;
}

int history_restore_bucket(struct sync *sync, int bucket)
{
    struct history *history = sync->buckets[bucket].scheme_state;

    return history ? history_restore(sync, history) : 0;
}
