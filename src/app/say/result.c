/* Writes results of training other than the net: figures, trace, and report on where the time
 * went. */
#include "say/output.h"

#include "report/isolated.h"
#include "report/outputs.h"
#include "report/report.h"
#include "timeline/timeline.h"
#include "util/agree.h"
#include "util/alloc.h"
#include "report/build_info.h"
#include "util/file.h"
#include "util/units.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

int result_start_clock(struct output *output)
{
    return output->trace ? clock_compare(output->job->world, output->trace, &output->clock_before)
                         : 0;
}

static const char *name_layer(const void *context, int layer)
{
    const struct net *net = context;

    return layer >= 0 && layer < net->nlayers ? net->layers[layer].def->name : NULL;
}

static void warn_of_unreached(const struct output *output)
{
    const struct trainer_options *o = output->job->options;
    char to[32] = " on";

    if (o->trace_last < INT32_MAX)
        snprintf(to, sizeof to, " to %" PRId64, o->trace_last);
    LOG_WARNING(output->job->log,
                "--trace: iterations from %" PRId64 "%s were never reached: training ended after "
                "%" PRId64,
                o->trace_first, to, output->timing->end);
}

static int write_trace(struct output *output)
{
    struct timeline_about about = {.net = output->compute->net->def->name,
                                   .context = output->compute->net,
                                   .layer = name_layer,
                                   .plan = output->exchange->plan,
                                   .topology = &output->job->topology,
                                   .before = output->clock_before};
    const struct trainer_options *o = output->job->options;
    struct timeline_written written;

    if (timeline_write(output->job->world, output->trace, &about, o->trace, &written))
        return -1;
    if (output->job->rank != 0)
        return 0;
    LOG_INFO(output->job->log, "Trace of %s written to %s (clocks agree within %.3g us)",
             units_count((long long)written.events, "event").text, o->trace,
             written.clock_error * 1e6);
    if (o->trace_first >= output->timing->end)
        warn_of_unreached(output);
    if (written.dropped > 0)
        LOG_WARNING(output->job->log,
                    "The trace buffer is full: %s of the last iterations left out; "
                    "--trace=FILE,A-B chooses iterations",
                    units_count((long long)written.dropped, "event").text);
    return 0;
}

static int publish_report(struct output *output, const struct figures *figures)
{
    struct strbuf text = {.data = NULL};
    int status;

    report_table(figures, &text);
    report_words(figures, &text);
    status = strbuf_status(&text);
    LOG_LINES(output->job->log, strbuf_text(&text));
    strbuf_clear(&text);
    if (!status && output->job->options->log)
        status = report_lines(figures, &text) || file_write_text(output->job->options->log, &text);
    strbuf_free(&text);
    return status ? -1 : 0;
}

/* Predicts the time of each layer's transfers on this cluster, and measures the cluster first, if
 * necessary. Leaves out computation, such as rebuilding gradients. Collective. */
static int predict_transfers(struct output *output)
{
    struct plan *plan = output->exchange->plan;
    struct cost *costs = alloc_array((size_t)plan->nbuckets, sizeof *costs, "the report");
    int status = error_agree(output->job->world, costs ? 0 : -1);

    if (!status)
        status = exchange_measure_all(output->exchange);
    if (!status && output->job->rank == 0)
        status = exchange_price(output->exchange, costs);
    status = error_agree(output->job->world, status);
    for (int i = 0; i < output->figures.nlayers && !status; i++) {
        struct figures_layer *layer = &output->figures.layers[i];
        const struct cost *cost = &costs[layer->bucket];
        layer->predicted_seconds = cost->seconds - cost->compute_seconds;
    }
    free(costs);
    return status;
}

/* Logs how long training waited for input, and how many records were damaged. Rank 0. */
static void log_input(struct log *log, const struct figures *figures)
{
    double waits = figures_sum(figures, FIGURE(input_waits));
    double damaged = figures_sum(figures, FIGURE(bad_records));

    if (waits > 0)
        LOG_INFO(log, "Training waited for input %s, %.3g s in all (summed over ranks)",
                 units_count((long long)waits, "time").text,
                 figures_sum(figures, FIGURE(input_total_seconds)));
    else
        LOG_INFO(log, "Training never waited for input.");
    if (damaged > 0)
        LOG_WARNING(log, "%s left out (summed over ranks)",
                    units_count((long long)damaged, "damaged record").text);
}

static double ledger_seconds(const struct run_ledger *sum)
{
    return sum->trained + sum->repeated + sum->starting + sum->saving + sum->waiting;
}

