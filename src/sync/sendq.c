/* The send queue: what this rank has to send, by urgency. A layer near the input is needed first by
 * the next forward pass but comes last out of backprop; were everything handed to MPI at once, it
 * would wait behind all that was posted before. So only a window of bytes is in MPI's hands at a
 * time, and the rest waits here: lowest layer first, equal ones in order. Chunks are the slices
 * that an urgent one overtakes (as in ByteScheduler, Peng et al., SOSP'19; TicTac, Hashemi et al.,
 * MLSys'19).
 *
 * One rank has an eighth of the window at most: a few chunks keep the link to it busy, and further
 * ones would only lengthen the queue that an urgent one waits behind, while the links to the others
 * stand idle.
 *
 * Under staleness nobody waits for the first layer before the others, so what changes parameters
 * most, for their size, goes first (managed communication of Bosen, Wei et al., SoCC'15). Nothing
 * starves: a worker that is S iterations ahead posts no more until what is here has gone.
 *
 * A cap on the rank's rate (--bandwidth-mbps) is kept here as well: a bucket that fills with time.
 */
#include "sync/sync_internal.h"

#include "util/clock.h"
#include "util/error.h"

#include <stdlib.h>

enum { SHARES = 8 }; /* of the window; one rank has one */

static bool before(const struct parcel *a, const struct parcel *b)
{
    if (a->urgency != b->urgency)
        return a->urgency < b->urgency;
    return a->transfer.weight != b->transfer.weight ? a->transfer.weight > b->transfer.weight
                                                    : a->number < b->number;
}

/* A pairing heap (Fredman et al., 1986): every parcel goes before those below it. */
static struct parcel *meld(struct parcel *a, struct parcel *b)
{
    struct parcel *first, *second;

    if (!a || !b)
        return a ? a : b;
    first = before(a, b) ? a : b;
    second = first == a ? b : a;
    second->beside = first->below;
    first->below = second;
    return first;
}

/* The heap of what stands in a row: neighbours in pairs, then the pairs. */
static struct parcel *meld_row(struct parcel *row)
{
    struct parcel *pairs = NULL, *heap = NULL;

    while (row) {
        struct parcel *a = row, *b = a->beside, *pair;

        row = b ? b->beside : NULL;
        a->beside = NULL;
        if (b)
            b->beside = NULL;
        pair = meld(a, b);
        pair->beside = pairs;
        pairs = pair;
    }
    while (pairs) {
        struct parcel *pair = pairs;

        pairs = pair->beside;
        pair->beside = NULL;
        heap = meld(heap, pair);
    }
    return heap;
}

int sendq_open(struct sync *sync, size_t capacity, int speakers)
{
    struct send_queue *q = &sync->sendq;

    q->parcels = calloc(capacity, sizeof *q->parcels);
    q->lanes = calloc((size_t)speakers, sizeof *q->lanes);
    q->nlanes = speakers;
    q->filled = clock_seconds();
    if (!q->parcels || !q->lanes)
        return error_memory(capacity * sizeof *q->parcels, "the send queue");
    for (size_t i = 0; i < capacity; i++) {
        q->parcels[i].beside = q->spare;
        q->spare = &q->parcels[i];
    }
    return 0;
}

int sendq_put(struct sync *sync, struct parcel parcel)
{
    struct send_queue *q = &sync->sendq;
    struct send_lane *lane = &q->lanes[parcel.transfer.peer];
    struct parcel *place = q->spare;

    if (!place)
        return error_set("internal: more than %d transfers wait", q->count);
    q->spare = place->beside;
    *place = parcel;
    place->urgency = sync->options.fifo || sync->options.staleness > 0 ? 0 : parcel.transfer.group;
    place->number = q->number++;
    place->below = place->beside = NULL;
    lane->first = meld(lane->first, place);
    q->count++;
    return sendq_flush(sync);
}

/* Whether the cap lets anything go now; at most 20 ms of it are saved up. */
static bool may_send(struct sync *sync)
{
    struct send_queue *q = &sync->sendq;
    double rate = sync->options.bytes_per_second, now;

    if (rate <= 0)
        return true;
    now = clock_seconds();
    q->bucket += (now - q->filled) * rate;
    q->filled = now;
    if (q->bucket > rate * 0.02)
        q->bucket = rate * 0.02;
    return q->bucket >= 0;
}

/* Something larger than the room goes alone. */
static bool fits(size_t window, size_t in_flight, const struct parcel *parcel)
{
    return !window || in_flight == 0 || in_flight + parcel->elems * sizeof(float) <= window;
}

/* The lane whose first goes next of those that have room; NULL: none has. */
static struct send_lane *next_lane(const struct sync *sync)
{
    const struct send_queue *q = &sync->sendq;
    size_t window = sync->options.window, share = (window + SHARES - 1) / SHARES;
    struct send_lane *best = NULL;

    for (int i = 0; i < q->nlanes; i++) {
        struct send_lane *lane = &q->lanes[i];
        if (lane->first && fits(share, lane->in_flight, lane->first) &&
            (!best || before(lane->first, best->first)))
            best = lane;
    }
    return best && fits(window, q->in_flight, best->first) ? best : NULL;
}

int sendq_flush(struct sync *sync)
{
    struct send_queue *q = &sync->sendq;
    struct send_lane *lane;

    while (q->count > 0 && (lane = next_lane(sync)) && may_send(sync)) {
        struct parcel *next = lane->first;
        size_t bytes = next->elems * sizeof(float);

        lane->first = meld_row(next->below);
        q->count--;
        lane->in_flight += bytes;
        q->in_flight += bytes;
        q->bucket -= (double)bytes;
        next->beside = q->spare;
        q->spare = next;
        if (progress_send_now(sync, next))
            return -1;
    }
    return 0;
}

void sendq_sent(struct sync *sync, const struct transfer *transfer)
{
    sync->sendq.lanes[transfer->peer].in_flight -= transfer->out;
    sync->sendq.in_flight -= transfer->out;
}

void sendq_close(struct sync *sync)
{
    free(sync->sendq.parcels);
    free(sync->sendq.lanes);
}
