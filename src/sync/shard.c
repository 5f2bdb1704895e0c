/* Allreduce in two steps of point-to-point messages: every chunk has a home among the workers that
 * adds up the gradients (collect.h; reduce-scatter) and sends the sum to all (allgather); every
 * worker then applies the solver itself. The bytes are those of a ring; all peers talk at once, so
 * two trips suffice whatever the number of ranks, and the sum is the parameter server's to the last
 * bit.
 *
 * With a codec (1-bit, bfloat16) the sum is encoded too, with the home's own error feedback, and
 * the home uses what it sent: all workers apply the same numbers. */
#include "sync/collect.h"
#include "sync/outbox.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

enum { WHAT_GRADIENT_OUT, WHAT_GRADIENT_IN, WHAT_SUM_OUT, WHAT_SUM_IN };

struct part {
    int chunk;
    bool home;
    bool complete;          /* home: added up, but the last sum is still being sent */
    int sends;              /* home: sums being sent */
    struct collect collect; /* home's */
    float *residual;        /* home's, of the sum's encoding; NULL without a codec */
    void *encoded;          /* the sum as it travels; NULL without a codec */
};

struct shard {
    int nparts;
    struct part *parts;
    float *total;   /* the group's summed gradient */
    float *history; /* nhistory blocks of the group's elems */
};

static int open_part(struct sync *sync, int chunk, struct part *part)
{
    size_t bytes = plan_gradient_bytes(sync->plan, chunk), elems = sync->plan->chunks[chunk].elems;
    bool codec = plan_codec(sync->plan, chunk) != NULL;

    part->chunk = chunk;
    part->home = plan_home(sync->plan, chunk) == sync->rank;
    if (part->home && collect_open(sync, chunk, true, 1, &part->collect))
        return -1;
    part->encoded = codec ? malloc(bytes) : NULL;
    part->residual = codec && part->home ? calloc(elems, sizeof *part->residual) : NULL;
    if (codec && (!part->encoded || (part->home && !part->residual)))
        return error_memory(bytes + elems * sizeof(float), "an encoded sum");
    return 0;
}

static int shard_open(struct sync *sync, int group)
{
    const struct plan *plan = sync->plan;
    size_t blocks = sync_history_blocks(sync);
    size_t elems = plan->groups[group].elems;
    struct shard *shard;

    if (!sync->worker)
        return 0;
    shard = calloc(1, sizeof *shard);
    sync->groups[group].own = shard;
    if (!shard)
        return error_memory(sizeof *shard, "an allreduce");
    shard->nparts = plan->first_chunk[group + 1] - plan->first_chunk[group];
    shard->parts = calloc((size_t)shard->nparts + 1, sizeof *shard->parts);
    shard->total = calloc(elems, sizeof *shard->total);
    shard->history = calloc(elems * blocks, sizeof *shard->history);
    if (!shard->parts || !shard->total || !shard->history)
        return error_memory(elems * (blocks + 1) * sizeof(float), "an allreduce");
    for (int i = 0; i < shard->nparts; i++)
        if (open_part(sync, plan->first_chunk[group] + i, &shard->parts[i]))
            return -1;
    return 0;
}

static void shard_close(struct sync *sync, int group)
{
    struct shard *shard = sync->groups[group].own;

    if (!shard)
        return;
    for (int i = 0; shard->parts && i < shard->nparts; i++) {
        collect_close(sync, &shard->parts[i].collect);
        free(shard->parts[i].encoded);
        free(shard->parts[i].residual);
    }
    free(shard->parts);
    free(shard->total);
    free(shard->history);
    free(shard);
    sync->groups[group].own = NULL;
}

static struct part *part_of(struct sync *sync, int chunk)
{
    int group = sync->plan->chunks[chunk].group;
    struct shard *shard = sync->groups[group].own;

    return &shard->parts[chunk - sync->plan->first_chunk[group]];
}

static float *total_of(struct sync *sync, int chunk)
{
    const struct chunk *c = &sync->plan->chunks[chunk];
    struct shard *shard = sync->groups[c->group].own;

    return shard->total + (c->begin - sync->plan->groups[c->group].begin);
}

static int shard_start(struct sync *sync, int group)
{
    struct shard *shard = sync->groups[group].own;

    for (int i = 0; shard && i < shard->nparts; i++)
        if (shard->parts[i].home && collect_start(sync, &shard->parts[i].collect, WHAT_GRADIENT_IN))
            return -1;
    return 0;
}

/* This rank has the chunk's sum. Clipping waits for the norm of all, and so does its update. */
static int take(struct sync *sync, int chunk)
{
    const struct chunk *c = &sync->plan->chunks[chunk];
    struct group_state *state = &sync->groups[c->group];
    struct shard *shard = state->own;
    int64_t start = trace_begin(sync->options.trace);

    if (sync->options.clip <= 0) {
        int status = update_range(
            sync, c->group,
            &(struct update){.place = UPDATE_ON_HOST,
                             .iteration = state->running - 1,
                             .scale = sync->scale,
                             .begin = c->begin,
                             .elems = c->elems,
                             .values = sync->values + c->begin,
                             .grad = total_of(sync, chunk),
                             .history =
                                 shard->history + (c->begin - sync->plan->groups[c->group].begin),
                             .stride = sync->plan->groups[c->group].elems});
        trace_span(sync->options.trace, TRACE_PROGRESS, TRACE_UPDATE,
                   sync->plan->groups[c->group].layer, start);
        if (status)
            return -1;
    }
    return progress_finish_one(sync, c->group);
}

