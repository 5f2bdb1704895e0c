/* Gradients that travel encoded (device/codec.h), on the host or in device memory. A device encodes
 * after the gradient's computation, and the host fetches only the encoded form. */
#include "sync/gradient_internal.h"

#include "device/codec.h"

#include <assert.h>

bool encode_wanted(const struct sync *sync, int chunk)
{
    const struct scheme_steps *steps = sync->buckets[chunk_of(sync, chunk)->bucket].steps;

    return sync->worker && leads_chunk(sync, chunk) && steps && !steps->local && !steps->stays &&
           plan_codec(sync->plan, chunk);
}

int encode_open(struct sync *sync)
{
    static const char what[] = "encoded gradients";
    const struct plan *plan = sync->plan;
    struct gradient *g = sync->gradient;
    size_t elems, floats;
    size_t places = (size_t)plan->nchunks + 1;

    if (OWN(&sync->owner, g->begin, places, what) || OWN(&sync->owner, g->message, places, what))
        return -1;
    for (int c = 0; c < plan->nchunks; c++) {
        bool encoded = encode_wanted(sync, c);
        g->begin[c + 1] = g->begin[c] + (encoded ? plan->chunks[c].elems : 0);
        g->message[c + 1] =
            g->message[c] + (encoded ? plan_gradient_bytes(plan, c) / sizeof(float) : 0);
    }
    elems = g->begin[plan->nchunks];
    floats = g->message[plan->nchunks];
    if (elems == 0)
        return 0;
    if (!(g->messages = gradient_alloc(sync, floats, what)) ||
        history_open_blocks(sync, "the residuals of encoded gradients", elems, 1, g->own_memory,
                            &g->residual))
        return -1;
    if (!g->own_memory)
        return 0;
    g->device_messages = gradient_alloc_on(sync, sync->model.device, floats, what);
    return g->device_messages ? 0 : -1;
}

/* Returns the end of the neighbouring chunks that form one matrix with `chunk`: encoding the matrix
 * at once gives the same messages, one after another. */
static int find_matrix_end(const struct plan *plan, int chunk, size_t *rows)
{
    const struct chunk *c = &plan->chunks[chunk];
    const struct bucket *b = &plan->buckets[c->bucket];
    const struct codec *codec = plan_codec(plan, chunk);
    size_t width = c->elems / c->rows, bytes = plan_gradient_bytes(plan, chunk);
    int next = chunk + 1;

    assert(codec && c->rows > 0 && c->elems % c->rows == 0);
    *rows = c->rows;
    for (; next < b->first_chunk + b->nchunks; next++) {
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

static bool message_is_fetched(const struct sync *sync, int chunk)
{
    return encode_wanted(sync, chunk) && !gradient_goes_straight(sync, chunk);
}

static int fetch_messages(struct sync *sync, int bucket, enum device_turn turn,
                          struct device_ticket *ticket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    const struct gradient *g = sync->gradient;

    for (int c = b->first_chunk, end = b->first_chunk + b->nchunks; c < end;) {
        bool fetched = message_is_fetched(sync, c);
        size_t at = g->message[c];
        while (c < end && message_is_fetched(sync, c) == fetched)
            c++;
        const struct device_rows rows = {.host = g->messages + at,
                                         .memory = g->device_messages + at,
                                         .width = g->message[c] - at,
                                         .rows = 1};
        if (fetched && g->copies->copy(g->context, DEVICE_FETCH, &rows, turn, ticket))
            return -1;
    }
    return 0;
}

int encode_on_device(struct sync *sync, int bucket, enum device_turn turn,
                     struct device_ticket *ticket)
{
    const struct plan *plan = sync->plan;
    const struct bucket *b = bucket_of(sync, bucket);
    const struct device *device = sync->model.device;
    const struct gradient *g = sync->gradient;

    if (!g->device_messages)
        return 0;
    for (int c = b->first_chunk, next; c < b->first_chunk + b->nchunks; c = next) {
        const struct chunk *chunk = chunk_of(sync, c);
        size_t rows;
        next = c + 1;
        if (!encode_wanted(sync, c))
            continue;
        next = find_matrix_end(plan, c, &rows);
        if (device->i->services->encode(
                device->context, plan_codec(plan, c)->code, sync->model.device_grads + chunk->begin,
                g->residual.memory + g->begin[c], rows, chunk->elems / chunk->rows,
                g->device_messages + g->message[c], turn, ticket))
            return -1;
    }
    return fetch_messages(sync, bucket, turn, ticket);
}

void *encode_message(struct sync *sync, int chunk)
{
    const struct chunk *c = chunk_of(sync, chunk);
    const struct gradient *g = sync->gradient;
    float *message;

    if (gradient_goes_straight(sync, chunk))
        return g->device_messages + g->message[chunk];
    message = g->messages + g->message[chunk];
    if (!g->device_messages)
        plan_codec(sync->plan, chunk)
            ->encode(sync->model.grads + c->begin, g->residual.memory + g->begin[chunk], c->rows,
                     c->elems / c->rows, message);
    return message;
}

float *gradient_residual(struct sync *sync, int chunk)
{
    struct gradient *g = sync->gradient;
    struct history_view view;

    assert(encode_wanted(sync, chunk));
    return history_view(sync, &g->residual, g->begin[chunk], chunk_of(sync, chunk)->elems, &view)
               ? NULL
               : view.blocks;
}

int gradient_restore_residual(struct sync *sync)
{
    return history_restore(sync, &sync->gradient->residual);
}
