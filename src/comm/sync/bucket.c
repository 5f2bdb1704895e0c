/* Buckets on the wire's thread: start of traffic, matching of messages, end of iterations. */
#include "sync/sync_internal.h"

#include "device/vector.h"
#include "sync/gradient.h"
#include "util/clock.h"

#include <assert.h>
#include <string.h>

/* ---- tags ---- */

int tag_of(const struct sync *sync, bool back, int chunk, int64_t iteration)
{
    int64_t slot = iteration % sync->tag_period;

    assert(0 <= chunk && chunk < sync->plan->nchunks && iteration >= 0);
    return (int)((slot * sync->plan->nchunks + chunk) * 2 + (back ? 1 : 0));
}

int64_t tag_iteration(const struct sync *sync, const struct arrival *arrival, int64_t from)
{
    int64_t period = sync->tag_period, ahead = (arrival->slot - from % period + period) % period;

    return from + ahead;
}

static int out_of_step(const struct sync *sync, const struct arrival *arrival)
{
    return error_set("rank %d is out of step: it sent %s of layer '%s' (chunk %d, iteration %lld "
                     "modulo %lld), which this rank does not expect",
                     arrival->rank, arrival->back ? "parameters" : "a gradient",
                     bucket_of(sync, arrival->bucket)->name, arrival->chunk,
                     (long long)arrival->slot, (long long)sync->tag_period);
}

int arrival_check(const struct sync *sync, const struct arrival *arrival, int64_t iteration,
                  int64_t end, size_t bytes)
{
    if (iteration >= end)
        return out_of_step(sync, arrival);
    if (arrival->bytes != bytes)
        return error_set("rank %d sent %zu bytes of layer '%s' where %zu were expected: the ranks' "
                         "layers differ",
                         arrival->rank, arrival->bytes, bucket_of(sync, arrival->bucket)->name,
                         bytes);
    return 0;
}

int bucket_accept(void *context, int peer, int tag, size_t bytes, struct wire_message *out)
{
    struct sync *sync = context;
    int64_t number = tag / 2;
    struct arrival arrival = {.chunk = (int)(number % sync->plan->nchunks),
                              .back = tag % 2,
                              .peer = sync->plan->leader[peer],
                              .rank = peer,
                              .slot = number / sync->plan->nchunks,
                              .bytes = bytes};
    const struct scheme_steps *steps;

    arrival.bucket = chunk_of(sync, arrival.chunk)->bucket;
    steps = sync->buckets[arrival.bucket].steps;
    out->context = sync;
    if (!steps || !steps->accept || !leads_chunk(sync, arrival.chunk) ||
        plan_rank(sync->plan, arrival.peer, arrival.chunk) != peer)
        return out_of_step(sync, &arrival);
    return steps->accept(sync, &arrival, out);
}

/* ---- accounts ---- */

void bucket_account(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int bucket = chunk_of(sync, message_chunk(sync, message))->bucket;
    const struct bucket *b = bucket_of(sync, bucket);

    if (message->received) {
        atomic_fetch_add_explicit(&sync->stats.buckets[bucket].received, message->bytes,
                                  memory_order_relaxed);
    } else {
        struct link_account *link = &sync->links[message->peer];
        uint64_t now = (uint64_t)clock_ns();

        atomic_fetch_add_explicit(&sync->stats.buckets[bucket].sent, message->bytes,
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&link->bytes, message->bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&link->ns, now - (uint64_t)message->started,
                                  memory_order_relaxed);
    }
    if (!sync->options.trace)
        return;
    int64_t shift = sync->options.trace->options.clock_shift;
    struct trace_event event = {
        .kind = message->received ? TRACE_RECEIVE : TRACE_SEND,
        .bytes = message->bytes,
        .tag = message->tag,
        .peer = message->peer,
        .layer = b->layer,
        .scheme = (uint8_t)scheme_index(sync->plan->options.registry, b->scheme),
        .start = (message->received ? message->posted : message->started) + shift,
        .posted = message->received ? 0 : message->posted + shift,
        .iteration = sync->worker ? (int32_t)sync->buckets[bucket].started - 1
                                  : trace_current(sync->options.trace)};
    trace_keep(sync->options.trace, TRACE_PROGRESS, event);
}

/* ---- posting ---- */

int bucket_post(struct sync *sync, int bucket)
{
    struct sync_bucket *state = &sync->buckets[bucket];

    assert(state->steps && state->started - state->complete < state->depth);
    state->started++;
    return state->steps->post(sync, bucket, state->started - 1);
}

int bucket_await(struct sync *sync, int bucket)
{
    assert(sync->nwaiting < (sync->plan->nbuckets + 1) * (2 + sync->options.staleness));
    sync->waiting[sync->nwaiting++] = bucket;
    return sync->nwaiting > 1 || bucket_poll(sync) >= 0 ? 0 : -1;
}

