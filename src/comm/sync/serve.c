/* A server's updates in device memory, beside the computation. */
#include "sync/gradient_internal.h"

#include "sync/history.h"
#include "sync/home.h"

#include <string.h>

int serve_open(struct sync *sync)
{
    struct gradient *g = sync->gradient;
    size_t chunks = (size_t)sync->plan->nchunks + 1;

    if (!gradient_serves_on_device(sync))
        return 0;
    if (OWN(&sync->owner, g->serving, 2 * chunks, "the parameter server") ||
        OWN(&sync->owner, g->served, chunks, "the parameter server"))
        return -1;
    for (int c = 0; c < sync->plan->nchunks; c++)
        if (is_home(sync, c) && gradient_ticket(sync, &g->served[c]))
            return -1;
    return 0;
}

float *gradient_served_values(const struct sync *sync, int chunk)
{
    bool straight = gradient_is_direct(sync) && gradient_serves_on_device(sync);

    return (straight ? sync->model.device_values : sync->values) + chunk_of(sync, chunk)->begin;
}

/* Puts the sum in the gradient's own place: the gradient has left for the host, and the next
 * gradient comes after the next forward pass, which waits for this update. */
int gradient_serve(struct sync *sync, int chunk, int64_t iteration, const float *sum,
                   struct history *history)
{
    const struct chunk *c = chunk_of(sync, chunk);
    struct gradient *g = sync->gradient;
    float *values = sync->model.device_values + c->begin;
    float *grads = sync->model.device_grads + c->begin;
    const struct device_rows up = {
        .host = (float *)(uintptr_t)sum, .memory = grads, .width = c->elems, .rows = 1};
    const struct device_rows back = {.host = sync->model.values + c->begin,
                                     .memory = values,
                                     .width = c->elems,
                                     .rows = gradient_is_direct(sync) ? 0 : 1};

    if (g->copies->copy(g->context, DEVICE_STORE, &up, DEVICE_STORED, g->served[chunk]) ||
        history_update_chunk(sync, chunk, iteration, values, grads, history, DEVICE_STORED) ||
        g->copies->copy(g->context, DEVICE_FETCH, &back, DEVICE_STORED, g->served[chunk]))
        return -1;
    g->serving[g->nserving++] = chunk;
    return 0;
}

bool gradient_serve_busy(const struct sync *sync)
{
    return sync->gradient->nserving > 0;
}

int gradient_serve_poll(struct sync *sync)
{
    struct gradient *g = sync->gradient;
    int over = 0, status = 0;

    while (over < g->nserving && status == 0) {
        int chunk = g->serving[over], ready = g->copies->ready(g->context, g->served[chunk]);
        if (ready == 0)
            break;
        over++;
        status = ready < 0 ? -1 : home_updated(sync, chunk);
    }
    if (over == 0)
        return 0;
    g->nserving -= over;
    memmove(g->serving, g->serving + over, (size_t)g->nserving * sizeof *g->serving);
    return status ? -1 : over;
}
