/* Two kinds of heaps: each peer has a skew heap of its entries, and a binary heap holds the peers
 * that have an entry to send and room for it. A small entry never overtakes a more urgent large
 * entry that waits for room, neither in the window nor in a peer's share (as in ByteScheduler, Peng
 * et al., SOSP'19; TicTac, Hashemi et al., MLSys'19). */
#include "wire/queue.h"

#include <assert.h>

enum { SHARES = 8 };           /* parts of the window; a peer's share is one part */
enum { MOST_MESSAGES = 2048 }; /* most in a window: a message takes a 2,048th of it at least */
/* Bytes without a reply: at most a quarter of a peer's share, and an eighth of the window. */
enum { UNACKNOWLEDGED_OF_SHARE = 4, UNACKNOWLEDGED_OF_WINDOW = 8 };

static const double SAVED_SECONDS = 0.02; /* time whose bytes the rate limit may save up */

static bool before(const struct queue_entry *a, const struct queue_entry *b)
{
    if (a->urgency != b->urgency)
        return a->urgency < b->urgency;
    return a->weight != b->weight ? a->weight > b->weight : a->number < b->number;
}

/* Melds two skew heaps (Sleator and Tarjan, 1986): every entry goes before its children. The
 * children along the path of melding change sides, so that no path stays long. Entries of equal
 * urgency and weight that came to a peer one after the other hang behind the first by `next`, since
 * no other entry belongs between them. */
static struct queue_entry *meld(struct queue_entry *a, struct queue_entry *b)
{
    struct queue_entry *heap, **at = &heap;

    while (a && b) {
        struct queue_entry *first = before(a, b) ? a : b;

        b = first == a ? b : a;
        a = first->right;
        first->right = first->left;
        *at = first;
        at = &first->left;
    }
    *at = a ? a : b;
    return heap;
}

/* ---- the heap of peers ---- */

static void stand(struct queue *q, int place, int peer)
{
    q->heap[place] = peer;
    q->queues[peer].place = place;
}

static bool goes_before(const struct queue *q, int peer, int other)
{
    return before(q->queues[peer].first, q->queues[other].first);
}