/* Logs the time that snapshots stopped training on rank 0; writing runs during training. */
static void log_saving(const struct output *output)
{
    double seconds = output->timing->train_seconds + output->timing->saving_stall;

    if (output->timing->saves > 0)
        LOG_INFO(output->job->log, "%s paused training for %.3g s in total (%.1f %%).",
                 units_count(output->timing->saves, "snapshot").text, output->timing->saving_stall,
                 seconds > 0 ? 100 * output->timing->saving_stall / seconds : 0);
}

/* Logs how all starts of the run spent their time; rank 0. */
static void log_starts(const struct output *output)
{
    const struct run_ledger sum = run_ledger(output->monitor->run);
    double all = ledger_seconds(&sum);

    if (sum.launches > 1)
        LOG_INFO(output->job->log,
                 "All %" PRId64
                 " starts of this run took %.4g s: %.1f %% training (goodput), %.1f %% "
                 "training again (%s), %.1f %% starting, %.1f %% snapshots, %.1f %% between starts",
                 sum.launches, all, 100 * sum.trained / all, 100 * sum.repeated / all,
                 units_count(sum.again, "iteration").text, 100 * sum.starting / all,
                 100 * sum.saving / all, 100 * sum.waiting / all);
}

/* Appends a rate with useful decimals, never with an exponent. */
static void put_rate(struct strbuf *out, const char *before, double rate)
{
    strbuf_printf(out, "%s%.*f", before, rate >= 1000 ? 0 : rate >= 10 ? 1 : 3, rate);
}

/* Logs the main results of the run. Rank 0. */
static void log_run(const struct output *output)
{
    const struct job *job = output->job;
    const struct timing *timing = output->timing;
    int64_t first = output->at->iteration, end = timing->end;
    double samples = (double)job_samples(job), least, median, most;
    double images = (double)(end - first) * samples;
    const struct course_best *best = &output->scores->course.best;
    struct strbuf text = {.data = NULL};

    strbuf_printf(&text, "Trained iterations %" PRId64 " to %" PRId64 " in %.4g s", first, end,
                  timing->train_seconds);
    put_rate(&text, ": ", timing->train_seconds > 0 ? images / timing->train_seconds : 0);
    strbuf_puts(&text, " images/s");
    if (timing_spread(&timing->lapses, &least, &median, &most)) {
        put_rate(&text, " (median of displays ", samples * median);
        put_rate(&text, ", ", samples * least);
        put_rate(&text, " to ", samples * most);
        strbuf_putc(&text, ')');
    }
    if (job->records)
        strbuf_printf(&text, ", %.4g epochs of %s", job_epochs(job, images),
                      units_count((long long)job->records, "record").text);
    LOG_INFO(job->log, "%s", strbuf_text(&text));
    strbuf_clear(&text);
    if (!job->blank && isfinite(timing->train_loss)) {
        if (timing->train_loss_iterations > 1)
            strbuf_printf(&text, "Mean loss of the last %d iterations",
                          timing->train_loss_iterations);
        else
            strbuf_puts(&text, "Loss of the last iteration");
        strbuf_printf(&text, " %.6g", timing->train_loss);
    }
    if (best->iteration >= 0)
        strbuf_printf(&text, "%sbest test %s %.6g at iteration %" PRId64, text.length ? ", " : "",
                      output->scores->name, best->score, best->iteration);
    if (best->iteration >= 0 && job->options->keep_best && !job_rehearses(job)) {
        char *path = run_best_model(output->monitor->run);

        if (path)
            strbuf_printf(&text, ", kept as %s", path);
        free(path);
    }
    if (text.length)
        LOG_INFO(job->log, "%s", strbuf_text(&text));
    strbuf_free(&text);
    if (job->options->check_sync > 0) { /* no comparison before the first iteration */
        int64_t every = job->options->check_sync, last = timing->stopped ? end : end - 1;

        LOG_INFO(job->log, "Parameters were equal on all ranks, %s",
                 units_count(last > first ? last / every - first / every : 0, "time").text);
    }
    if (output->compute->grains.seconds > 0)
        LOG_INFO(job->log, "Adding up the grains' gradients took %.3g ms an iteration",
                 1e3 * output->compute->grains.seconds / (double)(end - first));
    if (!job->blank)
        LOG_INFO(job->log, "Parameters' SHA-256 %s", output->hash);
    if (!job->blank && strcmp(output->hash, output->learned_hash) != 0)
        LOG_INFO(job->log, "Without running averages, SHA-256 %s", output->learned_hash);
}

