/* The compute thread's side of a sync: posting, waiting, and calls that the progress thread carries
 * out. */
#include "sync/stale.h"

#include "util/clock.h"
#include "util/error.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

int ring_push(struct sync *sync, enum event_kind kind, int group)
{
    size_t tail = atomic_load_explicit(&sync->tail, memory_order_relaxed);

    while (tail - atomic_load_explicit(&sync->head, memory_order_acquire) > sync->ring_mask)
        sched_yield(); /* cannot happen: the ring holds every group twice */
    sync->ring[tail & sync->ring_mask] = (struct event){.kind = kind, .group = group};
    atomic_store(&sync->tail, tail + 1);
    if (atomic_load(&sync->resting))
        sem_post(&sync->bell);
    return 0;
}

static int failed(struct sync *sync)
{
    if (!atomic_load(&sync->failed))
        return 0;
    return error_set("another rank failed"); /* its message is agreed at closing */
}

int compute_wait(struct sync *sync, _Atomic int64_t *counter, int64_t target, int group)
{
    int64_t traced;
    double start;

    if (atomic_load_explicit(counter, memory_order_acquire) >= target)
        return failed(sync);
    traced = trace_begin(sync->options.trace);
    start = clock_seconds();
    while (atomic_load_explicit(counter, memory_order_acquire) < target &&
           !atomic_load(&sync->failed)) {
        atomic_store(&sync->sleeping, 1);
        if (atomic_load(counter) >= target || atomic_load(&sync->failed)) {
            if (!atomic_exchange(&sync->sleeping, 0))
                sem_wait(&sync->wake); /* the other side has rung already */
            break;
        }
        if (atomic_load(&sync->resting))
            sem_post(&sync->bell);
        while (sem_wait(&sync->wake))
            ;
    }
    start = clock_seconds() - start;
    sync->stats.stall_seconds += start;
    if (group >= 0)
        sync->group_stalls[group] += start;
    trace_span(sync->options.trace, TRACE_COMPUTE, TRACE_WAIT,
               group >= 0 ? sync->plan->buckets[group].layer : -1, traced);
    return failed(sync);
}

static int tell(struct sync *sync, int group)
{
    sync->groups[group].told++;
    return ring_push(sync, EVENT_POST, group);
}

/* Another member has its gradient: whether it was the last one of the bucket in this pass. */
static bool completes(struct sync *sync, int bucket)
{
    struct group_state *state = &sync->groups[bucket];
    int members = sync->plan->buckets[bucket].first_group + sync->plan->buckets[bucket].ngroups -
                  sync->plan->buckets[bucket].first_group;

    state->joined = (state->joined + 1) % members;
    return state->joined == 0;
}

int sync_post(struct sync *sync, int member, bool last)
{
    int group = sync->plan->bucket_of[member];
    struct group_state *state = &sync->groups[group];

    if (!state->syncer || !completes(sync, group))
        return 0;
    /* others may have the last iteration's norm already while it is still on its way to us */
    if (sync->options.clip > 0 && sync->speaks &&
        compute_wait(sync, &sync->clip.done, state->posted, group))
        return -1;
    if (state->syncer->stage) {
        int64_t start = trace_begin(sync->options.trace);
        if (state->syncer->stage(sync, group, state->micro))
            return -1;
        trace_span(sync->options.trace, TRACE_COMPUTE, TRACE_COPY, sync->plan->buckets[group].layer,
                   start);
    }
    state->micro++;
    if (!last) /* the next micro-batch overwrites what is being staged: it waits for that */
        return state->syncer->stage ? remote_order_staged(sync, group) : 0;
    if (sync->team ? team_mark(sync, group) : remote_fetch_gradient(sync, group))
        return -1;
    state->micro = 0;
    state->posted++;
    if (state->syncer->local) {
        state->told++;
        atomic_store_explicit(&state->done, state->posted, memory_order_relaxed);
        return 0;
    }
    return sync->options.overlap ? tell(sync, group) : 0;
}