/* Puts `peer` into the heap: starts at the free `place` and moves other peers up or down. */
static void sift(struct queue *q, int place, int peer)
{
    while (place > 0 && goes_before(q, peer, q->heap[(place - 1) / 2])) {
        stand(q, place, q->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (int child; (child = 2 * place + 1) < q->nheap; place = child) {
        if (child + 1 < q->nheap && goes_before(q, q->heap[child + 1], q->heap[child]))
            child++;
        if (!goes_before(q, q->heap[child], peer))
            break;
        stand(q, place, q->heap[child]);
    }
    stand(q, place, peer);
}

/* Returns the bytes of window that a message takes. Small messages take more than their size, since
 * transports buffer few of them and try all others again at every poll. */
static size_t room_for(const struct queue *q, size_t bytes)
{
    size_t least = q->options.window / MOST_MESSAGES;

    return bytes > least ? bytes : least;
}

/* Returns true if the bytes fit. A larger message goes alone, apart from unacknowledged bytes. */
static bool fits(const struct queue *q, size_t room, size_t in_flight, size_t unacknowledged,
                 size_t bytes)
{
    return !room || in_flight == unacknowledged ||
           (in_flight <= room && room_for(q, bytes) <= room - in_flight);
}

/* Takes room in the window for an entry. The entry needs no reply if it is small and few bytes are
 * unacknowledged. */
static void take_room(struct queue *q, struct peer_queue *to, struct queue_entry *entry)
{
    size_t window = q->options.window, room = room_for(q, entry->bytes);

    assert(to->unacknowledged <= to->in_flight && q->unacknowledged <= q->in_flight);
    to->in_flight += room;
    q->in_flight += room;
    entry->needs_ack = !q->options.shared_replies || entry->bytes >= window / MOST_MESSAGES ||
                       to->unacknowledged + room > q->share / UNACKNOWLEDGED_OF_SHARE ||
                       q->unacknowledged + room > window / UNACKNOWLEDGED_OF_WINDOW;
    if (entry->needs_ack) {
        entry->acks = to->unacknowledged;
        q->unacknowledged -= to->unacknowledged;
        to->unacknowledged = 0;
    } else {
        to->unacknowledged += room;
        q->unacknowledged += room;
    }
}

/* Updates a peer's place in the heap after its first entry or its room has changed. */
static void place_peer(struct queue *q, int peer)
{
    struct peer_queue *to = &q->queues[peer];
    bool ready =
        to->first && fits(q, q->share, to->in_flight, to->unacknowledged, to->first->bytes);
    int place = to->place;

    if (ready) {
        sift(q, place >= 0 ? place : q->nheap++, peer);
    } else if (place >= 0) {
        int last = q->heap[--q->nheap];
        to->place = -1;
        if (last != peer)
            sift(q, place, last);
    }
}

/* ---- the queue ---- */

int queue_open(struct queue *q, struct owner *owner, const struct queue_options *options,
               double now)
{
    size_t peers = (size_t)options->peers;

    assert(options->peers >= 0);
    *q = (struct queue){.options = *options, .filled = now};
    q->share = (options->window + SHARES - 1) / SHARES;
    if (OWN(owner, q->queues, peers, "the send queue") ||
        OWN(owner, q->heap, peers, "the send queue"))
        return -1;
    for (size_t peer = 0; peer < peers; peer++)
        q->queues[peer].place = -1;
    return 0;
}

void queue_put(struct queue *q, struct queue_entry *entry)
{
    struct peer_queue *to = &q->queues[entry->peer];

    assert(entry->peer >= 0 && entry->peer < q->options.peers);
    assert(entry->weight == entry->weight); /* NaN has no place in an order */
    if (q->options.fifo) {
        entry->urgency = 0;
        entry->weight = 0;
    }
    entry->number = q->number++;
    entry->left = entry->right = entry->next = NULL;
    q->count++;
    if (q->options.meter)
        link_meter_wait(q->options.meter, entry->bytes, q->in_flight);
    if (to->newest && to->newest->urgency == entry->urgency && to->newest->weight == entry->weight)
        to->newest->next = entry;
    else
        to->first = meld(to->first, entry);
    to->newest = entry;
    if (to->first == entry) /* otherwise the peer keeps its place */
        place_peer(q, entry->peer);
}

/* Returns the bytes that the rate limit lets go at time `now`. */
static double saved(const struct queue *q, double now)
{
    double rate = q->options.bytes_per_second, bucket = q->bucket + (now - q->filled) * rate;

    return bucket < rate * SAVED_SECONDS ? bucket : rate * SAVED_SECONDS;
}

double queue_delay(const struct queue *q, double now)
{
    double rate = q->options.bytes_per_second, bucket;

    if (rate <= 0)
        return 0;
    bucket = saved(q, now);
    /* tolerates rounding, so that a clock advanced by the delay always lets the entry go */
    return bucket >= -0.5 ? 0 : -bucket / rate;
}

struct queue_entry *queue_take(struct queue *q, double now)
{
    struct queue_entry *entry;
    struct peer_queue *to;

    if (q->nheap == 0)
        return NULL;
    to = &q->queues[q->heap[0]];
    entry = to->first;
    assert(entry && to->place == 0 && q->count > 0);
    if (!fits(q, q->options.window, q->in_flight, q->unacknowledged, entry->bytes))
        return NULL;
    if (q->options.bytes_per_second > 0) {
        if (queue_delay(q, now) > 0)
            return NULL;
        q->bucket = saved(q, now) - (double)entry->bytes;
        q->filled = now;
    }
    to->first = entry->next ? entry->next : meld(entry->left, entry->right);
    if (entry->next) {
        __builtin_prefetch(entry->next->next); /* the next queue_take reads this entry */
        entry->next->left = entry->left;
        entry->next->right = entry->right;
    }
    if (to->newest == entry)
        to->newest = NULL;
    take_room(q, to, entry);
    q->count--;
    if (q->options.meter)
        link_meter_give(q->options.meter, entry->bytes, now);
    place_peer(q, entry->peer);
    return entry;
}

void queue_sent(struct queue *q, const struct queue_entry *entry)
{
    struct peer_queue *to = &q->queues[entry->peer];
    size_t room = room_for(q, entry->bytes) + entry->acks;

    assert(entry->peer >= 0 && entry->peer < q->options.peers);
    assert(entry->needs_ack && to->unacknowledged + room <= to->in_flight);
    assert(room <= q->in_flight);
    to->in_flight -= room;
    q->in_flight -= room;
    if (to->first && to->place < 0) /* otherwise the peer's place has not changed */
        place_peer(q, entry->peer);
}

size_t queue_count(const struct queue *q)
{
    return q->count;
}

const struct queue_entry *queue_first(const struct queue *q)
{
    return q->nheap > 0 ? q->queues[q->heap[0]].first : NULL;
}
