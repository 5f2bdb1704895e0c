/* Workers' passes, the clock, and the results of a simulation. */
#include "simulate/simulate.h"

#include "simulate/simulate_internal.h"

#include "plan/tree.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define AGREEING 1e-4 /* relative difference of iterations that last equally long */

double layer_times_total(const struct layer_times *times)
{
    double total = 0;

    for (int l = 0; l < times->nlayers; l++)
        total += times->forward[l] + times->backward[l];
    return total;
}

double simulate_passes(const struct simulate_options *options, int nworkers)
{
    double slowest = options->paces ? 0 : 1;

    for (int i = 0; i < nworkers && options->paces; i++)
        slowest = fmax(slowest, options->paces[i].share / options->paces[i].speed);
    return slowest * layer_times_total(options->work);
}

/* ---- the passes ---- */

static bool has_bucket(struct simulation *s, int endpoint, int bucket)
{
    return progress_of(s, endpoint, bucket)->done >= s->endpoints[endpoint].iteration;
}

/* Returns the bucket that the next forward layer waits for; -1: none. */
static int find_awaited(struct simulation *s, int endpoint)
{
    const struct endpoint *a = &s->endpoints[endpoint];

    if (s->options->overlap == COST_OVERLAP_WFBP) {
        for (int b = s->layer_first[a->layer]; b >= 0; b = s->buckets[b].next)
            if (!has_bucket(s, endpoint, b))
                return b;
        return -1;
    }
    for (int b = 0; b < s->plan->nbuckets && a->layer == 0; b++)
        if (s->buckets[b].layer >= 0 && !has_bucket(s, endpoint, b))
            return b;
    return -1;
}

/* Returns the seconds of the layer's pass; forward includes compute_seconds of its new parameters.
 * With copies_wait, copies follow the last backward and precede the first forward. */
static double pass_seconds(const struct simulation *s, const struct endpoint *a)
{
    const struct layer_times *work = s->options->work;
    bool waits = s->options->manner.copies_wait && s->cluster->device_Bps > 0;
    double seconds;

    if (a->layer >= work->nlayers)
        return work->backward[2 * work->nlayers - 1 - a->layer] * a->stretch +
               (waits && a->layer == 2 * work->nlayers - 1 ? s->all_out / s->cluster->device_Bps
                                                           : 0);
    seconds = work->forward[a->layer] * a->stretch;
    for (int b = s->layer_first[a->layer]; b >= 0 && a->iteration > 0; b = s->buckets[b].next)
        seconds += s->costs[b].compute_seconds * a->slowness;
    if (waits && a->layer == 0 && a->iteration > 0)
        seconds += s->all_in / s->cluster->device_Bps;
    return seconds;
}

/* Computes the next layer, or begins to wait for its parameters. */
static int step(struct simulation *s, int endpoint)
{
    struct endpoint *a = &s->endpoints[endpoint];

    a->awaited = a->layer < s->options->work->nlayers ? find_awaited(s, endpoint) : -1;
    if (a->awaited >= 0) {
        a->waits_since = s->now;
        return 0;
    }
    return schedule(s, s->now + pass_seconds(s, a), EVENT_LAYER, endpoint, 0, 0);
}

static int post_layer(struct simulation *s, int endpoint, int layer)
{
    for (int b = s->layer_first[layer]; b >= 0; b = s->buckets[b].next)
        if (traffic_post(s, endpoint, b, s->endpoints[endpoint].iteration))
            return -1;
    return 0;
}

/* Posts the gradients after a layer's backward; without overlap, all after the last backward. */
static int post(struct simulation *s, int endpoint, int layer)
{
    if (s->options->overlap != COST_OVERLAP_NONE)
        return post_layer(s, endpoint, layer);
    for (int l = s->options->work->nlayers - 1; l >= 0 && layer == 0; l--)
        if (post_layer(s, endpoint, l))
            return -1;
    return 0;
}

/* Returns the iterations to measure: as many as are played in about a second, because durations
 * vary if passes wait for the network. */
