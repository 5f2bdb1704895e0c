/* The wire queue: what this rank has to send, by urgency. A layer near the input is needed first by the
 * next forward pass but comes last out of backprop; were everything handed to MPI at once, it would wait
 * behind all that was posted before. So only a window of bytes is in MPI's hands at a time, and the rest
 * waits here: lowest layer first, equal ones in order. Chunks are the slices that an urgent one
 * overtakes (as in ByteScheduler, Peng et al., SOSP'19; TicTac, Hashemi et al., MLSys'19).
 *
 * A cap on the rank's rate (--bandwidth-mbps) is kept here as well: a bucket that fills with time. */
#include "sync/sync_internal.h"

#include "util/clock.h"
#include "util/error.h"

#include <stdlib.h>

/* A binary heap; queue[0] goes next. */
static bool before(const struct parcel *a, const struct parcel *b)
{
    return a->urgency != b->urgency ? a->urgency < b->urgency : a->number < b->number;
}

static void swap(struct parcel *a, struct parcel *b)
{
    struct parcel c = *a;

    *a = *b;
    *b = c;
}

static void sift_down(struct wire_queue *wire)
{
    for (int i = 0, least = 0;; i = least) {
        for (int child = 2 * i + 1; child <= 2 * i + 2 && child < wire->count; child++)
            if (before(&wire->parcels[child], &wire->parcels[least]))
                least = child;
        if (least == i)
            return;
        swap(&wire->parcels[i], &wire->parcels[least]);
    }
}

int wire_open(struct sync *sync, size_t capacity)
{
    struct wire_queue *wire = &sync->wire;

    wire->capacity = (int)capacity;
    wire->parcels = calloc(capacity, sizeof *wire->parcels);
    wire->filled = clock_seconds();
    return wire->parcels ? 0 : error_memory(capacity * sizeof *wire->parcels, "the wire queue");
}

int wire_put(struct sync *sync, struct parcel parcel)
{
    struct wire_queue *wire = &sync->wire;
    int i = wire->count;

    if (i == wire->capacity)
        return error_set("internal: more than %d transfers wait", wire->capacity);
    parcel.urgency = sync->options.fifo ? 0 : parcel.transfer.group;
    parcel.number = wire->number++;
    wire->parcels[wire->count++] = parcel;
    for (int parent; i > 0; i = parent) {
        parent = (i - 1) / 2;
        if (!before(&wire->parcels[i], &wire->parcels[parent]))
            break;
        swap(&wire->parcels[i], &wire->parcels[parent]);
    }
    return wire_flush(sync);
}

/* Whether the cap lets anything go now; at most 20 ms of it are saved up. */
static bool may_send(struct sync *sync)
{
    struct wire_queue *wire = &sync->wire;
    double rate = sync->options.bytes_per_second, now;

    if (rate <= 0)
        return true;
    now = clock_seconds();
    wire->bucket += (now - wire->filled) * rate;
    wire->filled = now;
    if (wire->bucket > rate * 0.02)
        wire->bucket = rate * 0.02;
    return wire->bucket >= 0;
}

int wire_flush(struct sync *sync)
{
    struct wire_queue *wire = &sync->wire;
    size_t window = sync->options.window;

    while (wire->count > 0) {
        struct parcel next = wire->parcels[0];
        size_t bytes = next.elems * sizeof(float);
        if (window && wire->in_flight > 0 && wire->in_flight + bytes > window)
            return 0;
        if (!may_send(sync))
            return 0;
        wire->parcels[0] = wire->parcels[--wire->count];
        sift_down(wire);
        wire->in_flight += bytes;
        wire->bucket -= (double)bytes;
        if (progress_send_now(sync, &next))
            return -1;
    }
    return 0;
}

void wire_close(struct sync *sync)
{
    free(sync->wire.parcels);
}