int output_gather_figures(struct output *output)
{
    struct figures_source source = {
        .net = output->compute->net,
        .plan = output->exchange->plan,
        .topology = &output->job->topology,
        .stats = sync_stats(output->exchange->sync),
        .meter = &output->meter,
        .iterations = output->timing->end - output->at->iteration,
        .train_seconds = output->timing->train_seconds,
        .train_stall = output->timing->train_stall,
        .overlap = output->job->options->exchange.overlap != COST_OVERLAP_NONE,
        .batch = (int)(job_samples(output->job) / output->job->nworkers),
        .threads = output->job->blank ? 0 : output->job->threads * output->job->cores.sharers,
        .cores = output->job->cores.allowed,
        .bad_records = atomic_load(&output->compute->bad_records)};

    if (output->job->worker)
        net_input_waits(output->compute->net, &source.input_waits, &source.input_seconds);
    if (figures_gather(output->job->world, &source, &output->figures))
        return -1;
    stragglers_tell(output->monitor->stragglers, &output->figures);
    if (output->job->rank == 0) {
        if (!output->job->blank) {
            checkpoint_hash(output->compute->net, true, output->hash);
            if (compute_statistics(output->compute, NULL, false) > 0)
                checkpoint_hash(output->compute->net, false, output->learned_hash);
            else
                memcpy(output->learned_hash, output->hash, sizeof output->hash);
        }
        if (source.iterations > 0)
            log_run(output);
        log_input(output->job->log, &output->figures);
        log_saving(output);
        log_starts(output);
    }
    return 0;
}

int output_report(struct output *output, const struct sync_model *model)
{
    const struct job *job = output->job;
    /* after a stop, the user waits for the end */
    bool waits = job->nworkers > 1 && !output->timing->stopped;
    bool asked = waits && (job->options->trace || job->options->log);
    bool predicted = asked || (waits && output->exchange->probed);

    assert(!output->exchange->sync);
    if (output->trace && write_trace(output))
        return -1;
    if (output->timing->end <= output->at->iteration)
        return 0;
    if (predicted && predict_transfers(output))
        return -1;
    if (asked && isolated_measure(job->world, output->exchange->plan, model,
                                  &output->exchange->sync_options, &output->figures))
        return -1;
    return error_agree(job->world, job->rank == 0 ? publish_report(output, &output->figures) : 0);
}

/* ---- the summary: one JSON object, the same on the screen and in a file ---- */

static void put_by_rank(const struct figures *figures, struct json *json, const char *key,
                        size_t figure)
{
    json_put_array(json, key);
    for (int r = 0; r < figures->nranks; r++)
        json_double(json, figures_of_rank(figures, r, figure));
    json_array_end(json);
}

