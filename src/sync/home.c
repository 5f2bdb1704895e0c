/* Chunks on their way home and back: arrivals, sums, updates, answers. */
#include "sync/home.h"

#include "sync/gradient.h"
#include "sync/home_tree.h"
#include "sync/sync_internal.h"
#include "util/workers.h"

#include <assert.h>
#include <string.h>

struct home_part *home_part_of(const struct sync *sync, int chunk)
{
    int bucket = chunk_of(sync, chunk)->bucket;
    struct home *home = sync->buckets[bucket].scheme_state;

    return home ? &home->parts[chunk - bucket_of(sync, bucket)->first_chunk] : NULL;
}

static struct home *home_of(const struct sync *sync, int chunk)
{
    return sync->buckets[chunk_of(sync, chunk)->bucket].scheme_state;
}

/* ---- this rank has what came back ---- */

static void decode_sum(struct sync *sync, struct home_part *part)
{
    const struct codec *codec = plan_codec(sync->plan, part->chunk);
    const struct chunk *c = chunk_of(sync, part->chunk);

    if (!part->encoded)
        return;
    memset(part->total, 0, c->elems * sizeof *part->total);
    codec->add(part->encoded, c->rows, c->elems / c->rows, part->total);
}

/* A worker that applies the rule itself: to the sum that came last. */
static int apply_sum(struct sync *sync, struct home_part *part)
{
    const struct chunk *c = chunk_of(sync, part->chunk);
    int64_t start = trace_begin(sync->options.trace), iteration = part->back - 1;

    part->held = false;
    if (history_update_chunk(sync, part->chunk, iteration, sync->values + c->begin, part->total,
                             &part->history, ENGINE_IN_TURN))
        return -1;
    trace_span(sync->options.trace, TRACE_PROGRESS, TRACE_UPDATE, bucket_of(sync, c->bucket)->layer,
               start);
    return bucket_finish_one(sync, c->bucket, iteration);
}

/* The sum is here; its update waits for the norm of all gradients, unless that came before. */
static int take_sum(struct sync *sync, struct home_part *part)
{
    assert(!part->held);
    part->held = sync_clips(sync) &&
                 atomic_load_explicit(&sync->clip.done, memory_order_relaxed) < part->back;
    return part->held ? 0 : apply_sum(sync, part);
}

static int back_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int chunk = message_chunk(sync, message);
    struct home_part *part = home_part_of(sync, chunk);
    int64_t iteration = (int64_t)message->user;

    part->back = iteration + 1;
    if (part->tree && home_tree_answer(sync, part->tree, message->buffer, iteration))
        return -1;
    if (home_of(sync, chunk)->updates)
        return bucket_finish_one(sync, chunk_of(sync, chunk)->bucket, iteration);
    decode_sum(sync, part);
    return take_sum(sync, part);
}

/* ---- at home: from the sum to what goes back ---- */

static int try_publish(struct sync *sync, struct home_part *part);

static int back_sent(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int chunk = message_chunk(sync, message);
    struct home_part *part = home_part_of(sync, chunk);

    assert(part->sum->sends > 0);
    if (--part->sum->sends > 0)
        return 0;
    if (home_of(sync, chunk)->updates)
        sync_count_served(sync);
    return try_publish(sync, part);
}

/* To all workers, beginning with the rank after this one: no receiver gets all at once. */
static int send_back(struct sync *sync, struct home_part *part, const void *what, int64_t iteration)
{
    const struct plan *plan = sync->plan;
    int workers = plan->nworkers, first = sync->worker ? 1 : sync->rank % workers;

    if (part->tree)
        return home_tree_answer(sync, part->tree, what, iteration);
    for (int i = 0; i < workers - (sync->worker ? 1 : 0); i++) {
        int peer = sync->worker ? (sync->rank + first + i) % workers : (first + i) % workers;
        part->sum->sends++;
        if (bucket_send_chunk(sync, part->chunk, true, iteration, what, peer, part->sum->weight,
                              back_sent))
            return -1;
    }
    return 0;
}

