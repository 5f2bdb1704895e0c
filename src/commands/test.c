/* poseidon test: scores a net, batch by batch, then the means; Caffe's lines. Under mpirun the
 * batches are spread over the ranks, and the scores are the same as on one. */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options_rows.h"

#include <stdio.h>
#include <stdlib.h>

#include "commands/output_guard.h"
#include "commands/test_classes.h"
#include "report/outputs.h"
#include "snapshot/checkpoint.h"
#include "util/agree.h"
#include "util/alloc.h"
#include "util/json.h"
#include "util/log.h"
#include "util/topology.h"

enum { ENDLESS_BATCHES = 50 }; /* as Caffe's tool, where the data have no end */

struct test_run {
    struct model_options model_options;
    struct computing computing;
    int iterations; /* 0: one pass over the records */
    bool one_pass;
    uint64_t batch;        /* samples of one, of the first data layer */
    uint64_t records;      /* of the first data layer; 0: it has no end, or ranks have their own */
    const char *confusion; /* file, or NULL */
    bool json, force, per_class;
    int rank, nranks;
    struct strbuf alike; /* for command_start. Owned */
    struct log log;
    struct model model;
    struct test_classes classes;
    size_t width;  /* outputs, then the loss */
    double *table; /* iterations + 1 rows; the last: means */
};

static int parse(struct test_run *t, int argc, char **argv)
{
    const struct option own[] = {
        {"iterations", OPTION_COUNT, &t->iterations, "N",
         "batches to run (default: one pass over the data)"},
        {"classes", OPTION_FLAG, &t->per_class, NULL, "print the accuracy of each class, too"},
        {"confusion", OPTION_TEXT, &t->confusion, "FILE.csv",
         "write the confusion matrix: counts of true and chosen classes"},
        {"force", OPTION_FLAG, &t->force, NULL, "replace FILE.csv if it exists"},
        {"json", OPTION_FLAG, &t->json, NULL,
         "print the scores as JSON, and nothing else, on standard output"},
    };
    const struct command_line line = {
        .command = "test",
        .synopsis = "--model=FILE --weights=FILES [OPTIONS]",
        .example = "  poseidon test --model=models/lenet/train_val.prototxt \\\n"
                   "      --weights=lenet_iter_1000.caffemodel --iterations=31",
        OPTION_ROWS(own),
        .net_rows = "model weights batch stage level",
        .net = &t->model_options,
        .computing = &t->computing,
        .alike = &t->alike,
        .about = "Scores the TEST phase of a net with trained weights.",
    };

    int status = options_parse(&line, argc, argv, NULL);

    if (status)
        return status;
    return t->confusion ? output_check(t->confusion, t->force, 2,
                                       (const char *const[]){t->model_options.model,
                                                             t->model_options.weights})
                        : 0;
}

/* Weights are rank 0's to read; the others get the values. */
static int load(struct test_run *t)
{
    struct net *net = t->model.net;
    int status =
        t->rank == 0 ? checkpoint_load_weights(t->model_options.weights, true, net, &t->log) : 0;

    if (error_agree(MPI_COMM_WORLD, status))
        return -1;
    for (size_t at = 0; at < net->elems; at += 1 << 24) {
        size_t n = net->elems - at < (1 << 24) ? net->elems - at : 1 << 24;
        if (agree_share(MPI_COMM_WORLD, net->values + at, n * sizeof *net->values))
            return -1;
    }
    for (int g = 0; g < net->ngroups && !status; g++)
        status = net_push_values(net, g);
    return error_agree(MPI_COMM_WORLD, status);
}

/* Samples of batch b that are not of a second pass, in a test that is one. */
static int counted(const struct test_run *t, int b)
{
    uint64_t batch = (uint64_t)t->classes.batch, before = (uint64_t)b * batch;

    if (!t->one_pass || before + batch <= t->records)
        return t->classes.batch;
    return before < t->records ? (int)(t->records - before) : 0;
}

static int run_batches(struct test_run *t)
{
    struct run run = {.seed = 1};

    for (int b = t->rank; b < t->iterations; b += t->nranks) {
        double *row = t->table + (size_t)b * t->width;
        if (net_forward(t->model.net, &run, NULL, &row[t->width - 1]) ||
            outputs_read(t->model.net, row) ||
            (t->classes.net && test_classes_add(&t->classes, counted(t, b))))
            return error_context("batch %d", b);
    }
    return 0;
}

static void print_scores(struct test_run *t)
{
    const struct net *net = t->model.net;
    double *mean = t->table + (size_t)t->iterations * t->width;

    for (int b = 0; b < t->iterations; b++)
        for (size_t k = 0; k < t->width; k++) {
            double value = t->table[(size_t)b * t->width + k];
            mean[k] += value / t->iterations;
            if (k + 1 < t->width)
                LOG_INFO(&t->log, "Batch %d, %s = %g", b, outputs_at(net, k)->blob->name, value);
        }
    LOG_INFO(&t->log, "Loss: %g", mean[t->width - 1]);
    outputs_log(&t->log, NULL, net, mean);
}

