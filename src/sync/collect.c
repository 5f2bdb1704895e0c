/* One chunk's gradients, at home. */
#include "sync/collect.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

int outbox_open(struct sync *sync, int chunk, struct outbox *box)
{
    size_t bytes = plan_gradient_bytes(sync->plan, chunk), elems = sync->plan->chunks[chunk].elems;

    *box = (struct outbox){0};
    if (!plan_codec(sync->plan, chunk))
        return 0;
    box->encoded = malloc(bytes);
    box->residual = calloc(elems, sizeof *box->residual);
    if (!box->encoded || !box->residual)
        return error_memory(bytes + elems * sizeof *box->residual, "an encoded gradient");
    return 0;
}

const void *outbox_fill(struct sync *sync, int chunk, struct outbox *box)
{
    const struct codec *codec = plan_codec(sync->plan, chunk);
    const struct chunk *c = &sync->plan->chunks[chunk];
    const float *gradient = sync->net->grads + c->begin;

    if (!codec)
        return gradient;
    codec->encode(gradient, box->residual, c->rows, c->elems / c->rows, box->encoded);
    return box->encoded;
}

void outbox_close(struct outbox *box)
{
    free(box->encoded);
    free(box->residual);
}

int collect_open(struct sync *sync, int chunk, bool receives, struct collect *out)
{
    const struct plan *plan = sync->plan;
    size_t bytes = plan_gradient_bytes(plan, chunk), elems = plan->chunks[chunk].elems;
    bool copies = plan->nworkers > 1 || plan_codec(plan, chunk) || !receives;

    *out = (struct collect){.chunk = chunk, .iteration = sync->options.iteration};
    out->arrived = calloc((size_t)plan->nworkers, 1);
    out->from = calloc((size_t)plan->nworkers, sizeof *out->from);
    out->sum = copies ? malloc(elems * sizeof *out->sum) : NULL;
    if (!out->arrived || !out->from || (copies && !out->sum))
        return error_memory(elems * sizeof *out->sum, "a chunk's sum");
    for (int w = 0; receives && w < plan->nworkers; w++) {
        if (sync->worker && w == sync->rank)
            continue;
        out->from[w] = malloc(bytes);
        if (!out->from[w])
            return error_memory(bytes, "a chunk's receive buffer");
    }
    return 0;
}

void collect_close(struct sync *sync, struct collect *collect)
{
    for (int w = 0; collect->from && w < sync->plan->nworkers; w++)
        free(collect->from[w]);
    free(collect->from);
    free(collect->arrived);
    free(collect->sum);
}

int collect_expect(struct sync *sync, struct collect *collect, int what)
{
    const struct chunk *chunk = &sync->plan->chunks[collect->chunk];
    size_t floats = plan_gradient_bytes(sync->plan, collect->chunk) / sizeof(float);

    for (int w = 0; w < sync->plan->nworkers; w++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER, .group = chunk->group, .idle = true,
                                    .chunk = collect->chunk, .peer = w, .what = what};
        if (collect->from[w] &&
            progress_receive(sync, sync->data, collect->from[w], floats,
                             tag_of(sync, false, collect->chunk, collect->iteration), transfer))
            return -1;
    }
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

bool collect_arrive(struct sync *sync, struct collect *collect, int worker, const void *own)
{
    if (own)
        collect->own = own;
    collect->arrived[worker] = 1;
    for (; collect->next < sync->plan->nworkers && collect->arrived[collect->next]; collect->next++) {
        const void *gradient = collect->from[collect->next];
        if (collect->sum)
            add_worker(sync, collect, collect->next, gradient ? gradient : collect->own);
    }
    return collect->next == sync->plan->nworkers;
}

const float *collect_sum(const struct collect *collect)
{
    return collect->sum ? collect->sum : collect->from[0] ? collect->from[0] : collect->own;
}

int collect_next(struct sync *sync, struct collect *collect, int what)
{
    memset(collect->arrived, 0, (size_t)sync->plan->nworkers);
    collect->next = 0;
    collect->iteration++;
    return collect_expect(sync, collect, what);
}
