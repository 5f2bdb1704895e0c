/* poseidon test: scores a net batch by batch, then prints the means, in Caffe's lines. Under
 * mpirun, ranks share the batches; the scores are those of a single rank. */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/output_guard.h"
#include "report/outputs.h"
#include "report/test_pass.h"
#include "util/agree.h"
#include "util/alloc.h"
#include "util/file.h"
#include "util/json.h"
#include "util/log.h"
#include "util/machine.h"
#include "util/strbuf.h"
#include "util/topology.h"
#include "util/units.h"

enum { ENDLESS_BATCHES = 50 }; /* like Caffe's tool, for endless data */

/* Counts for --classes and --confusion. All zero: not counted. */
struct class_counts {
    int layer; /* layer that compares scores, N x classes [x pixels], with labels, N [x pixels] */
    float ignored;              /* label that the layer ignores; NAN: none */
    int classes, pixels;        /* pixels: labels of a sample */
    struct layer_images images; /* class names, from the first data layer */
    float *values, *labels;     /* scores and labels of one batch; owned */
    int64_t *counts; /* owned; classes x classes: row is the label, column the best score. Then one
                        row: samples per label whose label is among the five best */
};

struct test_run {
    struct model_options model_options;
    struct computing computing;
    int iterations;        /* 0: one pass over the records */
    const char *confusion; /* file, or NULL */
    bool json, force, per_class;
    int rank, nranks;
    struct strbuf alike; /* texts that ranks must share, for command_start. Owned */
    struct log log;
    struct model model;
    struct test_pass pass;
    struct class_counts classes;
    size_t width, loss; /* numbers per row; index of the loss, after the outputs */
    double *table;      /* iterations + 1 rows; the last one holds the means */
};

