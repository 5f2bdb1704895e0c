/* Decides who sends what to whom, from the plan and the scheme's table: gradients or factors to the
 * homes of chunks and answers back, directly or along trees, or factors to all workers. */
#include "plan/tree.h"
#include "simulate/simulate_internal.h"
#include "plan/for_schemes.h"

static bool to_all(const struct bucket *bucket)
{
    return bucket->scheme && bucket->scheme->home == HOME_NOBODY;
}

/* Returns the number of slices sent to a home, which needs all factors whole to sum. */
static int parts_up(const struct bucket *bucket, const struct transfer *transfer)
{
    return bucket->scheme->factors ? 1 : transfer->slices;
}

static uint64_t cut(uint64_t bytes, int slice, int slices)
{
    return bytes * (uint64_t)(slice + 1) / (uint64_t)slices -
           bytes * (uint64_t)slice / (uint64_t)slices;
}

static int *came_of(struct simulation *s, int endpoint, struct part part)
{
    const struct transfer *u = &s->transfers[part.transfer];
    int row = s->plan->buckets[part.bucket].log_steps ? endpoint : 0;

    return &s->came[u->first_came + (row * u->slices + part.slice) * 2 + (part.iteration & 1)];
}

static void occupy_thread(struct simulation *s, int endpoint, double seconds)
{
    busy(&s->endpoints[endpoint].thread_free, s->now, seconds);
}

static uint64_t factor_bytes(const struct simulation *s, const struct endpoint *a, int bucket)
{
    uint64_t bytes = 0;

    for (int l = a->first; l < a->first + a->members; l++)
        bytes += plan_factor_bytes(s->plan, bucket, l);
    return bytes;
}

/* ---- gradients to homes, and answers ---- */

/* Returns the number of sums that the endpoint adds up: its own and its children's. */
static int tree_sums(const struct simulation *s, const struct transfer *transfer, int endpoint)
{
    int children[TREE_MOST_CHILDREN];

    return 1 + tree_children(s->nworkers, transfer->home, endpoint, children);
}

/* Returns the seconds of a tree's steps inside a block: up before its sum leaves, and at the root
 * also down, once for all blocks. */
static double inner_seconds(const struct simulation *s, const struct transfer *transfer,
                            int endpoint)
{
    double bytes = (double)transfer->gradient_bytes, messages = transfer->chunks;
    double hop;

    if (transfer->home == endpoint) {
        bytes += (double)transfer->back_bytes;
        messages *= 2;
    }
    hop =
        messages / transfer->chunks * s->cluster->latency_seconds +
        (messages * s->cluster->message_seconds + bytes / s->cluster->link_Bps) / transfer->slices;
    return hop * tree_steps(s->endpoints[endpoint].members);
}

/* Takes a gradient, or the sum of a subtree, at the endpoint that adds it up. */
static int give(struct simulation *s, int endpoint, struct part part)
{
    const struct transfer *u = &s->transfers[part.transfer];
    const struct bucket *b = &s->plan->buckets[part.bucket];
    const struct endpoint *a = &s->endpoints[endpoint];
    int *came = came_of(s, endpoint, part);
    int sums = b->log_steps ? tree_sums(s, u, endpoint) : s->nworkers;
    bool at_once = b->scheme->factors || s->options->manner.sums_late;
    double seconds = at_once ? u->work_seconds : u->work_seconds / s->nworkers / u->slices, later;

    if (!at_once)
        occupy_thread(s, endpoint, seconds / a->members);
    if (++*came < sums)
        return 0;
    *came = 0;
    if (at_once)
        occupy_thread(s, endpoint, seconds / a->members);
    /* the last arrival takes longer if its homes are fewer than the endpoint's threads */
    later =
        b->log_steps ? inner_seconds(s, u, endpoint) : seconds / u->homes - seconds / a->members;
    if (b->rank > 0) /* low rank: one message here is two with an answer between */
        later += 2 * s->cluster->latency_seconds;
    return events_put(&s->events, (struct event){.time = a->thread_free + later,
                                                 .order = EVENT_SUM,
                                                 .endpoint = endpoint,
                                                 .index = part.transfer,
                                                 .slice = part.slice,
                                                 .iteration = part.iteration});
}

static int send_gradient(struct simulation *s, int endpoint, struct part part)
{
    const struct transfer *u = &s->transfers[part.transfer];
    const struct bucket *b = &s->plan->buckets[part.bucket];
    const struct endpoint *a = &s->endpoints[endpoint];
    bool at_home = endpoint == u->home;
    uint64_t slice_bytes = cut(u->gradient_bytes, part.slice, u->slices),
             bytes = slice_bytes * (uint64_t)a->members;
    double count = (double)u->chunks / u->slices * a->members;

    if (b->scheme->factors) { /* factors go to one owner */
        bytes = factor_bytes(s, a, part.bucket);
        slice_bytes = plan_factor_bytes(s->plan, part.bucket, a->first);
        count = a->members;
    }
    if (at_home && a->members == 1)
        return give(s, endpoint, part);
    return network_send(s, &(struct message_spec){.from = endpoint,
                                                  .to = u->home,
                                                  .part = part,
                                                  .bytes = bytes - (at_home ? slice_bytes : 0),
                                                  .count = count,
                                                  .narrow = u->homes});
}

