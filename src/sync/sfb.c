/* Sufficient factor broadcasting (Xie et al., "Lighter-Communication Distributed Machine Learning
 * via Sufficient Factor Broadcasting", UAI'16): each worker sends its factors (factors.h) to all
 * others instead of m*n numbers; every worker rebuilds the same sum and applies the rule itself. */
#include "plan/cost.h"
#include "sync/factors.h"
#include "sync/history.h"
#include "sync/sync_internal.h"

#include <stdlib.h>

/* ---- the plan ---- */

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static struct traffic count_traffic(const struct plan *plan, int bucket, int leader)
{
    uint64_t others = (uint64_t)plan->nworkers - 1, mine, all;

    if (leader >= plan->nworkers)
        return (struct traffic){0};
    mine = plan_factor_bytes(plan, bucket, leader);
    all = plan_factor_bytes(plan, bucket, -1);
    return (struct traffic){.sent = times(others, mine),
                            .received = all == UINT64_MAX ? times(others, mine) : all - mine,
                            .messages = others};
}

/* Everybody's factors of two iterations: those of the next may come while these are used. */
static uint64_t count_memory(const struct plan *plan, int bucket, int leader)
{
    return leader < plan->nworkers ? times(2, plan_factor_bytes(plan, bucket, -1)) : 0;
}

static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{
    double bytes = (double)plan->buckets[bucket].elems * sizeof(float);

    out->trips = plan->nworkers > 1 ? 1 : 0;
    out->pieces = 1;
    out->compute_seconds = cost_stage_seconds(cluster, plan, bucket) +
                           cost_rebuild_seconds(cluster, plan, bucket) +
                           cost_engine_update_seconds(cluster, bytes);
}

/* ---- steps ----
 *
 * There are two slots of rows: a worker that is ahead by one iteration finds the second one free,
 * since it got this rank's rows of the running iteration only after this rank was done with the one
 * before.
 *
 * Where each worker has many rows, the product is taken worker by worker, while the rows of the
 * later ones are on their way; in the order of ranks, so that the sum has the same bits everywhere.
 */

/* Every further product reads and writes the whole gradient again: with fewer rows a worker that
 * costs more than there is to hide (tests/bench/RESULTS.md). */
enum { ROWS_WORTH_A_PRODUCT = 128 };

struct sfb {
    struct factors factors;
    struct history history;
    bool by_worker;           /* products are taken worker by worker */
    bool *here[2];            /* per slot and worker: its rows are here and not yet in `in_order` */
    _Atomic int64_t in_order; /* iteration * workers + how many workers in a row have theirs here */
};

static int sfb_open(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    size_t workers = (size_t)sync->plan->nworkers;
    struct sfb *sfb;

    if (!sync->worker)
        return 0;
    sfb = sync->buckets[bucket].own = calloc(1, sizeof *sfb);
    if (!sfb || !(sfb->here[0] = calloc(2 * workers, sizeof *sfb->here[0])))
        return error_memory(2 * workers * sizeof *sfb->here[0], "sufficient factors");
    sfb->here[1] = sfb->here[0] + workers;
    atomic_init(&sfb->in_order, sync->options.iteration * sync->plan->nworkers);
    if (history_open(sync, b->name, b->elems, true, &sfb->history) ||
        factors_open(sync, bucket, false, &sfb->factors))
        return -1;
    sfb->by_worker = gradient_on_host(sync) && sfb->factors.rows_each >= ROWS_WORTH_A_PRODUCT;
    return 0;
}

static void sfb_close(struct sync *sync, int bucket)
{
    struct sfb *sfb = sync->buckets[bucket].own;

    if (!sfb)
        return;
    factors_close(sync, &sfb->factors);
    history_close(sync, &sfb->history);
    free(sfb->here[0]);
    free(sfb);
    sync->buckets[bucket].own = NULL;
}

