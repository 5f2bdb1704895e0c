/* Orders sends: which message goes next, and how many bytes may be on their way.
 *
 * Backprop ends with the layers near the input, but the next forward pass begins with them. If MPI
 * were given all messages at once, those of the first layers would wait behind all others. So only
 * a window of bytes is on its way at a time, and the rest waits here. Order: least urgency, then
 * greatest weight, then order of queue_put. The queue uses neither MPI nor a clock, so that a
 * simulator can use it, too. Operations cost O(log n) for n waiting entries; putting an entry
 * behind its like (chunks of a bucket) costs O(1).
 *
 * Each peer may use an eighth of the window, or one entry. A few messages keep a link busy; more
 * would delay urgent messages while links to other peers stand idle.
 *
 * Only a reply shows that an entry has arrived, and the reply to a small entry costs as much as the
 * entry. So small entries may share replies (shared_replies): the room of an entry without a reply
 * is freed by the reply to a later entry to the same peer. This requires that peers take entries in
 * the order of sending. Entries that await a later entry's reply use at most a quarter of a peer's
 * share and an eighth of the window. They never hold back an entry that is allowed to go alone, so
 * no entry waits for ever. */
#ifndef POSEIDON_WIRE_QUEUE_H
#define POSEIDON_WIRE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/owner.h"
#include "wire/link_meter.h"

/* One message to send, embedded in the caller's struct: the queue links entries and allocates none.
 * The caller owns the entry until queue_put, and again from queue_take on. */
struct queue_entry {
    int peer; /* receiver, in [0, peers) */
    /* Set by queue_take. False: the entry gets no reply, and queue_sent is not called for it. */
    bool needs_ack;
    int64_t urgency;
    size_t bytes;
    double weight;
    /* members below are private */
    uint64_t number;
    struct queue_entry *left, *right;
    union {
        struct queue_entry *next; /* while waiting: next entry of equal urgency and weight */
        size_t acks;              /* once taken: bytes of earlier entries that share this reply */
    };
};

struct queue_options {
    int peers;
    size_t window;            /* most bytes on their way, in at most 2,048 messages; 0: no limit */
    double bytes_per_second;  /* rate limit; bytes for 20 ms may be saved up; 0: no limit */
    bool fifo;                /* entries leave in the order of queue_put, whatever their urgency */
    struct link_meter *meter; /* measures the traffic; borrowed; may be NULL */
    bool shared_replies;      /* entries of less than a 2,048th of the window may share replies */
};

/* Entries for one peer. Private, like struct queue. Takes 40 bytes a peer, and 4 in `heap`. */
struct peer_queue {
    struct queue_entry *first;  /* root of the skew heap of waiting entries; NULL: none waits */
    struct queue_entry *newest; /* last entry put, while it waits; NULL: it was taken */
    size_t in_flight, unacknowledged; /* unconfirmed bytes; part that no pending reply covers */
    int place; /* index in queue.heap; -1: no entry waits, or the share is full */
};

struct queue {
    struct queue_options options;
    struct peer_queue *queues;
    int *heap; /* binary heap of the peers that have room, by first entry */
    int nheap;
    size_t count, in_flight, unacknowledged, share;
    uint64_t number;
    double bucket, filled; /* bytes that the rate limit lets go at the time `filled` */
};

/* Opens a queue, whose memory `owner` owns; freeing the owner drops waiting entries. now: seconds
 * on the clock of later queue_take calls. Returns -1 with a message if memory is short. */
int queue_open(struct queue *queue, struct owner *owner, const struct queue_options *options,
               double now);

/* Adds an entry to the queue. */
void queue_put(struct queue *queue, struct queue_entry *entry);

/* Takes the entry that goes now; NULL if none may. The entry counts as on its way until queue_sent
 * for it, or for the later entry whose reply it shares. */
struct queue_entry *queue_take(struct queue *queue, double now);

/* Frees the window from an entry whose reply came, and from the entries that share this reply. */
void queue_sent(struct queue *queue, const struct queue_entry *entry);

/* Returns the seconds from now until bytes_per_second lets another entry go; 0: at once. */
double queue_delay(const struct queue *queue, double now);

/* Returns the number of waiting entries. */
size_t queue_count(const struct queue *queue);

/* Returns the most urgent entry whose peer's share has room; NULL if there is none. */
const struct queue_entry *queue_first(const struct queue *queue);

#endif
