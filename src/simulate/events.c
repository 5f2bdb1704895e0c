/* The events to come, in the order of time. */
#include "simulate/simulate_internal.h"
#include "util/alloc.h"

static bool before(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

int events_put(struct events *e, struct event event)
{
    size_t at = e->count;

    if (ALLOC_ROOM(e->heap, e->count, "the simulation's events"))
        return -1;
    event.number = e->number++;
    for (; at > 0 && before(&event, &e->heap[(at - 1) / 2]); at = (at - 1) / 2)
        e->heap[at] = e->heap[(at - 1) / 2];
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
    for (size_t child; (child = 2 * at + 1) < e->count; at = child) {
        if (child + 1 < e->count && before(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!before(&e->heap[child], &last))
            break;
        e->heap[at] = e->heap[child];
    }
    e->heap[at] = last;
    return true;
}
