/* bench_net --model=FILE [--batch=N] [--threads=N] [--passes=N] [--layers] [--no-fusion]
 *           [--direct] [--update] [--math=bf16]
 *
 * Forward and backward of a net in the TRAIN phase on random input, with weights that change from
 * pass to pass as they do in training (so that re-laid copies are renewed). Prints the milliseconds
 * of each pass. --passes=0 reads a line from standard input before each pass instead, and ends with
 * it: a script can then take turns with another program. --layers: a table of mean times at the
 * end, with the OpenMP regions that a layer opens, the library's too, and how much of the first
 * thread's processor time is spent outside them: by Amdahl what more threads cannot share. (With
 * one thread oneDNN opens none.) --no-fusion, --direct: as poseidon time has them behind --tune
 * (convolution=direct).
 * --update: each pass ends with SGD's update, with momentum and weight decay. */
#include "tests/bench/bench_clock.h"

#include "net/net.h"
#include "spec/read.h"
#include "util/error.h"
#include "util/rng.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What GCC makes of `omp parallel` passes here, on its way to OpenMP's library. */
static struct {
    long count;
    double seconds; /* of the first thread's processor time, within them */
} regions;

static double thread_seconds(void)
{
    struct timespec at;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags)
{
    static void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    double start = thread_seconds();

    if (!parallel)
        *(void **)&parallel = dlsym(RTLD_NEXT, "GOMP_parallel");
    parallel(body, data, threads, flags);
    regions.count += threads != 1; /* 1: `if` says that it is not worth it */
    regions.seconds += threads == 1 ? 0 : thread_seconds() - start;
}

/* Per layer, both passes. */
struct sharing {
    long regions;
    double serial, all; /* seconds of the first thread: outside of regions, and in all */
};

struct bench {
    const char *model;
    int batch, threads, passes;
    bool by_layer, no_fusion, direct, update, halves;
    struct engine engine;
    struct text_doc *doc;
    struct net_def *def;
    struct net *net;
    double *forward, *backward; /* per layer, seconds */
    struct sharing *sharing;    /* per layer */
    float *history;
};

static int read_options(struct bench *b, int argc, char **argv)
{
    *b = (struct bench){.threads = 1, .passes = 10};
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--model=", 8) == 0)
            b->model = argv[i] + 8;
        else if (strncmp(argv[i], "--threads=", 10) == 0)
            b->threads = atoi(argv[i] + 10);
        else if (strncmp(argv[i], "--passes=", 9) == 0)
            b->passes = atoi(argv[i] + 9);
        else if (strncmp(argv[i], "--batch=", 8) == 0)
            b->batch = atoi(argv[i] + 8);
        else if (strcmp(argv[i], "--no-fusion") == 0)
            b->no_fusion = true;
        else if (strcmp(argv[i], "--direct") == 0)
            b->direct = true;
        else if (strcmp(argv[i], "--update") == 0)
            b->update = true;
        else if (strcmp(argv[i], "--math=bf16") == 0)
            b->halves = true;
        else if (strcmp(argv[i], "--layers") == 0)
            b->by_layer = true;
        else
            return error_set("do not understand '%s'", argv[i]);
    }
    return b->model ? 0 : error_set("--model=FILE is missing");
}

static int open_net(struct bench *b)
{
    const struct engine_options options = {.threads = b->threads,
                                           .no_fusion = b->no_fusion,
                                           .math = b->halves ? MATH_BF16 : MATH_FP32,
                                           .convolution =
                                               b->direct ? CONVOLUTION_DIRECT : CONVOLUTION_AUTO};
    /* data that is not there is taken to be images of 256 x 256, of which nets take crops */
    const struct layer_env env = {
        .look_only = true, .batch = b->batch, .nranks = 1, .seed = 1, .base_file = b->model};
    int status;

    if (engine_open("cpu", &options, &b->engine) ||
        text_read_file(b->model, &caffe__net_parameter__descriptor, &b->doc))
        return -1;
    status = net_def_create(b->doc, (Caffe__NetParameter *)text_root(b->doc), CAFFE__PHASE__TRAIN,
                            NULL, &b->def);
    if (status || net_create(b->def, true, &env, NULL, &b->net) || net_build(b->net, &b->engine, 1))
        return -1;
    b->forward = calloc((size_t)b->net->nlayers, sizeof *b->forward);
    b->backward = calloc((size_t)b->net->nlayers, sizeof *b->backward);
    b->sharing = calloc((size_t)b->net->nlayers, sizeof *b->sharing);
    b->history = calloc(b->net->elems, sizeof *b->history);
    return b->forward && b->backward && b->sharing && b->history ? 0 : error_memory(1, "timings");
}

/* Labels are class numbers: 0 fits every net. All else is uniform noise. */
static int fill_inputs(struct bench *b)
{
    for (int l = 0; l < b->net->nlayers; l++) {
        struct layer *layer = &b->net->layers[l];
        for (int t = 0; layer->i->is_data && t < layer->ntops; t++) {
            struct tensor *value = &layer->tops[t]->value;
            size_t n = shape_elems(&value->shape);
            struct rng rng = rng_make(1, RNG_DUMMY, (uint32_t)l, (uint64_t)t);
            float *values = calloc(n, sizeof *values);
            if (!values)
                return error_memory(n * sizeof *values, "an input");
            for (size_t i = 0; i < n && value->shape.naxes > 1; i++)
                values[i] = 2 * rng_uniform(&rng, i) - 1;
            int status = b->engine.i->write(b->engine.context, value, values);
            free(values);
            if (status)
                return -1;
        }
    }
    return 0;
}