static int enough_iterations(const struct simulation *s)
{
    enum { MESSAGES = 500 * 1000, LEAST = 2, MOST = 20 };
    uint64_t count = MESSAGES / (s->messages + 1);

    return count < LEAST ? LEAST : count > MOST ? MOST : (int)count;
}

/* Ends an iteration of all workers; measuring stops once iterations last equally long. */
static void end_round(struct simulation *s)
{
    enum { AGREEMENTS = 2 }; /* a single agreement may come by chance */
    double seconds = s->now - s->round_ended;
    bool measured = ++s->round > SIMULATE_WARM_UP + 1;

    s->through = 0;
    for (int i = 0; i < s->nworkers; i++)
        s->through += s->endpoints[i].iteration > s->round;
    s->agreed =
        measured && fabs(seconds - s->round_seconds) <= AGREEING * seconds ? s->agreed + 1 : 0;
    if (s->options->iterations == 0 && s->agreed >= AGREEMENTS) {
        s->iterations = s->round - SIMULATE_WARM_UP;
        s->ended = s->nworkers - 1; /* leave_layer adds the last worker */
    }
    s->round_ended = s->now;
    s->round_seconds = seconds;
}

/* Returns the seconds of a layer's sums up and down a binomial tree, as in MPI_Iallreduce. */
static double sum_seconds(const struct simulation *s, const struct layer_join *join)
{
    const struct cost_cluster *cluster = s->cluster;
    int locals = s->options->ranks_per_node, ranks = s->plan->ncomputing;
    int far = tree_steps((ranks + locals - 1) / locals);
    int near = tree_steps(ranks < locals ? ranks : locals);
    double waits = 0;

    for (int i = 0; i < s->nworkers && far > 0; i++) {
        const struct link *link = &s->links[s->endpoints[i].link];
        waits = fmax(waits, fmax(link->out_free, link->in_free) - s->now);
    }
    return waits + 2 * (join->sums * (far * cluster->latency_seconds +
                                      (far + near) * cluster->message_seconds) +
                        join->bytes * (far / cluster->link_Bps + near / cluster->local_Bps));
}

static int leave_layer(struct simulation *s, int endpoint);

/* Ends a layer's pass. The last worker to end a pass with sums releases all workers. */
static int end_layer(struct simulation *s, int endpoint)
{
    struct endpoint *a = &s->endpoints[endpoint];
    const struct layer_join *join = s->options->work->join;

    if (!join || join[a->layer].sums == 0 || s->plan->ncomputing == 1)
        return leave_layer(s, endpoint);
    a->waits_since = s->now;
    if (++s->joined < s->nworkers)
        return 0;
    s->joined = 0;
    for (int i = 0; i < s->nworkers; i++)
        if (schedule(s, s->now + sum_seconds(s, &join[a->layer]), EVENT_JOINED, i, 0, 0))
            return -1;
    return 0;
}

static int leave_join(struct simulation *s, int endpoint)
{
    struct endpoint *a = &s->endpoints[endpoint];

    a->join_seconds += s->now - a->waits_since;
    return leave_layer(s, endpoint);
}

/* Starts measuring. Later workers do so again, so that the slowest one's time remains. */
static void begin_measuring(struct simulation *s)
{
    if (s->iterations == 0)
        s->iterations = enough_iterations(s);
    s->begin = s->now;
    for (int i = 0; i < s->nendpoints; i++) {
        struct link_meter *m = &s->endpoints[i].meter;

        m->begin = s->now;
        m->slot = 0;
        m->full_seconds = m->longest_seconds = m->busy = m->stretch = 0;
    }
}