/* Sends chunk after chunk, from where training begins (plan_first_sent), or near it if several
 * chunks travel as one. */
static int send_gradients(struct simulation *s, int endpoint, int bucket, int iteration)
{
    const struct bucket *b = &s->plan->buckets[bucket];
    const struct order_entry *order = &s->order[s->buckets[bucket].order_first];
    int n = s->buckets[bucket + 1].order_first - s->buckets[bucket].order_first;
    int64_t first = plan_first_sent(s->plan, bucket, s->endpoints[endpoint].first);
    int start = (int)(first * n / b->nchunks);

    for (int i = 0; i < n; i++) {
        const struct order_entry *entry = &order[(start + i) % n];
        struct part part = {bucket, entry->transfer, entry->slice, iteration};
        if (entry->slice >= parts_up(b, &s->transfers[entry->transfer]))
            continue;
        if (b->log_steps ? give(s, endpoint, part) : send_gradient(s, endpoint, part))
            return -1;
    }
    return 0;
}

static int send_answer(struct simulation *s, int endpoint, int to, struct part part)
{
    const struct transfer *u = &s->transfers[part.transfer];
    const struct endpoint *peer = &s->endpoints[to];
    uint64_t bytes = cut(u->back_bytes, part.slice, u->slices);
    uint64_t times = (uint64_t)peer->members - (to == endpoint ? 1 : 0);

    if (times == 0)
        return passes_arrived(s, endpoint, part.bucket, part.iteration);
    return network_send(
        s, &(struct message_spec){.from = endpoint,
                                  .to = to,
                                  .part = part,
                                  .back = true,
                                  .bytes = bytes * times,
                                  .count = (double)u->chunks / u->slices * peer->members,
                                  .narrow = u->homes});
}

static int send_answers(struct simulation *s, int endpoint, struct part part)
{
    int start = endpoint < s->nworkers ? endpoint + 1 : endpoint;

    for (int i = 0; i < s->nworkers; i++)
        if (send_answer(s, endpoint, (start + i) % s->nworkers, part))
            return -1;
    return 0;
}

/* Answers everything after the last update, in the order that forward needs. */
static int send_all_answers(struct simulation *s, int iteration)
{
    s->summed = 0;
    for (int u = 0; u < s->ntransfers; u++)
        for (int slice = 0; slice < s->transfers[u].slices; slice++)
            if (send_answers(s, s->transfers[u].home,
                             (struct part){s->transfers[u].bucket, u, slice, iteration}))
                return -1;
    return 0;
}

/* ---- along trees, whose ranks are the endpoints ---- */

/* Loads a block's link with the messages that its ranks send each other between nodes. */
static void carry_inside(struct simulation *s, struct endpoint *a, uint64_t bytes, int iteration)
{
    struct link *link = &s->links[a->link];
    double seconds = (double)bytes * (a->hosts - 1) / link->rate;

    busy(&link->out_free, s->now, seconds);
    busy(&link->in_free, s->now, seconds);
    if (iteration == 0) {
        a->sent += bytes * (uint64_t)(a->members - 1);
        a->received += bytes * (uint64_t)(a->members - 1);
    }
}

static int send_along(struct simulation *s, int endpoint, int to, struct part part, bool back)
{
    const struct transfer *u = &s->transfers[part.transfer];
    uint64_t bytes = cut(back ? u->back_bytes : u->gradient_bytes, part.slice, u->slices);
    /* the block at the lower end passes the message on inside, counted with the edge */
    int inner = back ? to : endpoint;
    struct endpoint *below = &s->endpoints[inner];
    double count = (double)u->chunks / u->slices;

    carry_inside(s, below, bytes, part.iteration);
    return network_send(s, &(struct message_spec){.from = endpoint,
                                                  .to = to,
                                                  .part = part,
                                                  .back = back,
                                                  .bytes = bytes,
                                                  .count = count,
                                                  .narrow = 1});
}

static int answer_children(struct simulation *s, int endpoint, struct part part)
{
    int children[TREE_MOST_CHILDREN];
    int n = tree_children(s->nworkers, s->transfers[part.transfer].home, endpoint, children);

    for (int i = n - 1; i >= 0; i--)
        if (send_along(s, endpoint, children[i], part, true))
            return -1;
    return passes_arrived(s, endpoint, part.bucket, part.iteration);
}

