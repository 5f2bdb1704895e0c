/* poseidon extract: writes the values of named blobs, batch after batch, to HDF5 or LMDB. */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options_rows.h"
#include "commands/output_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convert/sink.h"
#include "watch/signals.h"
#include "util/alloc.h"
#include "util/file.h"
#include "spec/h5.h"
#include "util/units.h"

#define MAX_BLOBS 64

/* A blob and its data set, of batches * N rows. A scalar has one row per batch. */
struct feature {
    const struct blob *blob;
    float *values; /* values of one batch */
    size_t rows;   /* rows of one batch */
    struct h5_output data;
    struct sink *sink; /* the LMDB that replaces the data set; NULL: none */
};

struct extraction {
    struct model_options options;
    const char *blobs, *databases, *out;
    struct computing computing;
    int iterations;
    bool force;
    struct model model;
    int nfeatures;
    struct feature features[MAX_BLOBS];
    hid_t file;
    char *temp;
};

static int add_feature(struct extraction *x, int number, const char *name)
{
    struct feature *f = &x->features[number];
    const struct shape *shape;

    if (number == MAX_BLOBS)
        return error_set("--blobs names more than %d blobs", MAX_BLOBS);
    *f = (struct feature){.blob = net_find_blob(x->model.net, name), .data.id = -1};
    if (!f->blob)
        return error_set(
            "--blobs: the net's TEST phase has no blob '%s' (poseidon summary --phase=TEST "
            "lists them)",
            name);
    net_keep(x->model.net, f->blob);
    shape = &f->blob->value.shape;
    f->rows = shape->naxes > 0 ? (size_t)shape->dim[0] : 1;
    f->data = (struct h5_output){.path = x->out,
                                 .name = f->blob->name,
                                 .type = H5T_IEEE_F32LE,
                                 .naxes = shape->naxes > 0 ? shape->naxes : 1,
                                 .id = -1};
    for (int i = 1; i < shape->naxes; i++)
        f->data.dim[i] = (hsize_t)shape->dim[i];
    f->data.dim[0] = (hsize_t)f->rows * (hsize_t)x->iterations;
    if (ALLOC(f->values, shape_elems(shape) + 1, name))
        return -1;
    x->nfeatures++;
    return 0;
}

/* Calls `take` with every name of a comma list. Returns the number of names, or -1. */
static int take_names(struct extraction *x, const char *list,
                      int (*take)(struct extraction *x, int number, const char *name))
{
    char **names;
    int n, status = alloc_split(&names, &n, list, "a list of names");

    for (int i = 0; i < n && !status; i++)
        status = take(x, i, names[i]);
    alloc_free_list(names, n);
    return status ? -1 : n;
}

static int find_features(struct extraction *x)
{
    const struct blob *blobs[MAX_BLOBS];
    int n = take_names(x, x->blobs, add_feature);

    for (int i = 0; i < x->nfeatures; i++)
        blobs[i] = x->features[i].blob;
    if (n <= 0)
        return n ? -1 : error_set("--blobs names no blob");
    return model_check_inputs(&x->model, &x->options, NULL, n, blobs);
}

/* Creates the LMDB that receives a blob's rows, as Datum messages of floats. */
static int open_database(struct extraction *x, int number, const char *name)
{
    const struct sink_options options = {.source = x->options.model};

    return number < x->nfeatures ? sink_create_lmdb(name, &options, &x->features[number].sink) : 0;
}

static int open_databases(struct extraction *x)
{
    int n = take_names(x, x->databases, open_database);

    if (n >= 0 && n != x->nfeatures)
        return error_set(
            "--databases names %d and --blobs names %d: expected a database for each blob", n,
            x->nfeatures);
    return n < 0 ? -1 : 0;
}

static int add_rows(const struct feature *f)
{
    const struct shape *shape = &f->blob->value.shape;
    size_t elems = shape_elems(shape) / f->rows;
    struct record record = {.type = SOURCE_F32, .shape = {.naxes = 3, .dim = {1, 1, 1}}};
    const struct sample sample = {.raw = &record};

    if (shape->naxes > 4)
        return error_set("blob '%s' has %d axes, but a Datum holds at most three per sample",
                         f->blob->name, shape->naxes);
    for (int a = 1; a < shape->naxes; a++)
        record.shape.dim[a - 1] = shape->dim[a];
    for (size_t r = 0; r < f->rows; r++) {
        record.data = f->values + r * elems;
        if (sink_add(f->sink, &sample))
            return -1;
    }
    return 0;
}

