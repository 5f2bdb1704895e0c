/* Queues, links and latencies: a message from the moment it is posted until its last byte is
 * there. */
#include "simulate/simulate_internal.h"

#include <math.h>

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static struct message *take_message(struct simulation *s)
{
    struct message *message = s->free;

    if (message)
        s->free = message->next;
    else
        message = owner_array(&s->owner, 1, sizeof *message, "the simulation");
    return message;
}

/* Of what the ranks of a block exchange among themselves, the part that leaves their nodes. */
static double remote_share(const struct endpoint *from, const struct endpoint *to)
{
    double each = (double)from->members / from->hosts;

    return from != to || from->members == 1 ? 1 : (from->members - each) / (from->members - 1);
}

/* Blocks are whole leaves or parts of one; of what a block of several leaves sends itself, the
 * share that leaves a leaf. */
static double bytes_between_leaves(const struct simulation *s, const struct endpoint *from,
                                   const struct endpoint *to, double bytes)
{
    int leaf = s->options->leaf_nodes;

    if (leaf <= 0)
        return 0;
    if (from == to)
        return from->hosts > leaf ? bytes * (from->hosts - leaf) / (from->hosts - 1) : 0;
    return from->leaf != to->leaf ? bytes : 0;
}

static void set_times(const struct simulation *s, struct message *message)
{
    const struct message_spec *spec = &message->spec;
    const struct endpoint *from = &s->endpoints[spec->from], *to = &s->endpoints[spec->to];
    double bytes =
        ((double)spec->bytes + s->cluster->header_bytes * spec->count) * remote_share(from, to);
    int hosts = from->hosts < to->hosts ? from->hosts : to->hosts;
    int active = spec->narrow < hosts ? spec->narrow : hosts;

    message->local = from != to && from->link == to->link;
    message->out_seconds = bytes / s->links[from->link].rate +
                           s->cluster->message_seconds * spec->count / from->members;
    message->in_seconds = bytes / s->links[to->link].rate;
    message->least_seconds = bytes / (s->cluster->link_Bps * active);
    if (!message->local && s->cluster->thread_Bps > 0) {
        message->thread_out_seconds = bytes / from->members / (2 * s->cluster->thread_Bps);
        message->thread_in_seconds = bytes / to->members / (2 * s->cluster->thread_Bps);
    }
    message->leaf_bytes = message->local ? 0 : bytes_between_leaves(s, from, to, bytes);
    message->narrow = active < hosts && !s->plan->buckets[spec->part.bucket].log_steps;
}

int network_send(struct simulation *s, const struct message_spec *spec)
{
    struct endpoint *from = &s->endpoints[spec->from];
    struct message *message = take_message(s);

    if (!message)
        return -1;
    *message = (struct message){
        .entry = {.peer = spec->to,
                  .urgency = plan_urgency(s->plan, spec->part.bucket, spec->part.iteration),
                  .bytes = (size_t)(spec->bytes / (uint64_t)from->members)},
        .spec = *spec};
    set_times(s, message);
    queue_put(&from->queue, &message->entry);
    if (spec->part.iteration == 0) {
        from->sent += spec->bytes;
        s->endpoints[spec->to].received += spec->bytes;
        s->messages++;
    }
    return network_pump(s, spec->from);
}

/* Through the memory of the node. */
static int leave_locally(struct simulation *s, struct endpoint *from, struct message *message)
{
    double seconds = (double)message->spec.bytes / s->cluster->local_Bps;

    return events_put(&s->events, (struct event){.time = busy(&from->memory_free, s->now, seconds),
                                                 .kind = EVENT_DELIVER,
                                                 .message = message});
}

/* The bytes leave evenly from `start` to `end`: each interval gets those of its time. */
static void note_bytes(const struct simulation *s, double bytes, double start, double end)
{
    const struct simulate_watch *watch = s->options->watch;
    double interval = watch->seconds / watch->intervals;
    double from = (start - watch->begin) / interval, to = (end - watch->begin) / interval;
    double all = (double)watch->intervals * s->iterations;

    for (double i = floor(larger(from, 0)); i < to && i < all; i++) {
        double share = ((to < i + 1 ? to : i + 1) - larger(from, i)) / (to - from);
        watch->bytes[(int)fmod(i, watch->intervals)] += bytes * share;
    }
}

/* Where a block has fewer homes than nodes, these also serve one message after the other. */
static int leave(struct simulation *s, struct endpoint *from, struct message *message)
{
    struct link *link = &s->links[from->link];
    double start = larger(link->out_free, s->now);

    if (message->local)
        return leave_locally(s, from, message);
    /* a byte may leave as soon as the thread has begun, and the last one not before it is done */
    start = larger(start, from->thread_free);
    message->last = larger(busy(&link->out_free, start, message->out_seconds),
                           busy(&from->thread_free, start, message->thread_out_seconds));
    if (s->options->watch && message->last > start)
        note_bytes(
            s, (double)message->spec.bytes * remote_share(from, &s->endpoints[message->spec.to]),
            start, message->last);
    if (message->leaf_bytes > 0) {
        struct leaf *leaf = &s->leaves[from->leaf];
        start = larger(start, leaf->up_free);
        message->last =
            larger(message->last, busy(&leaf->up_free, start, message->leaf_bytes / leaf->rate));
    }
    if (message->narrow && message->spec.back)
        message->last =
            larger(message->last, busy(&s->transfers[message->spec.part.transfer].out_free, start,
                                       message->least_seconds));
    return events_put(&s->events, (struct event){.time = start + s->cluster->latency_seconds,
                                                 .kind = EVENT_HEAD,
                                                 .message = message});
}

int network_pump(struct simulation *s, int endpoint)
{
    struct endpoint *from = &s->endpoints[endpoint];
    struct queue_entry *entry;
    double delay;

    while ((entry = queue_take(&from->queue, s->now)))
        if (leave(s, from, (struct message *)entry))
            return -1;
    delay = queue_count(&from->queue) > 0 ? queue_delay(&from->queue, s->now) : 0;
    if (delay <= 0 || from->wakes)
        return 0;
    from->wakes = true;
    return events_put(
        &s->events,
        (struct event){.time = s->now + delay, .kind = EVENT_WAKE, .endpoint = endpoint});
}

int network_head(struct simulation *s, struct message *message)
{
    struct endpoint *to = &s->endpoints[message->spec.to];
    struct link *link = &s->links[to->link];
    double start = larger(link->in_free, s->now), end;

    end = larger(busy(&link->in_free, start, message->in_seconds), start + message->least_seconds);
    end = larger(end, busy(&to->thread_free, start, message->thread_in_seconds));
    if (message->leaf_bytes > 0) {
        struct leaf *leaf = &s->leaves[to->leaf];
        end = larger(end, busy(&leaf->down_free, start, message->leaf_bytes / leaf->rate));
    }
    if (message->narrow && !message->spec.back)
        end = larger(end, busy(&s->transfers[message->spec.part.transfer].in_free, start,
                               message->least_seconds));
    return events_put(
        &s->events, (struct event){.time = larger(end, message->last + s->cluster->latency_seconds),
                                   .kind = EVENT_DELIVER,
                                   .message = message});
}

int network_deliver(struct simulation *s, struct message *message)
{
    int from = message->spec.from, status;

    queue_sent(&s->endpoints[from].queue, &message->entry);
    status = error_any(traffic_arrived(s, &message->spec) || network_pump(s, from));
    message->next = s->free;
    s->free = message;
    return status;
}