static void decode(struct sync *sync, struct part *part)
{
    const struct codec *codec = plan_codec(sync->plan, part->chunk);
    const struct chunk *c = &sync->plan->chunks[part->chunk];
    float *total = total_of(sync, part->chunk);

    if (!codec)
        return;
    memset(total, 0, c->elems * sizeof *total);
    codec->add(part->encoded, c->rows, c->elems / c->rows, total);
}

/* Home: the sum is complete and the last one is sent. */
static int publish(struct sync *sync, struct part *part)
{
    const struct chunk *c = &sync->plan->chunks[part->chunk];
    const struct codec *codec = plan_codec(sync->plan, part->chunk);
    int64_t iteration = part->collect.iteration;
    float *total = total_of(sync, part->chunk);
    const float *sum = collect_sum(sync, &part->collect);

    part->complete = false;
    if (codec)
        codec->encode(sum, part->residual, c->rows, c->elems / c->rows, part->encoded);
    else
        memcpy(total, sum, c->elems * sizeof *total);
    decode(sync, part);
    if (collect_next(sync, &part->collect, WHAT_GRADIENT_IN))
        return -1;
    for (int i = 1; i < sync->plan->nworkers; i++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER,
                                    .group = c->group,
                                    .chunk = part->chunk,
                                    .peer = (sync->rank + i) % sync->plan->nworkers,
                                    .what = WHAT_SUM_OUT};
        part->sends++;
        if (progress_send(sync, sync->data, codec ? part->encoded : total,
                          plan_gradient_bytes(sync->plan, part->chunk) / sizeof(float),
                          tag_of(sync, true, part->chunk, iteration), transfer))
            return -1;
    }
    if (sync->options.clip > 0 &&
        clip_chunk_ready(sync, part->chunk, clip_sumsq(total, c->elems, sync_mean(sync))))
        return -1;
    return take(sync, part->chunk);
}

static int arrive(struct sync *sync, struct part *part, int worker, const void *own)
{
    collect_arrive(sync, &part->collect, worker, 0, own);
    if (!collect_add(sync, &part->collect))
        return 0;
    part->complete = true;
    return part->sends == 0 ? publish(sync, part) : 0;
}

static int post_part(struct sync *sync, int group, int64_t iteration, struct part *part)
{
    struct transfer transfer = {.kind = TRANSFER_SYNCER,
                                .group = group,
                                .chunk = part->chunk,
                                .peer = plan_home(sync->plan, part->chunk)};
    size_t floats = plan_gradient_bytes(sync->plan, part->chunk) / sizeof(float);
    const void *gradient = outbox_fill(sync, part->chunk, remote_gradient(sync, part->chunk));

    if (part->home)
        return arrive(sync, part, sync->rank, gradient);
    transfer.what = WHAT_SUM_IN;
    if (progress_receive(sync, sync->data,
                         part->encoded ? part->encoded : total_of(sync, part->chunk), floats,
                         tag_of(sync, true, part->chunk, iteration), transfer))
        return -1;
    transfer.what = WHAT_GRADIENT_OUT;
    return progress_send(sync, sync->data, gradient, floats,
                         tag_of(sync, false, part->chunk, iteration), transfer);
}

static int shard_post(struct sync *sync, int group, int64_t iteration)
{
    struct shard *shard = sync->groups[group].own;

    sync->groups[group].pending = 0;
    for (int i = 0; i < shard->nparts; i++)
        sync->groups[group].pending += shard->parts[i].home ? 1 : 2;
    for (int i = 0; i < shard->nparts; i++)
        if (post_part(sync, group, iteration, &shard->parts[i]))
            return -1;
    return 0;
}

static int shard_complete(struct sync *sync, const struct transfer *transfer)
{
    struct part *part = part_of(sync, transfer->chunk);

    switch (transfer->what) {
    case WHAT_GRADIENT_IN:
        return arrive(sync, part, transfer->peer, NULL);
    case WHAT_SUM_OUT:
        return --part->sends == 0 && part->complete ? publish(sync, part) : 0;
    case WHAT_SUM_IN:
        decode(sync, part);
        return take(sync, part->chunk);
    default:
        return progress_finish_one(sync, transfer->group);
    }
}

static int shard_settle(struct sync *sync, int group, int64_t iteration)
{
    struct shard *shard = sync->groups[group].own;

    if (sync->options.clip > 0)
        return update_group(sync, group, iteration, sync->scale * sync->clip.scale, shard->total,
                            shard->history);
    return 0;
}

static float *shard_history(struct sync *sync, int group)
{
    return ((struct shard *)sync->groups[group].own)->history;
}

#define SHARD_TABLE(which)                                                                         \
    {                                                                                              \
        .scheme = which, .norms_at_home = true, .open = shard_open, .close = shard_close,          \
        .start = shard_start, .post = shard_post, .complete = shard_complete,                      \
        .settle = shard_settle, .history = shard_history,                                          \
    }
const struct syncer_i syncer_allreduce = SHARD_TABLE(SCHEME_ALLREDUCE);
const struct syncer_i syncer_onebit = SHARD_TABLE(SCHEME_ONEBIT);
