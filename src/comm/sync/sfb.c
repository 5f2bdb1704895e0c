/* Sufficient factor broadcasting (Xie et al., "Lighter-Communication Distributed Machine Learning
 * via Sufficient Factor Broadcasting", UAI'16): each worker sends its factors (factors.h) to all
 * others instead of m*n numbers; every worker rebuilds the same sum and applies the rule itself. */
#include "plan/cost.h"
#include "sync/factors.h"
#include "sync/history.h"
#include "sync/sync_internal.h"
#include "plan/for_schemes.h"

#include <assert.h>
#include <string.h>

/* ---- the plan ---- */

static struct traffic count_traffic(const struct plan *plan, int bucket, int leader)
{
    uint64_t others = (uint64_t)plan->nworkers - 1, mine, all;

    if (leader >= plan->nworkers)
        return (struct traffic){0};
    mine = plan_factor_bytes(plan, bucket, leader);
    all = plan_factor_bytes(plan, bucket, -1);
    return (struct traffic){.sent = plan_times(others, mine),
                            .received = all == UINT64_MAX ? plan_times(others, mine) : all - mine,
                            .messages = others * (uint64_t)plan->buckets[bucket].rounds *
                                        (uint64_t)plan->buckets[bucket].slices};
}

/* Returns the bytes of all workers' factors of two rounds, since rows of the next round may come
 * during a round; with several rounds in an iteration, also of this rank's factors of all rounds.
 */
static uint64_t count_memory(const struct plan *plan, int bucket, int leader)
{
    const struct bucket *b = &plan->buckets[bucket];
    uint64_t room = plan_factor_room(plan, bucket), row = (uint64_t)(b->m + b->n) * room;

    if (leader >= plan->nworkers)
        return 0;
    if (b->rounds == 1)
        return plan_times(2 * room, plan_factor_elems(plan, bucket, -1));
    return row * ((uint64_t)plan_most_rows(plan, bucket) +
                  2 * (uint64_t)plan->nworkers * (uint64_t)plan_round_rows(plan, bucket));
}

static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{
    double bytes = (double)plan->buckets[bucket].elems * sizeof(float);
    int rounds = plan->buckets[bucket].rounds;

    out->sum_seconds = cost_decode_seconds(cluster, plan, bucket);
    out->compute_seconds =
        cost_stage_seconds(cluster, plan, bucket) + cost_rebuild_seconds(cluster, plan, bucket) +
        cost_device_update_seconds(cluster, bytes) +
        (rounds - 1) * bytes /
            cluster->sum_Bps; /* each product adds to the sum of the earlier rounds */
}

/* ---- steps ----
 *
 * Rounds are numbered through all iterations. An iteration has one round, or as many as keep the
 * rows of all workers within the plan's memory bound. There are two slots of rows; a round's slot
 * is its number modulo 2. A worker sends its rows of a round when it has multiplied the round
 * before. So a worker that sends round h has all workers' rows of h - 1, and all workers had
 * multiplied h - 2 before they sent these: the slot of h is free everywhere, and a worker may send
 * without asking the receiver. Rounds of one iteration advance as the compute thread multiplies: at
 * the posts of other layers during backward, or else when forward waits for the parameters.
 *
 * Rows travel in slices (struct bucket.slices), each sent to every worker before the next slice. A
 * receiver matches a worker's slices in the order of sending; they may complete in any order.
 *
 * Where each worker has many rows, products are taken worker by worker, in the order of ranks,
 * while the rows of later workers are on their way. The sum adds rounds in order, and a round's
 * product covers all workers in the order of ranks: the same bits everywhere, in any order of
 * arrival. The plan decides the number of rounds, so another plan's last bits may differ. */

/* Fewest rows of a worker that are worth their own product: each product reads and writes the whole
 * gradient again, and with fewer rows that costs more than it can hide (tests/bench/RESULTS.md). */
enum { ROWS_WORTH_A_PRODUCT = 128 };

struct sfb {
    struct history history; /* first member: history.c finds it here */
    struct factors factors;
    bool by_worker;     /* products are taken worker by worker */
    int64_t multiplied; /* rounds multiplied (compute thread) */
    int64_t round;      /* latest round that this rank has sent */
    struct peer {
        int64_t round; /* round of the next slice */
        int slice;     /* number of the next slice */
        struct {
            bool here;  /* the slot's rows are here and not yet in `in_order` */
            int slices; /* slices that are here */
        } slot[2];
    } * peers;                /* per worker */
    _Atomic int64_t in_order; /* round * workers + number of workers 0, 1, ... whose rows are here,
                                 without a gap */
};

