/* poseidon time: times every layer, forward and backward, and prints Caffe's lines. Untimed passes
 * come first, so that set-up costs are not counted. */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options_rows.h"
#include "commands/output_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/replay/profile.h"
#include "engine/roofline.h"
#include "util/clock.h"
#include "util/alloc.h"
#include "util/file.h"
#include "util/json.h"
#include "util/log.h"
#include "util/units.h"

struct timing {
    struct model_options model_options;
    const char *profile;
    struct computing computing;
    int iterations;
    bool json, force;
    struct log log;
    struct model model;
    double *forward, *backward; /* per layer: seconds, summed over iterations */
    double total;
    struct roofline roofline;
};

static int parse(struct timing *t, int argc, char **argv)
{
    const struct option own[] = {
        {"iterations", OPTION_COUNT, &t->iterations, "N", "timed passes (default 50)"},
        {"profile", OPTION_TEXT, &t->profile, "FILE",
         "write the times as CSV, for train --engine=replay"},
        {"force", OPTION_FLAG, &t->force, NULL, "replace the profile if it exists"},
        {"json", OPTION_FLAG, &t->json, NULL,
         "print only the figures, as JSON, on standard output"},
    };
    const struct command_line line = {
        .command = "time",
        .synopsis = "--model=FILE [OPTIONS]",
        .example = "  poseidon time --model=models/lenet/train_val.prototxt --iterations=10",
        OPTION_ROWS(own),
        .net_rows = ROWS_OF_SHAPES,
        .net = &t->model_options,
        .computing = &t->computing,
        .about = "Measures every layer, forward and backward, on blank input; only the shape of "
                 "the data is read. Each time is compared with its floor: the layer's operations "
                 "at this machine's rate of matrix products, or its bytes at the memory's rate, "
                 "the longer of the two. Both rates are measured first. Layers that stay in the "
                 "caches can be faster. The lines have the form of Caffe's log and go to standard "
                 "error.",
    };

    int status = options_parse(&line, argc, argv, NULL);

    if (status)
        return status;
    return t->profile ? output_check(t->profile, t->force, 1, &t->model_options.model) : 0;
}

/* Marks parameters as changed, so that operators with their own memory layout reorder them in each
 * pass, like in training. */
static void touch(struct net *net)
{
    for (int g = 0; g < net->ngroups; g++)
        if (net->groups[g].trains)
            net_touch(net, g);
}

/* Times one pass layer by layer, waiting for the engine after each layer. */
static int timed_pass(struct timing *t, const struct pass *pass)
{
    struct net *net = t->model.net;

    touch(net);
    for (int i = 0; i < net->nlayers; i++) {
        double start = clock_seconds();
        if (net_layer_forward(net, i, pass) || roofline_finish(&t->model.engine))
            return -1;
        t->forward[i] += clock_seconds() - start;
    }
    for (int i = net->nlayers - 1; i >= 0 && net->train; i--) {
        double start = clock_seconds();
        if (net_layer_backward(net, i, pass) || roofline_finish(&t->model.engine))
            return -1;
        t->backward[i] += clock_seconds() - start;
    }
    return 0;
}

/* Runs one whole pass like training does, without waiting after each layer. */
static int whole_pass(struct timing *t, const struct pass *pass)
{
    struct net *net = t->model.net;

    touch(net);
    if (net_forward(net, pass, NULL, NULL) || (net->train && net_backward(net, pass, true, NULL)))
        return -1;
    return roofline_finish(&t->model.engine);
}

static double sum(const struct timing *t, const double *seconds)
{
    double total = 0;

    for (int i = 0; i < t->model.net->nlayers; i++)
        total += seconds[i];
    return total * 1e3 / t->iterations;
}

/* Returns the mean seconds of a layer's pass. */
static double layer_seconds(const struct timing *t, int layer, enum op_pass pass)
{
    return (pass == OP_FORWARD ? t->forward : t->backward)[layer] / t->iterations;
}

/* Returns the roofline's least seconds of a forward and a backward pass over all layers. */
static double whole_floor(const struct timing *t)
{
    const struct net *net = t->model.net;
    double sum = 0;

    for (int i = 0; i < net->nlayers; i++)
        for (int pass = 0; pass < (net->train ? OP_PASSES : 1); pass++) {
            struct op_work work = layer_work(&net->layers[i], (enum op_pass)pass);
            sum += roofline_floor(&t->roofline, &work);
        }
    return sum;
}

