/* Moves a message from its posting until its last byte has arrived: queues, links, latency. */
#include "simulate/simulate_internal.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static struct message *take_message(struct simulation *s)
{
    struct queue_entry *entry = s->free;

    if (!entry)
        return owner_array(&s->owner, 1, sizeof(struct message), "the simulation");
    s->free = entry->next;
    return (struct message *)entry;
}

/* Returns the fraction of a block's internal traffic that leaves its nodes; 1 between endpoints. */
static double remote_share(const struct endpoint *from, const struct endpoint *to)
{
    double each = (double)from->members / from->hosts;

    return from != to || from->members == 1 ? 1 : (from->members - each) / (from->members - 1);
}

/* Returns the bytes that leave a leaf switch. A block is part of a leaf or several whole leaves; a
 * block of several sends a share of its internal traffic between them. */
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

/* Load of a message on the links at both ends. */
struct load {
    double bytes, leaf_bytes; /* leaf_bytes: part of `bytes` that leaves a leaf switch */
    double least_seconds;
    bool narrow; /* true if a block has fewer homes than links */
};

static inline struct load load_of(const struct simulation *s, const struct message_spec *spec)
{
    const struct endpoint *from = &s->endpoints[spec->from], *to = &s->endpoints[spec->to];
    double bytes =
        ((double)spec->bytes + s->cluster->header_bytes * spec->count) * remote_share(from, to);
    int hosts = from->hosts < to->hosts ? from->hosts : to->hosts;
    int active = spec->narrow < hosts ? spec->narrow : hosts;

    return (struct load){.bytes = bytes,
                         .leaf_bytes = bytes_between_leaves(s, from, to, bytes),
                         .least_seconds = bytes / (s->cluster->link_Bps * active),
                         .narrow =
                             active < hosts && !s->plan->buckets[spec->part.bucket].log_steps};
}

/* Returns the seconds of the thread that receives messages (calls), or sends them (is called). */
static double call_seconds(const struct simulate_manner *manner, double bytes, double count,
                           bool receives)
{
    if (!receives)
        return bytes / manner->called_Bps;
    return count * manner->call_seconds +
           bytes / manner->calls_Bps * (1 + bytes / count / manner->half_rate_bytes);
}

/* Occupies one end's wire or call thread from `start` at the earliest; returns the end. */
static double busy_thread(const struct simulation *s, struct endpoint *end,
                          const struct message_spec *spec, const struct load *load, bool receives,
                          double start)
{
    const struct simulate_manner *manner = &s->options->manner;
    double rate = 2 * s->cluster->thread_Bps;

    if (manner->calls_Bps > 0)
        return busy(&end->call_free[spec->back][receives], start,
                    call_seconds(manner, load->bytes, spec->count, receives) / end->members);
    return busy(&end->thread_free, start, rate > 0 ? load->bytes / end->members / rate : 0);
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
    queue_put(&from->queue, &message->entry);
    if (spec->part.iteration == 0) {
        from->sent += spec->bytes;
        s->endpoints[spec->to].received += spec->bytes;
        s->messages++;
    }
    return network_pump(s, spec->from);
}

/* Delivers the message through the node's memory. */
static int leave_locally(struct simulation *s, struct endpoint *from, struct message *message)
{
    double seconds = (double)message->spec.bytes / s->cluster->local_Bps;

    return events_put(&s->events, (struct event){.time = busy(&from->memory_free, s->now, seconds),
                                                 .order = EVENT_DELIVER,
                                                 .message = message});
}

/* Sends the message off; in a block with fewer homes than nodes also through the homes' links. */
static int depart(struct simulation *s, struct endpoint *from, struct message *message)
{
    const struct message_spec *spec = &message->spec;
    const struct endpoint *to = &s->endpoints[spec->to];
    struct link *link = &s->links[from->link];
    double start = larger(link->out_free, s->now), seconds;
    struct load load;

    if (from != to && from->link == to->link)
        return leave_locally(s, from, message);
    load = load_of(s, spec);
    seconds = load.bytes / link->rate + s->cluster->message_seconds * spec->count / from->members;
    /* bytes leave once the thread has begun; the last byte leaves when the thread is done */
    start = larger(start, s->options->manner.calls_Bps > 0 ? from->call_free[spec->back][false]
                                                           : from->thread_free);
    message->last = larger(busy(&link->out_free, start, seconds),
                           busy_thread(s, from, spec, &load, false, start));
    if (load.leaf_bytes > 0) {
        struct leaf *leaf = &s->leaves[from->leaf];
        start = larger(start, leaf->up_free);
        message->last =
            larger(message->last, busy(&leaf->up_free, start, load.leaf_bytes / leaf->rate));
    }
    if (load.narrow && spec->back)
        message->last = larger(message->last, busy(&s->transfers[spec->part.transfer].out_free,
                                                   start, load.least_seconds));
    return events_put(&s->events, (struct event){.time = start + s->cluster->latency_seconds,
                                                 .order = EVENT_HEAD,
                                                 .message = message});
}

int network_pump(struct simulation *s, int endpoint)
{
    struct endpoint *from = &s->endpoints[endpoint];
    struct queue_entry *entry;
    double delay;

    while ((entry = queue_take(&from->queue, s->now)))
        if (depart(s, from, (struct message *)entry))
            return -1;
    delay = queue_count(&from->queue) > 0 ? queue_delay(&from->queue, s->now) : 0;
    if (delay <= 0 || from->wakes)
        return 0;
    from->wakes = true;
    return events_put(
        &s->events,
        (struct event){.time = s->now + delay, .order = EVENT_WAKE, .endpoint = endpoint});
}

int network_head(struct simulation *s, struct message *message)
{
    const struct message_spec *spec = &message->spec;
    struct endpoint *to = &s->endpoints[spec->to];
    struct link *link = &s->links[to->link];
    struct load load = load_of(s, spec);
    double start = larger(link->in_free, s->now), end;

    end = larger(busy(&link->in_free, start, load.bytes / link->rate), start + load.least_seconds);
    end = larger(end, busy_thread(s, to, spec, &load, true, start));
    if (load.leaf_bytes > 0) {
        struct leaf *leaf = &s->leaves[to->leaf];
        end = larger(end, busy(&leaf->down_free, start, load.leaf_bytes / leaf->rate));
    }
    if (load.narrow && !spec->back)
        end = larger(end,
                     busy(&s->transfers[spec->part.transfer].in_free, start, load.least_seconds));
    return events_put(
        &s->events, (struct event){.time = larger(end, message->last + s->cluster->latency_seconds),
                                   .order = EVENT_DELIVER,
                                   .message = message});
}

int network_deliver(struct simulation *s, struct message *message)
{
    int from = message->spec.from, status;

    queue_sent(&s->endpoints[from].queue, &message->entry);
    status = error_status(traffic_arrived(s, &message->spec) || network_pump(s, from));
    message->entry.next = s->free;
    s->free = &message->entry;
    return status;
}
