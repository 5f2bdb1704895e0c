/* poseidon test: scores a net, batch by batch, then the means; Caffe's lines. Under mpirun the
 * batches are spread over the ranks, and the scores are the same as on one. */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/outputs.h"
#include "snapshot/checkpoint.h"
#include "solver/device.h"
#include "util/agree.h"
#include "util/error.h"
#include "util/json.h"
#include "util/log.h"
#include "util/topology.h"

struct test_run {
    struct model_options model_options;
    const char *weights, *engine;
    struct engine_options engine_options;
    int iterations;
    bool json;
    int rank, nranks;
    struct log log;
    struct model model;
    size_t width;  /* outputs, then the loss */
    double *table; /* iterations + 1 rows; the last: means */
};

static int parse(struct test_run *t, int argc, char **argv)
{
    const char *math = NULL, *convolution = "auto", *gpu = NULL;
    int nwords, status;
    const struct option options[] = {
        {"model", OPTION_TEXT, &t->model_options.model, "FILE",
         "the net (Caffe's prototxt); required"},
        {"weights", OPTION_TEXT, &t->weights, "FILES", "trained weights (comma list); required"},
        {"iterations", OPTION_COUNT, &t->iterations, "N", "batches to run (default 50)"},
        {"stage", OPTION_TEXT, &t->model_options.stages, "LIST", "stages of the net's state"},
        {"level", OPTION_INT, &t->model_options.level, "N", "level of the net's state"},
        {"gpu", OPTION_TEXT, &gpu, "all|LIST", "as --engine=cuda, on the GPUs of the list"},
        {"engine", OPTION_TEXT, &t->engine, "NAME", "compute engine: cpu (default) or cuda"},
        {"threads", OPTION_THREADS, &t->engine_options.threads, "N", "compute threads per rank"},
        {"convolution", OPTION_TEXT, &convolution, "HOW",
         "cpu: auto (default: Winograd where it was measured to be faster), direct, winograd"},
        {"math", OPTION_TEXT, &math, "TYPE",
         "cuda: fp32, tf32 (default on A100 and later) or bf16"},
        {"json", OPTION_FLAG, &t->json, NULL,
         "print the scores as JSON, and nothing else, on standard output"},
    };
    const struct command_line line = {
        .command = "test",
        .synopsis = "--model=FILE --weights=FILES [OPTIONS]",
        .example = "  poseidon test --model=models/lenet/train_val.prototxt \\\n"
                   "      --weights=lenet_iter_1000.caffemodel --iterations=31",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .about = "Scores the TEST phase of a net with trained weights.",
    };

    status = options_parse(&line, argc, argv, &nwords);
    if (status)
        return status;
    if (gpu && options_select_gpus(gpu, &t->engine))
        return -1;
    if (!t->model_options.model)
        return error_set("Need a model definition to score: --model=FILE");
    if (!t->weights)
        return error_set("Need model weights to score: --weights=FILE");
    if (engine_convolution_parse(convolution, &t->engine_options.convolution))
        return -1;
    return math ? engine_math_parse(math, &t->engine_options.math) : 0;
}

/* Weights are rank 0's to read; the others get the values. */
static int load(struct test_run *t)
{
    struct net *net = t->model.net;
    int status = t->rank == 0 ? checkpoint_load_weights(t->weights, true, net, &t->log) : 0;

    if (error_agree(MPI_COMM_WORLD, status))
        return -1;
    for (size_t at = 0; at < net->elems; at += 1 << 24) {
        size_t n = net->elems - at < (1 << 24) ? net->elems - at : 1 << 24;
        MPI_TRY(MPI_Bcast(net->values + at, (int)n, MPI_FLOAT, 0, MPI_COMM_WORLD));
    }
    for (int g = 0; g < net->ngroups && !status; g++) {
        status = net_push_values(net, g);
        net_touch(net, g);
    }
    return error_agree(MPI_COMM_WORLD, status);
fail:
    return -1;
}

/* Input layers hold what a program puts into them, and here nobody does. */
static bool reads_data(const struct net *net)
{
    for (int l = 0; l < net->nlayers; l++)
        if (net->layers[l].i->is_data && strcmp(net->layers[l].i->type, "Input") != 0)
            return true;
    return false;
}

static int run_batches(struct test_run *t)
{
    struct run run = {.seed = 1};

    for (int b = t->rank; b < t->iterations; b += t->nranks) {
        double *row = t->table + (size_t)b * t->width;
        if (net_forward(t->model.net, &run, NULL, &row[t->width - 1]) ||
            outputs_read(t->model.net, row))
            return error_context("batch %d", b);
    }
    return 0;
}