static int parse(struct test_run *t, int argc, char **argv)
{
    const struct option own[] = {
        {"iterations", OPTION_COUNT, &t->iterations, "N",
         "batches to run (default: one pass over the data)"},
        {"classes", OPTION_FLAG, &t->per_class, NULL,
         "print the accuracy of each class, too; of pixels also IoU, intersection over union"},
        {"confusion", OPTION_TEXT, &t->confusion, "FILE.csv",
         "write the confusion matrix: counts of true and chosen classes"},
        {"force", OPTION_FLAG, &t->force, NULL, "replace FILE.csv if it exists"},
        {"json", OPTION_FLAG, &t->json, NULL,
         "print only JSON on standard output: the scores, with --classes or --confusion also each "
         "class and the matrix"},
    };
    const struct command_line line = {
        .command = "test",
        .synopsis = "--model=FILE --weights=FILES [OPTIONS]",
        .example = "  poseidon test --model=models/lenet/train_val.prototxt \\\n"
                   "      --weights=lenet_iter_1000.caffemodel --iterations=31",
        OPTION_ROWS(own),
        .net_rows = "model weights batch stage level parameters",
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

/* ---- how well the net knows each class ---- */

enum { FIVE = 5 };

/* Returns the row of `label`: how often each class was chosen. Row `classes` holds, per label, how
 * often the label was among the five best. */
static int64_t *counts_of(const struct class_counts *c, int label)
{
    return c->counts + (size_t)label * (size_t)c->classes;
}

/* Return the scores and the labels that the layer compares. */
static const struct blob *scores_of(const struct class_counts *c, const struct net *net)
{
    return net->layers[c->layer].bottoms[0];
}

static const struct blob *labels_of(const struct class_counts *c, const struct net *net)
{
    return net->layers[c->layer].bottoms[1];
}

static void keep_classes(const struct class_counts *c, struct net *net)
{
    net_keep(net, scores_of(c, net));
    net_keep(net, labels_of(c, net));
}

/* Finds the layer whose scores and labels are counted. Call before the net is built. */
static int open_classes(struct class_counts *c, const struct test_pass *pass)
{
    struct net *net = pass->net;
    const struct shape *shape, *labels;
    const struct layer *found = NULL;
    bool divides;
    size_t cells;

    c->images = net_images(net);
    for (int l = 0; l < net->nlayers; l++) { /* the last score, else the last loss */
        const struct layer *layer = &net->layers[l];

        if (layer->i->reads_labels && layer->nbottoms > 1 &&
            !(found && found->i->is_score && !layer->i->is_score))
            found = &net->layers[c->layer = l];
    }
    if (!found)
        return error_set("--classes and --confusion: the TEST phase has no layer that compares "
                         "scores with labels, such as Accuracy");
    if (!layer_ignores_label(found, &c->ignored, &divides))
        c->ignored = NAN;
    shape = &scores_of(c, net)->value.shape;
    labels = &labels_of(c, net)->value.shape;
    c->pixels = shape->naxes < 2 ? 0 : (int)(shape_elems(labels) / (size_t)shape->dim[0]);
    if (c->pixels < 1 || shape_elems(labels) != (size_t)shape->dim[0] * (size_t)c->pixels ||
        (c->pixels > 1 && (size_t)c->pixels != shape_count(shape, 2, shape->naxes)))
        return error_set("--classes and --confusion: expected one label a sample or pixel, found "
                         "scores '%s' of shape %s and labels of shape %s",
                         scores_of(c, net)->name, shape_text(shape).text, shape_text(labels).text);
    keep_classes(c, net);
    if (pass->rest)
        keep_classes(c, pass->rest);
    c->classes = (int)(shape_elems(shape) / shape_elems(labels));
    cells = ((size_t)c->classes + 1) * (size_t)c->classes;
    return error_status(ALLOC(c->values, shape_elems(shape), "counts of classes") ||
                        ALLOC(c->labels, shape_elems(labels), "counts of classes") ||
                        ALLOC(c->counts, cells, "counts of classes"));
}

/* Counts the first `n` samples of the net's last batch. Skips ignored labels and labels that are no
 * class. */
static int count_classes(struct class_counts *c, const struct net *net, int n)
{
    if (net_read_blob(net, scores_of(c, net), c->values) ||
        net_read_blob(net, labels_of(c, net), c->labels))
        return -1;
    for (size_t i = 0, pixels = (size_t)c->pixels; i < (size_t)n * pixels; i++) {
        const float *row = c->values + i / pixels * pixels * (size_t)c->classes + i % pixels;
        int label = (int)c->labels[i], best = 0, above = 0;

        if (label < 0 || label >= c->classes || c->labels[i] != (float)label ||
            c->labels[i] == c->ignored)
            continue;
        for (int k = 0; k < c->classes; k++) {
            const float score = row[(size_t)k * pixels], most = row[(size_t)best * pixels];

            /* like Accuracy: a tie is not a hit */
            best = score > most || (best == label && score >= most) ? k : best;
            above += k != label && !(score < row[(size_t)label * pixels]);
        }
        counts_of(c, label)[best]++;
        counts_of(c, c->classes)[label] += above < FIVE;
    }
    return 0;
}

/* Sums the counts over all ranks. Collective. */
static int gather_classes(struct class_counts *c)
{
    for (int row = 0; row <= c->classes; row++)
        if (MPI_STATUS(MPI_Allreduce(MPI_IN_PLACE, counts_of(c, row), c->classes, MPI_INT64_T,
                                     MPI_SUM, MPI_COMM_WORLD)))
            return -1;
    return 0;
}

static const char *name_of(const struct class_counts *c, int label, char *buffer, size_t size)
{
    if (label < c->images.nclasses)
        return c->images.classes[label];
    snprintf(buffer, size, "%d", label);
    return buffer;
}

static double percent(int64_t part, int64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : (double)NAN;
}

static int64_t samples_of(const struct class_counts *c, int label)
{
    int64_t n = 0;

    for (int k = 0; k < c->classes; k++)
        n += counts_of(c, label)[k];
    return n;
}

/* Returns the intersection of a label and a class over their union, in percent; NAN for none. */
static double union_of(const struct class_counts *c, int label)
{
    int64_t either = samples_of(c, label) - counts_of(c, label)[label];

    for (int k = 0; k < c->classes; k++)
        either += counts_of(c, k)[label];
    return percent(counts_of(c, label)[label], either);
}

static double mean_union(const struct class_counts *c)
{
    double sum = 0, n = 0;

    for (int k = 0; k < c->classes; k++) {
        double one = union_of(c, k);

        sum += isnan(one) ? 0 : one;
        n += !isnan(one);
    }
    return sum / n;
}

static void print_classes(const struct class_counts *c, FILE *to)
{
    const bool pixels = c->pixels > 1;
    int64_t right = 0, among = 0, all = 0;
    char number[16];

    fprintf(to, "%-24s %8s %9s %9s\n", "class", pixels ? "pixels" : "samples", "accuracy",
            pixels ? "IoU" : "top-5");
    for (int label = 0; label < c->classes; label++) {
        int64_t hits = counts_of(c, label)[label], five = counts_of(c, c->classes)[label],
                n = samples_of(c, label);

        if (n)
            fprintf(to, "%-24s %8lld %7.1f %% %7.1f %%\n", name_of(c, label, number, sizeof number),
                    (long long)n, percent(hits, n), pixels ? union_of(c, label) : percent(five, n));
        right += hits;
        among += five;
        all += n;
    }
    fprintf(to, "%-24s %8lld %7.1f %% %7.1f %%\n", pixels ? "all, mean IoU" : "all", (long long)all,
            percent(right, all), pixels ? mean_union(c) : percent(among, all));
}

/* Writes all classes' scores, even without samples, and the confusion matrix, labels by rows. */
static void put_classes(const struct class_counts *c, struct json *json)
{
    int64_t right = 0, all = 0;
    char number[16];

    json_put_array(json, "classes");
    for (int label = 0; label < c->classes; label++) {
        int64_t n = samples_of(c, label);

        json_object_begin(json);
        json_put_string(json, "class", name_of(c, label, number, sizeof number));
        json_put_int(json, "number", label); /* number and label: the same keys as classify's */
        json_put_string(json, "label",
                        label < c->images.nclasses ? c->images.classes[label] : NULL);
        json_put_int(json, "samples", n);
        json_put_double(json, "accuracy", percent(counts_of(c, label)[label], n) / 100);
        json_put_double(json, "top_5", percent(counts_of(c, c->classes)[label], n) / 100);
        if (c->pixels > 1)
            json_put_double(json, "iou", union_of(c, label) / 100);
        right += counts_of(c, label)[label];
        all += n;
        json_object_end(json);
    }
    json_array_end(json);
    if (c->pixels > 1) {
        json_put_double(json, "mean_iou", mean_union(c) / 100);
        json_put_double(json, "pixel_accuracy", percent(right, all) / 100);
    }
    json_put_array(json, "confusion");
    for (int label = 0; label < c->classes; label++) {
        json_array_begin(json);
        for (int k = 0; k < c->classes; k++)
            json_int(json, counts_of(c, label)[k]);
        json_array_end(json);
    }
    json_array_end(json);
}

/* Appends a cell of CSV, quoted if necessary. */
static void put_cell(struct strbuf *text, const char *cell)
{
    bool quoted = strpbrk(cell, ",\"\n") != NULL;

    if (quoted)
        strbuf_puts(text, "\"");
    for (; *cell; cell++)
        strbuf_printf(text, *cell == '"' ? "\"%c" : "%c", *cell);
    if (quoted)
        strbuf_puts(text, "\"");
}

/* Writes the confusion matrix as CSV: labels by rows, classes by columns. */
static int write_classes(const struct class_counts *c, const char *path)
{
    struct strbuf text = {.data = NULL};
    char number[16];

    strbuf_puts(&text, "label");
    for (int k = 0; k < c->classes; k++) {
        strbuf_puts(&text, ",");
        put_cell(&text, name_of(c, k, number, sizeof number));
    }
    strbuf_puts(&text, "\n");
    for (int label = 0; label < c->classes; label++) {
        put_cell(&text, name_of(c, label, number, sizeof number));
        for (int k = 0; k < c->classes; k++)
            strbuf_printf(&text, ",%lld", (long long)counts_of(c, label)[k]);
        strbuf_puts(&text, "\n");
    }
    return file_write_text(path, &text);
}

/* ---- the test ---- */

/* Loads the weights on rank 0 and sends the values to all ranks. Collective. */
static int load(struct test_run *t)
{
    struct net *net = t->model.net;
    int status =
        t->rank == 0 ? model_load_weights(&t->model, t->model_options.weights, true, &t->log) : 0;

    if (error_agree(MPI_COMM_WORLD, status) ||
        agree_share(MPI_COMM_WORLD, net->values, net->elems * sizeof *net->values))
        return -1;
    for (int g = 0; g < net->ngroups && !status; g++)
        status = net_push_values(net, g);
    return error_agree(MPI_COMM_WORLD, status);
}

static int run_batches(struct test_run *t)
{
    const struct pass keys = {.seed = 1};

    for (int b = t->rank; b < t->iterations; b += t->nranks) {
        struct net *net = test_pass_net(&t->pass, b);

        if (test_pass_run(&t->pass, b, 0, &keys, t->table + (size_t)b * t->width) ||
            (t->classes.counts && count_classes(&t->classes, test_pass_net(&t->pass, b),
                                                (int)test_pass_samples(&t->pass, b))))
            return -1;
        for (int o = 0; o < net->noutputs; o++)
            if (net_check_blob(net, net->outputs[o].blob, &keys))
                return error_context("test batch %d", b);
    }
    return 0;
}

static void print_scores(struct test_run *t)
{
    const struct net *net = t->model.net;
    double *mean = t->table + (size_t)t->iterations * t->width;

    for (int b = 0; b < t->iterations; b++)
        for (size_t k = 0; k < t->loss; k++) {
            const double *value = t->table + (size_t)b * t->width + k;

            if (value[t->width / 2] > 0)
                LOG_INFO(&t->log, "Batch %d, %s = %g", b, outputs_at(net, k)->blob->name, *value);
        }
    test_pass_mean(&t->pass, t->table, mean);
    LOG_INFO(&t->log, "Loss: %g", mean[t->loss]);
    outputs_log(&t->log, NULL, net, mean);
}

static int print_json(struct test_run *t)
{
    const struct net *net = t->model.net;
    const double *mean = t->table + (size_t)t->iterations * t->width;
    struct json json = {.depth = 0};

    json_object_begin(&json);
    json_put_int(&json, "iterations", t->iterations);
    json_put_double(&json, "loss", mean[t->loss]);
    outputs_put_json(&json, "test", net, mean);
    if (t->classes.counts)
        put_classes(&t->classes, &json);
    json_object_end(&json);
    return json_print(&json, stdout);
}

/* Sets the number of batches, by default one pass over the records. */
static int set_iterations(struct test_run *t)
{
    struct test_pass *pass = &t->pass;
    struct layer_env env = model_env(&t->model_options, &t->model);
    uint64_t batches = ENDLESS_BATCHES;

    if (test_pass_open(pass, t->model.net, t->nranks))
        return -1;
    pass->by_labels = true;
    if (t->iterations)
        batches = (uint64_t)t->iterations;
    else if (pass->records)
        batches = (pass->records + pass->batch - 1) / pass->batch;
    if (batches > INT32_MAX)
        return error_set("--iterations: %" PRIu64 " records are more than %d batches of %" PRIu64
                         "; expected --batch=N",
                         pass->records, INT32_MAX, pass->batch);
    t->iterations = (int)batches;
    return test_pass_set(pass, t->iterations, &env, t->model.net);
}

static void say_data(struct test_run *t)
{
    const struct test_pass *pass = &t->pass;
    uint64_t samples = test_pass_length(pass);
    const struct units_text n = units_count(t->iterations, "iteration");

    if (!pass->records)
        LOG_INFO(&t->log, "Running for %s.", n.text);
    else if (pass->rest)
        LOG_INFO(&t->log,
                 "Running for %s of %" PRIu64 ", the last one of %" PRIu64 ": %" PRIu64
                 " records, 1 pass.",
                 n.text, pass->batch, test_pass_samples(pass, t->iterations - 1), pass->records);
    else if (samples == pass->records)
        LOG_INFO(&t->log, "Running for %s of %" PRIu64 ": %s, 1 pass.", n.text, pass->batch,
                 units_count((long long)pass->records, "record").text);
    else
        LOG_INFO(&t->log, "Running for %s of %" PRIu64 ": %.4g passes over %s.", n.text,
                 pass->batch, (double)samples / (double)pass->records,
                 units_count((long long)pass->records, "record").text);
    if (pass->unable)
        LOG_WARNING(&t->log, "%s: %s", test_pass_twice, pass->unable);
}

static int score(struct test_run *t)
{
    struct topology topology;
    size_t cells;
    int status, sharers;

    t->model_options.rank = t->rank;
    t->model_options.nranks = t->nranks;
    if (topology_create(MPI_COMM_WORLD, &topology))
        return -1;
    t->computing.options.device = topology.local_rank;
    sharers = topology.local_ranks;
    topology_free(&topology);
    status = model_open(&t->model_options, &t->model);
    if (!status)
        status =
            model_check_inputs(&t->model, &t->model_options, NULL, 0, NULL) || set_iterations(t);
    if (!status && (t->per_class || t->confusion))
        status = open_classes(&t->classes, &t->pass);
    if (!status && sharers > 1) /* otherwise each rank would count on all memory left */
        net_limit_memory(t->model.net, machine_limited_memory("", sharers));
    if (!status)
        status = model_build(&t->model, t->computing.engine, &t->computing.options, 1);
    if (!status && t->pass.rest && (t->iterations - 1) % t->nranks == t->rank)
        status = net_build(t->pass.rest, &t->model.engine, 1);
    if (error_agree(MPI_COMM_WORLD, status) || load(t))
        return -1;
    if (t->rank == 0) /* after messages about weights that do not match the net */
        model_print_notices(&t->model);
    t->width = test_pass_width(&t->pass);
    t->loss = outputs_count(t->model.net);
    cells = ((size_t)t->iterations + 1) * t->width;
    status = ALLOC(t->table, cells, "scores");
    say_data(t);
    if (error_agree(MPI_COMM_WORLD, status ? status : run_batches(t)) ||
        MPI_STATUS(MPI_Allreduce(MPI_IN_PLACE, t->table, (int)cells, MPI_DOUBLE, MPI_SUM,
                                 MPI_COMM_WORLD)) ||
        (t->classes.counts && gather_classes(&t->classes)))
        return -1;
    if (t->rank != 0)
        return 0;
    print_scores(t);
    if (t->per_class)
        print_classes(&t->classes, t->json ? stderr : stdout);
    if (t->confusion && write_classes(&t->classes, t->confusion))
        return -1;
    return t->json ? print_json(t) : 0;
}

int command_test(int argc, char **argv)
{
    struct test_run t = {.model_options = {.phase = "TEST"}};
    int status = parse(&t, argc, argv);

    if (!command_start(&argc, &argv, &status, &t.alike, NULL))
        return status;
    MPI_Comm_rank(MPI_COMM_WORLD, &t.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t.nranks);
    log_init(&t.log, t.rank == 0, stderr);
    status = error_agree(MPI_COMM_WORLD, score(&t));
    free(t.classes.values);
    free(t.classes.labels);
    free(t.classes.counts);
    free(t.table);
    test_pass_close(&t.pass);
    model_close(&t.model);
    return command_end_mpi("test", status, false);
}
