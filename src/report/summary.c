/* The summary of a training run: one JSON object, the same on the screen and in a file. */
#include "report/report.h"

#include "report/outputs.h"

static void put_by_rank(const struct figures *figures, struct json *json, const char *key,
                        size_t figure)
{
    json_key(json, key);
    json_array_begin(json);
    for (int r = 0; r < figures->nranks; r++)
        json_double(json, figures_of_rank(figures, r, figure));
    json_array_end(json);
}

void report_summary(const struct figures *figures, const struct report_run *run, struct json *json)
{
    int global = figures->nworkers * figures->batch;
    double images = (double)figures->iterations * global;

    json_object_begin(json);
    json_put_string(json, "net", figures->net);
    json_put_string(json, "comm", run->comm);
    json_put_int(json, "nodes", run->machines);
    json_put_int(json, "ranks", figures->nranks);
    json_put_int(json, "workers", figures->nworkers);
    json_put_int(json, "dedicated_servers", run->servers);
    json_put_int(json, "iterations", run->end);
    json_put_bool(json, "stopped_early", run->stopped);
    json_put_int(json, "first_iteration", run->first_iteration);
    json_put_int(json, "global_batch", global);
    json_put_double(json, "train_seconds", run->train_seconds);
    json_put_double(json, "images_per_second",
                    run->train_seconds > 0 ? images / run->train_seconds : 0);
    json_put_string(json, "engine", run->engine);
    json_put_double(json, "final_loss", run->final_loss);
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
    json_put_uint(json, "parameters", run->parameters);
    json_put_string(json, "parameters_sha256", run->sha256);
    json_object_end(json);
}
