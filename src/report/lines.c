/* The figures as JSON lines. */
#include "report/report.h"

#include <string.h>

#include "util/json.h"

static void put_double(struct json *json, const char *key, double value)
{
    json_key(json, key);
    json_double(json, value);
}

/* Times and bytes that are not known are null. */
static void put_known(struct json *json, const char *key, double value)
{
    json_key(json, key);
    if (value >= 0)
        json_double(json, value);
    else
        json_null(json);
}

static void put_string(struct json *json, const char *key, const char *value)
{
    json_key(json, key);
    json_string(json, value);
}

static void put_int(struct json *json, const char *key, int64_t value)
{
    json_key(json, key);
    json_int(json, value);
}

static void run_line(const struct report *report, struct json *json)
{
    int most;

    put_string(json, "net", report->net);
    put_int(json, "ranks", report->nranks);
    put_int(json, "workers", report->nworkers);
    put_int(json, "iterations", report->iterations);
    put_int(json, "batch", report->batch);
    json_key(json, "overlap");
    json_bool(json, report->overlap);
    put_double(json, "seconds_per_iteration", report->seconds);
    put_double(json, "progress_core_share", report_progress_share(report, &most));
}

static void rank_line(const struct report *report, int rank, struct json *json)
{
    const struct report_rank *r = &report->ranks[rank];

    put_int(json, "rank", rank);
    put_string(json, "host", r->host);
    json_key(json, "worker");
    json_bool(json, r->worker);
    put_double(json, "compute_seconds", r->compute_seconds);
    put_double(json, "stall_seconds", r->stall_seconds);
    put_double(json, "other_stall_seconds", r->other_stall_seconds);
    put_double(json, "input_seconds", r->input_seconds);
    put_double(json, "progress_cpu_seconds", r->progress_seconds);
    put_double(json, "progress_core_share", r->progress_share);
}

static void layer_line(const struct report *report, int i, struct json *json)
{
    const struct report_layer *layer = &report->layers[i];

    put_string(json, "layer", layer->name);
    put_string(json, "scheme", layer->scheme);
    put_double(json, "predicted_bytes_sent", layer->predicted_sent);
    put_double(json, "bytes_sent", layer->sent);
    put_double(json, "predicted_bytes_received", layer->predicted_received);
    put_double(json, "bytes_received", layer->received);
    put_known(json, "predicted_seconds", layer->predicted_seconds);
    put_known(json, "alone_seconds", layer->alone_seconds);
    put_known(json, "exposed_seconds", layer->alone_seconds >= 0 ? report_exposed(layer) : -1);
    put_double(json, "stall_seconds", layer->stall_seconds);
    put_double(json, "stall_seconds_most", layer->stall_most);
    put_int(json, "stall_rank", layer->stall_rank);
}

static void advice_line(const struct report *report, struct json *json)
{
    static const char *const changes[] = {
        [CHANGE_NOTHING] = "computation", [CHANGE_OVERLAP] = "overlap",
        [CHANGE_TRAFFIC] = "traffic",     [CHANGE_LAYER] = "layer",
        [CHANGE_SKEW] = "skew",           [CHANGE_INPUT] = "input",
        [CHANGE_STRAGGLER] = "straggler"};
    struct report_advice advice;

    report_advise(report, &advice);
    put_string(json, "change", changes[advice.change]);
    if (advice.change == CHANGE_LAYER)
        put_string(json, "layer", report->layers[advice.which].name);
    if (advice.change == CHANGE_STRAGGLER)
        put_int(json, "rank", advice.which);
    put_double(json, "saves_seconds_at_most", advice.saves);
    put_string(json, "text", advice.text);
}

static void begin(struct json *json, const char *event)
{
    *json = (struct json){.depth = 0};
    json_object_begin(json);
    put_string(json, "event", event);
}

static int end(struct json *json, struct strbuf *text)
{
    const char *line;
    int status;

    json_object_end(json);
    status = json_text(json, &line);
    /* a document may be laid out over lines; a line of a log may not */
    for (bool indent = false; !status && *line; line++) {
        if (*line == '\n') {
            indent = true;
            continue;
        }
        if (indent && *line == ' ')
            continue;
        indent = false;
        strbuf_putc(text, *line);
    }
    strbuf_putc(text, '\n');
    json_free(json);
    return status;
}

int report_lines(const struct report *report, struct strbuf *text)
{
    struct json json;
    int status;

    begin(&json, "run");
    run_line(report, &json);
    status = end(&json, text);
    for (int r = 0; r < report->nranks && !status; r++) {
        begin(&json, "rank");
        rank_line(report, r, &json);
        status = end(&json, text);
    }
    for (int i = 0; i < report->nlayers && !status; i++) {
        begin(&json, "layer");
        layer_line(report, i, &json);
        status = end(&json, text);
    }
    if (status)
        return -1;
    begin(&json, "advice");
    advice_line(report, &json);
    return end(&json, text) || strbuf_status(text) ? -1 : 0;
}