static int update(struct bench *b)
{
    const struct rule rule = {
        .kind = RULE_SGD, .momentum = 0.9f, .weight_decay = 5e-4f, .nhistory = 1};
    const struct engine *engine = &b->engine;
    const struct net *net = b->net;
    struct device_update u;

    rule_describe(&rule, 0, 1e-6f, 1, 1, 1, &u);
    for (int g = 0; g < net->ngroups; g++) {
        size_t begin = net->groups[g].begin, n = net->groups[g].elems;
        if (net->groups[g].trains &&
            engine->device.i->services->update(engine->context, &u, net->engine_values + begin,
                                               net->engine_grads + begin, b->history + begin, n, n,
                                               DEVICE_IN_TURN))
            return -1;
    }
    return 0;
}

static int one_layer(struct bench *b, int l, bool back, const struct pass *pass)
{
    double start = bench_seconds(b->threads), first = thread_seconds();
    int status;

    regions.count = 0, regions.seconds = 0;
    status = back ? net_layer_backward(b->net, l, pass) : net_layer_forward(b->net, l, pass);
    (back ? b->backward : b->forward)[l] += bench_seconds(b->threads) - start;
    b->sharing[l].all += thread_seconds() - first;
    b->sharing[l].serial += thread_seconds() - first - regions.seconds;
    b->sharing[l].regions += regions.count;
    return status;
}

static int one_pass(struct bench *b, const struct pass *pass)
{
    struct net *net = b->net;

    for (int g = 0; g < net->ngroups; g++)
        net_touch(net, g);
    for (int l = 0; l < net->nlayers; l++)
        if (one_layer(b, l, false, pass))
            return -1;
    for (int l = net->nlayers - 1; l >= 0; l--)
        if (one_layer(b, l, true, pass))
            return -1;
    return b->update ? update(b) : 0;
}

static int measure(struct bench *b, int *passes)
{
    const struct pass pass = {.seed = 1};
    char line[64];

    if (one_pass(b, &pass))
        return -1;
    memset(b->forward, 0, (size_t)b->net->nlayers * sizeof *b->forward);
    memset(b->backward, 0, (size_t)b->net->nlayers * sizeof *b->backward);
    memset(b->sharing, 0, (size_t)b->net->nlayers * sizeof *b->sharing);
    printf("ready\n");
    fflush(stdout);
    for (*passes = 0; b->passes == 0 || *passes < b->passes; ++*passes) {
        if (b->passes == 0 && !fgets(line, sizeof line, stdin))
            return 0;
        double start = bench_seconds(b->threads);
        if (one_pass(b, &pass))
            return -1;
        printf("%.4f\n", (bench_seconds(b->threads) - start) * 1e3);
        fflush(stdout);
    }
    return 0;
}

static void print_layers(const struct bench *b, int passes)
{
    double all = 0;
    struct sharing total = {0};

    for (int l = 0; l < b->net->nlayers; l++)
        all += b->forward[l] + b->backward[l];
    printf("%-28s %-16s %9s %9s %6s %9s %9s %7s %9s\n", "layer", "type", "fwd ms", "bwd ms",
           "share", "GFLOP/s", "GFLOP/s", "regions", "serial ms");
    for (int l = 0; l < b->net->nlayers; l++) {
        const struct layer *layer = &b->net->layers[l];
        double f = b->forward[l] / passes, back = b->backward[l] / passes;
        /* backward of a layer with parameters does the work twice, if it passes a gradient down */
        double times = layer->nparams && layer->propagate[0] ? 2 : 1;
        const struct sharing *sharing = &b->sharing[l];
        printf("%-28.28s %-16.16s %9.3f %9.3f %5.1f%% %9.1f %9.1f %7ld %9.3f\n", layer->def->name,
               layer->i->type, f * 1e3, back * 1e3, 100 * (f + back) * passes / all,
               layer->flops / f * 1e-9,
               layer->needs_backward ? times * layer->flops / back * 1e-9 : 0,
               sharing->regions / passes, sharing->serial / passes * 1e3);
        total.regions += sharing->regions;
        total.serial += sharing->serial;
        total.all += sharing->all;
    }
    printf("%-28s %-16s %9.3f %41ld %9.3f, %.2f %% of the first thread's\n", "all", "",
           all / passes * 1e3, total.regions / passes, total.serial / passes * 1e3,
           100 * total.serial / total.all);
}

int main(int argc, char **argv)
{
    struct bench b;
    int status, passes = 0;

    status =
        read_options(&b, argc, argv) || open_net(&b) || fill_inputs(&b) || measure(&b, &passes);
    if (status)
        fprintf(stderr, "bench_net: %s\n", error_text());
    else if (b.by_layer && passes > 0)
        print_layers(&b, passes);
    net_destroy(b.net);
    net_def_destroy(b.def);
    text_free(b.doc);
    free(b.forward);
    free(b.backward);
    free(b.sharing);
    free(b.history);
    engine_close(&b.engine);
    return status ? 1 : 0;
}