int bucket_poll(struct sync *sync)
{
    int over = 0, pieces = 0;

    while (over < sync->nwaiting) {
        int bucket = sync->waiting[over], there = gradient_arrived(sync, bucket);
        struct sync_bucket *state = &sync->buckets[bucket];

        if (there == 0)
            break;
        if (there < 0 || (state->there == 0 ? bucket_post(sync, bucket)
                                            : state->steps->go_on(sync, bucket, state->started - 1,
                                                                  state->there)))
            return -1;
        pieces++;
        state->there = (state->there + 1) % state->pieces;
        over += state->there == 0;
    }
    sync->nwaiting -= over;
    if (over > 0)
        memmove(sync->waiting, sync->waiting + over,
                (size_t)sync->nwaiting * sizeof *sync->waiting);
    return pieces;
}

int bucket_send(struct sync *sync, int bucket, int64_t iteration, struct wire_message message)
{
    message.comm = MPI_COMM_NULL;
    message.context = sync;
    message.peer = plan_rank(sync->plan, message.peer, message_chunk(sync, &message));
    /* under staleness no layer is needed before the others, so the largest changes of parameters go
     * first (managed communication of Bosen, Wei et al., SoCC'15) */
    message.urgency = sync->options.staleness > 0 ? 0 : plan_urgency(sync->plan, bucket, iteration);
    return wire_send(sync->wire, &message);
}

int bucket_send_chunk(struct sync *sync, int chunk, bool back, int64_t iteration, const void *what,
                      int peer, double weight, wire_done_fn *done)
{
    const struct plan *plan = sync->plan;
    size_t bytes = back
                       ? plan_back_bytes(plan, chunk)
                       : plan_gradient_bytes(plan, chunk) * (size_t)plan_branches(plan, sync->rank);

    return bucket_send(sync, chunk_of(sync, chunk)->bucket, iteration,
                       (struct wire_message){.buffer = (void *)(uintptr_t)what,
                                             .bytes = bytes,
                                             .peer = peer,
                                             .tag = tag_of(sync, back, chunk, iteration),
                                             .weight = weight,
                                             .done = done,
                                             .user = (uint64_t)iteration});
}

double bucket_weight(const struct sync *sync, const float *change, const float *values,
                     size_t elems)
{
    if (sync->options.staleness == 0 || sync->options.sends.fifo || !values)
        return 0;
    double weight = vector_sumsq(change, elems, 1) / (vector_sumsq(values, elems, 1) + 1e-30);

    return weight == weight ? weight : 0; /* a NaN has no place in an order */
}

/* ---- done ---- */

void bucket_expect(struct sync *sync, int bucket, int64_t iteration, int count)
{
    struct sync_bucket *state = &sync->buckets[bucket];

    assert(count > 0 && iteration < state->started);
    state->pending[iteration % state->depth] = count;
}

static void make_done(struct sync *sync, struct sync_bucket *state)
{
    atomic_fetch_add_explicit(&sync->stats.buckets[state - sync->buckets].travel_ns,
                              clock_ns() -
                                  atomic_load_explicit(&state->told_ns, memory_order_relaxed),
                              memory_order_relaxed);
    atomic_store_explicit(&state->done, state->complete, memory_order_release);
    wire_wake(sync->wire);
}

int bucket_finish_one(struct sync *sync, int bucket, int64_t iteration)
{
    struct sync_bucket *state = &sync->buckets[bucket];
    int *pending = &state->pending[iteration % state->depth];

    assert(*pending > 0 && iteration >= state->complete && iteration < state->started);
    if (--*pending > 0)
        return 0;
    while (state->complete < state->started && state->pending[state->complete % state->depth] == 0)
        state->complete++;
    if (state->depth == 1 && !state->steps->settle) {
        if (gradient_store(sync, bucket))
            return -1;
        if (sync->gather->publish && !sync->gather->publish(sync, bucket))
            return 0;
    }
    make_done(sync, state);
    return 0;
}

int bucket_message_over(void *context, const struct wire_message *message)
{
    struct sync *sync = context;

    return bucket_finish_one(sync, chunk_of(sync, message_chunk(sync, message))->bucket,
                             (int64_t)message->user);
}

void bucket_brought(struct sync *sync, int bucket)
{
    struct sync_bucket *state = &sync->buckets[bucket];

    if (state->leads)
        assert(state->complete == state->started);
    else
        state->complete = ++state->started;
    make_done(sync, state);
}

void sync_count_served(struct sync *sync)
{
    assert(sync->service.chunks > 0);
    sync->service.updates++;
    if (sync->service.updates % sync->service.chunks)
        return;
    atomic_store_explicit(&sync->service.done,
                          sync->options.iteration + sync->service.updates / sync->service.chunks,
                          memory_order_release);
    wire_wake(sync->wire);
}
