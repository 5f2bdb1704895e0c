/* The summary of a training run: one JSON object, the same on the screen and in a file. */
#include "report/report.h"

#include "report/outputs.h"
#include "util/build_info.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void put_by_rank(const struct figures *figures, struct json *json, const char *key,
                        size_t figure)
{
    json_key(json, key);
    json_array_begin(json);
    for (int r = 0; r < figures->nranks; r++)
        json_double(json, figures_of_rank(figures, r, figure));
    json_array_end(json);
}

/* An array with a string for every line. */
static void put_lines(struct json *json, const char *key, const char *lines)
{
    char line[1024];

    json_key(json, key);
    json_array_begin(json);
    while (lines && *lines) {
        int length = (int)strcspn(lines, "\n");
        snprintf(line, sizeof line, "%.*s", length, lines);
        json_string(json, line);
        lines += length + (lines[length] == '\n');
    }
    json_array_end(json);
}

/* Where figures come from, without which nobody can put them beside others. */
static void put_provenance(const struct figures *figures, const struct report_run *run,
                           struct json *json)
{
    char date[32] = "";
    time_t now = time(NULL);
    struct tm utc;

    if (gmtime_r(&now, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_put_string(json, "version", build_info.version);
    json_put_string(json, "commit", build_info.commit);
    json_put_string(json, "date", date);
    json_put_string(json, "solver", run->solver);
    json_key(json, "set");
    json_array_begin(json);
    for (int i = 0; i < run->nsettings; i++)
        json_string(json, run->settings[i]);
    json_array_end(json);
    json_put_string(json, "net", figures->net);
    json_put_bool(json, "fake_data", run->fake_data);
    json_put_string(json, "comm", run->comm);
    json_put_string(json, "overlap", run->overlap);
    json_put_string(json, "wire", run->wire);
    json_put_int(json, "batch_per_rank", figures->batch);
    json_put_int(json, "threads", run->threads);
    json_key(json, "hosts");
    json_array_begin(json);
    for (int r = 0; r < figures->nranks; r++)
        json_string(json, figures->ranks[r].host);
    json_array_end(json);
    json_key(json, "scheme_by_layer");
    json_object_begin(json);
    for (int i = 0; i < figures->nlayers; i++)
        json_put_string(json, figures->layers[i].name, figures->layers[i].scheme);
    json_object_end(json);
}

/* Images per second without the first iterations, in which memory is touched and caches fill. */
static double steady_rate(const struct figures *figures, const struct report_run *run)
{
    double iterations = (double)(figures->iterations - run->warm_iterations),
           seconds = run->train_seconds - run->warm_seconds;

    return seconds > 0 ? iterations * figures->nworkers * figures->batch / seconds : 0;
}

void report_summary(const struct figures *figures, const struct report_run *run, struct json *json)
{
    int global = figures->nworkers * figures->batch;
    double images = (double)figures->iterations * global;

    json_object_begin(json);
    put_provenance(figures, run, json);
    json_put_int(json, "nodes", run->machines);
    json_put_int(json, "ranks", figures->nranks);
    json_put_int(json, "workers", figures->nworkers);
    json_put_int(json, "dedicated_servers", run->servers);
    json_put_int(json, "iterations", run->end);
    json_put_int(json, "updates_left_out", run->skipped);
    json_put_int(json, "best_iteration", run->best);
    json_put_double(json, "best_score", run->best >= 0 ? run->best_score : (double)NAN);
    put_lines(json, "damaged_records", run->damage);
    json_put_bool(json, "stopped_early", run->stopped);
    json_put_int(json, "first_iteration", run->first_iteration);
    json_put_int(json, "global_batch", global);
    json_put_double(json, "train_seconds", run->train_seconds);
    json_put_double(json, "images_per_second",
                    run->train_seconds > 0 ? images / run->train_seconds : 0);
    json_put_int(json, "warmup_iterations", run->warm_iterations);
    json_put_double(json, "images_per_second_after_warmup", steady_rate(figures, run));
    json_put_string(json, "engine", run->engine);
    json_put_double(json, "final_loss", run->final_loss);
    json_key(json, "test_iteration");
    if (run->test && run->scores)
        json_int(json, run->test_iteration);
    else
        json_null(json);
    outputs_put_json(json, "test", run->test, run->test ? run->scores : NULL);
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
    json_key(json, "by_rank");
    json_array_begin(json);
    for (int r = 0; r < figures->nranks; r++) {
        json_object_begin(json);
        report_rank(figures, r, json);
        json_object_end(json);
    }
    json_array_end(json);
    json_put_uint(json, "parameters", run->parameters);
    json_put_string(json, "parameters_sha256", run->sha256);
    json_object_end(json);
}