static int sfb_open(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    size_t workers = (size_t)sync->plan->nworkers;
    struct sfb *sfb = sync->buckets[bucket].scheme_state;

    if (OWN(&sync->owner, sfb->peers, workers, "sufficient factors"))
        return -1;
    sfb->multiplied = sync->options.iteration * b->rounds;
    sfb->round = sfb->multiplied - 1;
    for (size_t w = 0; w < workers; w++)
        sfb->peers[w].round = sfb->multiplied;
    atomic_init(&sfb->in_order, sfb->multiplied * sync->plan->nworkers);
    if (history_open(sync, b->name, b->elems, true, &sfb->history) ||
        factors_open(sync, bucket, false, &sfb->factors))
        return -1;
    sfb->by_worker =
        gradient_on_host(sync) && b->rounds == 1 && sfb->factors.rows_each >= ROWS_WORTH_A_PRODUCT;
    return 0;
}

/* Stages the factors. The slot's last sends, one or two iterations ago, are over. */
static int sfb_stage(struct sync *sync, int bucket, int micro)
{
    struct sync_bucket *state = &sync->buckets[bucket];
    struct sfb *sfb = state->scheme_state;

    return factors_stage(sync, bucket, &sfb->factors, (int)(state->posted & 1), micro);
}

/* ---- wire thread ---- */

/* Takes a worker's rows of the running round, or of the next. */
static int sfb_take(struct sync *sync, int bucket, int worker, int slot)
{
    struct sfb *sfb = sync->buckets[bucket].scheme_state;
    int64_t workers = sync->plan->nworkers, count;

    assert(!sfb->peers[worker].slot[slot].here);
    sfb->peers[worker].slot[slot].here = true;
    if (slot != (int)(sfb->round & 1))
        return 0;
    count = atomic_load(&sfb->in_order) - sfb->round * workers;
    assert(0 <= count && count <= workers);
    for (; count < workers && sfb->peers[count].slot[slot].here; count++)
        sfb->peers[count].slot[slot].here = false;
    if (sfb->factors.rounds > 1 && count == workers &&
        factors_store(sync, bucket, &sfb->factors, slot))
        return -1;
    atomic_store_explicit(&sfb->in_order, sfb->round * workers + count, memory_order_release);
    if (sfb->by_worker || sfb->factors.rounds > 1)
        wire_wake(sync->wire);
    return 0;
}

static int sfb_finish_one(struct sync *sync, int bucket, int64_t iteration)
{
    struct sync_bucket *state = &sync->buckets[bucket];
    struct sfb *sfb = state->scheme_state;

    if (state->pending[0] == 1 && sfb->factors.rounds == 1 &&
        factors_store(sync, bucket, &sfb->factors, (int)(iteration & 1)))
        return -1;
    return bucket_finish_one(sync, bucket, iteration);
}

static int sfb_sent(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int bucket = chunk_of(sync, message_chunk(sync, message))->bucket;

    return sfb_finish_one(sync, bucket, (int64_t)message->user / bucket_of(sync, bucket)->rounds);
}

static size_t elems_of(const struct sync *sync, int bucket, int worker, int64_t round)
{
    const struct sfb *sfb = sync->buckets[bucket].scheme_state;

    return factors_round_elems(sync, bucket, &sfb->factors, worker,
                               (int)(round % sfb->factors.rounds));
}

/* Clears the rest of the buffer of a worker with fewer rows than others: it may hold rows of an
 * older round. */
static void blank_rest(const struct sfb *sfb, int worker, int slot, size_t elems)
{
    float *place = factors_rows(&sfb->factors, worker, slot);
    size_t all = sfb->factors.round_each;

    if (sfb->factors.rounds > 1 && elems < all)
        memset(place + elems, 0, (all - elems) * sizeof *place);
}

static int sfb_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int bucket = chunk_of(sync, message_chunk(sync, message))->bucket;
    struct sfb *sfb = sync->buckets[bucket].scheme_state;
    int slot = (int)(message->user & 1), worker = leader_of(sync, message);
    int64_t iteration = (int64_t)message->user / sfb->factors.rounds;
    int *came = &sfb->peers[worker].slot[slot].slices;
    size_t elems = elems_of(sync, bucket, worker, (int64_t)message->user);

    if (++*came < bucket_of(sync, bucket)->slices)
        return 0;
    *came = 0;
    factors_decode(&sfb->factors, factors_rows(&sfb->factors, worker, slot), elems);
    blank_rest(sfb, worker, slot, elems);
    if (sfb_take(sync, bucket, worker, slot))
        return -1;
    if (iteration >= sync->buckets[bucket].started)
        return 0; /* this rank has not posted the iteration */
    return sfb_finish_one(sync, bucket, iteration);
}