/* Adds a worker's gradient to the sum of its iteration; returns whether it is complete. */
static bool add_worker(struct sync *sync, struct home_part *part, int worker)
{
    struct home_sum *sum = part->sum;
    int slot = (int)(sum->iteration % sum->depth), place = slot * sync->plan->nworkers + worker;

    if (!tree_sum_give(&sum->tree, worker, sum->from[place] ? sum->from[place] : sum->own[slot]))
        return false;
    sum->sum = tree_sum_result(&sum->tree);
    return true;
}

/* On to the next iteration; adds what came ahead of its time. */
static void begin_iteration(struct sync *sync, struct home_part *part)
{
    struct home_sum *sum = part->sum;
    int workers = sync->plan->nworkers, slot = (int)(sum->iteration % sum->depth);

    sum->sum = NULL;
    sum->cleared = !sync_clips(sync);
    if (!sum->arrived)
        return;
    tree_sum_begin(&sum->tree, chunk_of(sync, part->chunk)->elems, NULL);
    for (int w = 0; w < workers; w++)
        if (sum->arrived[slot * workers + w])
            add_worker(sync, part, w);
}

static void end_iteration(struct sync *sync, struct home_sum *sum)
{
    size_t workers = (size_t)sync->plan->nworkers;

    if (sum->arrived)
        memset(&sum->arrived[(size_t)(sum->iteration % sum->depth) * workers], 0, workers);
    sum->iteration++;
}

/* Home has updated the parameters: they go to the workers, this rank's own included. */
static int publish_values(struct sync *sync, struct home_part *part)
{
    struct home_sum *sum = part->sum;
    const struct chunk *c = chunk_of(sync, part->chunk);
    int64_t iteration = sum->iteration;

    assert(sum->sum && sum->cleared && !sum->updating && sum->sends == 0);
    end_iteration(sync, sum);
    begin_iteration(sync, part);
    if (send_back(sync, part, sum->values, iteration))
        return -1;
    if (sync->worker) {
        if (sum->own_values)
            memcpy(gradient_values(sync, part->chunk, iteration), sum->own_values,
                   c->elems * sizeof(float));
        part->back = iteration + 1;
        if (bucket_finish_one(sync, c->bucket, iteration))
            return -1;
    }
    if (sum->sends > 0)
        return 0;
    sync_count_served(sync);
    return sum->sum ? home_summed(sync, part->chunk, sum->sum) : 0; /* all ran ahead */
}

/* The rule, on the host. */
static int update_on_host(struct sync *sync, struct home_part *part)
{
    struct home_sum *sum = part->sum;

    sum->weight = bucket_weight(sync, sum->sum, sum->values, chunk_of(sync, part->chunk)->elems);
    return history_update_chunk(sync, part->chunk, sum->iteration, sum->values, sum->sum,
                                &part->history, ENGINE_IN_TURN);
}

/* What it reads does not change meanwhile: no sum of the next iteration is looked at before this
 * one's update is over, so no norm of it is known either. */
int home_help(void *context, uint64_t chunk)
{
    return update_on_host(context, home_part_of(context, (int)chunk));
}

static int update_values(struct sync *sync, struct home_part *part)
{
    enum { FEWEST = 16384 }; /* 64 kB: below, waking a helper is not worth it */
    struct home_sum *sum = part->sum;
    const struct chunk *c = chunk_of(sync, part->chunk);
    int64_t start = trace_begin(sync->options.trace);

    if (gradient_serves_on_engine(sync) && !sync->clip.skips) {
        sum->updating = true;
        return gradient_serve(sync, part->chunk, sum->iteration, sum->sum, &part->history);
    }
    if (sync->service.helpers && c->elems >= FEWEST) {
        sum->updating = true;
        jobs_give(sync->service.helpers, (uint64_t)part->chunk);
        return 0;
    }
    if (update_on_host(sync, part))
        return -1;
    trace_span(sync->options.trace, TRACE_PROGRESS, TRACE_UPDATE, bucket_of(sync, c->bucket)->layer,
               start);
    return publish_values(sync, part);
}

/* The sum goes back as it is, or encoded; this rank takes what the others will read. It is copied
 * out of the workers' buffers, which the next gradients may fill before it is sent. */