/* Lists the layers that are fused into `layer`'s operator. */
static const char *done_by(const struct layer *layer, char *words, size_t size)
{
    int most = layer->nbottoms + 2;
    words[0] = '\0';
    for (int i = 0; i < most; i++) {
        const struct layer *other = i < layer->nbottoms    ? layer->taken[i]
                                    : i == layer->nbottoms ? layer->merged
                                                           : layer->fused;
        if (other)
            buffer_list(words, size, other->def->name);
    }
    return words;
}

static void print_pass(struct timing *t, int layer, enum op_pass pass)
{
    const char *name = t->model.net->layers[layer].def->name;
    const char *word = pass == OP_FORWARD ? "forward" : "backward";
    struct op_work work = layer_work(&t->model.net->layers[layer], pass);
    double seconds = layer_seconds(t, layer, pass), floor = roofline_floor(&t->roofline, &work);
    bool computes = roofline_computes(&t->roofline, &work);
    double bytes = op_work_bytes(&work);

    if (floor <= 0 || seconds <= 0)
        LOG_INFO(&t->log, "%10s\t%s: %g ms.", name, word, seconds * 1e3);
    else if (seconds < floor) /* shows no percentage of a peak that the operator exceeds */
        LOG_INFO(
            &t->log, "%10s\t%s: %g ms. (%.3g GFLOP/s; %.3g MB, %.3g GB/s; %s)", name, word,
            seconds * 1e3, work.flops / seconds * 1e-9, bytes * 1e-6, bytes / seconds * 1e-9,
            computes
                ? "under the floor: fewer products (Winograd), or a rate above the measured one"
                : "in cache");
    else
        LOG_INFO(&t->log,
                 "%10s\t%s: %g ms. (%.3g GFLOP/s, %.0f %% of the peak; %.3g MB, %.3g GB/s; "
                 "bound by %s, %.2f times the floor)",
                 name, word, seconds * 1e3, work.flops / seconds * 1e-9,
                 work.flops / seconds / t->roofline.flops * 100, bytes * 1e-6,
                 bytes / seconds * 1e-9, computes ? "arithmetic" : "memory", seconds / floor);
}

static void print_log(struct timing *t)
{
    const struct net *net = t->model.net;
    const char *assumed = net_is_assumed(net) ? " (assumed input)" : "";
    double floor = whole_floor(t), whole = t->total / t->iterations;
    char words[512];

    LOG_INFO(&t->log, "Average time per layer: ");
    for (int i = 0; i < net->nlayers; i++) {
        const char *name = net->layers[i].def->name;
        print_pass(t, i, OP_FORWARD);
        print_pass(t, i, OP_BACKWARD);
        layer_describe(&net->layers[i], &t->model.engine, words);
        if (words[0])
            LOG_INFO(&t->log, "%10s\talgorithm: %s.", name, words);
        if (done_by(&net->layers[i], words, sizeof words)[0])
            LOG_INFO(&t->log, "%10s\tdoes the work of: %s.", name, words);
    }
    LOG_INFO(&t->log, "Average Forward pass: %g ms.%s", sum(t, t->forward), assumed);
    LOG_INFO(&t->log, "Average Backward pass: %g ms.%s", sum(t, t->backward), assumed);
    LOG_INFO(&t->log, "Average Forward-Backward: %g ms.%s", whole * 1e3, assumed);
    LOG_INFO(&t->log,
             "Measured here: products %.4g GFLOP/s, memory %.3g GB/s. The floor, for each operator "
             "the longer of its operations and its bytes at these rates, adds up to %g ms; "
             "Forward-Backward takes %.2f times the floor.%s",
             t->roofline.flops * 1e-9, t->roofline.bandwidth * 1e-9, floor * 1e3,
             floor > 0 ? whole / floor : 0, whole < floor ? " Much of the data is in cache." : "");
    LOG_INFO(&t->log, "Total Time: %g ms.%s", t->total * 1e3, assumed);
    LOG_INFO(&t->log, "*** Benchmark ends ***");
}