/* Accepts a slice of the running round or the next. A worker's rounds, and the slices of each, come
 * in order. */
static int sfb_accept(struct sync *sync, const struct arrival *arrival, struct wire_message *out)
{
    const struct sync_bucket *state = &sync->buckets[arrival->bucket];
    const struct bucket *b = bucket_of(sync, arrival->bucket);
    struct sfb *sfb = state->scheme_state;
    struct peer *peer = NULL;
    int64_t iteration = tag_iteration(sync, arrival, state->complete), round = 0;
    bool wanted = sfb && !arrival->back && arrival->peer < sync->plan->nworkers;
    size_t all, begin = 0, end = 0;

    if (wanted) {
        peer = &sfb->peers[arrival->peer];
        round = peer->round;
        wanted = round <= sfb->round + 1 && round / sfb->factors.rounds == iteration;
        all = elems_of(sync, arrival->bucket, arrival->peer, round);
        begin = plan_slice_begin(b, all, peer->slice);
        end = plan_slice_begin(b, all, peer->slice + 1);
        assert(peer->slice < b->slices && begin <= end);
    }
    if (arrival_check(sync, arrival, iteration, wanted ? iteration + 1 : 0,
                      (end - begin) * plan_factor_size(sync->plan, arrival->bucket)))
        return -1;
    peer->slice = (peer->slice + 1) % b->slices;
    peer->round += peer->slice == 0;
    out->buffer = factors_message(
        &sfb->factors, factors_rows(&sfb->factors, arrival->peer, (int)(round & 1)) + begin);
    out->done = sfb_came;
    out->user = (uint64_t)round;
    return 0;
}

/* Sends a slice to all workers, the next rank first: no receiver gets all slices at once. */
static int send_slice(struct sync *sync, int bucket, float *rows, size_t elems, int64_t round)
{
    int workers = sync->plan->nworkers;
    const struct bucket *b = bucket_of(sync, bucket);
    int64_t iteration = round / b->rounds;
    const struct sfb *sfb = sync->buckets[bucket].scheme_state;
    struct wire_message message = {.buffer = factors_message(&sfb->factors, rows),
                                   .bytes = elems * plan_factor_size(sync->plan, bucket),
                                   .tag = tag_of(sync, false, b->first_chunk, iteration),
                                   .done = sfb_sent,
                                   .user = (uint64_t)round};

    for (int i = 1; i < workers; i++) {
        message.peer = (sync->rank + i) % workers;
        if (bucket_send(sync, bucket, iteration, message))
            return -1;
    }
    return 0;
}

/* Sends this rank's rows of the next round to all other workers. */
static int start_round(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct sfb *sfb = sync->buckets[bucket].scheme_state;
    const struct factors *factors = &sfb->factors;
    int64_t round = ++sfb->round, iteration = round / factors->rounds;
    int part = (int)(round % factors->rounds), slot = (int)(round & 1);
    size_t elems = elems_of(sync, bucket, sync->rank, round);
    float *rows = factors_own(factors, slot) + (size_t)part * factors->round_each;

    factors_encode(factors, rows, elems);
    if (factors->rounds > 1) {
        memcpy(factors_rows(factors, sync->rank, slot), rows, elems * sizeof *rows);
        blank_rest(sfb, sync->rank, slot, elems);
    }
    if (sfb_take(sync, bucket, sync->rank, slot))
        return -1;
    for (int s = 0; s < b->slices; s++) {
        size_t begin = plan_slice_begin(b, elems, s);
        if (send_slice(sync, bucket, rows + begin, plan_slice_begin(b, elems, s + 1) - begin,
                       round))
            return -1;
    }
    return sfb_finish_one(sync, bucket, iteration); /* this rank's own rows */
}

static int sfb_post(struct sync *sync, int bucket, int64_t iteration)
{
    struct sfb *sfb = sync->buckets[bucket].scheme_state;
    int slot = (int)(iteration * sfb->factors.rounds & 1), workers = sync->plan->nworkers;
    int slices = bucket_of(sync, bucket)->slices;
    int waits =
        sfb->factors.rounds * ((slices + 1) * (workers - 1) + 1); /* each slice is also sent */

    for (int w = 0; w < workers; w++)
        waits -= sfb->peers[w].slot[slot].here; /* rows that came early */
    bucket_expect(sync, bucket, iteration, waits);
    return start_round(sync, bucket);
}

