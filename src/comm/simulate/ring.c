/* Ring allreduces one after another, as other systems run them (manner.ring). All ranks take the
 * same steps at the same time, so a ring is a duration without messages: 2 (P-1) steps, each a P-th
 * of the bytes, a latency and a message's overhead. */
#include "simulate/simulate_internal.h"

#include <math.h>

static bool is_local(const struct simulation *s)
{
    return s->plan->options.nranks <= s->options->ranks_per_node;
}

/* Returns the seconds of a ring that do not depend on its bytes. */
static double start_seconds(const struct simulation *s)
{
    return 2.0 * (s->plan->nworkers - 1) *
           ((is_local(s) ? 0 : s->cluster->latency_seconds) + s->cluster->message_seconds);
}

/* Returns the seconds of a ring per byte. A node's link carries one stream each way, to a neighbour
 * on the next node; every rank sends while it receives. */
static double byte_seconds(const struct simulation *s)
{
    double p = s->plan->nworkers;
    double rate = is_local(s) ? s->cluster->local_Bps : s->cluster->link_Bps;

    if (s->cluster->thread_Bps > 0)
        rate = fmin(rate, s->cluster->thread_Bps);
    if (s->options->leaf_nodes > 0)
        rate = fmin(rate,
                    s->cluster->link_Bps * s->options->leaf_nodes / s->options->oversubscription);
    return (p - 1) / p * (2 / rate + 1 / s->cluster->sum_Bps);
}

static double bucket_bytes(const struct simulation *s, int bucket)
{
    return (double)s->plan->buckets[bucket].elems * sizeof(float);
}

int ring_open(struct simulation *s)
{
    size_t buckets = (size_t)s->plan->nbuckets + 1;

    if (!s->options->manner.ring)
        return 0;
    return error_status(ROOM(s, s->ring.posted, buckets) || ROOM(s, s->ring.queue, buckets));
}

/* Returns how many buckets of the queue go now: as many as fusion_bytes takes, at least one. */
static int take(const struct simulation *s, double *bytes)
{
    const struct ring *ring = &s->ring;
    int n = 0;

    *bytes = 0;
    while (n < ring->nqueue) {
        double next_bytes = bucket_bytes(s, ring->queue[n]);
        if (n > 0 && *bytes + next_bytes > (double)s->options->manner.fusion_bytes)
            break;
        *bytes += next_bytes;
        n++;
    }
    return n;
}

static int wake(struct simulation *s)
{
    double cycle = s->options->manner.cycle_seconds;

    if (s->ring.busy || s->ring.nqueue == 0)
        return 0;
    s->ring.busy = true;
    return schedule(s, cycle > 0 ? ceil(s->now / cycle) * cycle : s->now, EVENT_RING, 0, 0, 0);
}

int ring_post(struct simulation *s, int bucket, int iteration)
{
    if (++s->ring.posted[bucket] < s->nworkers)
        return 0;
    s->ring.posted[bucket] = 0;
    s->ring.iteration = iteration;
    s->ring.queue[s->ring.nqueue++] = bucket;
    return wake(s);
}

int ring_begin(struct simulation *s)
{
    double bytes, p = s->plan->nworkers;
    int n = take(s, &bytes);

    for (int a = 0; a < s->nworkers && s->ring.iteration == 0; a++) {
        s->endpoints[a].sent += (uint64_t)(2 * bytes * (p - 1) / p * s->endpoints[a].members);
        s->endpoints[a].received = s->endpoints[a].sent;
    }
    s->messages += s->ring.iteration == 0;
    return schedule(s, s->now + start_seconds(s) + bytes * byte_seconds(s), EVENT_RING_END, 0, n,
                    0);
}

/* Ends a ring: all workers have the sums of its n buckets. */
int ring_end(struct simulation *s, int n)
{
    struct ring *ring = &s->ring;
    int iteration = ring->iteration;

    for (int i = 0; i < n; i++)
        for (int a = 0; a < s->nworkers; a++)
            if (passes_arrived(s, a, ring->queue[i], iteration))
                return -1;
    ring->nqueue -= n;
    for (int i = 0; i < ring->nqueue; i++)
        ring->queue[i] = ring->queue[i + n];
    ring->busy = false;
    return wake(s);
}
