/* The order of sends: what waits, what goes next, and how much may be on its way.
 *
 * A layer near the input is needed first by the next forward pass but comes last out of backprop;
 * were everything handed to MPI at once, it would wait behind all that was posted before. So only a
 * window of bytes is on its way at a time, and the rest waits here: the least urgency first, then
 * the greatest weight, then in order. A plain data structure without MPI and without a clock of its
 * own, so that a simulator can use it as the wire does. Everything costs O(log) of what waits; what
 * is put behind its like, a bucket's chunks one after the other, O(1).
 *
 * One peer has an eighth of the window at most (or one entry): a few messages keep the link to it
 * busy, and further ones would only lengthen the queue that an urgent one waits behind, while the
 * links to the others stand idle.
 *
 * To know what is on its way takes a reply, which for a small entry costs as much as the entry. So
 * small ones may share one (shared_replies): they take their room of the window, and give it back
 * with the reply to the next entry to the same peer that has one, which holds where a peer takes
 * entries in the order in which they left. What waits for no reply is a quarter of a peer's share
 * at most and an eighth of the window, and never keeps anything from leaving that would else go
 * alone: so none waits for room that nobody gives back. */
#ifndef POSEIDON_WIRE_QUEUE_H
#define POSEIDON_WIRE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/owner.h"
#include "wire/link_meter.h"

/* One message to send, kept inside whatever the caller knows about it: the queue links entries and
 * never allocates one. The caller's until queue_put, and again from queue_take. */
struct queue_entry {
    int peer; /* [0, peers) */
    /* Set by queue_take. Without a reply nobody calls queue_sent. */
    bool needs_ack;
    int64_t urgency;
    size_t bytes;
    double weight;
    /* the queue's own: */
    uint64_t number;
    struct queue_entry *left, *right;
    union {
        struct queue_entry *next; /* while it waits */
        size_t acks;              /* then, of those before it that share its reply */
    };
};

struct queue_options {
    int peers;
    size_t window;            /* bytes on their way at a time, and 2,048 messages; 0: no limit */
    double bytes_per_second;  /* most that leaves, of which 20 ms may be saved up; 0: no limit */
    bool fifo;                /* the order is that of queue_put alone */
    struct link_meter *meter; /* sees what comes and goes; borrowed; NULL: nobody wants to know */
    bool shared_replies;      /* not every entry of less than a 2,048th of the window has one */
};

/* What waits for one peer; private, as is all below. 40 bytes a peer, and 4 in `heap`. */
struct peer_queue {
    struct queue_entry *first;        /* root of a skew heap; NULL: nothing waits */
    struct queue_entry *newest;       /* entry that waits; NULL: that entry was sent */
    size_t in_flight, unacknowledged; /* the second: of the first, what no reply is under way for */
    int place; /* in queue.heap; -1: nothing waits, or its share is on its way */
};

struct queue {
    struct queue_options options;
    struct peer_queue *queues;
    int *heap; /* queues that have room, a binary heap by their first entries */
    int nheap;
    size_t count, in_flight, unacknowledged, share;
    uint64_t number;
    double bucket, filled; /* bytes that may go; when that was right */
};

/* The owner has its memory; what still waits when that is freed is dropped. now: seconds of
 * whatever clock queue_take is going to be given. Fails where memory does, with a message. */
int queue_open(struct queue *queue, struct owner *owner, const struct queue_options *options,
               double now);

/* The entry waits from now on. */
void queue_put(struct queue *queue, struct queue_entry *entry);

/* The entry that goes now, which counts as on its way from here to its queue_sent, or to that of
 * the entry whose reply it shares; NULL: none may. */
struct queue_entry *queue_take(struct queue *queue, double now);

/* The reply to an entry came: it is no longer on its way, nor are those that share its reply. */
void queue_sent(struct queue *queue, const struct queue_entry *entry);

/* Seconds from now until bytes_per_second lets another entry go; 0: at once. */
double queue_delay(const struct queue *queue, double now);

/* How many entries wait. */
size_t queue_count(const struct queue *queue);

/* The most urgent entry that has room in the window; NULL if none has. */
const struct queue_entry *queue_first(const struct queue *queue);

#endif