/* The slot's rows were sent two iterations ago, and those sends are over. */
static int sfb_stage(struct sync *sync, int bucket, int micro)
{
    struct sync_bucket *state = &sync->buckets[bucket];
    struct sfb *sfb = state->own;

    return factors_stage(sync, bucket, &sfb->factors, (int)(state->posted & 1), micro);
}

/* A worker's rows of the running iteration, or of the next, are here. */
static void sfb_take(struct sync *sync, int bucket, int worker, int slot)
{
    struct sfb *sfb = sync->buckets[bucket].own;
    int64_t iteration = sync->buckets[bucket].running - 1, count;

    sfb->here[slot][worker] = true;
    if (slot != (int)(iteration & 1))
        return;
    count = atomic_load(&sfb->in_order) - iteration * sync->plan->nworkers;
    for (; count < sync->plan->nworkers && sfb->here[slot][count]; count++)
        sfb->here[slot][count] = false;
    atomic_store_explicit(&sfb->in_order, iteration * sync->plan->nworkers + count,
                          memory_order_release);
    if (sfb->by_worker)
        wire_wake(sync->wire);
}

static int sfb_finish_one(struct sync *sync, int bucket, int64_t iteration)
{
    struct sync_bucket *state = &sync->buckets[bucket];
    struct sfb *sfb = state->own;

    if (state->pending[0] == 1 && factors_store(sync, bucket, &sfb->factors, (int)(iteration & 1)))
        return -1;
    return bucket_finish_one(sync, bucket, iteration);
}

static int sfb_sent(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int chunk = message->tag / 2 % sync->plan->nchunks;

    return sfb_finish_one(sync, chunk_of(sync, chunk)->bucket, (int64_t)message->user);
}

static int sfb_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int bucket = chunk_of(sync, message->tag / 2 % sync->plan->nchunks)->bucket;
    int64_t iteration = (int64_t)message->user;

    sfb_take(sync, bucket, leader_of(sync, message), (int)(iteration & 1));
    if (iteration >= sync->buckets[bucket].running)
        return 0; /* this rank has not come to it */
    return sfb_finish_one(sync, bucket, iteration);
}

/* Of the running iteration (or, before this rank has posted it, the next) and the one after. */
static int sfb_accept(struct sync *sync, const struct arrival *arrival, struct wire_message *out)
{
    const struct sync_bucket *state = &sync->buckets[arrival->bucket];
    const struct sfb *sfb = state->own;
    int64_t iteration = tag_iteration(sync, arrival, state->complete);
    int64_t end =
        sfb && !arrival->back && arrival->peer < sync->plan->nworkers ? state->complete + 2 : 0;

    if (arrival_check(sync, arrival, iteration, end,
                      factors_bytes(sync, arrival->bucket, arrival->peer)))
        return -1;
    out->buffer = factors_rows(&sfb->factors, arrival->peer, (int)(iteration & 1));
    out->done = sfb_came;
    out->user = (uint64_t)iteration;
    return 0;
}

static int sfb_post(struct sync *sync, int bucket, int64_t iteration)
{
    struct sfb *sfb = sync->buckets[bucket].own;
    int chunk = bucket_of(sync, bucket)->first_chunk, slot = (int)(iteration & 1);
    int workers = sync->plan->nworkers, waits = 2 * (workers - 1) + 1;

    for (int w = 0; w < workers; w++)
        waits -= sfb->here[slot][w]; /* came before this rank was so far */
    bucket_expect(sync, bucket, iteration, waits);
    sfb_take(sync, bucket, sync->rank, slot);
    /* everybody starts with the rank after its own: no receiver gets all at once */
    for (int i = 1; i < workers; i++)
        if (bucket_send(
                sync, bucket,
                (struct wire_message){.buffer = factors_rows(&sfb->factors, sync->rank, slot),
                                      .bytes = factors_bytes(sync, bucket, sync->rank),
                                      .peer = (sync->rank + i) % workers,
                                      .tag = tag_of(sync, false, chunk, iteration),
                                      .done = sfb_sent,
                                      .user = (uint64_t)iteration}))
            return -1;
    return sfb_finish_one(sync, bucket, iteration); /* this rank's own */
}

