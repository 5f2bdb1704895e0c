/* The compute thread's side of a sync: posting and waiting. */
#include "sync/gradient.h"
#include "sync/sync_internal.h"
#include "util/clock.h"

#include <assert.h>

int compute_wait(struct sync *sync, const _Atomic int64_t *counter, int64_t target, int bucket)
{
    int64_t traced;
    double waited = 0;
    int status;

    if (atomic_load_explicit(counter, memory_order_acquire) >= target)
        return wire_failed(sync->wire);
    traced = trace_begin(sync->options.trace);
    status = wire_wait(sync->wire, counter, target, &waited);
    sync->stats.stall_seconds += waited;
    if (bucket >= 0)
        sync->stats.buckets[bucket].stall_seconds += waited;
    trace_span(sync->options.trace, TRACE_COMPUTE, TRACE_WAIT,
               bucket >= 0 ? bucket_of(sync, bucket)->layer : -1, traced);
    return status;
}

/* ---- telling the wire thread ---- */

static int start_bucket(void *context, int64_t bucket)
{
    struct sync *sync = context;

    return sync->gather->post(sync, (int)bucket);
}

static int publish_bucket(void *context, int64_t bucket)
{
    struct sync *sync = context;

    (void)sync->gather->publish(sync, (int)bucket); /* a bucket with `settle` has one leader */
    return 0;
}

static void tell(struct sync *sync, int bucket)
{
    sync->buckets[bucket].signalled++;
    atomic_store_explicit(&sync->buckets[bucket].told_ns, clock_ns(), memory_order_relaxed);
    wire_call(sync->wire, start_bucket, sync, bucket);
}

/* ---- posting ---- */

/* Counts a group whose gradient is final; true if it is the last of the bucket in this pass. */
static bool completes(struct sync *sync, int bucket)
{
    struct sync_bucket *state = &sync->buckets[bucket];

    state->groups_ready = (state->groups_ready + 1) % bucket_of(sync, bucket)->ngroups;
    return state->groups_ready == 0;
}

int compute_advance(struct sync *sync)
{
    for (int b = 0; sync->plan->in_rounds && b < sync->plan->nbuckets; b++) {
        const struct scheme_steps *steps = sync->buckets[b].steps;
        if (steps && steps->advance && steps->advance(sync, b))
            return -1;
    }
    return 0;
}

int sync_post(struct sync *sync, int group, bool last)
{
    int bucket = sync->plan->bucket_of[group];
    struct sync_bucket *state = &sync->buckets[bucket];

    if (!state->steps || !completes(sync, bucket))
        return 0;
    /* other ranks may have the last iteration's norm while it is still on its way here */
    if (sync_clips(sync) && sync->leads && !sync_drops(sync) &&
        compute_wait(sync, &sync->clip.done, state->posted, bucket))
        return -1;
    if (state->steps->stage) {
        int64_t start = trace_begin(sync->options.trace);
        if (state->steps->stage(sync, bucket, state->micro))
            return -1;
        trace_span(sync->options.trace, TRACE_COMPUTE, TRACE_COPY, bucket_of(sync, bucket)->layer,
                   start);
    }
    state->micro++;
    if (!last) /* the next micro-batch overwrites the data being staged, so it waits */
        return state->steps->stage ? gradient_order_staged(sync, bucket) : 0;
    if (sync->gather->mark && sync->gather->mark(sync, bucket))
        return -1;
    state->micro = 0;
    state->posted++;
    assert(state->posted - state->applied <= state->depth);
    if (state->steps->local) {
        state->signalled++;
        atomic_store_explicit(&state->done, state->posted, memory_order_relaxed);
    } else if (sync->options.overlap) {
        tell(sync, bucket);
    }
    return compute_advance(sync);
}

/* ---- waiting ---- */

/* Computes the rest of an iteration when a bucket's messages are over. */
static int settle(struct sync *sync, int bucket, int64_t iteration)
{
    const struct scheme_steps *steps = sync->buckets[bucket].steps;
    int64_t start;

    if (!steps->settle)
        return 0;
    if (sync_clips(sync) && !sync_drops(sync) &&
        compute_wait(sync, &sync->clip.done, iteration + 1, bucket))
        return -1;
    start = trace_begin(sync->options.trace);
    if ((!sync_clips(sync) && steps->rebuild && steps->rebuild(sync, bucket, iteration)) ||
        steps->settle(sync, bucket, iteration) || gradient_store(sync, bucket))
        return -1;
    trace_span(sync->options.trace, TRACE_COMPUTE, TRACE_UPDATE, bucket_of(sync, bucket)->layer,
               start);
    return 0;
}

