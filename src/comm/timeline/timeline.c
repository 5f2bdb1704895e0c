/* Writes the trace file. Times are microseconds with three digits, which keep every nanosecond:
 * spans that touch in memory touch in the file. */
#include "timeline/merge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "util/agree.h"
#include "util/file.h"
#include "util/json.h"
#include "util/strbuf.h"

/* Thread ids in the file; lanes of reads and transfers of kind k begin at LANES * (k + 1). */
enum { TID_COMPUTE, TID_INPUT, TID_PROGRESS, LANES = 10000 };

struct timeline_writer {
    struct file_writer to;
    struct strbuf text; /* text that is not in the file yet. Owned */
    const struct timeline_about *about;
    int64_t base; /* time 0 of the file, ns */
    bool comma;
    uint64_t events;
};

/* Names of spans, and of their colours in chrome://tracing; Perfetto derives colours from the
 * names. */
static const struct {
    const char *name, *color;
} kinds[TRACE_KINDS] = {[TRACE_ITERATION] = {"iteration", "grey"},
                        [TRACE_FORWARD] = {"forward", "thread_state_running"},
                        [TRACE_BACKWARD] = {"backward", "rail_animation"},
                        [TRACE_UPDATE] = {"update", "thread_state_iowait"},
                        [TRACE_WAIT] = {"wait", "terrible"},
                        [TRACE_COPY] = {"copy", "generic_work"},
                        [TRACE_SUM] = {"sum", "thread_state_runnable"},
                        [TRACE_PAUSE] = {"pause", "startup"},
                        [TRACE_INPUT] = {"input", "bad"},
                        [TRACE_READ] = {"read", "good"},
                        [TRACE_SEND] = {"send", "rail_load"},
                        [TRACE_RECEIVE] = {"receive", "rail_response"},
                        [TRACE_EXCHANGE] = {"exchange", "rail_idle"}};

/* Returns the layer of a pass, or the bucket of layers of any other event; a bucket has the name of
 * its first layer. */
static const char *name_of_event(const struct timeline_writer *w, const struct trace_event *event)
{
    const struct plan *plan = w->about->plan;
    bool pass =
        event->kind == TRACE_FORWARD || event->kind == TRACE_BACKWARD || event->kind == TRACE_INPUT;

    for (int b = 0; b < plan->nbuckets && !pass; b++)
        if (plan->buckets[b].layer == event->layer && plan->buckets[b].ngroups > 1)
            return plan->buckets[b].name;
    if (w->about->layer)
        return w->about->layer(w->about->context, event->layer);
    return event->layer >= 0 ? plan->groups[event->layer].name : NULL;
}

static int tid_of(const struct trace_event *event, int lane)
{
    if (event->kind >= TRACE_READ)
        return LANES * (event->kind + 1) + lane;
    if (event->thread == TRACE_PROGRESS)
        return TID_PROGRESS;
    return event->kind == TRACE_INPUT ? TID_INPUT : TID_COMPUTE;
}

static void put_comma(struct timeline_writer *w)
{
    file_writer_put(&w->to, strbuf_text(&w->text), w->text.length);
    strbuf_clear(&w->text);
    strbuf_puts(&w->text, w->comma ? ",\n" : "\n");
    w->comma = true;
}

/* Names and numbers process pid or its thread tid. what: "process" or "thread". */
static void put_meta(struct timeline_writer *w, const char *what, int pid, int tid, int number,
                     const char *name)
{
    put_comma(w);
    strbuf_printf(&w->text,
                  "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s_name\",\"args\":{"
                  "\"name\":",
                  pid, tid, what);
    json_quote(&w->text, name);
    strbuf_puts(&w->text, "}}");
    put_comma(w);
    strbuf_printf(&w->text,
                  "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s_sort_index\",\"args\":{"
                  "\"sort_index\":%d}}",
                  pid, tid, what, number);
}