static int go_up_or_answer(struct simulation *s, int endpoint, struct part part)
{
    const struct transfer *u = &s->transfers[part.transfer];
    struct endpoint *a = &s->endpoints[endpoint];
    int parent = tree_parent(s->nworkers, u->home, endpoint);

    if (parent >= 0)
        return send_along(s, endpoint, parent, part, false);
    carry_inside(s, a,
                 cut(u->gradient_bytes, part.slice, u->slices) +
                     cut(u->back_bytes, part.slice, u->slices),
                 part.iteration);
    return answer_children(s, endpoint, part);
}

/* ---- factors to all workers ---- */

static int send_slice(struct simulation *s, int endpoint, int bucket, int slice, int iteration)
{
    const struct bucket *b = &s->plan->buckets[bucket];
    const struct endpoint *a = &s->endpoints[endpoint];
    int slices = s->buckets[bucket].slices;
    uint64_t bytes = cut(factor_bytes(s, a, bucket), slice, slices);
    double each = (double)b->rounds * b->slices / slices * a->members;

    for (int i = 1; i <= s->nworkers; i++) {
        int to = (endpoint + i) % s->nworkers;
        const struct endpoint *peer = &s->endpoints[to];
        uint64_t times = (uint64_t)peer->members - (to == endpoint ? 1 : 0);
        if (times == 0) { /* no other rank at this endpoint */
            if (passes_arrived(s, endpoint, bucket, iteration))
                return -1;
            continue;
        }
        if (network_send(s,
                         &(struct message_spec){.from = endpoint,
                                                .to = to,
                                                .part = {.bucket = bucket, .iteration = iteration},
                                                .bytes = bytes * times,
                                                .count = each * (double)times,
                                                .narrow = a->hosts}))
            return -1;
    }
    return 0;
}

static int send_to_all(struct simulation *s, int endpoint, int bucket, int iteration)
{
    for (int slice = 0; slice < s->buckets[bucket].slices; slice++)
        if (send_slice(s, endpoint, bucket, slice, iteration))
            return -1;
    return 0;
}

/* Schedules work that waits for no message, such as the update of a worker without scheme. */
static int work_alone(struct simulation *s, int endpoint, int bucket, int iteration)
{
    occupy_thread(s, endpoint, s->costs[bucket].sum_seconds - s->buckets[bucket].gather);
    return schedule(s, s->endpoints[endpoint].thread_free, EVENT_WORK, endpoint, bucket, iteration);
}

/* ---- events ---- */

int traffic_post(struct simulation *s, int endpoint, int bucket, int iteration)
{
    double bytes = s->buckets[bucket].bytes_out;

    if (s->cluster->device_Bps <= 0 || bytes <= 0 || s->options->manner.copies_wait)
        return traffic_copied(s, endpoint, bucket, iteration);
    return schedule(
        s, busy(&s->endpoints[endpoint].copy_out_free, s->now, bytes / s->cluster->device_Bps),
        EVENT_COPIED, endpoint, bucket, iteration);
}

int traffic_copied(struct simulation *s, int endpoint, int bucket, int iteration)
{
    if (s->buckets[bucket].gather <= 0)
        return traffic_gathered(s, endpoint, bucket, iteration);
    occupy_thread(s, endpoint, s->buckets[bucket].gather);
    return schedule(s, s->endpoints[endpoint].thread_free, EVENT_GATHER, endpoint, bucket,
                    iteration);
}

int traffic_gathered(struct simulation *s, int endpoint, int bucket, int iteration)
{
    const struct bucket *b = &s->plan->buckets[bucket];

    if (b->scheme && s->options->manner.ring && s->plan->nworkers > 1)
        return ring_post(s, bucket, iteration);
    if (!b->scheme)
        return work_alone(s, endpoint, bucket, iteration);
    if (to_all(b))
        return error_status(send_to_all(s, endpoint, bucket, iteration) ||
                            work_alone(s, endpoint, bucket, iteration));
    return send_gradients(s, endpoint, bucket, iteration);
}

int traffic_summed(struct simulation *s, int endpoint, struct part part)
{
    const struct bucket *b = &s->plan->buckets[part.bucket];

    if (b->log_steps)
        return go_up_or_answer(s, endpoint, part);
    if (s->options->manner.sums_late)
        return ++s->summed < s->nsums ? 0 : send_all_answers(s, part.iteration);
    if (!b->scheme->factors)
        return send_answers(s, endpoint, part);
    for (part.slice = 0; part.slice < s->transfers[part.transfer].slices; part.slice++)
        if (send_answers(s, endpoint, part))
            return -1;
    return 0;
}

int traffic_arrived(struct simulation *s, const struct message_spec *m)
{
    const struct bucket *b = &s->plan->buckets[m->part.bucket];

    if (to_all(b))
        return passes_arrived(s, m->to, m->part.bucket, m->part.iteration);
    if (!m->back)
        return give(s, m->to, m->part);
    return b->log_steps ? answer_children(s, m->to, m->part)
                        : passes_arrived(s, m->to, m->part.bucket, m->part.iteration);
}
