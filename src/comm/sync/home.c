/* Chunks on their way home and back: arrivals, sums, updates, answers. */
#include "sync/home.h"

#include "device/codec.h"
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

/* ---- answers of homes, on workers ---- */

/* Decodes a chunk that travels encoded into floats. */
static void decode(struct sync *sync, int chunk, const void *encoded, float *out)
{
    const struct codec *codec = plan_codec(sync->plan, chunk);
    const struct chunk *c = chunk_of(sync, chunk);

    if (!codec)
        return;
    memset(out, 0, c->elems * sizeof *out);
    codec->add(encoded, c->rows, c->elems / c->rows, out);
}

/* Applies the rule to the latest sum, on a worker that updates by itself. */
static int apply_sum(struct sync *sync, struct home_part *part)
{
    const struct chunk *c = chunk_of(sync, part->chunk);
    int64_t start = trace_begin(sync->options.trace), iteration = part->back - 1;

    part->held = false;
    if (history_update_chunk(sync, part->chunk, iteration, sync->values + c->begin, part->total,
                             &part->history, DEVICE_IN_TURN) ||
        gradient_store_chunk(sync, part->chunk))
        return -1;
    trace_span(sync->options.trace, TRACE_PROGRESS, TRACE_UPDATE, bucket_of(sync, c->bucket)->layer,
               start);
    return bucket_finish_one(sync, c->bucket, iteration);
}

/* Takes a sum, and applies the rule now, or later if the norm of all gradients is not known yet. */
static int take_sum(struct sync *sync, struct home_part *part)
{
    assert(!part->held);
    part->held = sync_clips(sync) &&
                 atomic_load_explicit(&sync->clip.done, memory_order_relaxed) < part->back;
    return part->held ? 0 : apply_sum(sync, part);
}

/* Takes the parameters after `iteration`: the worker's, or with drop a later iteration. */
static int values_came(struct sync *sync, struct home_part *part, int64_t iteration)
{
    int bucket = chunk_of(sync, part->chunk)->bucket;
    struct sync_bucket *state = &sync->buckets[bucket];

    if (gradient_store_chunk(sync, part->chunk))
        return -1;
    part->back = iteration + 1;
    if (sync_drops(sync)) {
        state->newest = iteration < state->newest ? iteration : state->newest;
        iteration = state->started - 1;
    }
    return bucket_finish_one(sync, bucket, iteration);
}

static int back_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int chunk = message_chunk(sync, message);
    struct home_part *part = home_part_of(sync, chunk);
    int64_t iteration = (int64_t)message->user;

    if (part->tree && home_tree_answer(sync, part->tree, message->buffer, iteration))
        return -1;
    if (home_of(sync, chunk)->updates)
        return values_came(sync, part, iteration);
    part->back = iteration + 1;
    decode(sync, part->chunk, part->encoded, part->total);
    return take_sum(sync, part);
}

/* ---- at home: from the sum to the answer ---- */

static int try_publish(struct sync *sync, struct home_part *part);

/* Returns the count of sends that read this copy of the values (or the sum, which has one copy). */
static int *sends_of(const struct sync *sync, const struct home_part *part, const float *values)
{
    const struct home_sum *sum = part->sum;
    size_t elems = chunk_of(sync, part->chunk)->elems;

    return &sum->sends[sum->copies > 1 ? (size_t)(values - sum->own_values) / elems : 0];
}

static int back_sent(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int chunk = message_chunk(sync, message);
    struct home_part *part = home_part_of(sync, chunk);
    int *sends = sends_of(sync, part, message->buffer);

    assert(*sends > 0);
    if (--*sends > 0)
        return 0;
    if (home_of(sync, chunk)->updates && !sync_drops(sync))
        sync_count_served(sync);
    return try_publish(sync, part);
}

static int answer(struct sync *sync, struct home_part *part, const void *what, int64_t iteration,
                  int peer)
{
    ++*sends_of(sync, part, what);
    return bucket_send_chunk(sync, part->chunk, true, iteration, what, peer, part->sum->weight,
                             back_sent);
}

/* Sends the answer to all workers that wait for it, the rank after this one first, so that no
 * receiver gets all answers at once. */
static int send_back(struct sync *sync, struct home_part *part, const void *what, int64_t iteration)
{
    const struct plan *plan = sync->plan;
    int workers = plan->nworkers, first = sync->worker ? sync->rank + 1 : sync->rank;

    if (part->tree)
        return home_tree_answer(sync, part->tree, what, iteration);
    for (int i = 0; i < workers - (sync->worker ? 1 : 0); i++) {
        int peer = (first + i) % workers;
        if ((!sync_drops(sync) || part->sum->arrived[peer]) &&
            answer(sync, part, what, iteration, peer))
            return -1;
    }
    return 0;
}