static void print_memory(struct timing *t)
{
    const double mib = 1048576;
    const struct net *net = t->model.net;
    const struct engine *engine = &t->model.engine;
    const struct net_memory_plan *plan = net_memory_plan(net);
    int layer = plan->peak < net->nlayers ? plan->peak : 2 * net->nlayers - 1 - plan->peak;

    if (plan->npieces == 0)
        return;
    LOG_INFO(&t->log,
             "Memory of blobs: %.1f MiB in one arena (%.1f MiB without sharing), most of it at %s "
             "of '%s'",
             (double)plan->bytes / mib, (double)plan->apart / mib,
             plan->peak < net->nlayers ? "forward" : "backward", net->layers[layer].def->name);
    LOG_INFO(&t->log, "Memory of parameters%s: %.1f MiB", net->train ? " and their gradients" : "",
             (double)(net_memory(net) - plan->bytes) / mib);
    if (engine->i->held)
        LOG_INFO(&t->log, "Temporary memory of operators: %.1f MiB",
                 (double)engine->i->held(engine->context) / mib);
    if (engine->device.i->room)
        LOG_INFO(&t->log, "Memory free on the device: %.1f MiB",
                 (double)engine->device.i->room(engine->context) / mib);
}

/* Writes a layer's pass; figures relative to the floor only if the layer does work in that pass. */
static void json_pass(const struct timing *t, int layer, enum op_pass pass, struct json *json)
{
    struct op_work work = layer_work(&t->model.net->layers[layer], pass);
    double seconds = layer_seconds(t, layer, pass), floor = roofline_floor(&t->roofline, &work);

    json_put_object(json, pass == OP_FORWARD ? "forward" : "backward");
    json_put_double(json, "ms", seconds * 1e3);
    json_put_double(json, "flops", work.flops);
    json_put_double(json, "bytes", op_work_bytes(&work));
    json_put_double(json, "floor_ms", floor * 1e3);
    if (floor > 0 && seconds > 0) {
        json_put_double(json, "gflops_per_second", work.flops / seconds * 1e-9);
        json_put_double(json, "share_of_peak", work.flops / seconds / t->roofline.flops);
        json_put_double(json, "times_floor", seconds / floor);
        json_put_string(json, "bound_by",
                        roofline_computes(&t->roofline, &work) ? "arithmetic" : "memory");
    }
    json_object_end(json);
}

