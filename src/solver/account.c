/* What training leaves besides the net: the trace, and the report on where its time went. */
#include "solver/trainer.h"

#include "report/account.h"
#include "report/timeline.h"
#include "util/agree.h"
#include "util/error.h"
#include "util/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_ROUNDS = 32 };

/* A file that cannot be written is known now, not after hours of training. */
static int probe(const char *path)
{
    char *temp = path ? file_temp_name(path) : NULL;
    FILE *file;
    int status = 0;

    if (!path)
        return 0;
    file = temp ? fopen(temp, "w") : NULL;
    if (temp && !file)
        status = error_set("cannot write '%s': %s", path, strerror(errno));
    if (file) {
        fclose(file);
        remove(temp);
    }
    free(temp);
    return !temp || status ? -1 : 0;
}

int trainer_open_trace(struct trainer *t)
{
    const struct trainer_options *o = t->options;
    struct trace_options options = {.first = o->trace_first, .last = o->trace_last};

    if (t->rank == 0 && (probe(o->trace) || probe(o->log)))
        return -1;
    if (!o->trace)
        return 0;
    return trace_create(&options, &t->trace);
}

int trainer_start_clock(struct trainer *t)
{
    return t->trace ? clock_compare(t->world, t->trace, CLOCK_ROUNDS, &t->clock_before) : 0;
}

static int write_trace(struct trainer *t)
{
    struct trace_about about = {.net = t->net, .plan = t->plan, .before = t->clock_before};
    struct trace_written written;

    trace_stop(t->trace); /* feeders read on */
    if (error_agree(t->world, clock_compare(t->world, t->trace, CLOCK_ROUNDS, &about.after)) ||
        trace_write(t->world, t->trace, &about, t->options->trace, &written))
        return -1;
    if (t->rank != 0)
        return 0;
    LOG_INFO(t->log, "Trace of %llu events written to %s (clocks agree within %.3g us)",
             (unsigned long long)written.events, t->options->trace, written.clock_error * 1e6);
    if (written.dropped > 0)
        LOG_WARNING(t->log,
                    "The trace has no room for %llu more events: its last iterations are missing; "
                    "--trace-iterations=A-B chooses which ones to keep",
                    (unsigned long long)written.dropped);
    return 0;
}

static void log_text(struct log *log, char *text)
{
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
        if (*line)
            LOG_INFO(log, "%s", line);
}

static int publish(struct trainer *t, const struct report *report)
{
    struct strbuf text = {.data = NULL}, lines = {.data = NULL};
    char *words;
    int status = 0;

    if (report->nranks > 1)
        report_table(report, &text);
    report_words(report, &text);
    words = strbuf_take(&text);
    if (!words)
        return -1;
    log_text(t->log, words);
    free(words);
    if (t->options->log)
        status =
            report_lines(report, &lines) || file_write(t->options->log, lines.data, lines.length);
    strbuf_free(&lines);
    return status ? -1 : 0;
}

/* What the cost model expects of every transfer on this cluster, measured now where it was not
 * before. Rebuilding a gradient is computation and not counted. To be freed. Collective. */
static int predict(struct trainer *t, double **out)
{
    struct plan *plan = t->plan;
    double *seconds = calloc((size_t)plan->nbuckets + 1, sizeof *seconds);
    struct cost *costs = calloc((size_t)plan->nbuckets + 1, sizeof *costs);
    int status;

    *out = seconds;
    status =
        error_agree(t->world, seconds && costs ? 0 : error_memory(sizeof *costs, "the report"));
    if (!status)
        status = trainer_probe(t);
    if (!status) {
        plan->options.leaders_per_host = trainer_leaders_per_host(t);
        cost_plan(&t->probe.cluster, plan, costs);
    }
    for (int b = 0; b < plan->nbuckets && !status; b++)
        seconds[b] = costs[b].seconds - costs[b].compute_seconds;
    free(costs);
    return status;
}

static int collect(struct trainer *t, const double *predicted, struct report *out)
{
    struct account account = {.net = t->net,
                              .plan = t->plan,
                              .stats = sync_stats(t->sync),
                              .iterations = t->end - t->at.iteration,
                              .train_seconds = t->train_seconds,
                              .train_stall = t->train_stall,
                              .overlap = t->options->overlap,
                              .batch = t->batch * t->iter_size,
                              .predicted = predicted};
    uint64_t times;

    if (t->worker)
        net_input_waits(t->net, &times, &account.input_seconds);
    return account_collect(t->world, &account, out);
}

int trainer_account(struct trainer *t)
{
    /* whoever stopped it waits for the end */
    bool asked = (t->options->trace || t->options->log || t->options->account) && t->nworkers > 1 &&
                 !t->stopped;
    struct report report = {.nranks = 0};
    double *predicted = NULL;
    int status = 0;

    if (t->trace && write_trace(t))
        return -1;
    if (t->end <= t->at.iteration)
        return 0;
    if ((asked && predict(t, &predicted)) || collect(t, predicted, &report))
        status = -1;
    free(predicted);
    if (asked && !status) {
        sync_destroy(t->sync); /* its buffers are needed twice */
        t->sync = NULL;
        status = account_alone(t->world, t->plan, t->net, &t->sync_options, &report);
    }
    if (!status)
        status = error_agree(t->world, t->rank == 0 ? publish(t, &report) : 0);
    report_free(&report);
    return status;
}
