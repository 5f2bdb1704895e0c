/* What is said when training is over: one JSON object, the same on the screen and in a file. */
#include "solver/trainer.h"

#include "util/agree.h"
#include "util/error.h"
#include "util/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int trainer_collect(struct trainer *t)
{
    const struct sync_stats *stats = sync_stats(t->sync);
    uint64_t waits = 0;
    double mine[FIGURES] = {0}, input = 0;

    if (t->worker)
        net_input_waits(t->net, &waits, &input);
    mine[FIGURE_SENT] = (double)stats->sent;
    mine[FIGURE_RECEIVED] = (double)stats->received;
    mine[FIGURE_CONTROL] = (double)stats->control_sent;
    mine[FIGURE_STALL] = t->train_stall;
    mine[FIGURE_PROGRESS] =
        stats->progress_seconds > 0 ? stats->progress_cpu_seconds / stats->progress_seconds : 0;
    mine[FIGURE_INPUT_WAITS] = (double)waits;
    mine[FIGURE_INPUT_SECONDS] = input;
    for (int b = 0; b < t->plan->nbuckets; b++)
        mine[FIGURE_PREDICTED] += (double)plan_traffic(t->plan, b, t->rank).sent;
    if (t->rank == 0) {
        t->figures = calloc((size_t)t->nranks * FIGURES, sizeof *t->figures);
        if (!t->figures)
            error_memory((size_t)t->nranks * sizeof mine, "the summary");
    }
    if (error_agree(t->world, t->rank == 0 && !t->figures))
        return -1;
    MPI_Gather(mine, FIGURES, MPI_DOUBLE, t->figures, FIGURES, MPI_DOUBLE, 0, t->world);
    if (t->rank == 0) {
        double waits_total = 0, seconds = 0;
        for (int r = 0; r < t->nranks; r++) {
            waits_total += t->figures[r * FIGURES + FIGURE_INPUT_WAITS];
            seconds += t->figures[r * FIGURES + FIGURE_INPUT_SECONDS];
        }
        if (waits_total > 0)
            LOG_INFO(t->log,
                     "Training waited for input %.0f times, %.3g s in all (summed over ranks)",
                     waits_total, seconds);
        else
            LOG_INFO(t->log, "Training never waited for input.");
    }
    return 0;
}

static double figure_sum(const struct trainer *t, int figure)
{
    double sum = 0;

    for (int r = 0; r < t->nranks; r++)
        sum += t->figures[r * FIGURES + figure];
    return sum;
}

static void per_rank(struct trainer *t, struct json *json, const char *key, int figure,
                     double divisor)
{
    json_key(json, key);
    json_array_begin(json);
    for (int r = 0; r < t->nranks; r++)
        json_double(json, t->figures[r * FIGURES + figure] / divisor);
    json_array_end(json);
}

static void test_scores(struct trainer *t, struct json *json)
{
    size_t at = 0;

    json_key(json, "test");
    json_object_begin(json);
    for (int i = 0; t->scores && i < t->tests[0]->noutputs; i++) {
        const struct blob *blob = t->tests[0]->outputs[i].blob;
        size_t n = shape_elems(&blob->value.shape);
        json_key(json, blob->name);
        if (n != 1)
            json_array_begin(json);
        for (size_t e = 0; e < n; e++)
            json_double(json, t->scores[at++]);
        if (n != 1)
            json_array_end(json);
    }
    json_object_end(json);
}

void trainer_summary(struct trainer *t, struct json *json)
{
    double iterations = (double)(t->end - t->at.iteration);
    double per = iterations > 0 ? iterations : 1;
    int global = t->nworkers * t->batch * t->iter_size;
    char hash[65];

    if (!t->blank)
        checkpoint_hash(t->net, hash);
    json_object_begin(json);
    json_key(json, "ranks");
    json_int(json, t->nranks);
    json_key(json, "workers");
    json_int(json, t->nworkers);
    json_key(json, "dedicated_servers");
    json_int(json, t->options->servers);
    json_key(json, "iterations");
    json_int(json, t->end);
    json_key(json, "stopped_early");
    json_bool(json, t->stopped);
    json_key(json, "first_iteration");
    json_int(json, t->at.iteration);
    json_key(json, "global_batch");
    json_int(json, global);
    json_key(json, "train_seconds");
    json_double(json, t->train_seconds);
    json_key(json, "images_per_second");
    json_double(json, t->train_seconds > 0 ? iterations * global / t->train_seconds : 0);
    json_key(json, "engine");
    json_string(json, t->options->engine);
    json_key(json, "final_loss");
    json_double(json, t->blank ? (double)NAN : t->final_loss);
    test_scores(t, json);
    json_key(json, "bytes_sent_per_iteration");
    json_double(json, figure_sum(t, FIGURE_SENT) / per);
    per_rank(t, json, "bytes_sent_per_iteration_by_rank", FIGURE_SENT, per);
    per_rank(t, json, "bytes_predicted_per_iteration_by_rank", FIGURE_PREDICTED, 1);
    json_key(json, "control_bytes_sent");
    json_double(json, figure_sum(t, FIGURE_CONTROL));
    json_key(json, "stall_seconds_per_iteration");
    json_double(json, figure_sum(t, FIGURE_STALL) / t->nworkers / per);
    per_rank(t, json, "progress_core_share_by_rank", FIGURE_PROGRESS, 1);
    json_key(json, "input_waits");
    json_double(json, figure_sum(t, FIGURE_INPUT_WAITS));
    json_key(json, "input_wait_seconds");
    json_double(json, figure_sum(t, FIGURE_INPUT_SECONDS));
    json_key(json, "parameters");
    json_uint(json, t->net->nlearnable);
    json_key(json, "parameters_sha256");
    json_string(json, t->blank ? NULL : hash);
    json_object_end(json);
}