static int leave_layer(struct simulation *s, int endpoint)
{
    struct endpoint *a = &s->endpoints[endpoint];
    int nlayers = s->options->work->nlayers, done = a->layer++;

    if (done >= nlayers && post(s, endpoint, 2 * nlayers - 1 - done))
        return -1;
    if (a->layer < 2 * nlayers)
        return step(s, endpoint);
    a->ended = s->now;
    if (a->iteration == SIMULATE_WARM_UP - 1) {
        begin_measuring(s);
        a->stall_seconds = a->join_seconds = 0;
    }
    a->layer = 0;
    if (a->iteration++ == s->round && ++s->through == s->nworkers)
        end_round(s);
    if (a->iteration < SIMULATE_WARM_UP + s->iterations)
        return step(s, endpoint);
    s->ended++;
    return 0;
}

static int passes_back(struct simulation *s, int endpoint, int bucket)
{
    struct endpoint *a = &s->endpoints[endpoint];

    progress_of(s, endpoint, bucket)->done++;
    if (a->awaited != bucket)
        return 0;
    a->stall_seconds += s->now - a->waits_since;
    return step(s, endpoint);
}

int passes_arrived(struct simulation *s, int endpoint, int bucket, int iteration)
{
    struct progress *progress = progress_of(s, endpoint, bucket);
    int *came = &progress->came[iteration & 1];
    double seconds;

    assert(s->endpoints[endpoint].worker);
    if (++*came < s->buckets[bucket].needs)
        return 0;
    assert(progress->done == iteration);
    *came = 0;
    if (s->cluster->device_Bps <= 0 || s->options->manner.copies_wait)
        return passes_back(s, endpoint, bucket);
    seconds = s->buckets[bucket].bytes_in / s->cluster->device_Bps;
    return schedule(s, busy(&s->endpoints[endpoint].copy_in_free, s->now, seconds), EVENT_BACK,
                    endpoint, bucket, iteration);
}

/* ---- the clock ---- */

static int play_event(struct simulation *s, const struct event *e)
{
    switch ((enum event_kind)(e->order % EVENT_KINDS)) {
    case EVENT_LAYER:
        return end_layer(s, e->endpoint);
    case EVENT_JOINED:
        return leave_join(s, e->endpoint);
    case EVENT_COPIED:
        return traffic_copied(s, e->endpoint, e->index, e->iteration);
    case EVENT_BACK:
        return passes_back(s, e->endpoint, e->index);
    case EVENT_GATHER:
        return traffic_gathered(s, e->endpoint, e->index, e->iteration);
    case EVENT_WORK:
        return passes_arrived(s, e->endpoint, e->index, e->iteration);
    case EVENT_HEAD:
        return network_head(s, e->message);
    case EVENT_DELIVER:
        return network_deliver(s, e->message);
    case EVENT_SUM:
        return traffic_summed(
            s, e->endpoint,
            (struct part){s->transfers[e->index].bucket, e->index, e->slice, e->iteration});
    case EVENT_WAKE:
        s->endpoints[e->endpoint].wakes = false;
        return network_pump(s, e->endpoint);
    case EVENT_RING:
        return ring_begin(s);
    case EVENT_RING_END:
        return ring_end(s, e->index);
    }
    return 0;
}

static int play(struct simulation *s)
{
    struct event event;

    for (int a = 0; a < s->nworkers; a++)
        if (step(s, a))
            return -1;
    while (s->ended < s->nworkers && events_take(&s->events, &event)) {
        assert(event.time >= s->now);
        s->now = event.time;
        if (play_event(s, &event))
            return -1;
    }
    assert(s->ended == s->nworkers); /* otherwise a worker waits for a message that nobody sends */
    return 0;
}

/* ---- results ---- */

static void fill_ranks(const struct simulation *s, struct simulate_rank *ranks)
{
    for (int i = 0; i < s->nendpoints; i++) {
        const struct endpoint *a = &s->endpoints[i];
        for (int l = a->first; l < a->first + a->members; l++)
            ranks[l] = (struct simulate_rank){.sent = (double)a->sent / a->members,
                                              .received = (double)a->received / a->members,
                                              .stall_seconds = a->stall_seconds / s->iterations,
                                              .ended = a->ended};
    }
}

