/* One chunk's gradients, at home. */
#include "sync/collect.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

int collect_open(struct sync *sync, int chunk, bool receives, int depth, struct collect *out)
{
    const struct plan *plan = sync->plan;
    size_t bytes = plan_gradient_bytes(plan, chunk), elems = plan->chunks[chunk].elems;
    size_t places = (size_t)depth * (size_t)plan->nworkers;
    bool copies = plan->nworkers > 1 || plan_codec(plan, chunk) || !receives;

    *out = (struct collect){.chunk = chunk, .depth = depth, .iteration = sync->options.iteration};
    out->arrived = calloc(places, 1);
    out->from = calloc(places, sizeof *out->from);
    out->own = calloc((size_t)depth, sizeof *out->own);
    out->locked = copies && ps_updates_remotely(sync, chunk);
    if (out->locked && !(out->sum = remote_slots_alloc(sync, elems, "a chunk's sum")))
        return -1;
    if (copies && !out->locked)
        out->sum = malloc(elems * sizeof *out->sum);
    if (!out->arrived || !out->from || !out->own || (copies && !out->sum))
        return error_memory(elems * sizeof *out->sum, "a chunk's sum");
    for (size_t i = 0; receives && i < places; i++) {
        if (sync->worker && (int)(i % (size_t)plan->nworkers) == sync->rank)
            continue;
        out->from[i] = malloc(bytes);
        if (!out->from[i])
            return error_memory(bytes, "a chunk's receive buffer");
    }
    return 0;
}

void collect_close(struct sync *sync, struct collect *collect)
{
    for (int i = 0; collect->from && i < collect->depth * sync->plan->nworkers; i++)
        free(collect->from[i]);
    free(collect->from);
    free(collect->own);
    free(collect->arrived);
    if (collect->locked)
        remote_slots_free(sync, collect->sum);
    else
        free(collect->sum);
}

static int place_of(const struct sync *sync, int slot, int worker)
{
    return slot * sync->plan->nworkers + worker;
}

static int expect(struct sync *sync, struct collect *collect, int64_t iteration, int what)
{
    const struct chunk *chunk = &sync->plan->chunks[collect->chunk];
    size_t floats = plan_gradient_bytes(sync->plan, collect->chunk) / sizeof(float);
    int slot = collect_slot(collect, iteration);

    for (int w = 0; w < sync->plan->nworkers; w++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER,
                                    .group = chunk->bucket,
                                    .idle = true,
                                    .chunk = collect->chunk,
                                    .peer = w,
                                    .what = what,
                                    .slot = slot};
        void *buffer = collect->from[place_of(sync, slot, w)];
        if (buffer && progress_receive(sync, sync->data, buffer, floats,
                                       tag_of(sync, false, collect->chunk, iteration), transfer))
            return -1;
    }
    return 0;
}

int collect_start(struct sync *sync, struct collect *collect, int what)
{
    for (int i = 0; i < collect->depth; i++)
        if (expect(sync, collect, collect->iteration + i, what))
            return -1;
    return 0;
}

static void add(float *restrict sum, const float *restrict gradient, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += gradient[i];
}

static void add_worker(struct sync *sync, struct collect *collect, int worker, const void *gradient)
{
    const struct chunk *chunk = &sync->plan->chunks[collect->chunk];
    const struct codec *codec = plan_codec(sync->plan, collect->chunk);
    size_t bytes = chunk->elems * sizeof(float);

    if (codec) {
        if (worker == 0)
            memset(collect->sum, 0, bytes);
        codec->add(gradient, chunk->rows, chunk->elems / chunk->rows, collect->sum);
    } else if (worker == 0) {
        memcpy(collect->sum, gradient, bytes);
    } else {
        add(collect->sum, gradient, chunk->elems);
    }
}

void collect_arrive(struct sync *sync, struct collect *collect, int worker, int slot,
                    const void *own)
{
    if (own)
        collect->own[slot] = own;
    collect->arrived[place_of(sync, slot, worker)] = 1;
}

/* A worker's gradient of the iteration being collected. */
static const void *gradient_of(const struct sync *sync, const struct collect *collect, int worker)
{
    int slot = collect_slot(collect, collect->iteration);
    const void *received = collect->from[place_of(sync, slot, worker)];

    return received ? received : collect->own[slot];
}

bool collect_add(struct sync *sync, struct collect *collect)
{
    int slot = collect_slot(collect, collect->iteration);

    for (; collect->next < sync->plan->nworkers; collect->next++) {
        if (!collect->arrived[place_of(sync, slot, collect->next)])
            return false;
        if (collect->sum)
            add_worker(sync, collect, collect->next, gradient_of(sync, collect, collect->next));
    }
    return true;
}

const float *collect_sum(const struct sync *sync, const struct collect *collect)
{
    return collect->sum ? collect->sum : gradient_of(sync, collect, 0);
}

int collect_next(struct sync *sync, struct collect *collect, int what)
{
    int slot = collect_slot(collect, collect->iteration);

    memset(&collect->arrived[place_of(sync, slot, 0)], 0, (size_t)sync->plan->nworkers);
    collect->next = 0;
    collect->iteration++;
    return expect(sync, collect, collect->iteration + collect->depth - 1, what);
}
