/* What training leaves besides the net: its figures, the trace, and the report on where the time
 * went. */
#include "solver/trainer_internal.h"

#include "report/alone.h"
#include "report/report.h"
#include "report/timeline.h"
#include "util/agree.h"
#include "util/error.h"
#include "util/file.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_ROUNDS = 32 };

int trainer_open_trace(struct trainer *t)
{
    const struct trainer_options *o = t->options;
    struct trace_options options = {.first = o->trace_first, .last = o->trace_last};

    if (t->rank == 0 && ((o->trace && file_probe(o->trace)) || (o->log && file_probe(o->log))))
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
    struct timeline_about about = {
        .net = t->net, .plan = t->plan, .topology = &t->topology, .before = t->clock_before};
    struct timeline_written written;

    trace_stop(t->trace); /* feeders read on */
    if (error_agree(t->world, clock_compare(t->world, t->trace, CLOCK_ROUNDS, &about.after)) ||
        timeline_write(t->world, t->trace, &about, t->options->trace, &written))
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

static int publish_report(struct trainer *t, const struct figures *figures)
{
    struct strbuf text = {.data = NULL}, lines = {.data = NULL};
    char *words;
    int status = 0;

    if (figures->nranks > 1)
        report_table(figures, &text);
    report_words(figures, &text);
    words = strbuf_take(&text);
    if (!words)
        return -1;
    log_text(t->log, words);
    free(words);
    if (t->options->log)
        status =
            report_lines(figures, &lines) || file_write(t->options->log, lines.data, lines.length);
    strbuf_free(&lines);
    return status ? -1 : 0;
}

/* What the cost model expects of every transfer on this cluster, which is measured now where it was
 * not before. Rebuilding a gradient is computation and not counted. Collective. */
static int predict_transfers(struct trainer *t)
{
    struct plan *plan = t->plan;
    struct cost *costs = calloc((size_t)plan->nbuckets + 1, sizeof *costs);
    int status = error_agree(t->world, costs ? 0 : error_memory(sizeof *costs, "the report"));

    if (!status)
        status = trainer_probe(t);
    if (!status) {
        plan->options.leaders_per_host = trainer_leaders_per_host(t);
        cost_plan(&t->probe.cluster, plan, costs);
    }
    for (int i = 0; i < t->figures.nlayers && !status; i++) {
        struct figures_layer *layer = &t->figures.layers[i];
        const struct cost *cost = &costs[layer->bucket];
        layer->predicted_seconds = cost->seconds - cost->compute_seconds;
    }
    free(costs);
    return status;
}

/* Says how training was fed; rank 0. */
static void log_input(struct log *log, const struct figures *figures)
{
    double waits = figures_sum(figures, FIGURE(input_waits));
    if (waits > 0)
        LOG_INFO(log, "Training waited for input %.0f times, %.3g s in all (summed over ranks)",
                 waits, figures_sum(figures, FIGURE(input_total_seconds)));
    else
        LOG_INFO(log, "Training never waited for input.");
}

/* What saving took of rank 0's time; the writing itself goes on beside training. */
static void log_saving(const struct trainer *t)
{
    double seconds = t->train_seconds + t->saving_stall;

    if (t->saves > 0)
        LOG_INFO(t->log, "Training stood still for %d snapshot%s, %.3g s in all (%.1f %%).",
                 t->saves, t->saves == 1 ? "" : "s", t->saving_stall,
                 seconds > 0 ? 100 * t->saving_stall / seconds : 0);
}

int trainer_gather_figures(struct trainer *t)
{
    struct figures_source source = {.net = t->net,
                                    .plan = t->plan,
                                    .topology = &t->topology,
                                    .stats = sync_stats(t->sync),
                                    .iterations = t->end - t->at.iteration,
                                    .train_seconds = t->train_seconds,
                                    .train_stall = t->train_stall,
                                    .overlap = t->options->overlap != COST_OVERLAP_NONE,
                                    .batch = t->batch * t->iter_size};

    if (source.iterations < 0)
        source.iterations = 0;
    if (t->worker)
        net_input_waits(t->net, &source.input_waits, &source.input_seconds);
    if (figures_gather(t->world, &source, &t->figures))
        return -1;
    trainer_tell_late(t, &t->figures);
    if (trainer_gather_damage(t))
        return -1;
    if (t->rank == 0) {
        log_input(t->log, &t->figures);
        log_saving(t);
    }
    return 0;
}

int trainer_report(struct trainer *t)
{
    /* whoever stopped training waits for its end */
    bool asked = (t->options->trace || t->options->log || t->options->account) && t->nworkers > 1 &&
                 !t->stopped;
    bool predicted = asked || (t->probed && t->nworkers > 1 && !t->stopped);

    assert(!t->sync);
    if (t->trace && write_trace(t))
        return -1;
    if (t->end <= t->at.iteration)
        return 0;
    if (predicted && predict_transfers(t))
        return -1;
    if (asked && alone_measure(t->world, t->plan, &t->model, &t->sync_options, &t->figures))
        return -1;
    return error_agree(t->world, t->rank == 0 ? publish_report(t, &t->figures) : 0);
}

void trainer_summary(const struct trainer *t, struct json *json)
{
    char hash[65];
    struct report_run run = {.comm = comm_name(t->options->comm),
                             .machines = t->topology.nmachines,
                             .servers = t->options->servers,
                             .first_iteration = t->at.iteration,
                             .end = t->end,
                             .stopped = t->stopped,
                             .skipped = t->skips_told,
                             .damage = t->damage,
                             .best = t->best,
                             .best_score = t->best_score,
                             .train_seconds = t->train_seconds,
                             .warm_seconds = t->warm_iterations ? t->warm_seconds : 0,
                             .warm_iterations = t->warm_iterations,
                             .engine = t->options->engine,
                             .solver = t->options->solver,
                             .settings = t->options->overrides.settings,
                             .nsettings = t->options->overrides.nsettings,
                             .overlap = cost_overlap_name(t->options->overlap),
                             .wire = wire_name(t->options->wire),
                             .threads = t->threads,
                             .test_iteration = t->scores_iteration,
                             .final_loss = t->blank ? (double)NAN : t->final_loss,
                             .test = t->scores ? t->tests[0] : NULL,
                             .scores = t->scores,
                             .parameters = t->net->nlearnable,
                             .sha256 = t->blank ? NULL : hash};

    if (!t->blank)
        checkpoint_hash(t->net, hash);
    report_summary(&t->figures, &run, json);
}
