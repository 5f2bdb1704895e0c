/* From messages to what made and what wanted them: by layer and time alone, since events name no
 * causes. What made a message is the last span of its kind that ended before the message left; what
 * wants it, the first that ends after it came. */
#include "timeline/flows.h"

#include "util/alloc.h"

#include <stdlib.h>

static int compare_ends(const void *a, const void *b)
{
    const struct trace_event *x = *(const struct trace_event *const *)a;
    const struct trace_event *y = *(const struct trace_event *const *)b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

struct index {
    const struct timeline_rank *ranks;
    const struct trace_event ***by_end; /* per rank: its events by kind, layer and end. Owned */
};

/* The first of the rank's events of that kind and layer that ends after `time`; nevents: none does.
 */
static size_t place_after(const struct index *x, int rank, const struct trace_event *key)
{
    size_t low = 0, high = x->ranks[rank].nevents;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_ends(&x->by_end[rank][middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_of(const struct index *x, int rank, size_t place, const struct trace_event *key,
                  size_t *event)
{
    const struct trace_event *found;

    if (place >= x->ranks[rank].nevents)
        return false;
    found = x->by_end[rank][place];
    *event = (size_t)(found - x->ranks[rank].events);
    return found->kind == key->kind && found->layer == key->layer;
}

static bool find_before(const struct index *x, int rank, enum trace_kind kind, int layer,
                        int64_t time, size_t *event)
{
    struct trace_event key = {.kind = (uint8_t)kind, .layer = layer, .end = time};
    size_t place = place_after(x, rank, &key);

    return place > 0 && is_of(x, rank, place - 1, &key, event);
}

static bool find_after(const struct index *x, int rank, enum trace_kind kind, int layer,
                       int64_t time, size_t *event)
{
    struct trace_event key = {.kind = (uint8_t)kind, .layer = layer, .end = time};

    return is_of(x, rank, place_after(x, rank, &key), &key, event);
}

bool flow_is_back(const struct trace_event *transfer)
{
    return transfer->tag & 1; /* as src/sync makes tags */
}

/* What the message left behind; false: nothing that was recorded. */
static bool find_maker(const struct index *x, int rank, const struct trace_event *send,
                       struct flow_point *out)
{
    *out = (struct flow_point){.rank = rank, .at_end = true};
    if (flow_is_back(send))
        return find_before(x, rank, TRACE_UPDATE, send->layer, send->posted, &out->event) ||
               find_before(x, rank, TRACE_SUM, send->layer, send->posted, &out->event);
    return find_before(x, rank, TRACE_BACKWARD, send->layer, send->posted, &out->event);
}

/* What the message was for. A forward pass is looked for where nobody had to wait. */
static bool find_user(const struct index *x, int rank, const struct trace_event *receive,
                      struct flow_point *out)
{
    *out = (struct flow_point){.rank = rank, .at_end = true};
    if (!flow_is_back(receive))
        return find_after(x, rank, TRACE_UPDATE, receive->layer, receive->end, &out->event);
    size_t wait, forward;
    bool waits = find_after(x, rank, TRACE_WAIT, receive->layer, receive->end, &wait);
    bool passes = find_after(x, rank, TRACE_FORWARD, receive->layer, receive->end, &forward);
    const struct trace_event *events = x->ranks[rank].events;
    out->event = waits && (!passes || events[wait].end <= events[forward].end) ? wait : forward;
    return waits || passes;
}

static int index_rank(struct index *x, int rank)
{
    const struct timeline_rank *r = &x->ranks[rank];

    x->by_end[rank] = alloc_array(r->nevents, sizeof **x->by_end, "the trace's arrows");
    if (!x->by_end[rank])
        return -1;
    for (size_t e = 0; e < r->nevents; e++)
        x->by_end[rank][e] = &r->events[e];
    qsort(x->by_end[rank], r->nevents, sizeof **x->by_end, compare_ends);
    return 0;
}

/* sent: where the message left. */
static void put_message(const struct index *x, struct flow_point sent, int rank, size_t receive,
                        flow_put_fn *put, void *context)
{
    const struct trace_event *received = &x->ranks[rank].events[receive];
    struct flow_point points[FLOW_POINTS];
    int n = 0;

    if (find_maker(x, sent.rank, &x->ranks[sent.rank].events[sent.event], &points[n]))
        n++;
    points[n++] = sent;
    points[n++] = (struct flow_point){.rank = rank, .event = receive, .at_end = true};
    if (find_user(x, rank, received, &points[n]))
        n++;
    put(context, flow_is_back(received), points, n);
}

int flows_put(const struct timeline_rank *ranks, int nranks, flow_put_fn *put, void *context)
{
    struct index x = {.ranks = ranks, .by_end = calloc((size_t)nranks, sizeof *x.by_end)};
    struct timeline_sends sends;
    int status = error_any(timeline_list_sends(ranks, nranks, &sends) || !x.by_end);

    for (int r = 0; r < nranks && !status; r++)
        status = index_rank(&x, r);
    for (int r = 0; r < nranks && !status; r++)
        for (size_t e = 0; e < ranks[r].nevents; e++) {
            const struct trace_event *receive = &ranks[r].events[e];
            const struct timeline_sent *its = receive->kind == TRACE_RECEIVE
                                                  ? timeline_find_send(&sends, ranks, r, receive)
                                                  : NULL;
            if (its)
                put_message(&x, (struct flow_point){.rank = its->from, .event = its->event}, r, e,
                            put, context);
        }
    for (int r = 0; x.by_end && r < nranks; r++)
        free(x.by_end[r]);
    free(x.by_end);
    free(sends.sent);
    return status;
}
