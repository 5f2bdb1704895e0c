/* bench_step --model=FILE [--engine=NAME] [--math=TYPE] [--steps=N] [--no-graphs]
 *
 * Whole training steps of one rank on random input: forward, backward, SGD with momentum and weight
 * decay on the device. Prints "ready", then for every line on standard input the milliseconds of a
 * step, the mean of N: a script takes turns with another program. */
#include "net/net.h"
#include "spec/read.h"
#include "util/choice.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench {
    const char *model, *name;
    int steps;
    struct engine_options options;
    struct engine engine;
    struct text_doc *doc;
    struct net_def *def;
    struct net *net;
    float *history; /* engine memory, as the parameters */
    uint64_t step;
};

static int read_options(struct bench *b, int argc, char **argv)
{
    *b = (struct bench){.name = "cuda", .steps = 10};
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--model=", 8) == 0)
            b->model = argv[i] + 8;
        else if (strncmp(argv[i], "--engine=", 9) == 0)
            b->name = argv[i] + 9;
        else if (strncmp(argv[i], "--steps=", 8) == 0)
            b->steps = atoi(argv[i] + 8);
        else if (strcmp(argv[i], "--no-graphs") == 0)
            b->options.no_graphs = true;
        else if (strncmp(argv[i], "--math=", 7) != 0)
            return error_set("unknown option %s", argv[i]);
        else if (choice_parse("--math", argv[i] + 7, engine_math_words, (int *)&b->options.math))
            return -1;
    }
    return b->model && b->steps > 0 ? 0 : error_set("wants --model=FILE and --steps of at least 1");
}

static int open_net(struct bench *b)
{
    const struct layer_env env = {.nranks = 1, .seed = 1, .base_file = b->model};
    void *history = NULL;
    int status;

    status = engine_open(b->name, &b->options, &b->engine) ||
             text_read_file(b->model, &caffe__net_parameter__descriptor, &b->doc) ||
             net_def_create(b->doc, (Caffe__NetParameter *)text_root(b->doc), CAFFE__PHASE__TRAIN,
                            NULL, &b->def);
    if (status || net_create(b->def, true, &env, NULL, &b->net) || net_build(b->net, &b->engine, 1))
        return -1;
    if (!b->engine.device.i->own_memory)
        return error_set("engine '%s' has no memory of its own: tests/bench times it", b->name);
    if (b->engine.device.i->alloc(b->engine.context, b->net->elems * sizeof(float), "history",
                                  &history))
        return -1;
    b->history = history;
    return 0;
}

/* Labels are class numbers: 0 fits every net. All else is uniform noise. */
static int fill_inputs(struct bench *b)
{
    for (int l = 0; l < b->net->nlayers; l++) {
        struct layer *layer = &b->net->layers[l];
        for (int t = 0; strcmp(layer->i->type, "Input") == 0 && t < layer->ntops; t++) {
            struct tensor *value = &layer->tops[t]->value;
            size_t n = shape_elems(&value->shape);
            struct rng rng = rng_make(1, RNG_DUMMY, (uint32_t)l, (uint64_t)t);
            float *values = calloc(n, sizeof *values);
            if (!values)
                return error_memory(n * sizeof *values, "an input");
            for (size_t i = 0; i < n && value->shape.naxes > 1; i++)
                values[i] = rng_uniform(&rng, i);
            int status = b->engine.i->write(b->engine.context, value, values);
            free(values);
            if (status)
                return -1;
        }
    }
    return 0;
}

static int update_group(struct bench *b, int group)
{
    const struct device_update sgd = {
        .rule = RULE_SGD, .scale = 1, .rate = 1e-4f, .decay = 5e-4f, .momentum = 0.9f};
    const struct group *g = &b->net->groups[group];

    if (!g->trains)
        return 0;
    net_touch(b->net, group);
    return b->engine.device.i->services->update(
        b->engine.context, &sgd, b->net->engine_values + g->begin, b->net->engine_grads + g->begin,
        b->history + g->begin, g->elems, g->elems, DEVICE_IN_TURN);
}

/* As training on one GPU does it: updates between two passes. */
static int one_step(struct bench *b)
{
    const struct pass pass = {.seed = 1, .first_sample = b->step++};

    if (net_forward(b->net, &pass, NULL, NULL) || net_backward(b->net, &pass, true, NULL))
        return -1;
    for (int g = 0; g < b->net->ngroups; g++)
        if (update_group(b, g))
            return -1;
    return 0;
}

static int measure(struct bench *b)
{
    char line[64];

    for (int i = 0; i < 5; i++) /* the third records the passes */
        if (one_step(b))
            return -1;
    if (b->engine.device.i->finish(b->engine.context))
        return -1;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        double start = clock_seconds();
        for (int i = 0; i < b->steps; i++)
            if (one_step(b))
                return -1;
        if (b->engine.device.i->finish(b->engine.context))
            return -1;
        printf("%.4f\n", (clock_seconds() - start) * 1e3 / b->steps);
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct bench b;
    int status = read_options(&b, argc, argv) || open_net(&b) || fill_inputs(&b) || measure(&b);

    if (status)
        fprintf(stderr, "bench_step: %s\n", error_text());
    if (b.engine.i)
        b.engine.device.i->free(b.engine.context, b.history);
    net_destroy(b.net);
    net_def_destroy(b.def);
    text_free(b.doc);
    engine_close(&b.engine);
    return status ? 1 : 0;
}