static int create_file(struct extraction *x)
{
    int status = 0;

    if (x->databases)
        return open_databases(x);
    x->temp = file_temp_name(x->out);
    if (!x->temp)
        return -1;
    h5_lock();
    x->file = H5Fcreate(x->temp, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (x->file < 0)
        status = h5_write_failed(x->out);
    for (int i = 0; i < x->nfeatures && !status; i++)
        status = h5_output_create(x->file, &x->features[i].data);
    h5_unlock();
    return status;
}

static int write_rows(struct feature *f, int batch)
{
    int status;

    h5_lock();
    status =
        h5_output_write(&f->data, (hsize_t)batch * f->rows, f->rows, H5T_NATIVE_FLOAT, f->values);
    h5_unlock();
    return status;
}

static int run_batches(struct extraction *x, struct log *log)
{
    struct pass pass = {.seed = 1};
    bool finite = true;

    for (int b = 0; b < x->iterations; b++) {
        if (signals_pending())
            return error_set("interrupted by a signal; nothing was written");
        if (net_forward(x->model.net, &pass, NULL, NULL))
            return error_context("batch %d", b);
        for (int i = 0; i < x->nfeatures; i++)
            if (net_read_blob(x->model.net, x->features[i].blob, x->features[i].values) ||
                (x->databases ? add_rows(&x->features[i]) : write_rows(&x->features[i], b)))
                return -1;
        for (int i = 0; i < x->nfeatures && finite; i++) {
            finite = !net_check_blob(x->model.net, x->features[i].blob, &pass);
            if (!finite)
                LOG_WARNING(log, "batch %d: %s", b, error_text());
        }
    }
    return 0;
}

/* Closes the file or the databases, and moves them to their final names unless something failed. */
static int finish(struct extraction *x, int status)
{
    for (int i = 0; i < x->nfeatures; i++)
        status = sink_close(&x->features[i].sink, status);
    h5_lock();
    for (int i = 0; i < x->nfeatures; i++)
        if (h5_output_close(&x->features[i].data))
            status = -1;
    if (x->file >= 0 && H5Fclose(x->file) < 0 && !status)
        status = h5_write_failed(x->out);
    h5_unlock();
    if (x->temp && status)
        unlink(x->temp);
    else if (x->temp)
        status = file_commit(x->temp, x->out);
    for (int i = 0; i < x->nfeatures; i++)
        free(x->features[i].values);
    free(x->temp);
    return status;
}

static int extract(struct extraction *x, struct log *log)
{
    static const char *const ends[] = {".h5", ".hdf5", NULL};
    const char *const inputs[] = {x->options.model, x->options.weights};
    int status;

    if ((x->out &&
         (output_check(x->out, x->force, 2, inputs) || output_check_ending(x->out, ends))) ||
        model_open(&x->options, &x->model))
        return -1;
    model_print_notices(&x->model);
    signals_hold(); /* before the net starts threads, which inherit the blocked signals */
    status = error_status(find_features(x) ||
                          model_build(&x->model, x->computing.engine, &x->computing.options, 1) ||
                          model_load_weights(&x->model, x->options.weights, false, log) ||
                          create_file(x) || run_batches(x, log));
    status = finish(x, status);
    signals_release();
    for (int i = 0; i < x->nfeatures && !status; i++)
        printf("%s: %s, %s\n", x->out ? x->out : x->databases, x->features[i].blob->name,
               units_count((long long)x->features[i].data.dim[0], "row").text);
    model_close(&x->model);
    return status;
}

int command_extract(int argc, char **argv)
{
    struct extraction x = {.options = {.phase = "TEST"}, .iterations = 1, .file = -1};
    int nwords, status;
    struct log log;
    const struct option own[] = {
        {"blobs", OPTION_TEXT, &x.blobs, "LIST", "names of the blobs (comma list); required",
         .need = "the names of blobs: --blobs=LIST"},
        {"databases", OPTION_TEXT, &x.databases, "LIST",
         "instead of OUT.h5: an LMDB of Datum messages for each blob (comma list)"},
        {"iterations", OPTION_COUNT, &x.iterations, "N", "batches to run (default 1)"},
        {"force", OPTION_FLAG, &x.force, NULL, "replace OUT.h5 if it exists"},
    };
    const struct command_line line = {
        .command = "extract",
        .synopsis = "--model=FILE --weights=FILES --blobs=LIST OUT.h5",
        .example = "  poseidon extract --model=net.prototxt --weights=net.caffemodel \\\n"
                   "      --blobs=fc7 features.h5",
        OPTION_ROWS(own),
        .net_rows = "model weights stage level parameters",
        .net = &x.options,
        .computing = &x.computing,
        .max_words = 1,
        .about = "Runs the TEST phase of a net over N batches and writes the values of the named "
                 "blobs: one float data set per blob, named after it, batch after batch. A slash "
                 "in a blob's name makes a group in the file.",
    };

    status = options_parse(&line, argc, argv, &nwords);
    if (status)
        return status;
    if (nwords != !x.databases)
        return error_set("%s", x.databases ? "expected OUT.h5 or --databases, not both"
                                           : "expected one file to write, OUT.h5");
    x.out = x.databases ? NULL : argv[1];
    log_init(&log, true, stderr);
    return extract(&x, &log);
}