/* Of a gradient that this rank has whole. */
static int chunk_norm(struct sync *sync, int chunk, double *out)
{
    const struct chunk *c = &sync->plan->chunks[chunk];
    const struct net *net = sync->net;
    float scale = sync_mean(sync);

    if (sync->remote)
        return sync->remote->sumsq(net->engine->context, net->remote_grads + c->begin, scale,
                                   c->elems, out);
    *out = clip_sumsq(net->grads + c->begin, c->elems, scale);
    return 0;
}

static int ahead(struct sync *sync, int group, int64_t iteration)
{
    const struct syncer_i *syncer = sync->groups[group].syncer;

    return syncer->ahead ? syncer->ahead(sync, group, iteration) : 0;
}

/* SFB gradients exist only after the rebuild; their part of the norm is worker 0's to give, since
 * all workers have the same. */
static int give_norms(struct sync *sync)
{
    const struct plan *plan = sync->plan;

    for (int g = plan->nbuckets - 1; g >= 0; g--) {
        struct group_state *state = &sync->groups[g];
        if (!state->syncer || !state->syncer->rebuild)
            continue;
        if (ahead(sync, g, state->posted - 1) ||
            compute_wait(sync, &state->done, state->posted, g) ||
            state->syncer->rebuild(sync, g, state->posted - 1))
            return -1;
        for (int c = plan->buckets[g].first_chunk; sync->rank == 0 && c < bucket_end(plan, g); c++)
            if (chunk_norm(sync, c, &sync->clip.own[c]))
                return -1;
    }
    return ring_push(sync, EVENT_NORMS, -1);
}

/* What is left to compute when a group's transfers are over. */
static int settle(struct sync *sync, int group, int64_t iteration)
{
    const struct syncer_i *syncer = sync->groups[group].syncer;
    int64_t start;

    if (!syncer->settle)
        return 0;
    if (sync->options.clip > 0 && compute_wait(sync, &sync->clip.done, iteration + 1, group))
        return -1;
    start = trace_begin(sync->options.trace);
    if ((sync->options.clip <= 0 && syncer->rebuild && syncer->rebuild(sync, group, iteration)) ||
        syncer->settle(sync, group, iteration))
        return -1;
    trace_span(sync->options.trace, TRACE_COMPUTE, TRACE_UPDATE, sync->plan->buckets[group].layer,
               start);
    return 0;
}

/* Until at most `lag` iterations are missing. */
static int wait_for(struct sync *sync, int group, int lag)
{
    struct group_state *state = &sync->groups[group];
    int64_t newest = state->posted;

    if (state->settled >= state->posted)
        return 0;
    if ((sync->options.clip <= 0 && ahead(sync, group, state->posted - 1)) ||
        compute_wait(sync, &state->done, state->posted - lag, group))
        return -1;
    if (state->lag > 0) {
        newest = stale_take(sync, group);
        if (newest < 0)
            return -1;
    } else if (settle(sync, group, state->posted - 1) || remote_store_values(sync, group, true) ||
               remote_order(sync, group)) {
        return -1;
    }
    if (newest == state->settled)
        return 0;
    state->settled = newest;
    if (sync->speaks && sync_settles(sync, group)) {
        node_publish(sync, group);
        if (sync->team)
            ring_push(sync, EVENT_PUBLISH, group);
    }
    for (int m = sync->plan->buckets[group].first_group;
         m < sync->plan->buckets[group].first_group + sync->plan->buckets[group].ngroups; m++)
        net_touch(sync->net, m);
    return 0;
}

int sync_flush(struct sync *sync)
{
    if (!sync->options.overlap)
        for (int g = sync->plan->nbuckets - 1; g >= 0; g--)
            if (sync->groups[g].posted > sync->groups[g].told)
                tell(sync, g);
    if (sync->options.clip > 0 && sync->speaks && give_norms(sync))
        return -1;
    for (int g = 0; !sync->options.overlap && g < sync->plan->nbuckets; g++)
        if (wait_for(sync, g, sync->groups[g].lag))
            return -1;
    return failed(sync);
}

int sync_wait(struct sync *sync, int member)
{
    int group = sync->plan->bucket_of[member];

    if (!sync->options.forward_waits_all)
        return wait_for(sync, group, sync->groups[group].lag);
    for (int g = 0; g < sync->plan->nbuckets; g++)
        if (wait_for(sync, g, sync->groups[g].lag))
            return -1;
    return 0;
}