static void print_scores(struct test_run *t)
{
    const struct net *net = t->model.net;
    double *mean = t->table + (size_t)t->iterations * t->width;
    size_t at = 0;

    for (int b = 0; b < t->iterations; b++) {
        at = 0;
        for (int i = 0; i < net->noutputs; i++)
            for (size_t e = 0; e < shape_elems(&net->outputs[i].blob->value.shape); e++, at++) {
                double value = t->table[(size_t)b * t->width + at];
                mean[at] += value / t->iterations;
                LOG_INFO(&t->log, "Batch %d, %s = %g", b, net->outputs[i].blob->name, value);
            }
        mean[at] += t->table[(size_t)b * t->width + at] / t->iterations;
    }
    LOG_INFO(&t->log, "Loss: %g", mean[t->width - 1]);
    at = 0;
    for (int i = 0; i < net->noutputs; i++)
        for (size_t e = 0; e < shape_elems(&net->outputs[i].blob->value.shape); e++, at++) {
            double weight = (double)net->outputs[i].loss_weight;
            if (weight != 0)
                LOG_INFO(&t->log, "%s = %g (* %g = %g loss)", net->outputs[i].blob->name, mean[at],
                         weight, weight * mean[at]);
            else
                LOG_INFO(&t->log, "%s = %g", net->outputs[i].blob->name, mean[at]);
        }
}

static int print_json(struct test_run *t)
{
    const struct net *net = t->model.net;
    const double *mean = t->table + (size_t)t->iterations * t->width;
    struct json json = {.depth = 0};
    int status;

    json_object_begin(&json);
    json_put_int(&json, "iterations", t->iterations);
    json_put_double(&json, "loss", mean[t->width - 1]);
    outputs_put_json(&json, "test", net, mean);
    json_object_end(&json);
    status = json_print(&json, stdout);
    json_free(&json);
    return status;
}

/* All ranks by the same algorithms: scores do not depend on their number. */
static int build(struct test_run *t)
{
    struct engine *engine = &t->model.engine;
    int status = engine_open(t->engine, &t->engine_options, engine);
    bool measures;

    if (error_agree(MPI_COMM_WORLD, status) || device_measures(MPI_COMM_WORLD, engine, &measures))
        return -1;
    if (measures &&
        (error_agree(MPI_COMM_WORLD, t->rank == 0 ? net_build(t->model.net, engine, 1) : 0) ||
         device_share_choices(MPI_COMM_WORLD, engine)))
        return -1;
    return error_agree(MPI_COMM_WORLD,
                       measures && t->rank == 0 ? 0 : net_build(t->model.net, engine, 1));
}

static int score(struct test_run *t)
{
    struct topology topology;
    size_t cells;
    int status;

    t->model_options.rank = t->rank;
    t->model_options.nranks = t->nranks;
    if (topology_create(MPI_COMM_WORLD, &topology))
        return -1;
    t->engine_options.device = topology.local_rank;
    topology_free(&topology);
    status = model_open(&t->model_options, &t->model);
    if (!status && !reads_data(t->model.net))
        status = error_set("%s: the net has no data layer, so that there is nothing to score: its "
                           "inputs would be zeros (poseidon classify takes photographs)",
                           t->model_options.model);
    if (!status && t->rank == 0)
        fputs(t->model.notices, stderr);
    if (error_agree(MPI_COMM_WORLD, status) || build(t) || load(t))
        return -1;
    t->width = outputs_count(t->model.net) + 1;
    cells = ((size_t)t->iterations + 1) * t->width;
    t->table = calloc(cells, sizeof *t->table);
    if (!t->table)
        status = error_memory(cells * sizeof *t->table, "scores");
    if (!t->model.engine.i->device && engine_math_is_reduced(t->engine_options.math))
        LOG_WARNING(&t->log, "%s", engine_math_unused);
    LOG_INFO(&t->log, "Running for %d iterations.", t->iterations);
    if (error_agree(MPI_COMM_WORLD, status ? status : run_batches(t)))
        return -1;
    MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, t->table, (int)cells, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    if (t->rank != 0)
        return 0;
    print_scores(t);
    return t->json ? print_json(t) : 0;
fail:
    return -1;
}

int command_test(int argc, char **argv)
{
    struct test_run t = {.model_options = {.phase = "TEST"}, .engine = "cpu", .iterations = 50};
    int status = parse(&t, argc, argv);

    if (status > 0)
        return 0;
    if (command_start_mpi(&argc, &argv))
        return command_fail("test");
    MPI_Comm_rank(MPI_COMM_WORLD, &t.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t.nranks);
    log_init(&t.log, t.rank == 0, stderr, NULL);
    status = error_agree(MPI_COMM_WORLD, status);
    if (!status)
        status = error_agree(MPI_COMM_WORLD, score(&t));
    free(t.table);
    model_close(&t.model);
    return command_end_mpi("test", status, false);
}
