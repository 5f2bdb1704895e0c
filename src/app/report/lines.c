/* Writes the figures as JSON lines. */
#include "report/report.h"

#include "util/json.h"

static void put_run(const struct figures *figures, int unused, struct json *json)
{
    (void)unused;
    json_put_string(json, "net", figures->net);
    json_put_int(json, "ranks", figures->nranks);
    json_put_int(json, "workers", figures->nworkers);
    json_put_int(json, "iterations", figures->iterations);
    json_put_int(json, "batch", figures->batch);
    json_put_bool(json, "overlap", figures->overlap);
    json_put_double(json, "seconds_per_iteration", figures->seconds);
    json_put_double(json, "progress_core_share",
                    figures_sum(figures, FIGURE(progress_share)) / figures->nranks);
}

void report_rank(const struct figures *figures, int rank, struct json *json)
{
    const struct figures_rank *r = &figures->ranks[rank];

    json_put_int(json, "rank", rank);
    json_put_string(json, "host", r->host);
    json_put_bool(json, "worker", r->worker);
    json_put_double(json, "compute_seconds", r->compute_seconds);
    json_put_double(json, "stall_seconds", r->stall_seconds);
    json_put_double(json, "other_stall_seconds", r->other_stall_seconds);
    json_put_double(json, "input_seconds", r->input_seconds);
    json_put_double(json, "progress_cpu_seconds", r->progress_seconds);
    json_put_double(json, "progress_core_share", r->progress_share);
    if (r->most_queued > 0) {
        json_put_double(json, "link_full_seconds", r->full_seconds);
        json_put_double(json, "link_full_longest_seconds", r->longest_full_seconds);
        json_put_double(json, "queued_bytes_most", r->most_queued);
    }
    json_put_int(json, "late_times", r->late.times);
    json_put_double(json, "late_computing_seconds", r->late.seconds[LATE_COMPUTING]);
    json_put_double(json, "late_input_seconds", r->late.seconds[LATE_INPUT]);
    json_put_double(json, "late_network_seconds", r->late.seconds[LATE_NETWORK]);
    json_put_double(json, "iterations_left_out", r->left_out);
    json_put_double(json, "iterations_unused", r->unused);
}

static void put_layer(const struct figures *figures, int i, struct json *json)
{
    const struct figures_layer *layer = &figures->layers[i];

    json_put_string(json, "layer", layer->name);
    json_put_string(json, "scheme", layer->scheme);
    json_put_double(json, "predicted_bytes_sent", layer->predicted_sent);
    json_put_double(json, "bytes_sent", layer->sent);
    json_put_double(json, "predicted_bytes_received", layer->predicted_received);
    json_put_double(json, "bytes_received", layer->received);
    json_put_known(json, "predicted_seconds", layer->predicted_seconds);
    json_put_known(json, "alone_seconds", layer->alone_seconds);
    json_put_known(json, "exposed_seconds",
                   layer->alone_seconds >= 0 ? figures_exposed(layer) : -1);
    json_put_double(json, "stall_seconds", layer->stall_seconds);
    json_put_double(json, "stall_seconds_most", layer->stall_most);
    json_put_int(json, "stall_rank", layer->stall_rank);
}

static void put_advice(const struct figures *figures, int unused, struct json *json)
{
    static const char *const changes[] = {
        [CHANGE_NOTHING] = "computation", [CHANGE_OVERLAP] = "overlap",
        [CHANGE_TRAFFIC] = "traffic",     [CHANGE_LAYER] = "layer",
        [CHANGE_SKEW] = "skew",           [CHANGE_INPUT] = "input",
        [CHANGE_STRAGGLER] = "straggler"};
    struct report_advice advice;

    (void)unused;
    report_advise(figures, &advice);
    json_put_string(json, "change", changes[advice.change]);
    if (advice.change == CHANGE_LAYER)
        json_put_string(json, "layer", figures->layers[advice.which].name);
    if ((advice.change == CHANGE_STRAGGLER || advice.change == CHANGE_SKEW) && advice.which >= 0)
        json_put_int(json, "rank", advice.which);
    json_put_double(json, "saves_seconds_at_most", advice.saves);
    json_put_string(json, "text", advice.text);
}

/* Writes one line: the event, and what `put` writes for number i. */
static void put_line(const struct figures *figures, const char *event,
                     void (*put)(const struct figures *figures, int i, struct json *json), int i,
                     struct strbuf *text)
{
    struct json json = {.text = *text, .one_line = true}; /* continues where the text ends */

    json_object_begin(&json);
    json_put_string(&json, "event", event);
    put(figures, i, &json);
    json_object_end(&json);
    *text = json.text;
    strbuf_putc(text, '\n');
}

int report_lines(const struct figures *figures, struct strbuf *text)
{
    put_line(figures, "run", put_run, 0, text);
    for (int r = 0; r < figures->nranks; r++)
        put_line(figures, "rank", report_rank, r, text);
    for (int i = 0; i < figures->nlayers; i++)
        put_line(figures, "layer", put_layer, i, text);
    put_line(figures, "advice", put_advice, 0, text);
    return strbuf_status(text);
}