static void fill_worst(struct simulation *s, struct link_meter *worst)
{
    for (int i = 0; i < s->nendpoints && !s->options->manner.ring; i++) {
        struct link_meter *m = &s->endpoints[i].meter;

        link_meter_look(m, s->now);
        worst->full_seconds = fmax(worst->full_seconds, m->full_seconds / s->iterations);
        worst->longest_seconds = fmax(worst->longest_seconds, m->longest_seconds);
        worst->most_queued =
            m->most_queued > worst->most_queued ? m->most_queued : worst->most_queued;
    }
}

/* Returns the least duration of an iteration; while passes wait, nothing is stolen from them. */
static double least_seconds(const struct simulation *s, const struct endpoint *a)
{
    double seconds = a->stretch * layer_times_total(s->options->work);

    for (int b = 0; b < s->plan->nbuckets; b++)
        seconds += s->costs[b].compute_seconds * a->slowness + s->costs[b].stolen_seconds;
    return seconds;
}

static void sum_up(const struct simulation *s, struct simulate_result *out)
{
    double end = 0, stalls = 0, joins = 0, least = 0;

    *out = (struct simulate_result){.members = 0};
    for (int i = 0; i < s->nendpoints; i++) {
        const struct endpoint *a = &s->endpoints[i];
        out->sent += a->sent;
        out->received += a->received;
        out->members = a->members > out->members ? a->members : out->members;
        end = a->ended > end ? a->ended : end;
        least = a->worker ? fmax(least, least_seconds(s, a)) : least;
        stalls += a->stall_seconds * a->members / s->plan->nworkers / s->iterations;
        joins += a->join_seconds * a->members / s->plan->nworkers / s->iterations;
    }
    out->seconds = (end - s->begin) / s->iterations;
    out->seconds = out->seconds > least ? out->seconds : least;
    out->stall_share = out->seconds > 0 ? stalls / out->seconds : 0;
    out->join_share = out->seconds > 0 ? joins / out->seconds : 0;
}

int simulate_run(const struct simulate_options *options, struct simulate_result *out,
                 struct simulate_rank *ranks)
{
    struct simulation s = {.options = options,
                           .plan = options->plan,
                           .cluster = options->cluster,
                           .iterations = options->iterations};
    int status;

    assert(options->plan->ngroups == options->work->ngroups);
    assert(options->ranks_per_node >= 1);
    status = error_status(blocks_open(&s) || play(&s));
    if (!status) {
        sum_up(&s, out);
        if (ranks)
            fill_ranks(&s, ranks);
        if (options->meters)
            fill_worst(&s, &out->burst);
    }
    free(s.events.heap);
    owner_free(&s.owner);
    return status;
}

int simulate_group(const struct simulate_options *like, const struct plan_options *how,
                   const struct group *group, struct way way, double *seconds)
{
    double nothing = 0;
    int layer = 0, status;
    const struct layer_times no_passes = {
        .nlayers = 1, .forward = &nothing, .backward = &nothing, .ngroups = 1, .layer = &layer};
    struct plan_options plan_how = *how;
    struct simulate_options options = *like;
    struct simulate_result result = {.seconds = 0};
    struct plan *plan;

    plan_how.comm = (struct comm){.policy = COMM_AUTO};
    plan_how.ways = &way;
    if (plan_create(&plan_how, 1, group, &plan))
        return -1;
    options.plan = plan;
    options.work = &no_passes;
    options.overlap = COST_OVERLAP_WFBP;
    options.iterations = 1;
    status = simulate_run(&options, &result, NULL);
    plan_destroy(plan);
    *seconds = result.seconds;
    return status;
}

int simulate_table(const struct simulate_options *like, const struct plan_options *how,
                   const struct ways *ways, int ngroups, const struct group *groups,
                   struct cost *table)
{
    for (int i = 0; i < ngroups * ways->n; i++)
        if (table[i].possible && simulate_group(like, how, &groups[i / ways->n],
                                                ways->way[i % ways->n], &table[i].seconds))
            return -1;
    return 0;
}