/* Writes the origin of the figures, without which they cannot be compared. */
static void put_provenance(const struct output *output, struct json *json)
{
    const struct trainer_options *o = output->job->options;
    const struct figures *figures = &output->figures;
    char date[32] = "";
    time_t now = time(NULL);
    struct tm utc;

    if (gmtime_r(&now, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_put_string(json, "version", build_info.version);
    json_put_string(json, "commit", build_info.commit);
    json_put_string(json, "date", date);
    json_put_string(json, "solver", o->solver);
    json_put_array(json, "set");
    for (int i = 0; i < o->overrides.nsettings; i++)
        json_string(json, o->overrides.settings[i]);
    json_array_end(json);
    json_put_string(json, "net", figures->net);
    json_put_bool(json, "fake_data", output->compute->fake != NULL);
    json_put_string(json, "comm", comm_name(o->exchange.comm));
    json_put_string(json, "overlap", cost_overlap_words[o->exchange.overlap]);
    json_put_string(json, "wire", wire_words[o->exchange.wire]);
    json_put_int(json, "batch_per_rank", figures->batch);
    json_put_int(json, "threads", output->job->threads);
    json_put_array(json, "hosts");
    for (int r = 0; r < figures->nranks; r++)
        json_string(json, figures->ranks[r].host);
    json_array_end(json);
    json_put_object(json, "scheme_by_layer");
    for (int i = 0; i < figures->nlayers; i++)
        json_put_string(json, figures->layers[i].name, figures->layers[i].scheme);
    json_object_end(json);
}

/* Returns the images per second over `iterations` iterations; 0 if `seconds` is 0. */
static double images_rate(const struct job *job, int64_t iterations, double seconds)
{
    return seconds > 0 ? (double)iterations * (double)job_samples(job) / seconds : 0;
}

static void put_ledger(const struct output *output, struct json *json)
{
    const struct run_ledger sum = run_ledger(output->monitor->run);

    json_put_object(json, "all_starts");
    json_put_int(json, "starts", sum.launches);
    json_put_double(json, "goodput", sum.trained / ledger_seconds(&sum));
    json_put_double(json, "training_seconds", sum.trained);
    json_put_double(json, "repeated_seconds", sum.repeated);
    json_put_int(json, "repeated_iterations", sum.again);
    json_put_double(json, "starting_seconds", sum.starting);
    json_put_double(json, "saving_seconds", sum.saving);
    json_put_double(json, "waiting_seconds", sum.waiting);
    json_object_end(json);
}

static void put_shares(const struct job *job, struct json *json)
{
    json_put_array(json, "samples_by_worker");
    for (int w = 0; job->samples && w < job->nworkers; w++)
        json_int(json, job->samples[w]);
    json_array_end(json);
}

/* Writes the course of the run, and its rate with and without the first iterations, in which memory
 * is touched and caches fill. */
static void put_course(const struct output *output, struct json *json)
{
    const struct figures *figures = &output->figures;
    const struct timing *timing = output->timing;
    const struct course_best *best = &output->scores->course.best;
    double warm = timing->warm_iterations ? timing->warm_seconds : 0;
    bool tested = output->scores->iteration >= 0;

    json_put_int(json, "nodes", output->job->topology.nmachines);
    json_put_int(json, "ranks", figures->nranks);
    json_put_int(json, "workers", figures->nworkers);
    json_put_int(json, "dedicated_servers", output->job->options->exchange.servers);
    json_put_int(json, "iterations", output->timing->end);
    json_put_int(json, "updates_left_out", output->monitor->skips_told);
    if (output->job->records)
        json_put_double(
            json, "epochs",
            job_epochs(output->job, (double)(output->timing->end - output->at->iteration) *
                                        (double)job_samples(output->job)));
    json_put_int(json, "best_iteration", best->iteration);
    json_put_string(json, "best_output", best->iteration >= 0 ? output->scores->name : NULL);
    json_put_double(json, "best_score", best->iteration >= 0 ? best->score : (double)NAN);
    json_put_double(json, "damaged_records", figures_sum(figures, FIGURE(bad_records)));
    json_put_bool(json, "stopped_early", output->timing->stopped);
    json_put_int(json, "first_iteration", output->at->iteration);
    json_put_int(json, "global_batch", job_samples(output->job));
    put_shares(output->job, json);
    put_ledger(output, json);
    json_put_double(json, "train_seconds", timing->train_seconds);
    json_put_double(json, "images_per_second",
                    images_rate(output->job, figures->iterations, timing->train_seconds));
    json_put_int(json, "warmup_iterations", timing->warm_iterations);
    json_put_double(json, "images_per_second_after_warmup",
                    images_rate(output->job, figures->iterations - timing->warm_iterations,
                                timing->train_seconds - warm));
    json_put_string(json, "engine", output->job->options->engine);
    json_put_double(json, "train_loss", output->job->blank ? (double)NAN : timing->train_loss);
    json_put_int(json, "train_loss_iterations", timing->train_loss_iterations);
    json_key(json, "test_iteration");
    if (tested)
        json_int(json, output->scores->iteration);
    else
        json_string(json, NULL);
    outputs_put_json(json, "test", tested ? output->compute->tests[0] : NULL,
                     tested ? output->scores->values : NULL);
    if (output->compute->average.net)
        outputs_put_json(json, "test_average", tested ? output->compute->tests[0] : NULL,
                         tested ? output->scores->of_average : NULL);
}

void output_summary(const struct output *output, struct json *json)
{
    const struct figures *figures = &output->figures;

    json_object_begin(json);
    put_provenance(output, json);
    put_course(output, json);
    json_put_double(json, "bytes_sent_per_iteration", figures_sum(figures, FIGURE(sent)));
    put_by_rank(figures, json, "bytes_sent_per_iteration_by_rank", FIGURE(sent));
    put_by_rank(figures, json, "bytes_predicted_per_iteration_by_rank", FIGURE(predicted_sent));
    json_put_double(json, "control_bytes_sent", figures_sum(figures, FIGURE(control_sent)));
    json_put_double(json, "stall_seconds_per_iteration",
                    figures_sum(figures, FIGURE(stall_seconds)) / figures->nworkers);
    put_by_rank(figures, json, "progress_core_share_by_rank", FIGURE(progress_share));
    json_put_double(json, "input_waits", figures_sum(figures, FIGURE(input_waits)));
    json_put_double(json, "input_wait_seconds", figures_sum(figures, FIGURE(input_total_seconds)));
    json_put_int(json, "late_looks", figures->looks);
    json_put_array(json, "by_rank");
    for (int r = 0; r < figures->nranks; r++) {
        json_object_begin(json);
        report_rank(figures, r, json);
        json_object_end(json);
    }
    json_array_end(json);
    json_put_uint(json, "parameters", output->compute->net->nlearnable);
    json_put_string(json, "parameters_sha256", output->job->blank ? NULL : output->hash);
    json_put_string(json, "learned_parameters_sha256",
                    output->job->blank ? NULL : output->learned_hash);
    json_object_end(json);
}
