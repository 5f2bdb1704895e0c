/* Project Adam's way (Chilimbi et al., OSDI'14), one of the paper's baselines: workers send the
 * factors of a fully connected layer to the one server that owns it, which rebuilds the gradient,
 * updates, and sends the whole matrix back to everybody. Cheap to send, dear to receive, and the
 * owner is a hot spot.
 *
 * From the rebuilt sum on it is the parameter server's business (ps.c): so it is made on the host,
 * whatever the workers' engine. */
#include "sync/collect.h"
#include "sync/factors.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

enum { WHAT_FACTORS_OUT = 16, WHAT_FACTORS_IN };

struct adam {
    struct factors factors; /* rows of all workers at the owner, of this rank elsewhere */
    bool owner;
    int arrived;       /* workers whose rows are here */
    int64_t iteration; /* being collected */
    float *gradient;   /* owner's: the group's elems */
};

static int adam_open(struct sync *sync, int group)
{
    const struct plan *plan = sync->plan;
    struct adam *adam = calloc(1, sizeof *adam);
    size_t elems = plan->buckets[group].elems;

    sync->groups[group].own = adam;
    if (!adam)
        return error_memory(sizeof *adam, "sufficient factors");
    adam->owner = plan_home(plan, plan->buckets[group].first_chunk) == sync->rank;
    adam->iteration = sync->options.iteration;
    if (!adam->owner && !sync->worker)
        return 0;
    if (factors_open(sync, group, &adam->factors))
        return -1;
    adam->gradient = adam->owner ? malloc(elems * sizeof *adam->gradient) : NULL;
    if (adam->owner && !adam->gradient)
        return error_memory(elems * sizeof *adam->gradient, "the owner's gradient");
    return 0;
}

static void adam_close(struct sync *sync, int group)
{
    struct adam *adam = sync->groups[group].own;

    if (!adam)
        return;
    if (adam->factors.rows)
        factors_close(sync, &adam->factors);
    free(adam->gradient);
    free(adam);
    sync->groups[group].own = NULL;
}

static int adam_stage(struct sync *sync, int group, int micro)
{
    struct adam *adam = sync->groups[group].own;

    return factors_stage(sync, group, &adam->factors, 0, micro);
}

/* The owner's receives of the iteration to come. */
static int expect(struct sync *sync, int group)
{
    struct adam *adam = sync->groups[group].own;
    int chunk = sync->plan->buckets[group].first_chunk;

    for (int w = 0; adam->owner && w < sync->plan->nworkers; w++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER,
                                    .group = group,
                                    .chunk = chunk,
                                    .peer = w,
                                    .what = WHAT_FACTORS_IN,
                                    .idle = true};
        if (w != sync->rank &&
            progress_receive(sync, sync->data, factors_rows(&adam->factors, w, 0),
                             factors_floats(sync, group, w),
                             tag_of(sync, false, chunk, adam->iteration), transfer))
            return -1;
    }
    return 0;
}

/* All rows are here: the gradient, chunk by chunk to the server. */
static int rebuild(struct sync *sync, int group)
{
    const struct plan *plan = sync->plan;
    struct adam *adam = sync->groups[group].own;
    size_t begin = plan->buckets[group].begin;

    if (factors_rebuild(sync, group, &adam->factors, 0, 0, adam->gradient))
        return -1;
    adam->arrived = 0;
    adam->iteration++;
    if (expect(sync, group))
        return -1;
    for (int c = plan->buckets[group].first_chunk; c < bucket_end(plan, group); c++) {
        const struct chunk *chunk = &plan->chunks[c];
        memcpy(ps_sum(sync, c), adam->gradient + (chunk->begin - begin),
               chunk->elems * sizeof(float));
        if (ps_summed(sync, c))
            return -1;
    }
    return 0;
}

static int arrive(struct sync *sync, int group)
{
    struct adam *adam = sync->groups[group].own;

    return ++adam->arrived == sync->plan->nworkers ? rebuild(sync, group) : 0;
}

static int adam_post(struct sync *sync, int group, int64_t iteration)
{
    const struct plan *plan = sync->plan;
    struct adam *adam = sync->groups[group].own;
    int first = plan->buckets[group].first_chunk, count = bucket_end(plan, group) - first;
    struct transfer transfer = {.kind = TRANSFER_SYNCER,
                                .group = group,
                                .chunk = first,
                                .peer = plan_home(plan, first),
                                .what = WHAT_FACTORS_OUT};

    if (adam->owner) {
        sync->groups[group].pending = count;
        return arrive(sync, group);
    }
    sync->groups[group].pending = count + 1;
    for (int c = first; c < first + count; c++)
        if (ps_expect_parameters(sync, c, iteration))
            return -1;
    return progress_send(sync, sync->data, factors_rows(&adam->factors, 0, 0),
                         factors_floats(sync, group, sync->rank),
                         tag_of(sync, false, first, iteration), transfer);
}

static int adam_complete(struct sync *sync, const struct transfer *transfer)
{
    if (transfer->what == WHAT_FACTORS_IN)
        return arrive(sync, transfer->group);
    if (transfer->what != WHAT_FACTORS_OUT)
        return ps_complete(sync, transfer);
    return progress_finish_one(sync, transfer->group);
}

const struct syncer_i syncer_adam = {
    .open = adam_open,
    .close = adam_close,
    .stage = adam_stage,
    .start = expect,
    .post = adam_post,
    .complete = adam_complete,
    .factors = true,
};
