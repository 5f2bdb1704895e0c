/* Measures reading with a net of the data layers alone, whose passes only wait for the feeders and
 * take their batches. */
#include "commands/data_pace.h"

#include <stdlib.h>
#include <time.h>

#include "input/feeder.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/units.h"
#include "util/workers.h"

/* Runs passes for `seconds` and computes the pace. */
static int read_for(struct net *net, double seconds, struct data_pace *out)
{
    const struct pass pass = {.seed = 1};
    const double begin = clock_seconds();
    const clock_t used = clock();
    double images = 0, wall;

    do {
        if (net_forward(net, &pass, NULL, NULL))
            return -1;
        images += net_batch(net);
        wall = clock_seconds() - begin;
    } while (wall < seconds);
    out->images = images / wall;
    out->processor = (double)(clock() - used) / CLOCKS_PER_SEC / images;
    return 0;
}

/* Measures the pace after a warm-up, in which prepared batches run out and feeders add threads. */
static int read_on(struct net *net, struct data_pace *out)
{
    if (read_for(net, 0.7, out) || read_for(net, 1.5, out))
        return -1;
    out->threads = 0;
    for (int i = 0; i < net->nlayers; i++)
        out->threads += net->layers[i].feeder ? feeder_threads(net->layers[i].feeder) : 0;
    return 0;
}

/* Measures the feeders beside one thread that takes their batches. */
static int measure(const struct model *model, const struct net_def *def,
                   const struct layer_env *env, const char *engine, struct data_pace *out)
{
    const struct engine_options options = {.threads = 1};
    struct engine own = {.i = NULL};
    struct net *net = NULL;
    int status = net_create(def, model->net->train, env, NULL, &net) ||
                 engine_open(engine, &options, &own) || net_build(net, &own, 1) ||
                 read_on(net, out);

    net_destroy(net);
    if (own.i)
        engine_close(&own);
    return error_status(status);
}

int data_pace_measure(const struct model *model, const struct model_options *options,
                      const char *engine, struct data_pace *out)
{
    struct model_options all = *options;
    struct model reading = {.notices = NULL}; /* the model's notices were printed already */
    struct net_def def = *model->def;
    struct layer_env env;
    int status;

    out->cores = workers_usual();
    all.look_only = false;
    env = model_env(&all, &reading);
    def.nlayers = 0;
    if (ALLOC(def.layers, model->net->nlayers, "a net of data layers"))
        return -1;
    for (int i = 0; i < model->net->nlayers; i++)
        if (model->net->layers[i].i->seek)
            def.layers[def.nlayers++] = *model->net->layers[i].def;
    status = def.nlayers ? measure(model, &def, &env, engine, out)
                         : error_set("no layer of the net reads data in phase %s", options->phase);
    free(def.layers);
    free(reading.notices);
    return status ? error_context("--data") : 0;
}

/* Returns the cores that reading takes at the pace of net or reading, whichever is slower. */
static double cores_used(const struct data_pace *pace, double net)
{
    return (net < pace->images ? net : pace->images) * pace->processor;
}

void data_pace_print(const struct data_pace *pace, double net, struct log *log)
{
    const double used = cores_used(pace, net);

    LOG_INFO(log,
             "Reading alone: %.0f images/s by %s, %.3g ms of a core for each; the net takes "
             "%.0f images/s.",
             pace->images, units_count(pace->threads, "thread").text, pace->processor * 1e3, net);
    if (pace->images < net)
        LOG_INFO(log, "Reading is the bottleneck, at %.2f of the net's rate.", pace->images / net);
    else
        LOG_INFO(log,
                 "The net is the bottleneck: reading is %.3g times as fast, and at the net's rate "
                 "takes %.2g of %s.",
                 pace->images / net, used, units_count(pace->cores, "core").text);
}

void data_pace_json(const struct data_pace *pace, double net, struct json *json)
{
    json_put_object(json, "reading");
    json_put_double(json, "images_per_second", pace->images);
    json_put_int(json, "threads", pace->threads);
    json_put_double(json, "processor_ms_per_image", pace->processor * 1e3);
    json_put_double(json, "net_images_per_second", net);
    json_put_double(json, "cores_used", cores_used(pace, net));
    json_put_int(json, "cores", pace->cores);
    json_put_string(json, "bottleneck", pace->images < net ? "reading" : "net");
    json_object_end(json);
}