static void put_names(struct timeline_writer *w, int pid, const struct timeline_rank *rank)
{
    static const char *const role[2][2] = {{"idle", "server"}, {"worker", "worker and server"}};
    static const char *const threads[] = {
        [TID_COMPUTE] = "compute", [TID_INPUT] = "input", [TID_PROGRESS] = "communication thread"};
    char text[192];

    snprintf(text, sizeof text, "rank %d (%s, %s)", pid, role[rank->worker][rank->server],
             rank->host);
    put_meta(w, "process", pid, 0, pid, text);
    for (int t = TID_COMPUTE; t <= TID_PROGRESS; t++)
        put_meta(w, "thread", pid, t, t, threads[t]);
    for (int k = TRACE_READ; k < TRACE_KINDS; k++)
        for (int lane = 0; lane < rank->lanes[k]; lane++) {
            snprintf(text, sizeof text, "%s: %s %d", k < TRACE_SEND ? "feeder" : "wire",
                     kinds[k].name, lane + 1);
            put_meta(w, "thread", pid, LANES * (k + 1) + lane, LANES * (k + 1) + lane, text);
        }
}

static void put_time(struct timeline_writer *w, const char *key, int64_t ns)
{
    strbuf_printf(&w->text, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static const struct scheme *scheme_of(const struct timeline_writer *w,
                                      const struct trace_event *event)
{
    return event->scheme == UINT8_MAX ? NULL
                                      : scheme_at(w->about->plan->options.registry, event->scheme);
}

/* Returns the words for a transfer's data; "" for other events. */
static const char *cargo_of(const struct timeline_writer *w, const struct trace_event *event)
{
    const struct scheme *scheme = scheme_of(w, event);

    if ((event->kind != TRACE_SEND && event->kind != TRACE_RECEIVE) || !scheme)
        return "";
    if (!flow_is_back(event))
        return scheme->factors ? " factors of" : " gradient of";
    return scheme->codec_back ? " sum of" : " parameters of";
}

static void put_event(struct timeline_writer *w, int pid, const struct trace_event *event, int lane)
{
    enum trace_kind kind = (enum trace_kind)event->kind;
    const char *what = kinds[kind].name;
    const char *layer = name_of_event(w, event);
    char title[1100]; /* longer by far than a layer's name */

    put_comma(w);
    if (kind == TRACE_ITERATION)
        snprintf(title, sizeof title, "iteration %d", event->iteration);
    else
        snprintf(title, sizeof title, "%s%s%s%s", what, layer ? cargo_of(w, event) : "",
                 layer ? " " : "", layer ? layer : "");
    strbuf_puts(&w->text, "{\"ph\":\"X\",\"name\":");
    json_quote(&w->text, title);
    strbuf_printf(&w->text, ",\"cat\":\"%s\",\"cname\":\"%s\",\"pid\":%d,\"tid\":%d", what,
                  kinds[kind].color, pid, tid_of(event, lane));
    put_time(w, "ts", event->start - w->base);
    put_time(w, "dur", event->end - event->start);
    strbuf_printf(&w->text, ",\"args\":{\"iteration\":%d", event->iteration);
    if (layer) {
        strbuf_puts(&w->text, ",\"layer\":");
        json_quote(&w->text, layer);
    }
    if (kind >= TRACE_SEND)
        strbuf_printf(&w->text, ",\"bytes\":%" PRIu64 ",\"peer\":%d,\"scheme\":\"%s\"",
                      event->bytes, event->peer, scheme_label(scheme_of(w, event)));
    if (kind == TRACE_SEND)
        put_time(w, "queued_us", event->start - event->posted);
    if (kind == TRACE_RECEIVE)
        put_time(w, "posted_earlier_us", event->start - event->posted);
    strbuf_puts(&w->text, "}}");
    w->events++;
}

struct flow_writer {
    struct timeline_writer *w;
    const struct timeline_rank *ranks;
    uint64_t id;
};

/* Writes an arrow. A point attaches to the span open at its time, so its time lies in the span. */
static void put_flow(void *context, bool back, const struct flow_point *points, int n)
{
    struct flow_writer *f = context;
    struct timeline_writer *w = f->w;

    f->id++;
    for (int i = 0; i < n; i++) {
        const struct timeline_rank *rank = &f->ranks[points[i].rank];
        const struct trace_event *event = &rank->events[points[i].event];
        int64_t at = points[i].at_end && event->end > event->start ? event->end - 1 : event->start;
        put_comma(w);
        strbuf_printf(&w->text,
                      "{\"ph\":\"%s\",\"id\":%" PRIu64
                      ",\"name\":\"%s\",\"cat\":\"flow\",\"pid\":%d,"
                      "\"tid\":%d",
                      i == 0       ? "s"
                      : i == n - 1 ? "f\",\"bp\":\"e"
                                   : "t",
                      f->id, back ? "way back" : "gradient", points[i].rank,
                      tid_of(event, rank->lane[points[i].event]));
        put_time(w, "ts", at - w->base);
        strbuf_puts(&w->text, ",\"args\":{}}");
    }
}

static int put_ranks(struct timeline_writer *w, const struct timeline_rank *ranks, int nranks)
{
    w->base = INT64_MAX;
    for (int r = 0; r < nranks; r++)
        if (ranks[r].nevents > 0 && ranks[r].events[0].start < w->base)
            w->base = ranks[r].events[0].start;
    strbuf_puts(&w->text, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"poseidon\","
                          "\"net\":");
    json_quote(&w->text, w->about->net);
    strbuf_printf(&w->text, ",\"ranks\":%d},\"traceEvents\":[", nranks);
    for (int r = 0; r < nranks; r++) {
        put_names(w, r, &ranks[r]);
        for (size_t e = 0; e < ranks[r].nevents; e++)
            put_event(w, r, &ranks[r].events[e], ranks[r].lane[e]);
    }
    struct flow_writer flows = {.w = w, .ranks = ranks};
    if (flows_put(ranks, nranks, put_flow, &flows))
        return -1;
    strbuf_puts(&w->text, "\n]}\n");
    return 0;
}

static int put_document(struct timeline_writer *w, const struct timeline_rank *ranks, int nranks,
                        const char *path)
{
    int status = file_writer_open(&w->to, path);

    if (!status)
        status = put_ranks(w, ranks, nranks) || strbuf_status(&w->text);
    if (!status)
        file_writer_put(&w->to, strbuf_text(&w->text), w->text.length);
    strbuf_free(&w->text);
    return file_writer_close(&w->to, status);
}

static int write_ranks(const struct trace *trace, const struct timeline_about *about,
                       struct timeline_rank *ranks, int nranks, const char *path,
                       struct timeline_written *out)
{
    struct timeline_writer w = {.about = about};
    int status = timeline_pair(ranks, nranks, trace->options.first, trace->options.last);

    for (int r = 0; r < nranks && !status; r++) {
        status = timeline_lay_out(&ranks[r]);
        out->dropped += ranks[r].dropped;
        out->clock_error = fmax(ranks[r].error * 1e-9, out->clock_error);
    }
    if (!status)
        status = put_document(&w, ranks, nranks, path);
    out->events = w.events;
    return status;
}

int timeline_write(MPI_Comm comm, struct trace *trace, struct timeline_about *about,
                   const char *path, struct timeline_written *out)
{
    struct timeline_rank *ranks;
    int rank, nranks, status;

    *out = (struct timeline_written){.events = 0};
    trace_stop(trace); /* some threads still run */
    if (error_agree(comm, clock_compare(comm, trace, &about->after)))
        return -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    status = timeline_gather(comm, trace, about, &ranks);
    if (!status && rank == 0)
        status = write_ranks(trace, about, ranks, nranks, path, out);
    timeline_ranks_free(ranks, nranks);
    return error_agree(comm, status);
}
