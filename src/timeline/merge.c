/* Gathering, pairs, lanes, arrows. A receive is posted long before its data is sent, so its own
 * times say little: with the send's beginning it shows when the data travelled. Messages between
 * two ranks on one tag never overtake each other, so the last such send before the arrival is the
 * one. */
#include "timeline/merge.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "util/agree.h"
#include "util/alloc.h"

enum { TIMELINE_TAG = 2 };

static void describe_rank(const struct trace *trace, const struct timeline_about *about,
                          struct timeline_rank *out)
{
    int rank = about->topology->rank;

    *out = (struct timeline_rank){
        .worker = plan_is_worker(about->plan, rank),
        .server = plan_leads(about->plan, rank) &&
                  (!about->plan->dedicated || !plan_is_worker(about->plan, rank))};
    memcpy(out->host, about->topology->host[rank], sizeof out->host);
    out->error =
        about->before.error > about->after.error ? about->before.error : about->after.error;
    for (int i = 0; i < TRACE_THREADS; i++) {
        out->dropped += trace->buffer[i].dropped;
        out->nevents += trace->buffer[i].used;
    }
}

static int copy_events(const struct trace *trace, const struct timeline_about *about,
                       struct timeline_rank *out)
{
    size_t n = 0;

    if (ALLOC(out->events, out->nevents, "the trace"))
        return -1;
    for (int i = 0; i < TRACE_THREADS; i++)
        for (size_t e = 0; e < trace->buffer[i].used; e++) {
            struct trace_event *event = &out->events[n++];
            *event = trace->buffer[i].events[e];
            event->start = clock_align(&about->before, &about->after, event->start);
            event->end = clock_align(&about->before, &about->after, event->end);
            event->posted = event->posted == 0
                                ? event->start
                                : clock_align(&about->before, &about->after, event->posted);
        }
    return 0;
}

/* Room for the others' events, on rank 0. */
static int make_room(struct timeline_rank *ranks, int nranks)
{
    int status = 0;

    for (int r = 1; r < nranks; r++) {
        ranks[r].events =
            status ? NULL
                   : alloc_array(ranks[r].nevents, sizeof *ranks[r].events, "the trace of a rank");
        status = ranks[r].events ? 0 : -1;
    }
    return status;
}

/* The events go to where rank 0 has room for them. */
static int collect_events(MPI_Comm comm, const struct timeline_rank *mine,
                          struct timeline_rank *ranks, int nranks)
{
    if (!ranks)
        MPI_TRY(MPI_Send(mine->events, (int)(mine->nevents * sizeof *mine->events), MPI_BYTE, 0,
                         TIMELINE_TAG, comm));
    for (int r = 1; ranks && r < nranks; r++)
        MPI_TRY(MPI_Recv(ranks[r].events, (int)(ranks[r].nevents * sizeof *mine->events), MPI_BYTE,
                         r, TIMELINE_TAG, comm, MPI_STATUS_IGNORE));
    return 0;
fail:
    return -1;
}

int timeline_gather(MPI_Comm comm, const struct trace *trace, const struct timeline_about *about,
                    struct timeline_rank **out)
{
    struct timeline_rank mine, *ranks;
    void *all = NULL;
    int nranks, status;

    *out = NULL;
    MPI_Comm_size(comm, &nranks);
    describe_rank(trace, about, &mine);
    assert(mine.nevents * sizeof *mine.events <= INT_MAX); /* buffers have a size */
    if (error_agree(comm, copy_events(trace, about, &mine)) ||
        agree_gather(comm, &mine, sizeof mine, "the trace", &all)) {
        free(mine.events);
        return -1;
    }
    ranks = all;
    status = error_agree(comm, ranks ? make_room(ranks, nranks) : 0);
    if (!status)
        status = collect_events(comm, &mine, ranks, nranks);
    if (!ranks)
        free(mine.events);
    *out = ranks;
    return status;
}

/* ---- pairs ---- */