bool sync_is_local(const struct sync *sync, int member)
{
    const struct syncer_i *syncer = sync->groups[sync->plan->bucket_of[member]].syncer;

    return !syncer || syncer->local;
}

int sync_wait_all(struct sync *sync, int64_t iteration)
{
    if (!sync->worker) {
        if (sync->options.clip > 0) {
            ring_push(sync, EVENT_NORMS, -1);
            if (compute_wait(sync, &sync->clip.done, iteration + 1, -1))
                return -1;
        }
        return sync->clip.own_chunks > 0 ? compute_wait(sync, &sync->served, iteration + 1, -1)
                                         : failed(sync);
    }
    for (int g = 0; g < sync->plan->nbuckets; g++)
        if (wait_for(sync, g, 0))
            return -1;
    return failed(sync);
}

/* Hands a call to the progress thread and sleeps until it says it is over. */
static int call_progress(struct sync *sync, enum event_kind kind)
{
    atomic_store(&sync->call_done, 0);
    ring_push(sync, kind, -1);
    return compute_wait(sync, &sync->call_done, 1, -1);
}

/* Both places of a sum hold `count` values. */
static int grow_sum(struct sync *sync, int count)
{
    if (count <= sync->sum_capacity)
        return 0;
    free(sync->sum_values);
    free(sync->sum_result);
    sync->sum_values = malloc((size_t)count * sizeof *sync->sum_values);
    sync->sum_result = malloc((size_t)count * sizeof *sync->sum_result);
    sync->sum_capacity = sync->sum_values && sync->sum_result ? count : 0;
    return sync->sum_capacity
               ? 0
               : error_memory((size_t)count * sizeof(double), "a sum over the workers");
}

int sync_sum(struct sync *sync, double *values, int count)
{
    if (sync->plan->ncomputing == 1) /* a call would wait for the updates that are under way */
        return failed(sync);
    if (grow_sum(sync, count))
        return -1;
    memcpy(sync->sum_values, values, (size_t)count * sizeof *values);
    sync->sum_count = count;
    if (call_progress(sync, EVENT_SUM))
        return -1;
    memcpy(values, sync->sum_result, (size_t)count * sizeof *values);
    return 0;
}

int sync_ask(struct sync *sync, const double values[SYNC_ASK_VALUES])
{
    memcpy(sync->ask_values, values, sizeof sync->ask_values);
    atomic_store(&sync->ask_done, 0);
    return ring_push(sync, EVENT_ASK, -1);
}

int sync_answer(struct sync *sync, double values[SYNC_ASK_VALUES])
{
    if (compute_wait(sync, &sync->ask_done, 1, -1))
        return -1;
    memcpy(values, sync->ask_result, sizeof sync->ask_result);
    return 0;
}

int sync_gather_history(struct sync *sync, float *history)
{
    const struct plan *plan = sync->plan;

    sync->gather_history = history;
    for (int g = 0; sync->rank == 0 && g < plan->nbuckets; g++) {
        const struct group_state *state = &sync->groups[g];
        const struct bucket *group = &plan->buckets[g];
        const float *mine = NULL;
        if (state->syncer && state->syncer->history && !(mine = state->syncer->history(sync, g)))
            return -1;
        for (int b = 0; b < sync->update.nhistory; b++) {
            float *to = history + (size_t)b * sync->net->elems + group->begin;
            if (mine)
                memcpy(to, mine + (size_t)b * group->elems, group->elems * sizeof *to);
            else if (!state->syncer)
                memset(to, 0, group->elems * sizeof *to);
        }
    }
    return call_progress(sync, EVENT_GATHER);
}

int sync_clip(struct sync *sync, int64_t iteration, double *norm, double *scale)
{
    *norm = 0;
    *scale = 1;
    if (sync->options.clip <= 0)
        return 0;
    if (compute_wait(sync, &sync->clip.done, iteration + 1, -1))
        return -1;
    *norm = sync->clip.norm;
    *scale = (double)sync->clip.scale;
    return 0;
}