/* Gives the values to the worker on this rank, without a message. */
static int answer_own(struct sync *sync, struct home_part *part, int64_t iteration)
{
    const struct home_sum *sum = part->sum;

    if (sum->own_values)
        memcpy(gradient_values(sync, part->chunk, iteration), sum->values,
               chunk_of(sync, part->chunk)->elems * sizeof(float));
    return values_came(sync, part, iteration);
}

/* Adds a worker's gradient to its iteration's sum. True if complete, without the `drop` latest. */
static bool add_worker(struct sync *sync, struct home_part *part, int worker)
{
    struct home_sum *sum = part->sum;
    const struct plan *plan = sync->plan;
    int first = (int)(sum->iteration % sum->depth) * plan->nworkers;
    size_t elems = chunk_of(sync, part->chunk)->elems;
    float *x = sum->from[first + worker];

    for (int b = plan->first_branch[worker]; b < plan->first_branch[worker + 1]; b++, x += elems)
        tree_sum_give_block(&sum->tree, plan->branches[b].begin, plan->branches[b].level, x);
    if (--sum->missing > plan->options.drop)
        return false;
    for (int w = 0; sum->missing > 0; w++)
        if (!sum->arrived[first + w]) {
            tree_sum_omit(&sum->tree, w);
            sum->missing--;
        }
    sum->sum = tree_sum_result(&sum->tree);
    return true;
}