static int print_json(struct test_run *t)
{
    const struct net *net = t->model.net;
    const double *mean = t->table + (size_t)t->iterations * t->width;
    struct json json = {.depth = 0};

    json_object_begin(&json);
    json_put_int(&json, "iterations", t->iterations);
    json_put_double(&json, "loss", mean[t->width - 1]);
    outputs_put_json(&json, "test", net, mean);
    json_object_end(&json);
    return json_print(&json, stdout);
}

/* The first layer that reads data, and how many records it has. */
static const struct layer *find_data(struct test_run *t)
{
    const struct net *net = t->model.net;

    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];
        struct layer_data_mark mark = {.known = false};

        if (!layer->i->is_data || layer->i->from_program)
            continue;
        if (layer->i->mark && layer->i->mark(layer, &mark))
            return NULL;
        t->records = mark.known && !(mark.own && t->nranks > 1) ? mark.nrecords : 0;
        return layer;
    }
    return NULL;
}

/* One pass over the records by default, and exactly one where a smaller batch makes it so: what it
 * is leaves the scores as they are. */
static int set_iterations(struct test_run *t)
{
    const struct layer *data = find_data(t);
    uint64_t batch, exact;

    if (!data)
        return -1;
    t->batch = batch = (uint64_t)data->tops[0]->value.shape.dim[0];
    t->one_pass = !t->iterations && t->records;
    if (!t->one_pass) {
        t->iterations = t->iterations ? t->iterations : ENDLESS_BATCHES;
        return 0;
    }
    for (exact = batch; exact > 1 && t->records % exact;)
        exact--;
    if (t->model_options.batch || 2 * exact < batch)
        exact = batch;
    if ((t->records + exact - 1) / exact > INT32_MAX)
        return error_set("--iterations: %llu records are more than %d batches of %llu; expected "
                         "--batch=N",
                         (unsigned long long)t->records, INT32_MAX, (unsigned long long)exact);
    t->iterations = (int)((t->records + exact - 1) / exact);
    if (exact == batch)
        return 0;
    model_close(&t->model);
    t->batch = exact;
    t->model_options.batch = (int)exact;
    return model_open(&t->model_options, &t->model);
}

static void say_data(struct test_run *t)
{
    uint64_t samples = t->batch * (uint64_t)t->iterations;

    if (!t->records)
        LOG_INFO(&t->log, "Running for %d iterations.", t->iterations);
    else if (samples == t->records)
        LOG_INFO(&t->log, "Running for %d iterations of %llu: %llu records, 1 pass.", t->iterations,
                 (unsigned long long)t->batch, (unsigned long long)t->records);
    else
        LOG_INFO(&t->log, "Running for %d iterations of %llu: %.4g passes over %llu records.",
                 t->iterations, (unsigned long long)t->batch, (double)samples / (double)t->records,
                 (unsigned long long)t->records);
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
    t->computing.options.device = topology.local_rank;
    topology_free(&topology);
    status = model_open(&t->model_options, &t->model);
    if (!status)
        status = model_check_data(&t->model, t->model_options.model) || set_iterations(t);
    if (!status && (t->per_class || t->confusion))
        status = test_classes_open(&t->classes, &t->model);
    if (!status && t->rank == 0)
        fputs(t->model.notices, stderr);
    if (!status)
        status = model_build(&t->model, t->computing.engine, &t->computing.options, 1);
    if (error_agree(MPI_COMM_WORLD, status) || load(t))
        return -1;
    t->width = outputs_count(t->model.net) + 1;
    cells = ((size_t)t->iterations + 1) * t->width;
    status = ALLOC(t->table, cells, "scores");
    if (!status && t->classes.net)
        status = test_classes_start(&t->classes);
    if (!t->model.engine.i->device && engine_math_is_reduced(t->computing.options.math))
        LOG_WARNING(&t->log, "%s", engine_math_unused);
    say_data(t);
    if (error_agree(MPI_COMM_WORLD, status ? status : run_batches(t)))
        return -1;
    MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, t->table, (int)cells, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    if (t->classes.net && test_classes_gather(&t->classes, MPI_COMM_WORLD))
        return -1;
    if (t->rank != 0)
        return 0;
    print_scores(t);
    if (t->per_class)
        test_classes_print(&t->classes, t->json ? stderr : stdout);
    if (t->confusion && test_classes_write(&t->classes, t->confusion))
        return -1;
    return t->json ? print_json(t) : 0;
fail:
    return -1;
}

int command_test(int argc, char **argv)
{
    struct test_run t = {.model_options = {.phase = "TEST"}};
    int status = parse(&t, argc, argv);

    if (!command_start(&argc, &argv, &status, &t.alike, NULL))
        return status;
    MPI_Comm_rank(MPI_COMM_WORLD, &t.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t.nranks);
    log_init(&t.log, t.rank == 0, stderr, NULL);
    status = error_agree(MPI_COMM_WORLD, score(&t));
    test_classes_close(&t.classes);
    free(t.table);
    model_close(&t.model);
    return command_end_mpi("test", status, false);
}