static int sfb_ahead(struct sync *sync, int bucket, int64_t iteration)
{
    struct sfb *sfb = sync->buckets[bucket].own;
    const struct bucket *b = bucket_of(sync, bucket);
    int64_t first = iteration * sync->plan->nworkers;

    for (int w = 0; sfb->by_worker && w < sync->plan->nworkers - 1; w++) {
        int64_t start;
        if (compute_wait(sync, &sfb->in_order, first + w + 1, bucket))
            return -1;
        start = trace_begin(sync->options.trace);
        if (factors_product(sync, bucket, &sfb->factors, (int)(iteration & 1), w, w + 1,
                            sync->model.engine_grads + b->begin))
            return -1;
        trace_span(sync->options.trace, TRACE_COMPUTE, TRACE_UPDATE, b->layer, start);
    }
    return 0;
}

static int sfb_rebuild(struct sync *sync, int bucket, int64_t iteration)
{
    struct sfb *sfb = sync->buckets[bucket].own;

    return gradient_order(sync, bucket) ||
                   factors_rebuild(sync, bucket, &sfb->factors, (int)(iteration & 1),
                                   sfb->by_worker ? sync->plan->nworkers - 1 : 0,
                                   sync->model.engine_grads + bucket_of(sync, bucket)->begin)
               ? -1
               : 0;
}

static int sfb_settle(struct sync *sync, int bucket, int64_t iteration)
{
    struct sfb *sfb = sync->buckets[bucket].own;

    return history_apply_bucket(sync, bucket, iteration, sync->scale * sync->clip.scale,
                                &sfb->history, ENGINE_IN_TURN);
}

static int sfb_history(struct sync *sync, int chunk, struct history_view *out)
{
    const struct chunk *c = chunk_of(sync, chunk);
    struct sfb *sfb = sync->buckets[c->bucket].own;
    float *blocks;

    *out = (struct history_view){.blocks = NULL};
    if (!sfb)
        return 0;
    if (!(blocks = history_read(sync, &sfb->history)))
        return -1;
    *out = (struct history_view){.blocks = blocks + (c->begin - bucket_of(sync, c->bucket)->begin),
                                 .stride = sfb->history.elems,
                                 .whole = true};
    return 0;
}

static int sfb_restore(struct sync *sync, int bucket)
{
    struct sfb *sfb = sync->buckets[bucket].own;

    return sfb ? history_restore(sync, &sfb->history) : 0;
}

static int sfb_describe_wait(const struct sync *sync, int bucket, char *text, size_t bytes)
{
    const struct sync_bucket *state = &sync->buckets[bucket];
    const struct sfb *sfb = state->own;
    int64_t running = state->running - 1;
    int64_t have = sfb ? atomic_load(&sfb->in_order) - running * sync->plan->nworkers : 0;

    if (!sfb || have < 0 || have >= sync->plan->nworkers)
        return 0;
    describe_one(sync, text, bytes, true, "the factors of", bucket,
                 plan_rank(sync->plan, (int)have, bucket_of(sync, bucket)->first_chunk));
    return 1;
}

static const struct scheme_steps steps_sfb = {
    .open = sfb_open,
    .close = sfb_close,
    .stage = sfb_stage,
    .post = sfb_post,
    .accept = sfb_accept,
    .ahead = sfb_ahead,
    .rebuild = sfb_rebuild,
    .settle = sfb_settle,
    .history = sfb_history,
    .restore = sfb_restore,
    .describe_wait = sfb_describe_wait,
    .everywhere = true,
    .stays = true,
};

const struct scheme scheme_sfb = {
    .name = "sfb",
    .label = "SFB",
    .help = "sufficient factors of fully connected layers to all",
    .home = HOME_NOBODY,
    .factors = true,
    .lossless = true,
    .traffic = count_traffic,
    .memory = count_memory,
    .cost = estimate,
    .steps = &steps_sfb,
};
