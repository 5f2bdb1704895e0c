/* Gathering, pairing, lanes. A receive is posted long before its data is sent, so its own times say
 * little: with the send's beginning it shows when the data travelled. Messages between two ranks on
 * one tag never overtake each other, so the last such send before the arrival is the one. */
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

static int sent_compare(const void *a, const void *b)
{
    const struct timeline_sent *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->tag != y->tag)
        return x->tag < y->tag ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

/* The last of its pair and tag that began before the arrival. */
const struct timeline_sent *timeline_find_send(const struct timeline_sends *sends,
                                               const struct timeline_rank *ranks, int rank,
                                               const struct trace_event *receive)
{
    int peer = receive->peer;
    int64_t slack = peer >= 0 ? (int64_t)(ranks[rank].error + ranks[peer].error) : 0;
    struct timeline_sent key = {
        .from = peer, .to = rank, .tag = receive->tag, .start = receive->end + slack};
    size_t low = 0, high = sends->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sent_compare(&sends->sent[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    const struct timeline_sent *found = &sends->sent[low - 1];
    return found->from == key.from && found->to == key.to && found->tag == key.tag ? found : NULL;
}

int timeline_list_sends(const struct timeline_rank *ranks, int nranks, struct timeline_sends *out)
{
    size_t most = 1;

    for (int r = 0; r < nranks; r++)
        most += ranks[r].nevents;
    *out = (struct timeline_sends){
        .sent = alloc_array(most, sizeof *out->sent, "the trace's transfers")};
    if (!out->sent)
        return -1;
    for (int r = 0; r < nranks; r++)
        for (size_t e = 0; e < ranks[r].nevents; e++) {
            const struct trace_event *event = &ranks[r].events[e];
            if (event->kind == TRACE_SEND)
                out->sent[out->n++] =
                    (struct timeline_sent){r, event->peer, event->tag, event->start, e};
        }
    qsort(out->sent, out->n, sizeof *out->sent, sent_compare);
    return 0;
}

int timeline_pair(struct timeline_rank *ranks, int nranks, int64_t first, int64_t last)
{
    struct timeline_sends sends;

    if (timeline_list_sends(ranks, nranks, &sends))
        return -1;
    for (int r = 0; r < nranks; r++)
        for (size_t e = 0; e < ranks[r].nevents; e++) {
            struct trace_event *event = &ranks[r].events[e];
            const struct timeline_sent *its =
                event->kind == TRACE_RECEIVE ? timeline_find_send(&sends, ranks, r, event) : NULL;
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

void timeline_ranks_free(struct timeline_rank *ranks, int nranks)
{
    for (int r = 0; ranks && r < nranks; r++) {
        free(ranks[r].events);
        free(ranks[r].lane);
    }
    free(ranks);
}
