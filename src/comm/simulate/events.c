/* Queue of future events, ordered by time. */
#include "simulate/simulate_internal.h"
#include "util/alloc.h"

static bool before(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

int events_put(struct events *e, struct event event)
{
    size_t at = e->count, above;

    if (ALLOC_ROOM(e->heap, e->count, "the simulation's events"))
        return -1;
    event.order += EVENT_KINDS * e->number++;
    for (; at > 0 && before(&event, &e->heap[above = (at - 1) / 2]); at = above)
        e->heap[at] = e->heap[above];
    e->heap[at] = event;
    e->count++;
    return 0;
}

/* Takes the earliest event (bottom-up heapsort): the hole sinks, then the last element rises. */
bool events_take(struct events *e, struct event *out)
{
    size_t at = 0, child, above;
    struct event last;

    if (e->count == 0)
        return false;
    *out = e->heap[0];
    last = e->heap[--e->count];
    for (; (child = 2 * at + 1) < e->count; at = child) {
        if (child + 1 < e->count)
            child += before(&e->heap[child + 1], &e->heap[child]);
        e->heap[at] = e->heap[child];
    }
    for (; at > 0 && before(&last, &e->heap[above = (at - 1) / 2]); at = above)
        e->heap[at] = e->heap[above];
    e->heap[at] = last;
    return true;
}
