/* The send queue: what this rank has to send, by urgency. A layer near the input is needed first by the
 * next forward pass but comes last out of backprop; were everything handed to MPI at once, it would wait
 * behind all that was posted before. So only a window of bytes is in MPI's hands at a time, and the rest
 * waits here: lowest layer first, equal ones in order. Chunks are the slices that an urgent one
 * overtakes (as in ByteScheduler, Peng et al., SOSP'19; TicTac, Hashemi et al., MLSys'19).
 *
 * Under staleness nobody waits for the first layer before the others, so what changes parameters most, for
 * their size, goes first (managed communication of Bosen, Wei et al., SoCC'15). Nothing starves: a worker
 * that is S iterations ahead posts no more until what is here has gone.
 *
 * A cap on the rank's rate (--bandwidth-mbps) is kept here as well: a bucket that fills with time. */
#include "sync/sync_internal.h"

#include "util/clock.h"
#include "util/error.h"

#include <stdlib.h>

/* A binary heap; queue[0] goes next. */
static bool before(const struct parcel *a, const struct parcel *b)
{
    if (a->urgency != b->urgency)
        return a->urgency < b->urgency;
    return a->transfer.weight != b->transfer.weight ? a->transfer.weight > b->transfer.weight
                                                    : a->number < b->number;
}

static void swap(struct parcel *a, struct parcel *b)
{
    struct parcel c = *a;

    *a = *b;
    *b = c;
}

static void sift_down(struct send_queue *q)
{
    for (int i = 0, least = 0;; i = least) {
        for (int child = 2 * i + 1; child <= 2 * i + 2 && child < q->count; child++)
            if (before(&q->parcels[child], &q->parcels[least]))
                least = child;
        if (least == i)
            return;
        swap(&q->parcels[i], &q->parcels[least]);
    }
}

int sendq_open(struct sync *sync, size_t capacity)
{
    struct send_queue *q = &sync->sendq;

    q->capacity = (int)capacity;
    q->parcels = calloc(capacity, sizeof *q->parcels);
    q->filled = clock_seconds();
    return q->parcels ? 0 : error_memory(capacity * sizeof *q->parcels, "the send queue");
}

int sendq_put(struct sync *sync, struct parcel parcel)
{
    struct send_queue *q = &sync->sendq;
    int i = q->count;

    if (i == q->capacity)
        return error_set("internal: more than %d transfers wait", q->capacity);
    parcel.urgency = sync->options.fifo || sync->options.staleness > 0 ? 0 : parcel.transfer.group;
    parcel.number = q->number++;
    q->parcels[q->count++] = parcel;
    for (int parent; i > 0; i = parent) {
        parent = (i - 1) / 2;
        if (!before(&q->parcels[i], &q->parcels[parent]))
            break;
        swap(&q->parcels[i], &q->parcels[parent]);
    }
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

int sendq_flush(struct sync *sync)
{
    struct send_queue *q = &sync->sendq;
    size_t window = sync->options.window;

    while (q->count > 0) {
        struct parcel next = q->parcels[0];
        size_t bytes = next.elems * sizeof(float);
        if (window && q->in_flight > 0 && q->in_flight + bytes > window)
            return 0;
        if (!may_send(sync))
            return 0;
        q->parcels[0] = q->parcels[--q->count];
        sift_down(q);
        q->in_flight += bytes;
        q->bucket -= (double)bytes;
        if (progress_send_now(sync, &next))
            return -1;
    }
    return 0;
}

void sendq_close(struct sync *sync)
{
    free(sync->sendq.parcels);
}
