/* Messages of gradients, on the host or in the engine's memory. */
#include "sync/outbox.h"

#include "util/error.h"

#include <stdlib.h>

bool outbox_encodes(const struct sync *sync, int chunk)
{
    const struct syncer_i *syncer = sync->groups[sync->plan->chunks[chunk].bucket].syncer;

    return sync->worker && sync->speaks && syncer && !syncer->local && !syncer->stays &&
           plan_codec(sync->plan, chunk);
}

/* Returns the floats of all gradients; their messages need no more. */
static size_t place_chunks(struct sync *sync, struct outbox *box)
{
    const struct plan *plan = sync->plan;

    for (int c = 0; c < plan->nchunks; c++) {
        bool encodes = outbox_encodes(sync, c);
        box->begin[c + 1] = box->begin[c] + (encodes ? plan->chunks[c].elems : 0);
        box->message[c + 1] =
            box->message[c] + (encodes ? plan_gradient_bytes(plan, c) / sizeof(float) : 0);
    }
    return box->begin[plan->nchunks];
}

static int open_remotely(struct sync *sync, struct outbox *box)
{
    const struct engine *engine = sync->net->engine;
    size_t elems = box->begin[sync->plan->nchunks], floats = box->message[sync->plan->nchunks];
    void *residual = NULL, *remote = NULL;

    if (engine->i->alloc(engine->context, elems * sizeof(float),
                         "what encoded gradients leave for the next ones", &residual))
        return -1;
    box->residual = residual;
    if (engine->i->alloc(engine->context, floats * sizeof(float), "encoded gradients", &remote))
        return -1;
    box->remote = remote;
    box->messages = remote_slots_alloc(sync, floats, "encoded gradients");
    return box->messages ? 0 : -1;
}

int outbox_open(struct sync *sync)
{
    size_t places = (size_t)sync->plan->nchunks + 1, elems;
    struct outbox *box = sync->outbox = calloc(1, sizeof *box);

    if (!box)
        return error_memory(sizeof *box, "gradients on their way out");
    box->begin = calloc(places, sizeof *box->begin);
    box->message = calloc(places, sizeof *box->message);
    if (!box->begin || !box->message)
        return error_memory(places * sizeof *box->begin, "gradients on their way out");
    elems = place_chunks(sync, box);
    if (elems == 0)
        return 0;
    if (sync->remote)
        return open_remotely(sync, box);
    box->residual = calloc(elems, sizeof *box->residual);
    box->messages = calloc(box->message[places - 1], sizeof *box->messages);
    if (!box->residual || !box->messages)
        return error_memory((elems + box->message[places - 1]) * sizeof(float),
                            "encoded gradients");
    return 0;
}

void outbox_close(struct sync *sync)
{
    struct outbox *box = sync->outbox;

    if (!box)
        return;
    if (sync->remote) {
        const struct engine *engine = sync->net->engine;
        engine->i->free(engine->context, box->residual);
        engine->i->free(engine->context, box->remote);
    } else {
        free(box->residual);
    }
    if (box->messages)
        remote_slots_free(sync, box->messages);
    free(box->begin);
    free(box->message);
    free(box);
    sync->outbox = NULL;
}

/* Where the neighbours end that are one matrix with this chunk: encoded at once, they give the same
 * messages one behind the other. */
static int find_end(const struct plan *plan, int chunk, size_t *rows)
{
    const struct chunk *c = &plan->chunks[chunk];
    const struct codec *codec = plan_codec(plan, chunk);
    size_t width = c->elems / c->rows, bytes = plan_gradient_bytes(plan, chunk);
    int next = chunk + 1;

    *rows = c->rows;
    for (; next < plan->buckets[c->bucket + 1].first_chunk; next++) {
        const struct chunk *n = &plan->chunks[next];
        if (plan_codec(plan, next) != codec || n->elems / n->rows != width)
            break;
        bytes += plan_gradient_bytes(plan, next);
        if (codec->bytes(*rows + n->rows, width) != bytes)
            break;
        *rows += n->rows;
    }
    return next;
}

static bool is_fetched(const struct sync *sync, int chunk)
{
    return outbox_encodes(sync, chunk) && !remote_goes_straight(sync, chunk);
}

/* Neighbours together. */
static int fetch_messages(struct sync *sync, int group, struct engine_ticket *ticket)
{
    const struct plan *plan = sync->plan;
    const struct outbox *box = sync->outbox;
    const struct engine_remote_i *i = sync->remote;

    for (int c = plan->buckets[group].first_chunk, end = bucket_end(plan, group); c < end;) {
        bool fetched = is_fetched(sync, c);
        size_t at = box->message[c];
        while (c < end && is_fetched(sync, c) == fetched)
            c++;
        const struct engine_rows rows = {.host = box->messages + at,
                                         .memory = box->remote + at,
                                         .width = box->message[c] - at,
                                         .rows = 1};
        if (fetched &&
            (sync->team ? i->fetch_stored : i->fetch)(sync->net->engine->context, &rows, ticket))
            return -1;
    }
    return 0;
}

int outbox_encode(struct sync *sync, int group, struct engine_ticket *ticket)
{
    const struct plan *plan = sync->plan;
    const struct outbox *box = sync->outbox;

    for (int c = plan->buckets[group].first_chunk, next; c < bucket_end(plan, group); c = next) {
        const struct chunk *chunk = &plan->chunks[c];
        size_t rows;
        next = c + 1;
        if (!outbox_encodes(sync, c))
            continue;
        next = find_end(plan, c, &rows);
        if (sync->remote->encode(sync->net->engine->context, plan_codec(plan, c)->code,
                                 sync->net->remote_grads + chunk->begin,
                                 box->residual + box->begin[c], rows, chunk->elems / chunk->rows,
                                 box->remote + box->message[c], sync->team != NULL, ticket))
            return -1;
    }
    return fetch_messages(sync, group, ticket);
}

const void *outbox_fill(struct sync *sync, int chunk, const float *gradient)
{
    const struct chunk *c = &sync->plan->chunks[chunk];
    const struct outbox *box = sync->outbox;
    float *message;

    if (!outbox_encodes(sync, chunk))
        return gradient;
    if (remote_goes_straight(sync, chunk))
        return box->remote + box->message[chunk];
    message = box->messages + box->message[chunk];
    if (!sync->remote)
        plan_codec(sync->plan, chunk)
            ->encode(gradient, box->residual + box->begin[chunk], c->rows, c->elems / c->rows,
                     message);
    return message;
}