/* How many of the items, which are in order, are not behind the key. */
static size_t count_up_to(const void *items, size_t n, size_t size, const void *key,
                          int (*compare)(const void *a, const void *b))
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare((const char *)items + middle * size, key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t count_events(const struct timeline_rank *ranks, int nranks)
{
    size_t count = 0;

    for (int r = 0; r < nranks; r++)
        count += ranks[r].nevents;
    return count;
}

/* The sends of all ranks, to be found by their receives. */
struct sends {
    const struct timeline_rank *ranks;
    struct sent {
        int from, to, tag;
        int64_t start;
        size_t event; /* of rank `from` */
    } * sent;         /* in the order in which they are looked for. Owned */
    size_t n;
};

static int compare_sent(const void *a, const void *b)
{
    const struct sent *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->tag != y->tag)
        return x->tag < y->tag ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

/* Fails for want of memory; free(out->sent) in any case. */
static int list_sends(const struct timeline_rank *ranks, int nranks, struct sends *out)
{
    *out = (struct sends){.ranks = ranks};
    if (ALLOC(out->sent, count_events(ranks, nranks), "the trace's transfers"))
        return -1;
    for (int r = 0; r < nranks; r++)
        for (size_t e = 0; e < ranks[r].nevents; e++) {
            const struct trace_event *event = &ranks[r].events[e];
            if (event->kind == TRACE_SEND)
                out->sent[out->n++] = (struct sent){r, event->peer, event->tag, event->start, e};
        }
    qsort(out->sent, out->n, sizeof *out->sent, compare_sent);
    return 0;
}

/* The send of that event of the rank's: the last of its pair and tag that began before the arrival.
 * NULL: it was not recorded, or the event is no receive. */
static const struct sent *find_send(const struct sends *sends, int rank,
                                    const struct trace_event *receive)
{
    int peer = receive->peer;
    int64_t slack = peer >= 0 ? (int64_t)(sends->ranks[rank].error + sends->ranks[peer].error) : 0;
    struct sent key = {
        .from = peer, .to = rank, .tag = receive->tag, .start = receive->end + slack};
    size_t place = receive->kind == TRACE_RECEIVE
                       ? count_up_to(sends->sent, sends->n, sizeof key, &key, compare_sent)
                       : 0;
    const struct sent *found = place > 0 ? &sends->sent[place - 1] : NULL;

    return found && found->from == key.from && found->to == key.to && found->tag == key.tag ? found
                                                                                            : NULL;
}

int timeline_pair(struct timeline_rank *ranks, int nranks, int64_t first, int64_t last)
{
    struct sends sends;

    if (list_sends(ranks, nranks, &sends))
        return -1;
    for (int r = 0; r < nranks; r++)
        for (size_t e = 0; e < ranks[r].nevents; e++) {
            struct trace_event *event = &ranks[r].events[e];
            const struct sent *its = find_send(&sends, r, event);
            if (!its)
                continue;
            event->iteration = ranks[its->from].events[its->event].iteration;
            if (its->start > event->start)
                event->start = its->start < event->end ? its->start : event->end;
        }
    free(sends.sent);
    for (int r = 0; r < nranks; r++) {
        size_t kept = 0;
        for (size_t e = 0; e < ranks[r].nevents; e++)
            if (ranks[r].events[e].iteration >= first && ranks[r].events[e].iteration <= last)
                ranks[r].events[kept++] = ranks[r].events[e];
        ranks[r].nevents = kept;
    }
    return 0;
}

/* ---- lanes ---- */

static int event_compare(const void *a, const void *b)
{
    const struct trace_event *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->end < y->end) - (x->end > y->end);
}

int timeline_lay_out(struct timeline_rank *rank)
{
    int64_t *busy[TRACE_KINDS] = {NULL}; /* per lane: until when */
    int status = -1;

    qsort(rank->events, rank->nevents, sizeof *rank->events, event_compare);
    if (ALLOC(rank->lane, rank->nevents, "the trace's lanes"))
        return -1;
    for (size_t e = 0; e < rank->nevents; e++) {
        const struct trace_event *event = &rank->events[e];
        int kind = event->kind, lane = 0;
        if (kind < TRACE_READ)
            continue;
        while (lane < rank->lanes[kind] && busy[kind][lane] > event->start)
            lane++;
        if (lane == rank->lanes[kind]) {
            if (ALLOC_ROOM(busy[kind], lane, "the trace's lanes"))
                goto done;
            rank->lanes[kind]++;
        }
        busy[kind][lane] = event->end;
        rank->lane[e] = lane;
    }
    status = 0;
done:
    for (int k = 0; k < TRACE_KINDS; k++)
        free(busy[k]);
    return status;
}

/* ---- arrows: from messages to what made and what wanted them, by layer and time alone, since
 * events name no causes. What made a message is the last span of its kind that ended before the
 * message left; what wants it, the first that ends after it came ---- */

