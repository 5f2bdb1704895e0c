/* A scheme of the tests' own with steps of its own: every worker sends its whole gradient to all
 * others, adds up what came in the order of the fixed tree, and applies the rule itself. For
 * engines that work on the host's memory.
 *
 * A worker that is one iteration ahead finds a second slot; it cannot be two ahead, for it needs
 * this worker's gradient of the iteration between. */
#include <string.h>

#include "device/tree_sum.h"
#include "plan/cost.h"
#include "sync/gradient.h"
#include "sync/history.h"
#include "sync/sync_internal.h"
#include "tests/sync/fakes.h"

/* ---- the plan ---- */

static struct traffic count_traffic(const struct plan *plan, int bucket, int leader)
{
    uint64_t others = (uint64_t)plan->nworkers - 1;
    uint64_t bytes = others * plan->buckets[bucket].elems * sizeof(float);

    if (leader >= plan->nworkers)
        return (struct traffic){0};
    return (struct traffic){.sent = bytes, .received = bytes, .messages = others};
}

static uint64_t count_memory(const struct plan *plan, int bucket, int leader)
{
    uint64_t gradients = 2 * ((uint64_t)plan->nworkers - 1) + 1;

    return leader < plan->nworkers ? gradients * plan->buckets[bucket].elems * sizeof(float) : 0;
}

static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{
    double bytes = (double)plan->buckets[bucket].elems * sizeof(float);

    out->compute_seconds =
        plan->nworkers * bytes / cluster->sum_Bps + cost_update_seconds(cluster, bytes);
}

/* ---- steps ---- */

struct flood {
    struct history history; /* first member: history.c finds it here */
    float *room;            /* per slot and worker: its gradient; this rank's own stay unused */
    bool *here;             /* per slot and worker: it came, and its iteration is not over */
    float *sum;
    const float **x; /* per worker: what is added */
};

static int flood_open(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    size_t workers = (size_t)sync->plan->nworkers;
    struct flood *flood = sync->buckets[bucket].scheme_state;

    if (OWN(&sync->owner, flood->room, 2 * workers * b->elems, "gradients of all workers") ||
        OWN(&sync->owner, flood->here, 2 * workers, "gradients of all workers") ||
        OWN(&sync->owner, flood->sum, b->elems, "gradients of all workers") ||
        OWN(&sync->owner, flood->x, workers, "gradients of all workers"))
        return -1;
    return history_open(sync, b->name, b->elems, false, &flood->history);
}

static size_t place_of(const struct sync *sync, int worker, int64_t iteration)
{
    return (size_t)(iteration & 1) * (size_t)sync->plan->nworkers + (size_t)worker;
}

static int bucket_of_message(const struct sync *sync, const struct wire_message *message)
{
    return chunk_of(sync, message->tag / 2 % sync->plan->nchunks)->bucket;
}

static int flood_sent(void *context, const struct wire_message *message)
{
    struct sync *sync = context;

    return bucket_finish_one(sync, bucket_of_message(sync, message), (int64_t)message->user);
}

static int flood_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int bucket = bucket_of_message(sync, message);
    struct sync_bucket *state = &sync->buckets[bucket];
    struct flood *flood = state->scheme_state;
    int64_t iteration = (int64_t)message->user;

    flood->here[place_of(sync, leader_of(sync, message), iteration)] = true;
    return iteration < state->started ? bucket_finish_one(sync, bucket, iteration) : 0;
}

static int flood_accept(struct sync *sync, const struct arrival *arrival, struct wire_message *out)
{
    const struct sync_bucket *state = &sync->buckets[arrival->bucket];
    const struct flood *flood = state->scheme_state;
    size_t elems = bucket_of(sync, arrival->bucket)->elems;
    int64_t iteration = tag_iteration(sync, arrival, state->complete);
    size_t place = place_of(sync, arrival->peer, iteration);
    bool expected = flood && !arrival->back && arrival->peer < sync->plan->nworkers;

    if (arrival_check(sync, arrival, iteration, expected ? state->complete + 2 : 0,
                      elems * sizeof(float)))
        return -1;
    out->buffer = flood->room + place * elems;
    out->done = flood_came;
    out->user = (uint64_t)iteration;
    return 0;
}

static int flood_post(struct sync *sync, int bucket, int64_t iteration)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct flood *flood = sync->buckets[bucket].scheme_state;
    int workers = sync->plan->nworkers, waits = 2 * (workers - 1);

    for (int w = 0; w < workers; w++)
        waits -= flood->here[place_of(sync, w, iteration)]; /* before this rank was so far */
    bucket_expect(sync, bucket, iteration, waits);
    for (int i = 1; i < workers; i++)
        if (bucket_send(
                sync, bucket, iteration,
                (struct wire_message){.buffer = gradient_message(sync, b->first_chunk, iteration),
                                      .bytes = b->elems * sizeof(float),
                                      .peer = (sync->rank + i) % workers,
                                      .tag = tag_of(sync, false, b->first_chunk, iteration),
                                      .done = flood_sent,
                                      .user = (uint64_t)iteration}))
            return -1;
    return 0;
}

static int flood_rebuild(struct sync *sync, int bucket, int64_t iteration)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct flood *flood = sync->buckets[bucket].scheme_state;
    float *own = sync->model.device_grads + b->begin;

    for (int w = 0; w < sync->plan->nworkers; w++) {
        size_t place = place_of(sync, w, iteration);
        flood->x[w] = w == sync->rank ? own : flood->room + place * b->elems;
        flood->here[place] = false;
    }
    tree_sum_slices(flood->x, sync->plan->nworkers, b->elems, flood->sum);
    memcpy(own, flood->sum, b->elems * sizeof *own); /* clipping looks for it there */
    return 0;
}

static const struct scheme_steps steps_flood = {
    .state_bytes = sizeof(struct flood),
    .open = flood_open,
    .post = flood_post,
    .accept = flood_accept,
    .rebuild = flood_rebuild,
    .settle = history_settle,
    .history = history_view_chunk,
    .everywhere = true,
};

const struct scheme scheme_flood = {
    .name = "flood",
    .label = "Flood",
    .help = "every gradient to everybody",
    .home = HOME_NOBODY,
    .mergeable = true,
    .lossless = true,
    .traffic = count_traffic,
    .memory = count_memory,
    .cost = estimate,
    .steps = &steps_flood,
};