/* Waits until parameters of at most `lag` posted iterations are missing. */
static int wait_for(struct sync *sync, int bucket, int lag)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct sync_bucket *state = &sync->buckets[bucket];
    int64_t newest = state->posted;

    if (state->applied >= state->posted)
        return 0;
    if ((!sync_clips(sync) && state->steps->ahead &&
         state->steps->ahead(sync, bucket, state->posted - 1)) ||
        compute_wait(sync, &state->done, state->posted - lag, bucket))
        return -1;
    if (state->depth > 1)
        newest = gradient_take(sync, bucket);
    else if (settle(sync, bucket, state->posted - 1) || gradient_order(sync, bucket))
        return -1;
    if (newest == state->applied || newest < 0)
        return newest < 0 ? -1 : 0;
    state->applied = newest;
    if (state->leads && state->steps->settle && sync->gather->publish)
        wire_call(sync->wire, publish_bucket, sync, bucket);
    for (int g = b->first_group; g < b->first_group + b->ngroups; g++)
        if (sync->model.changed)
            sync->model.changed(sync->model.context, g);
    return 0;
}

static int wait_for_all(struct sync *sync, bool lagging)
{
    for (int b = 0; b < sync->plan->nbuckets; b++)
        if (wait_for(sync, b, lagging ? sync->buckets[b].depth - 1 : 0))
            return -1;
    return 0;
}

int sync_flush(struct sync *sync)
{
    int64_t posted = sync->options.iteration;

    for (int b = sync->plan->nbuckets - 1; b >= 0; b--) {
        const struct sync_bucket *state = &sync->buckets[b];
        if (state->steps && state->posted > state->signalled)
            tell(sync, b);
        posted = state->posted > posted ? state->posted : posted;
    }
    if (clip_give(sync, posted - 1))
        return -1;
    if (!sync->options.overlap && wait_for_all(sync, true))
        return -1;
    return wire_failed(sync->wire);
}

int sync_wait(struct sync *sync, int group)
{
    int bucket = sync->plan->bucket_of[group];

    if (sync->options.forward_waits_all)
        return wait_for_all(sync, true);
    return wait_for(sync, bucket, sync->buckets[bucket].depth - 1);
}

bool sync_is_local(const struct sync *sync, int group)
{
    const struct scheme_steps *steps = sync->buckets[sync->plan->bucket_of[group]].steps;

    return !steps || steps->local;
}

/* True if the wire has work for the bucket. */
static bool travels(const struct sync *sync, int bucket)
{
    return sync->buckets[bucket].steps && !sync->buckets[bucket].steps->local;
}

/* Tells the wire thread of an iteration that is left out. */
static int note_left_out(void *context, int64_t iteration)
{
    struct sync *sync = context;

    for (int b = 0; b < sync->plan->nbuckets; b++) {
        struct sync_bucket *state = &sync->buckets[b];
        if (!travels(sync, b))
            continue;
        assert(state->started == iteration && state->complete == iteration);
        state->started = state->complete = iteration + 1;
        atomic_store_explicit(&state->done, state->complete, memory_order_release);
    }
    wire_wake(sync->wire);
    return 0;
}

int sync_leave_out(struct sync *sync, int64_t iteration)
{
    if (!sync_drops(sync))
        return 0;
    for (int b = 0; b < sync->plan->nbuckets; b++) {
        const struct sync_bucket *state = &sync->buckets[b];
        if (!travels(sync, b))
            continue;
        if (compute_wait(sync, &state->done, state->posted, b))
            return -1;
        if (state->newest < iteration)
            return 0;
    }
    if (wait_for_all(sync, false))
        return -1;
    for (int b = 0; b < sync->plan->nbuckets; b++) {
        struct sync_bucket *state = &sync->buckets[b];
        if (state->steps && state->steps->local &&
            settle(sync, b, iteration)) /* a bucket that decays */
            return -1;
        state->posted = state->signalled = state->applied = iteration + 1;
    }
    sync->stats.left_out++;
    wire_call(sync->wire, note_left_out, sync, iteration);
    return 1;
}

/* Waits until the server's chunks are updated and sent. First tells clipping that no norms come
 * from the server's compute thread. */
static int wait_as_server(struct sync *sync, int64_t iteration)
{
    if (clip_give(sync, iteration))
        return -1;
    if (sync_clips(sync) && !sync_drops(sync) &&
        compute_wait(sync, &sync->clip.done, iteration + 1, -1))
        return -1;
    return sync->service.chunks > 0 ? compute_wait(sync, &sync->service.done, iteration + 1, -1)
                                    : wire_failed(sync->wire);
}

int sync_wait_all(struct sync *sync, int64_t iteration)
{
    if (!sync->worker)
        return wait_as_server(sync, iteration);
    return wait_for_all(sync, false) ? -1 : wire_failed(sync->wire);
}

struct sync_skips sync_skips(const struct sync *sync)
{
    const struct clip *clip = &sync->clip;

    return (struct sync_skips){.count = atomic_load(&clip->skipped),
                               .in_a_row = atomic_load(&clip->in_a_row),
                               .iteration = atomic_load(&clip->last_skipped),
                               .bucket = atomic_load(&clip->skipped_bucket)};
}

int sync_clip(struct sync *sync, int64_t iteration, double *norm, double *scale)
{
    *norm = 0;
    *scale = 1;
    if (!sync_clips(sync) || sync_drops(sync))
        return 0;
    if (compute_wait(sync, &sync->clip.done, iteration + 1, -1))
        return -1;
    *norm = sync->clip.norm;
    *scale = (double)sync->clip.scale;
    return 0;
}
