/* When bytes were on the wire, out of a trace of train: every message between two nodes is spread
 * over the time from its departure to its completion, and the iterations of the rank that sent it
 * are laid over one another. */
#include "report/runs_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_CJSON
#include <cJSON.h>

enum { INTERVALS = 100, HOST_BYTES = 128 };

struct span {
    double start, end;
};

struct trace_rank {
    char host[HOST_BYTES];
    int nspans, room;
    struct span *spans; /* iterations, in order; owned */
};

struct reader {
    int nranks;
    struct trace_rank *ranks;
};

static const char *text_of(const cJSON *event, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(event, key));

    return text ? text : "";
}

static double number_of(const cJSON *event, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(event, key);

    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static struct trace_rank *rank_of(struct reader *r, double pid)
{
    return pid >= 0 && pid < r->nranks ? &r->ranks[(int)pid] : NULL;
}

/* "rank 3 (worker and server, host)" */
static void note_host(struct reader *r, const cJSON *event)
{
    struct trace_rank *rank = rank_of(r, number_of(event, "pid"));
    const char *name = text_of(cJSON_GetObjectItemCaseSensitive(event, "args"), "name");
    const char *comma = strrchr(name, ',');

    if (rank && comma && !strcmp(text_of(event, "name"), "process_name"))
        snprintf(rank->host, sizeof rank->host, "%s", comma + 1);
}

static int note_iteration(struct reader *r, const cJSON *event)
{
    struct trace_rank *rank = rank_of(r, number_of(event, "pid"));
    double start = number_of(event, "ts"), length = number_of(event, "dur");

    if (!rank || !(length > 0))
        return 0;
    if (rank->nspans == rank->room) {
        int room = 2 * rank->room + 16;
        struct span *grown = realloc(rank->spans, (size_t)room * sizeof *grown);
        if (!grown)
            return error_memory((size_t)room * sizeof *grown, "a trace's iterations");
        rank->spans = grown;
        rank->room = room;
    }
    rank->spans[rank->nspans++] = (struct span){start, start + length};
    return 0;
}

static void spread(const struct trace_rank *rank, struct span sent, double bytes, double *wire)
{
    for (int k = 0; k < rank->nspans; k++) {
        struct span it = rank->spans[k];
        double each = (it.end - it.start) / INTERVALS;
        double from = fmax(sent.start, it.start), to = fmin(sent.end, it.end);
        for (int i = (int)((from - it.start) / each); from < to && i < INTERVALS; i++) {
            double edge = fmin(to, it.start + (i + 1) * each);
            if (edge > from)
                wire[i] += bytes * (edge - from) / (sent.end - sent.start);
            from = fmax(from, edge);
        }
    }
}

static void note_send(struct reader *r, const cJSON *event, double *wire)
{
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(event, "args");
    struct trace_rank *rank = rank_of(r, number_of(event, "pid"));
    struct trace_rank *peer = rank_of(r, number_of(args, "peer"));
    double start = number_of(event, "ts"), length = number_of(event, "dur");
    double bytes = number_of(args, "bytes");

    if (rank && length > 0 && bytes > 0 && !(peer && !strcmp(peer->host, rank->host)))
        spread(rank, (struct span){start, start + length}, bytes, wire);
}

static int read_events(struct reader *r, const cJSON *events, double *wire)
{
    const cJSON *event;

    cJSON_ArrayForEach(event, events)
    {
        if (!strcmp(text_of(event, "ph"), "M"))
            note_host(r, event);
        else if (!strcmp(text_of(event, "cat"), "iteration") && note_iteration(r, event))
            return -1;
    }
    cJSON_ArrayForEach(event, events) if (!strcmp(text_of(event, "cat"), "send"))
        note_send(r, event, wire);
    return 0;
}

int runs_read_trace(const cJSON *trace, const char *path, struct run *run)
{
    double ranks = number_of(cJSON_GetObjectItemCaseSensitive(trace, "otherData"), "ranks");
    struct reader r = {.nranks = ranks >= 1 && ranks <= 1 << 20 ? (int)ranks : 0};
    int spans = 0, status = -1;

    if (!r.nranks)
        return error_set("%s: the trace does not say how many ranks it has", path);
    r.ranks = alloc_array((size_t)r.nranks, sizeof *r.ranks, "a trace's ranks");
    run->wire = alloc_array(INTERVALS, sizeof *run->wire, "intervals");
    run->nwire = INTERVALS;
    if (r.ranks && run->wire)
        status = read_events(&r, cJSON_GetObjectItemCaseSensitive(trace, "traceEvents"), run->wire);
    for (int k = 0; k < r.nranks && r.ranks; k++) {
        spans = r.ranks[k].nspans > spans ? r.ranks[k].nspans : spans;
        free(r.ranks[k].spans);
    }
    free(r.ranks);
    for (int i = 0; i < INTERVALS && !status && spans; i++)
        run->wire[i] /= (double)spans * run->nodes;
    return status || spans ? status : error_set("%s: the trace has no iteration", path);
}

#else
int runs_read_trace(const struct cJSON *trace, const char *path, struct run *run)
{
    (void)trace, (void)path, (void)run;
    return -1; /* nobody can parse one */
}
#endif