static int send_next(void *context, int64_t bucket)
{
    return start_round(context, (int)bucket);
}

/* ---- compute thread ---- */

/* Multiplies the next round, whose rows are all here, and starts the sends of the round after it.
 */
static int multiply_round(struct sync *sync, int bucket)
{
    struct sfb *sfb = sync->buckets[bucket].scheme_state;
    const struct bucket *b = bucket_of(sync, bucket);
    const struct device *device = sync->model.device;
    float *gradient = sync->model.device_grads + b->begin, first;
    int64_t start = trace_begin(sync->options.trace);

    if (gradient_order(sync, bucket) ||
        factors_rebuild(sync, bucket, &sfb->factors, (int)(sfb->multiplied & 1), 0,
                        sfb->multiplied % b->rounds > 0, gradient))
        return -1;
    /* reading a float waits for a device's product: then new rows may replace the product's rows */
    if (!gradient_on_host(sync) && device->i->read(device->context, gradient, &first, 1))
        return -1;
    sfb->multiplied++;
    wire_call(sync->wire, send_next, sync, bucket);
    trace_span(sync->options.trace, TRACE_COMPUTE, TRACE_UPDATE, b->layer, start);
    return 0;
}

/* True if there are rounds to multiply before the last posted round. */
static bool has_rounds(const struct sync *sync, int bucket)
{
    const struct sync_bucket *state = &sync->buckets[bucket];
    const struct sfb *sfb = state->scheme_state;

    return sfb && state->posted > state->applied &&
           sfb->multiplied < state->posted * sfb->factors.rounds - 1;
}

static int sfb_advance(struct sync *sync, int bucket)
{
    struct sfb *sfb = sync->buckets[bucket].scheme_state;
    int64_t workers = sync->plan->nworkers;

    while (has_rounds(sync, bucket) && atomic_load_explicit(&sfb->in_order, memory_order_acquire) >=
                                           (sfb->multiplied + 1) * workers)
        if (multiply_round(sync, bucket))
            return -1;
    return 0;
}

static int sfb_ahead(struct sync *sync, int bucket, int64_t iteration)
{
    struct sfb *sfb = sync->buckets[bucket].scheme_state;
    const struct bucket *b = bucket_of(sync, bucket);
    int64_t workers = sync->plan->nworkers, first = iteration * workers;

    while (has_rounds(sync, bucket))
        if (compute_wait(sync, &sfb->in_order, (sfb->multiplied + 1) * workers, bucket) ||
            multiply_round(sync, bucket))
            return -1;
    for (int w = 0; sfb->by_worker && w < sync->plan->nworkers - 1; w++) {
        int64_t start;
        if (compute_wait(sync, &sfb->in_order, first + w + 1, bucket))
            return -1;
        start = trace_begin(sync->options.trace);
        if (factors_product(sync, bucket, &sfb->factors, (int)(iteration & 1), w, w + 1, w > 0,
                            sync->model.device_grads + b->begin))
            return -1;
        trace_span(sync->options.trace, TRACE_COMPUTE, TRACE_UPDATE, b->layer, start);
    }
    return 0;
}

/* Multiplies the rest: the iteration's last round, of which `by_worker` leaves the last worker's
 * rows. */
static int sfb_rebuild(struct sync *sync, int bucket, int64_t iteration)
{
    struct sfb *sfb = sync->buckets[bucket].scheme_state;
    int64_t round = (iteration + 1) * sfb->factors.rounds - 1;

    sfb->multiplied = round + 1;
    return error_status(gradient_order(sync, bucket) ||
                        factors_rebuild(sync, bucket, &sfb->factors, (int)(round & 1),
                                        sfb->by_worker ? sync->plan->nworkers - 1 : 0,
                                        sfb->factors.rounds > 1,
                                        sync->model.device_grads + bucket_of(sync, bucket)->begin));
}

static const struct scheme_steps steps_sfb = {
    .state_bytes = sizeof(struct sfb),
    .open = sfb_open,
    .stage = sfb_stage,
    .post = sfb_post,
    .accept = sfb_accept,
    .ahead = sfb_ahead,
    .advance = sfb_advance,
    .rebuild = sfb_rebuild,
    .settle = history_settle,
    .history = history_view_chunk,
    .restore = history_restore_bucket,
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