/* The spans of all ranks. */
struct spans {
    const struct timeline_rank *ranks;
    struct span {
        int rank;
        const struct trace_event *event;
    } * span; /* by rank, kind, layer and end. Owned */
    size_t n;
};

static int compare_spans(const void *a, const void *b)
{
    const struct span *one = a, *other = b;
    const struct trace_event *x = one->event, *y = other->event;

    if (one->rank != other->rank)
        return one->rank < other->rank ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int list_spans(const struct timeline_rank *ranks, int nranks, struct spans *out)
{
    *out = (struct spans){.ranks = ranks};
    if (ALLOC(out->span, count_events(ranks, nranks), "the trace's arrows"))
        return -1;
    for (int r = 0; r < nranks; r++)
        for (size_t e = 0; e < ranks[r].nevents; e++)
            out->span[out->n++] = (struct span){r, &ranks[r].events[e]};
    qsort(out->span, out->n, sizeof *out->span, compare_spans);
    return 0;
}

/* The rank's last event of that kind and layer that ends by `time` (before), or the first one that
 * ends after it; false: there is none. */
static bool find_span(const struct spans *x, bool before, int rank, enum trace_kind kind, int layer,
                      int64_t time, size_t *event)
{
    const struct trace_event key = {.kind = (uint8_t)kind, .layer = layer, .end = time};
    const struct span wanted = {rank, &key}, *found;
    size_t place = count_up_to(x->span, x->n, sizeof wanted, &wanted, compare_spans);

    if (before ? place == 0 : place == x->n)
        return false;
    found = &x->span[before ? place - 1 : place];
    if (found->rank != rank || found->event->kind != key.kind || found->event->layer != layer)
        return false;
    *event = (size_t)(found->event - x->ranks[rank].events);
    return true;
}

bool flow_is_back(const struct trace_event *transfer)
{
    return transfer->tag & 1; /* as src/sync makes tags */
}

/* What the message left behind; false: nothing that was recorded. */
static bool find_maker(const struct spans *x, int rank, const struct trace_event *send,
                       struct flow_point *out)
{
    *out = (struct flow_point){.rank = rank, .at_end = true};
    if (flow_is_back(send))
        return find_span(x, true, rank, TRACE_UPDATE, send->layer, send->posted, &out->event) ||
               find_span(x, true, rank, TRACE_SUM, send->layer, send->posted, &out->event);
    return find_span(x, true, rank, TRACE_BACKWARD, send->layer, send->posted, &out->event);
}

/* What the message was for. A forward pass is looked for where nobody had to wait. */
static bool find_user(const struct spans *x, int rank, const struct trace_event *receive,
                      struct flow_point *out)
{
    const struct trace_event *events = x->ranks[rank].events;
    size_t wait = 0, forward = 0;
    bool waits, passes;

    *out = (struct flow_point){.rank = rank, .at_end = true};
    if (!flow_is_back(receive))
        return find_span(x, false, rank, TRACE_UPDATE, receive->layer, receive->end, &out->event);
    waits = find_span(x, false, rank, TRACE_WAIT, receive->layer, receive->end, &wait);
    passes = find_span(x, false, rank, TRACE_FORWARD, receive->layer, receive->end, &forward);
    out->event = waits && (!passes || events[wait].end <= events[forward].end) ? wait : forward;
    return waits || passes;
}

/* sent: where the message left. */
static void put_message(const struct spans *x, struct flow_point sent, int rank, size_t receive,
                        flow_put_fn *put, void *context)
{
    const struct trace_event *received = &x->ranks[rank].events[receive];
    struct flow_point points[4];
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
    struct spans spans = {.n = 0};
    struct sends sends;
    int status =
        error_status(list_sends(ranks, nranks, &sends) || list_spans(ranks, nranks, &spans));

    for (int r = 0; r < nranks && !status; r++)
        for (size_t e = 0; e < ranks[r].nevents; e++) {
            const struct sent *its = find_send(&sends, r, &ranks[r].events[e]);
            if (its)
                put_message(&spans, (struct flow_point){.rank = its->from, .event = its->event}, r,
                            e, put, context);
        }
    free(spans.span);
    free(sends.sent);
    return status;
}

void timeline_ranks_free(struct timeline_rank *ranks, int nranks)
{
    for (int r = 0; ranks && r < nranks; r++) {
        free(ranks[r].events);
        free(ranks[r].lane);
    }
    free(ranks);
}