/* Begins the next iteration; adds the gradients that came early. */
static void begin_iteration(struct sync *sync, struct home_part *part)
{
    struct home_sum *sum = part->sum;
    int workers = sync->plan->nworkers, slot = (int)(sum->iteration % sum->depth);

    sum->sum = NULL;
    sum->cleared = !sync_clips(sync);
    if (!sum->arrived)
        return;
    tree_sum_begin(&sum->tree, chunk_of(sync, part->chunk)->elems, NULL);
    sum->missing = workers;
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

/* Sends the updated parameters to the workers, and gives them to the worker on this rank. */
static int publish_values(struct sync *sync, struct home_part *part)
{
    struct home_sum *sum = part->sum;
    int64_t iteration = sum->iteration;
    bool drop = sync_drops(sync), own;

    assert(sum->sum && sum->cleared && !sum->updating && *sends_of(sync, part, sum->values) == 0);
    if (send_back(sync, part, sum->values, iteration))
        return -1;
    own = sync->worker && (!drop || sum->arrived[sync->rank]);
    end_iteration(sync, sum);
    begin_iteration(sync, part);
    if (own && answer_own(sync, part, iteration))
        return -1;
    if (!drop && *sends_of(sync, part, sum->values) > 0)
        return 0;
    sync_count_served(sync);
    return sum->sum ? home_summed(sync, part->chunk, sum->sum) : 0; /* next gradients came early */
}

/* Applies the rule on the host. */
static int update_on_host(struct sync *sync, struct home_part *part)
{
    struct home_sum *sum = part->sum;

    sum->weight = bucket_weight(sync, sum->sum, sum->values, chunk_of(sync, part->chunk)->elems);
    return history_update_chunk(sync, part->chunk, sum->iteration, sum->values, sum->sum,
                                &part->history, DEVICE_IN_TURN);
}

/* A helper's inputs do not change during the update: the home uses the next iteration's sum, and so
 * learns its norm, only after the update. */
int home_help(void *context, uint64_t chunk)
{
    return update_on_host(context, home_part_of(context, (int)chunk));
}

static int update_values(struct sync *sync, struct home_part *part)
{
    enum { FEWEST = 16384 }; /* 64 kB: smaller updates are not worth waking a helper */
    struct home_sum *sum = part->sum;
    const struct chunk *c = chunk_of(sync, part->chunk);
    int64_t start = trace_begin(sync->options.trace);

    if (gradient_serves_on_device(sync) && !sync->clip.skips) {
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

/* Sends the sum back, as floats or encoded, and takes the values here that other workers get.
 * Copies the sum out of the workers' buffers, which the next gradients may fill before the sends
 * end. */
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
    decode(sync, part->chunk, part->encoded, part->total);
    end_iteration(sync, sum);
    begin_iteration(sync, part);
    if (send_back(sync, part, part->encoded ? part->encoded : total, iteration))
        return -1;
    part->back = iteration + 1;
    if (sync_clips(sync) && clip_chunk_ready(sync, part->chunk, total, sync->values + c->begin))
        return -1;
    return take_sum(sync, part);
}

/* Finds a copy of the values that no send may still read, and makes it the copy to be updated;
 * false if sends read all copies. Values and sums may not change during a send. */
static bool find_values(struct sync *sync, struct home_part *part)
{
    struct home_sum *sum = part->sum;
    size_t elems = chunk_of(sync, part->chunk)->elems;
    int free = 0;

    if (*sends_of(sync, part, sum->values) == 0)
        return true;
    while (free < sum->copies && sum->sends[free] > 0)
        free++;
    if (free == sum->copies)
        return false;
    memcpy(sum->own_values + (size_t)free * elems, sum->values, elems * sizeof(float));
    sum->values = sum->own_values + (size_t)free * elems;
    return true;
}

static int try_publish(struct sync *sync, struct home_part *part)
{
    struct home_sum *sum = part->sum;
    bool updates = home_of(sync, part->chunk)->updates;

    if (!sum->sum || sum->updating || (updates && !sum->cleared) || !find_values(sync, part))
        return 0;
    return updates ? update_values(sync, part) : publish_sum(sync, part);
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

/* Drops a gradient of a closed iteration. If the update is under way, the worker waits for the
 * update; else it gets the newest values at once. */
static int drop_gradient(struct sync *sync, struct home_part *part, int worker)
{
    struct home_sum *sum = part->sum;

    sync->stats.dropped[worker]++;
    sum->arrived[worker] = sum->sum != NULL;
    if (sum->sum)
        return 0;
    return worker == sync->rank ? answer_own(sync, part, sum->iteration - 1)
                                : answer(sync, part, sum->values, sum->iteration - 1, worker);
}

/* Takes a worker's gradient of that iteration; own: this rank's gradient, else NULL. */
static int home_arrive(struct sync *sync, struct home_part *part, int worker, int64_t iteration,
                       void *own)
{
    struct home_sum *sum = part->sum;
    int place = (int)(iteration % sum->depth) * sync->plan->nworkers + worker;
    const void *encoded = own ? own : sum->encoded ? sum->encoded[place] : NULL;

    assert(!sum->arrived[place]);
    decode(sync, part->chunk, encoded, sum->from[place]);
    if (!sum->encoded && own)
        sum->from[place] = own;
    if (sync_drops(sync) && (iteration < sum->iteration || sum->sum))
        return drop_gradient(sync, part, worker);
    assert(iteration >= sum->iteration);
    sum->arrived[place] = 1;
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
    /* largest lateness that a tag can express */
    int64_t late = sync_drops(sync) ? sync->tag_period - 1 : 0;
    int64_t iteration = sum ? tag_iteration(sync, arrival, sum->iteration - late) : 0;
    int64_t end = sum && sum->arrived ? sum->iteration + sum->depth : 0;
    size_t sums =
        arrival->peer < sync->plan->nworkers ? (size_t)plan_branches(sync->plan, arrival->peer) : 1;
    int place;

    if (arrival_check(sync, arrival, iteration, end,
                      plan_gradient_bytes(sync->plan, arrival->chunk) * sums))
        return -1;
    place = (int)(iteration % sum->depth) * sync->plan->nworkers + arrival->peer;
    if (arrival->peer >= sync->plan->nworkers || sum->arrived[place] ||
        iteration < sync->options.iteration)
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
    int64_t end = !expected ? 0 : sync_drops(sync) ? INT64_MAX : state->started;

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

static int send_home(struct sync *sync, int chunk, int64_t iteration, const float *gradient)
{
    double weight =
        bucket_weight(sync, gradient, gradient_newest(sync, chunk), chunk_of(sync, chunk)->elems);

    return bucket_send_chunk(sync, chunk, false, iteration, gradient, plan_home(sync->plan, chunk),
                             weight, bucket_message_over);
}

int home_go_on(struct sync *sync, int bucket, int64_t iteration, int piece)
{
    struct home *home = sync->buckets[bucket].scheme_state;
    int begin, end;

    bucket_piece(sync, bucket, piece, &begin, &end);
    for (int i = begin; i < end; i++) {
        struct home_part *part = &home->parts[(home->first + i) % home->nparts];
        void *message;

        if (!part->leads)
            continue;
        message = gradient_message(sync, part->chunk, iteration);
        if (part->tree  ? home_tree_post(sync, part->tree, message)
            : part->sum ? home_arrive(sync, part, sync->rank, iteration, message)
                        : send_home(sync, part->chunk, iteration, message))
            return -1;
    }
    return 0;
}

int home_post(struct sync *sync, int bucket, int64_t iteration)
{
    struct home *home = sync->buckets[bucket].scheme_state;
    int waits = 0;

    /* per chunk: 1 end at its home, else 2: the gradient sent, the answer received */
    for (int i = 0; i < home->nparts; i++)
        waits += home->parts[i].leads ? home->parts[i].sum ? 1 : 2 : 0;
    bucket_expect(sync, bucket, iteration, waits);
    sync->buckets[bucket].newest = INT64_MAX;
    return home_go_on(sync, bucket, iteration, 0);
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
