/* What training leaves besides the net: its figures, the trace, and the report on where the time
 * went. */
#include "solver/parts.h"

#include "report/alone.h"
#include "report/report.h"
#include "report/timeline.h"
#include "util/agree.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/file.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_ROUNDS = 32 };

int result_open_trace(const struct job *job, struct trace **out)
{
    const struct trainer_options *o = job->options;
    struct trace_options options = {.first = o->trace_first, .last = o->trace_last};

    if (job->rank == 0 && ((o->trace && file_probe(o->trace)) || (o->log && file_probe(o->log))))
        return -1;
    if (!o->trace)
        return 0;
    return trace_create(&options, out);
}

int result_start_clock(const struct job *job, struct output *output)
{
    return output->trace
               ? clock_compare(job->world, output->trace, CLOCK_ROUNDS, &output->clock_before)
               : 0;
}

static int write_trace(struct trainer *t)
{
    struct timeline_about about = {.net = t->compute.net,
                                   .plan = t->exchange.plan,
                                   .topology = &t->job.topology,
                                   .before = t->output.clock_before};
    struct timeline_written written;

    trace_stop(t->output.trace); /* feeders read on */
    if (error_agree(t->job.world,
                    clock_compare(t->job.world, t->output.trace, CLOCK_ROUNDS, &about.after)) ||
        timeline_write(t->job.world, t->output.trace, &about, t->job.options->trace, &written))
        return -1;
    if (t->job.rank != 0)
        return 0;
    LOG_INFO(t->job.log, "Trace of %llu events written to %s (clocks agree within %.3g us)",
             (unsigned long long)written.events, t->job.options->trace, written.clock_error * 1e6);
    if (written.dropped > 0)
        LOG_WARNING(t->job.log,
                    "The trace has no room for %llu more events: its last iterations are missing; "
                    "--trace=FILE,A-B chooses which ones to keep",
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
    log_text(t->job.log, words);
    free(words);
    if (t->job.options->log)
        status = report_lines(figures, &lines) ||
                 file_write(t->job.options->log, lines.data, lines.length);
    strbuf_free(&lines);
    return status ? -1 : 0;
}

/* What the cost model expects of every transfer on this cluster, which is measured now where it was
 * not before. Rebuilding a gradient is computation and not counted. Collective. */
static int predict_transfers(struct trainer *t)
{
    struct plan *plan = t->exchange.plan;
    struct cost *costs = alloc_array((size_t)plan->nbuckets, sizeof *costs, "the report");
    int status = error_agree(t->job.world, costs ? 0 : -1);

    if (!status)
        status = schemes_probe_all(&t->exchange, &t->job, &t->compute);
    if (!status) {
        plan->options.leaders_per_host = schemes_leaders_per_host(&t->exchange);
        cost_plan(&t->exchange.probe.cluster, plan, costs);
    }
    for (int i = 0; i < t->output.figures.nlayers && !status; i++) {
        struct figures_layer *layer = &t->output.figures.layers[i];
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
    double seconds = t->timing.train_seconds + t->timing.saving_stall;

    if (t->timing.saves > 0)
        LOG_INFO(t->job.log, "%d snapshot%s paused training for %.3g s in total (%.1f %%).",
                 t->timing.saves, t->timing.saves == 1 ? "" : "s", t->timing.saving_stall,
                 seconds > 0 ? 100 * t->timing.saving_stall / seconds : 0);
}

/* What a person asks first; rank 0. */
static void log_run(const struct trainer *t)
{
    const struct job *job = &t->job;
    double images = (double)(t->end - t->at.iteration) * (double)job_samples(job);
    struct strbuf text = {.data = NULL};

    strbuf_printf(&text, "Trained iterations %" PRId64 " to %" PRId64 " in %.4g s: %.4g images/s",
                  t->at.iteration, t->end, t->timing.train_seconds,
                  t->timing.train_seconds > 0 ? images / t->timing.train_seconds : 0);
    if (job->records)
        strbuf_printf(&text, ", %.4g epochs of %" PRIu64 " records", job_epochs(job, images),
                      job->records);
    LOG_INFO(job->log, "%s", strbuf_text(&text));
    strbuf_clear(&text);
    if (!job->blank && isfinite(t->timing.final_loss))
        strbuf_printf(&text, "Final loss %.6g", t->timing.final_loss);
    if (t->scores.best >= 0)
        strbuf_printf(&text, "%sbest test %.6g at iteration %" PRId64, text.length ? ", " : "",
                      t->scores.best_score, t->scores.best);
    if (text.length)
        LOG_INFO(job->log, "%s", strbuf_text(&text));
    strbuf_free(&text);
    if (!job->blank)
        LOG_INFO(job->log, "Parameters' SHA-256 %s", t->output.hash);
}

int trainer_gather_figures(struct trainer *t)
{
    struct figures_source source = {.net = t->compute.net,
                                    .plan = t->exchange.plan,
                                    .topology = &t->job.topology,
                                    .stats = sync_stats(t->exchange.sync),
                                    .iterations = t->end - t->at.iteration,
                                    .train_seconds = t->timing.train_seconds,
                                    .train_stall = t->timing.train_stall,
                                    .overlap = t->job.options->overlap != COST_OVERLAP_NONE,
                                    .batch = t->job.batch * t->job.iter_size};

    if (source.iterations < 0)
        source.iterations = 0;
    if (t->job.worker)
        net_input_waits(t->compute.net, &source.input_waits, &source.input_seconds);
    if (figures_gather(t->job.world, &source, &t->output.figures))
        return -1;
    stragglers_tell(t->guard.stragglers, &t->output.figures);
    if (bad_records_gather_all(&t->job, &t->compute, &t->guard.damage))
        return -1;
    if (t->job.rank == 0) {
        if (!t->job.blank)
            checkpoint_hash(t->compute.net, t->output.hash);
        if (source.iterations > 0)
            log_run(t);
        log_input(t->job.log, &t->output.figures);
        log_saving(t);
    }
    return 0;
}

int trainer_report(struct trainer *t)
{
    /* whoever stopped training waits for its end */
    bool asked = (t->job.options->trace || t->job.options->log || t->job.options->account) &&
                 t->job.nworkers > 1 && !t->stopped;
    bool predicted = asked || (t->exchange.probed && t->job.nworkers > 1 && !t->stopped);

    assert(!t->exchange.sync);
    if (t->output.trace && write_trace(t))
        return -1;
    if (t->end <= t->at.iteration)
        return 0;
    if (predicted && predict_transfers(t))
        return -1;
    if (asked && alone_measure(t->job.world, t->exchange.plan, &t->exchange.model,
                               &t->exchange.sync_options, &t->output.figures))
        return -1;
    return error_agree(t->job.world, t->job.rank == 0 ? publish_report(t, &t->output.figures) : 0);
}

void trainer_summary(const struct trainer *t, struct json *json)
{
    struct report_run run = {.comm = comm_name(t->job.options->comm),
                             .machines = t->job.topology.nmachines,
                             .servers = t->job.options->servers,
                             .first_iteration = t->at.iteration,
                             .end = t->end,
                             .stopped = t->stopped,
                             .skipped = t->guard.skips_told,
                             .damage = t->guard.damage,
                             .best = t->scores.best,
                             .best_score = t->scores.best_score,
                             .train_seconds = t->timing.train_seconds,
                             .warm_seconds = t->timing.warm_iterations ? t->timing.warm_seconds : 0,
                             .warm_iterations = t->timing.warm_iterations,
                             .engine = t->job.options->engine,
                             .fake_data = t->compute.fake != NULL,
                             .solver = t->job.options->solver,
                             .settings = t->job.options->overrides.settings,
                             .nsettings = t->job.options->overrides.nsettings,
                             .overlap = cost_overlap_name(t->job.options->overlap),
                             .wire = wire_name(t->job.options->wire),
                             .threads = t->job.threads,
                             .test_iteration = t->scores.iteration,
                             .final_loss = t->job.blank ? (double)NAN : t->timing.final_loss,
                             .test = t->scores.values ? t->compute.tests[0] : NULL,
                             .scores = t->scores.values,
                             .parameters = t->compute.net->nlearnable,
                             .sha256 = t->job.blank ? NULL : t->output.hash};

    report_summary(&t->output.figures, &run, json);
}

int trainer_exit_status(const struct trainer *t)
{
    if (!t->stopped || t->guard.signals.enough)
        return TRAINER_DONE;
    return t->run.last_snapshot == t->end ? TRAINER_SAVED : TRAINER_INTERRUPTED;
}