static int publish_sum(struct sync *sync, struct home_part *part)
{
    struct home_sum *sum = part->sum;
    const struct chunk *c = chunk_of(sync, part->chunk);
    int64_t iteration = sum->iteration;
    float *total = part->total;

    if (part->encoded)
        plan_codec(sync->plan, part->chunk)
            ->encode(sum->sum, sum->residual, c->rows, c->elems / c->rows, part->encoded);
    else if (total != sum->sum)
        memcpy(total, sum->sum, c->elems * sizeof *total);
    decode_sum(sync, part);
    end_iteration(sync, sum);
    begin_iteration(sync, part);
    if (send_back(sync, part, part->encoded ? part->encoded : total, iteration))
        return -1;
    part->back = iteration + 1;
    if (sync_clips(sync) && clip_chunk_ready(sync, part->chunk, total, sync->values + c->begin))
        return -1;
    return take_sum(sync, part);
}

/* Values and sums may not change under a send that is not known to be over. */
static int try_publish(struct sync *sync, struct home_part *part)
{
    struct home_sum *sum = part->sum;

    if (!sum->sum || sum->updating || sum->sends > 0)
        return 0;
    if (!home_of(sync, part->chunk)->updates)
        return publish_sum(sync, part);
    return sum->cleared ? update_values(sync, part) : 0;
}

int home_summed(struct sync *sync, int chunk, const float *values)
{
    struct home_part *part = home_part_of(sync, chunk);

    part->sum->sum = values;
    if (home_of(sync, chunk)->updates && sync_clips(sync) &&
        clip_chunk_ready(sync, chunk, values, part->sum->values))
        return -1;
    return try_publish(sync, part);
}

int home_updated(struct sync *sync, int chunk)
{
    struct home_part *part = home_part_of(sync, chunk);

    assert(part->sum->updating);
    part->sum->updating = false;
    return publish_values(sync, part);
}

int home_cleared(struct sync *sync, int bucket)
{
    struct home *home = sync->buckets[bucket].scheme_state;

    for (int i = 0; home && i < home->nparts; i++) {
        struct home_part *part = &home->parts[i];
        if (part->held && apply_sum(sync, part))
            return -1;
        if (!home->updates || !part->sum)
            continue;
        part->sum->cleared = true;
        if (try_publish(sync, part))
            return -1;
    }
    return 0;
}

/* ---- gradients come home ---- */

/* A worker's gradient of that iteration is here; own: this rank's. */
static int home_arrive(struct sync *sync, struct home_part *part, int worker, int64_t iteration,
                       void *own)
{
    struct home_sum *sum = part->sum;
    const struct chunk *c = chunk_of(sync, part->chunk);
    const struct codec *codec = plan_codec(sync->plan, part->chunk);
    int slot = (int)(iteration % sum->depth), place = slot * sync->plan->nworkers + worker;
    const void *encoded = own ? own : sum->encoded ? sum->encoded[place] : NULL;
    float *floats = sum->from[place];

    assert(iteration >= sum->iteration && !sum->arrived[place]);
    sum->arrived[place] = 1;
    if (codec) {
        memset(floats, 0, c->elems * sizeof *floats);
        codec->add(encoded, c->rows, c->elems / c->rows, floats);
    } else if (own) {
        floats = sum->own[slot] = own;
    }
    if (iteration != sum->iteration || sum->sum)
        return 0;
    return add_worker(sync, part, worker) ? home_summed(sync, part->chunk, sum->sum) : 0;
}

static int gradient_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;

    return home_arrive(sync, home_part_of(sync, message_chunk(sync, message)),
                       leader_of(sync, message), (int64_t)message->user, NULL);
}

static int accept_gradient(struct sync *sync, const struct arrival *arrival,
                           struct wire_message *out)
{
    const struct home_part *part = home_part_of(sync, arrival->chunk);
    const struct home_sum *sum = part ? part->sum : NULL;
    int64_t iteration = sum ? tag_iteration(sync, arrival, sum->iteration) : 0;
    int64_t end = sum && sum->arrived ? sum->iteration + sum->depth : 0;
    int place;

    if (arrival_check(sync, arrival, iteration, end,
                      plan_gradient_bytes(sync->plan, arrival->chunk)))
        return -1;
    place = (int)(iteration % sum->depth) * sync->plan->nworkers + arrival->peer;
    if (arrival->peer >= sync->plan->nworkers || sum->arrived[place])
        return arrival_check(sync, arrival, 1, 0, 0);
    out->buffer = sum->encoded ? sum->encoded[place] : sum->from[place];
    out->done = gradient_came;
    out->user = (uint64_t)iteration;
    return 0;
}

