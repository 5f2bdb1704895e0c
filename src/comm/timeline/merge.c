/* Gathering, pairs, lanes, arrows. A receive is posted long before its data is sent, so only the
 * send's beginning shows when the data travelled. Messages between two ranks with one tag never
 * overtake each other: a receive's send is the last such send before the arrival. */
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

/* Allocates the other ranks' events on rank 0. */
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

/* Sends all events to the arrays that rank 0 has allocated. */
static int collect_events(MPI_Comm comm, const struct timeline_rank *mine,
                          struct timeline_rank *ranks, int nranks)
{
    if (!ranks)
        MPI_CHECK(MPI_Send(mine->events, (int)(mine->nevents * sizeof *mine->events), MPI_BYTE, 0,
                           TIMELINE_TAG, comm));
    for (int r = 1; ranks && r < nranks; r++)
        MPI_CHECK(MPI_Recv(ranks[r].events, (int)(ranks[r].nevents * sizeof *mine->events),
                           MPI_BYTE, r, TIMELINE_TAG, comm, MPI_STATUS_IGNORE));
    return 0;
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
    assert(mine.nevents * sizeof *mine.events <= INT_MAX); /* buffers are limited */
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

/* Events of all ranks, sorted for search: sends by rank, peer and tag; spans by rank, kind and
 * layer; then by time. */
struct marks {
    const struct timeline_rank *ranks;
    struct mark {
        int rank, second, third;
        int64_t time; /* beginning of a send, end of a span */
        size_t event; /* index in that rank's events */
    } * mark;         /* owned */
    size_t n;
};

static int compare_marks(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->second != y->second)
        return x->second < y->second ? -1 : 1;
    if (x->third != y->third)
        return x->third < y->third ? -1 : 1;
    return (x->time > y->time) - (x->time < y->time);
}

/* Lists all events, or sends alone. Fails if out of memory; the caller always frees out->mark. */
static int list_marks(const struct timeline_rank *ranks, int nranks, bool sends, struct marks *out)
{
    size_t count = 0;

    for (int r = 0; r < nranks; r++)
        count += ranks[r].nevents;
    *out = (struct marks){.ranks = ranks};
    if (ALLOC(out->mark, count, "the trace's transfers"))
        return -1;
    for (int r = 0; r < nranks; r++)
        for (size_t e = 0; e < ranks[r].nevents; e++) {
            const struct trace_event *event = &ranks[r].events[e];
            if (!sends)
                out->mark[out->n++] = (struct mark){r, event->kind, event->layer, event->end, e};
            else if (event->kind == TRACE_SEND)
                out->mark[out->n++] = (struct mark){r, event->peer, event->tag, event->start, e};
        }
    qsort(out->mark, out->n, sizeof *out->mark, compare_marks);
    return 0;
}

/* Returns the key's last mark up to the key (before), or the first after the key, or NULL. */
static const struct mark *find_mark(const struct marks *marks, bool before, struct mark key)
{
    size_t low = 0, high = marks->n;
    const struct mark *found;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_marks(&marks->mark[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (before ? low == 0 : low == marks->n)
        return NULL;
    found = &marks->mark[before ? low - 1 : low];
    key.time = found->time;
    return compare_marks(found, &key) == 0 ? found : NULL;
}

/* Returns the send of a rank's receive: the last send with the same ranks and tag that began before
 * the arrival. NULL: the send was not recorded, or the event is no receive. */
static const struct mark *find_send(const struct marks *sends, int rank,
                                    const struct trace_event *receive)
{
    int peer = receive->peer;
    int64_t slack = peer >= 0 ? (int64_t)(sends->ranks[rank].error + sends->ranks[peer].error) : 0;

    return receive->kind == TRACE_RECEIVE
               ? find_mark(sends, true,
                           (struct mark){peer, rank, receive->tag, receive->end + slack, 0})
               : NULL;
}

int timeline_pair(struct timeline_rank *ranks, int nranks, int64_t first, int64_t last)
{
    struct marks sends;

    if (list_marks(ranks, nranks, true, &sends))
        return -1;
    for (int r = 0; r < nranks; r++)
        for (size_t e = 0; e < ranks[r].nevents; e++) {
            struct trace_event *event = &ranks[r].events[e];
            const struct mark *send = find_send(&sends, r, event);
            if (!send)
                continue;
            event->iteration = ranks[send->rank].events[send->event].iteration;
            if (send->time > event->start)
                event->start = send->time < event->end ? send->time : event->end;
        }
    free(sends.mark);
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
    int64_t *busy[TRACE_KINDS] = {NULL}; /* per lane: end of its last event */
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

/* ---- arrows between messages and the spans that made or used them, found by layer and time, since
 * events name no causes. The maker is the last span of its kind that ended before the message left;
 * the user is the first span that ends after it came ---- */

/* Finds the rank's last event of a kind and layer that ends by `time` (before), or the first that
 * ends later. Returns false if there is none. */
static bool find_span(const struct marks *x, bool before, int rank, enum trace_kind kind, int layer,
                      int64_t time, size_t *event)
{
    const struct mark *found = find_mark(x, before, (struct mark){rank, (int)kind, layer, time, 0});

    if (found)
        *event = found->event;
    return found;
}

bool flow_is_back(const struct trace_event *transfer)
{
    return transfer->tag & 1; /* src/comm/sync gives messages of the way back odd tags */
}

/* Finds the span that made a message; returns false if none was recorded. */
static bool find_maker(const struct marks *x, int rank, const struct trace_event *send,
                       struct flow_point *out)
{
    *out = (struct flow_point){.rank = rank, .at_end = true};
    if (flow_is_back(send))
        return find_span(x, true, rank, TRACE_UPDATE, send->layer, send->posted, &out->event) ||
               find_span(x, true, rank, TRACE_SUM, send->layer, send->posted, &out->event);
    return find_span(x, true, rank, TRACE_BACKWARD, send->layer, send->posted, &out->event);
}

/* Finds the span that used a message: for parameters a wait, or the forward pass without a wait. */
static bool find_user(const struct marks *x, int rank, const struct trace_event *receive,
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

/* Puts the arrow of one message. sent: the message's send. */
static void put_message(const struct marks *x, struct flow_point sent, int rank, size_t receive,
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
    struct marks spans = {.n = 0}, sends;
    int status = error_status(list_marks(ranks, nranks, true, &sends) ||
                              list_marks(ranks, nranks, false, &spans));

    for (int r = 0; r < nranks && !status; r++)
        for (size_t e = 0; e < ranks[r].nevents; e++) {
            const struct mark *send = find_send(&sends, r, &ranks[r].events[e]);
            if (send)
                put_message(&spans, (struct flow_point){.rank = send->rank, .event = send->event},
                            r, e, put, context);
        }
    free(spans.mark);
    free(sends.mark);
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