static int print_json(struct timing *t)
{
    const struct net *net = t->model.net;
    struct json json = {.depth = 0};
    double floor = whole_floor(t);
    char words[512];

    json_object_begin(&json);
    json_put_int(&json, "iterations", t->iterations);
    json_put_bool(&json, "input_assumed", net_is_assumed(net));
    json_put_double(&json, "forward_ms", sum(t, t->forward));
    json_put_double(&json, "backward_ms", sum(t, t->backward));
    json_put_double(&json, "forward_backward_ms", t->total * 1e3 / t->iterations);
    json_put_double(&json, "peak_gflops_per_second", t->roofline.flops * 1e-9);
    json_put_double(&json, "bandwidth_gbytes_per_second", t->roofline.bandwidth * 1e-9);
    json_put_double(&json, "floor_ms", floor * 1e3);
    json_put_double(&json, "times_floor", floor > 0 ? t->total / t->iterations / floor : 0);
    json_put_array(&json, "layers");
    for (int i = 0; i < net->nlayers; i++) {
        json_object_begin(&json);
        json_put_string(&json, "name", net->layers[i].def->name);
        json_put_string(&json, "type", net->layers[i].def->type);
        json_put_double(&json, "forward_ms", t->forward[i] * 1e3 / t->iterations);
        json_put_double(&json, "backward_ms", t->backward[i] * 1e3 / t->iterations);
        json_put_double(&json, "flops", net->layers[i].flops);
        layer_describe(&net->layers[i], &t->model.engine, words);
        json_put_string(&json, "algorithm", words);
        json_put_string(&json, "does_the_work_of", done_by(&net->layers[i], words, sizeof words));
        json_pass(t, i, OP_FORWARD, &json);
        if (net->train)
            json_pass(t, i, OP_BACKWARD, &json);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_object_end(&json);
    return json_print(&json, stdout);
}

static int write_profile(struct timing *t)
{
    enum { SIZE = 512 };
    const struct net *net = t->model.net;
    struct strbuf text = {.data = NULL};
    const struct blob *input =
        net->nlayers > 0 && net->layers[0].ntops > 0 ? net->layers[0].tops[0] : NULL;
    const double gflop = 2e-9 * SIZE * SIZE * SIZE;
    double gemm, update;

    if (roofline_gemm(&t->model.engine, SIZE, &gemm) || roofline_update(&t->model.engine, &update))
        return -1;
    strbuf_printf(&text, "# net %s, phase %s, engine %s, mean of %s\n", net->def->name,
                  t->model_options.phase, t->computing.engine,
                  units_count(t->iterations, "iteration").text);
    if (input)
        strbuf_printf(&text, "# input %s%s\n", shape_text(&input->value.shape).text,
                      net_is_assumed(net) ? " (assumed)" : "");
    profile_begin(&text);
    for (int i = 0; i < net->nlayers; i++)
        profile_add(&text, net->layers[i].def->name, net->layers[i].def->type,
                    t->forward[i] / t->iterations, t->backward[i] / t->iterations);
    profile_add(&text, PROFILE_GEMM, "GEMM", gemm / gflop, 0);
    profile_add(&text, PROFILE_UPDATE, "SGD", update, 0);
    return file_write_text(t->profile, &text);
}

/* Runs untimed passes for one-time work, and logs whether passes were recorded as CUDA graphs. */
static int prepare(struct timing *t, const struct pass *pass)
{
    enum { UNTIL_RECORDED = 3 };
    struct net *net = t->model.net;
    struct net_recorded recorded;

    for (int i = 0; i < (net_recorded(net).possible ? UNTIL_RECORDED : 1); i++)
        if (whole_pass(t, pass))
            return -1;
    recorded = net_recorded(net);
    if (recorded.obstacle[0])
        LOG_INFO(&t->log, "CUDA graphs disabled: passes could not be recorded: %s",
                 recorded.obstacle);
    else if (recorded.possible && !t->computing.options.no_graphs)
        LOG_INFO(&t->log,
                 "Recorded as CUDA graphs: %d of the forward pass, %d of the backward pass",
                 recorded.segments[0], recorded.segments[1]);
    return 0;
}

static int run_passes(struct timing *t, const struct pass *pass)
{
    for (int i = 0; i < t->iterations; i++) {
        double start = clock_seconds();
        if (timed_pass(t, pass))
            return -1;
        /* timed_pass waits after every layer; an asynchronous engine also runs a pass without these
         * waits */
        if (t->model.engine.device.i->finish) {
            start = clock_seconds();
            if (whole_pass(t, pass))
                return -1;
        }
        t->total += clock_seconds() - start;
        LOG_INFO(&t->log, "Iteration: %d forward-backward time: %g ms.", i + 1,
                 (clock_seconds() - start) * 1e3);
    }
    return 0;
}

static int measure(struct timing *t)
{
    struct pass pass = {.seed = 1};
    size_t n;

    if (model_open(&t->model_options, &t->model))
        return -1;
    if (t->model.notices && *t->model.notices)
        LOG_INFO(&t->log, "%.*s", (int)(strlen(t->model.notices) - 1), t->model.notices);
    if (model_build(&t->model, t->computing.engine, &t->computing.options, 1))
        return -1;
    n = (size_t)t->model.net->nlayers + 1;
    if (ALLOC(t->forward, n, "timings") || ALLOC(t->backward, n, "timings"))
        return -1;
    print_memory(t);
    if (roofline_measure(&t->model.engine, &t->roofline))
        return -1;
    LOG_INFO(&t->log, "Performing Forward");
    if (prepare(t, &pass))
        return -1;
    LOG_INFO(&t->log, "*** Benchmark begins ***");
    LOG_INFO(&t->log, "Testing for %s.", units_count(t->iterations, "iteration").text);
    if (run_passes(t, &pass) || roofline_measure(&t->model.engine, &t->roofline))
        return -1;
    print_log(t);
    if (t->profile && write_profile(t))
        return -1;
    return t->json ? print_json(t) : 0;
}

int command_time(int argc, char **argv)
{
    struct timing t = {.model_options = {.phase = "TRAIN", .look_only = true}, .iterations = 50};
    int status = parse(&t, argc, argv);

    if (status)
        return status;
    log_init(&t.log, true, stderr);
    status = measure(&t);
    free(t.forward);
    free(t.backward);
    model_close(&t.model);
    return status;
}