int home_accept(struct sync *sync, const struct arrival *arrival, struct wire_message *out)
{
    const struct sync_bucket *state = &sync->buckets[arrival->bucket];
    const struct home_part *part = home_part_of(sync, arrival->chunk);
    int64_t iteration = tag_iteration(sync, arrival, state->complete);
    int from =
        part && part->tree ? home_tree_parent(part->tree) : plan_home(sync->plan, arrival->chunk);
    bool expected = part && !part->sum && sync->worker && arrival->peer == from;
    int64_t end = expected ? state->started : 0;

    if (!arrival->back)
        return part && part->tree ? home_tree_accept(sync, part->tree, arrival, out)
                                  : accept_gradient(sync, arrival, out);
    if (arrival_check(sync, arrival, iteration, end, plan_back_bytes(sync->plan, arrival->chunk)))
        return -1;
    out->buffer = home_of(sync, arrival->chunk)->updates
                      ? gradient_values(sync, arrival->chunk, iteration)
                  : part->encoded ? part->encoded
                                  : part->total;
    out->done = back_came;
    out->user = (uint64_t)iteration;
    return 0;
}

int home_post(struct sync *sync, int bucket, int64_t iteration)
{
    struct home *home = sync->buckets[bucket].scheme_state;
    int waits = 0;

    /* a chunk of its own, or a gradient there and an answer back */
    for (int i = 0; i < home->nparts; i++)
        waits += home->parts[i].leads ? home->parts[i].sum ? 1 : 2 : 0;
    bucket_expect(sync, bucket, iteration, waits);
    for (int i = 0; i < home->nparts; i++) {
        struct home_part *part = &home->parts[(home->first + i) % home->nparts];
        void *message;

        if (!part->leads)
            continue;
        message = gradient_message(sync, part->chunk, iteration);
        if (part->tree) {
            if (home_tree_post(sync, part->tree, message))
                return -1;
            continue;
        }
        if (part->sum) {
            if (home_arrive(sync, part, sync->rank, iteration, message))
                return -1;
            continue;
        }
        if (bucket_send_chunk(sync, part->chunk, false, iteration, message,
                              plan_home(sync->plan, part->chunk),
                              bucket_weight(sync, message, gradient_newest(sync, part->chunk),
                                            chunk_of(sync, part->chunk)->elems),
                              bucket_message_over))
            return -1;
    }
    return 0;
}

/* ---- the compute thread ---- */

void home_start(struct sync *sync, int bucket)
{
    struct home *home = sync->buckets[bucket].scheme_state;

    for (int i = 0; i < home->nparts; i++) {
        const struct home_sum *sum = home->parts[i].sum;
        const struct chunk *c = chunk_of(sync, home->parts[i].chunk);
        if (sum && sum->own_values)
            memcpy(sum->own_values, sync->values + c->begin, c->elems * sizeof(float));
    }
}

int home_history(struct sync *sync, int chunk, struct history_view *out)
{
    struct home_part *part = home_part_of(sync, chunk);

    return part && part->history.memory
               ? history_view(sync, &part->history, 0, chunk_of(sync, chunk)->elems, out)
               : 0;
}

int home_restore(struct sync *sync, int bucket)
{
    struct home *home = sync->buckets[bucket].scheme_state;

    for (int i = 0; home && i < home->nparts; i++)
        if (home->parts[i].history.memory && history_restore(sync, &home->parts[i].history))
            return -1;
    return 0;
}

size_t home_residual(struct sync *sync, int chunk, enum kept kept, float **out)
{
    const struct chunk *c = chunk_of(sync, chunk);
    bool of_sum = kept == KEPT_SUMS && bucket_of(sync, c->bucket)->scheme->codec_back;

    if (!plan_codec(sync->plan, chunk) || (kept != KEPT_GRADIENTS && !of_sum))
        return 0;
    if (out)
        *out = of_sum ? home_part_of(sync, chunk)->sum->residual : gradient_residual(sync, chunk);
    return c->elems;
}
