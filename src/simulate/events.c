/* The events to come, in the order of time. */
#include "simulate/simulate_internal.h"
#include "util/alloc.h"

enum { BELOW = 4 };

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
    for (; at > 0 && before(&event, &e->heap[above = (at - 1) / BELOW]); at = above)
        e->heap[at] = e->heap[above];
    e->heap[at] = event;
    e->count++;
    return 0;
}

bool events_take(struct events *e, struct event *out)
{
    size_t at = 0;
    struct event last;

    if (e->count == 0)
        return false;
    *out = e->heap[0];
    last = e->heap[--e->count];
    for (size_t child; (child = BELOW * at + 1) < e->count; at = child) {
        size_t end = child + BELOW < e->count ? child + BELOW : e->count;
        for (size_t i = child + 1; i < end; i++)
            child = before(&e->heap[i], &e->heap[child]) ? i : child;
        if (!before(&e->heap[child], &last))
            break;
        e->heap[at] = e->heap[child];
    }
    e->heap[at] = last;
    return true;
}
