/* layer_values [--engine=NAME] [--case=PART-OF-NAME] [FILE]
 *
 * Runs the layers of tests/data/layers_more/values.txt (made by generate.py beside it) and compares
 * tops, gradients and statistics with the values there; and the gradients with differences of the
 * tops. Each case runs twice: with its inputs plain, and in the layout that a convolution before it
 * chooses. Exit 77 where there is no such engine. */
#include "tests/net/test_net_common.h"

#include <inttypes.h>
#include <math.h>

#define MAX_RECORDS 64

enum what { INPUT_VALUE, PLAIN_VALUE, PARAM, AFTER, TOP, TOP_GRAD, GRAD, PARAM_GRAD };

static const char *const words[] = {"input", "plain",   "param", "after",
                                    "top",   "topgrad", "grad",  "pgrad"};

struct record {
    enum what what;
    char name[32]; /* blob or layer */
    int index;     /* of the parameter */
    struct shape shape;
    float *values;
};

struct value_case {
    char name[96];
    bool train, differences;
    double tolerance;
    char layers[8192];
    int nrecords;
    struct record record[MAX_RECORDS];
};

static struct engine engine;
static int failures, compared;

static int read_dims(FILE *in, struct shape *shape)
{
    int64_t dim[SHAPE_MAX_AXES];
    int naxes;
    char colon[8];

    if (fscanf(in, "%d", &naxes) != 1 || naxes < 0 || naxes > SHAPE_MAX_AXES)
        return -1;
    for (int i = 0; i < naxes; i++)
        if (fscanf(in, "%" SCNd64, &dim[i]) != 1)
            return -1;
    return fscanf(in, "%7s", colon) == 1 && shape_set(shape, naxes, dim, "a value") == 0 ? 0 : -1;
}

static int read_record(FILE *in, enum what what, struct value_case *c)
{
    struct record *r = &c->record[c->nrecords];
    bool indexed = what == PARAM || what == AFTER || what == PARAM_GRAD;
    size_t n;

    if (c->nrecords == MAX_RECORDS)
        return -1;
    *r = (struct record){.what = what};
    if (fscanf(in, "%31s", r->name) != 1 || (indexed && fscanf(in, "%d", &r->index) != 1) ||
        read_dims(in, &r->shape))
        return -1;
    n = shape_elems(&r->shape);
    r->values = malloc((n + 1) * sizeof(float));
    c->nrecords++;
    for (size_t i = 0; r->values && i < n; i++)
        if (fscanf(in, "%f", &r->values[i]) != 1)
            return -1;
    return r->values ? 0 : -1;
}

static int read_line(FILE *in, char *text, size_t size)
{
    size_t used = strlen(text);

    if (!fgets(text + used, (int)(size - used), in))
        return -1;
    return strchr(text + used, '\n') ? 0 : -1;
}

/* 1: a case; 0: the end; -1: something else in the file. */
static int read_case(FILE *in, struct value_case *c)
{
    char word[32], line[512] = "";

    *c = (struct value_case){.differences = true, .tolerance = 1e-5};
    while (fscanf(in, "%31s", word) == 1) {
        size_t w = 0;
        while (w < sizeof words / sizeof words[0] && strcmp(words[w], word) != 0)
            w++;
        if (w < sizeof words / sizeof words[0]) {
            if (read_record(in, (enum what)w, c))
                return -1;
        } else if (strcmp(word, "case") == 0) {
            if (fscanf(in, "%95s", c->name) != 1)
                return -1;
        } else if (strcmp(word, "phase") == 0) {
            if (fscanf(in, "%31s", word) != 1)
                return -1;
            c->train = strcmp(word, "TRAIN") == 0;
        } else if (strcmp(word, "layer") == 0) {
            if (read_line(in, c->layers, sizeof c->layers))
                return -1;
        } else if (strcmp(word, "tolerance") == 0) {
            if (fscanf(in, "%lf", &c->tolerance) != 1)
                return -1;
        } else if (strcmp(word, "nodifferences") == 0) {
            c->differences = false;
        } else if (strcmp(word, "#") == 0) {
            line[0] = '\0';
            if (read_line(in, line, sizeof line))
                return -1;
        } else {
            return strcmp(word, "done") == 0 ? 1 : -1;
        }
    }
    return 0;
}

static void free_case(struct value_case *c)
{
    for (int i = 0; i < c->nrecords; i++)
        free(c->record[i].values);
}

static bool laid_out(const struct record *r, bool layouts)
{
    return layouts && r->what == INPUT_VALUE && r->shape.naxes > 2 && r->shape.naxes < 6;
}

/* The case's layers, with the inputs before them. */
static void net_text(const struct value_case *c, bool layouts, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "force_backward: %s\n", c->train ? "true" : "false");

    for (int i = 0; i < c->nrecords; i++) {
        const struct record *r = &c->record[i];
        if (r->what != INPUT_VALUE && r->what != PLAIN_VALUE)
            continue;
        const char *suffix = laid_out(r, layouts) ? "_raw" : "";
        used +=
            (size_t)snprintf(text + used, size - used,
                             "layer { name: '%s%s' type: 'Input' top: '%s%s' input_param { shape {",
                             r->name, suffix, r->name, suffix);
        for (int d = 0; d < r->shape.naxes; d++)
            used += (size_t)snprintf(text + used, size - used, " dim: %d", (int)r->shape.dim[d]);
        used += (size_t)snprintf(text + used, size - used, " } } }\n");
        if (laid_out(r, layouts))
            used +=
                (size_t)snprintf(text + used, size - used,
                                 "layer { name: 'lay_%s' type: 'Convolution' bottom: '%s_raw' top: "
                                 "'%s' param { lr_mult: 0 } convolution_param { num_output: %d "
                                 "kernel_size: 1 bias_term: false } }\n",
                                 r->name, r->name, r->name, (int)r->shape.dim[1]);
    }
    snprintf(text + used, size - used, "%s", c->layers);
}

static struct blob *first_blob(const struct net *net, const char *name)
{
    for (int i = 0; i < net->nblobs; i++)
        if (strcmp(net->blobs[i]->name, name) == 0)
            return net->blobs[i];
    return NULL;
}

static int write_param(struct net *net, const char *layer, int index, const float *values)
{
    struct param *param = net_find_layer(net, layer)->params[index];
    struct tensor tensor = {.shape = param->shape, .data = param->value};

    tensor.bytes = shape_elems(&param->shape) * sizeof(float);
    param->version++;
    return engine.i->write(engine.context, &tensor, values);
}

static int read_plain(const struct shape *shape, float *data, float *out)
{
    struct tensor tensor = {.shape = *shape, .data = data};

    tensor.bytes = shape_elems(shape) * sizeof(float);
    return engine.i->read(engine.context, &tensor, out);
}

/* The convolution that lays out passes its input on as it is. */
static int write_identity(struct net *net, const struct record *r)
{
    int64_t n = r->shape.dim[1];
    char name[64];
    float *values = calloc((size_t)(n * n), sizeof(float));
    int status;

    for (int64_t i = 0; i < n; i++)
        values[i * n + i] = 1;
    snprintf(name, sizeof name, "lay_%s", r->name);
    status = write_param(net, name, 0, values);
    free(values);
    return status;
}

static int write_record(struct net *net, const struct record *r, bool layouts)
{
    char name[64];

    switch (r->what) {
    case INPUT_VALUE:
    case PLAIN_VALUE:
        if (laid_out(r, layouts) && write_identity(net, r))
            return -1;
        snprintf(name, sizeof name, "%s%s", r->name, laid_out(r, layouts) ? "_raw" : "");
        return engine.i->write(engine.context, &first_blob(net, name)->value, r->values);
    case PARAM:
        return write_param(net, r->name, r->index, r->values);
    default:
        return 0;
    }
}

static int write_inputs(struct net *net, const struct value_case *c, bool layouts)
{
    for (int i = 0; i < c->nrecords; i++)
        if (write_record(net, &c->record[i], layouts))
            return -1;
    return 0;
}

static void compare(const struct value_case *c, const struct record *r, const float *found,
                    bool layouts)
{
    size_t n = shape_elems(&r->shape);
    double most = 1e-3, worst = 0;
    size_t at = 0;

    for (size_t i = 0; i < n; i++)
        if (fabs((double)r->values[i]) > most)
            most = fabs((double)r->values[i]);
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)found[i] - (double)r->values[i]) / most;
        if (!(error <= worst)) {
            worst = error;
            at = i;
        }
        if (isnan(found[i]))
            break;
    }
    compared++;
    if (worst <= c->tolerance)
        return;
    failures++;
    printf("FAIL %s%s: %s %s %d: element %zu is %g, expected %g (relative error %g)\n", c->name,
           layouts ? " (laid out)" : "", words[r->what], r->name, r->index, at, (double)found[at],
           (double)r->values[at], worst);
}

static bool same_shape(const struct value_case *c, const struct record *r,
                       const struct shape *found)
{
    if (shape_equal(&r->shape, found))
        return true;
    failures++;
    printf("FAIL %s: %s %s has the shape %s, expected %s\n", c->name, words[r->what], r->name,
           shape_text(found).text, shape_text(&r->shape).text);
    return false;
}

/* The tensor that a record speaks of. */
static const struct shape *record_read(struct net *net, const struct record *r, float *out)
{
    const struct blob *blob =
        r->what == GRAD ? first_blob(net, r->name) : net_find_blob(net, r->name);
    struct layer *layer = net_find_layer(net, r->name);
    struct param *param = layer ? layer->params[r->index] : NULL;

    switch (r->what) {
    case TOP:
        return engine.i->read(engine.context, &blob->value, out) ? NULL : &blob->value.shape;
    case GRAD:
        return engine.i->read(engine.context, &blob->grad, out) ? NULL : &blob->value.shape;
    case AFTER:
        return read_plain(&param->shape, param->value, out) ? NULL : &param->shape;
    default:
        return read_plain(&param->shape, param->grad, out) ? NULL : &param->shape;
    }
}

static int compare_records(struct net *net, const struct value_case *c, bool layouts, bool backward)
{
    static float found[1 << 16];

    for (int i = 0; i < c->nrecords; i++) {
        const struct record *r = &c->record[i];
        bool wanted = backward ? r->what == GRAD || r->what == PARAM_GRAD
                               : r->what == TOP || r->what == AFTER;
        if (!wanted)
            continue;
        const struct shape *shape = record_read(net, r, found);
        if (!shape)
            return -1;
        if (same_shape(c, r, shape))
            compare(c, r, found, layouts);
    }
    return 0;
}

static int run_backward(struct net *net, const struct value_case *c, const struct run *run)
{
    for (int i = 0; i < c->nrecords; i++)
        if (c->record[i].what == TOP_GRAD &&
            engine.i->write(engine.context, &net_find_blob(net, c->record[i].name)->grad,
                            c->record[i].values))
            return -1;
    for (int l = net->nlayers - 1; l >= 0; l--)
        if (net->layers[l].needs_backward && strncmp(net->layers[l].def->name, "lay_", 4) != 0 &&
            layer_backward(&net->layers[l], run))
            return -1;
    return 0;
}

/* Sum of tops times their gradients: what the case's gradients are the gradients of. */
static int objective(struct net *net, const struct value_case *c, const struct run *run,
                     double *sum)
{
    static float found[1 << 16];

    *sum = 0;
    if (net_forward(net, run, NULL, NULL))
        return -1;
    for (int i = 0; i < c->nrecords; i++) {
        const struct record *g = &c->record[i];
        if (g->what != TOP_GRAD)
            continue;
        if (engine.i->read(engine.context, &net_find_blob(net, g->name)->value, found))
            return -1;
        for (size_t e = 0; e < shape_elems(&g->shape); e++)
            *sum += (double)found[e] * (double)g->values[e];
    }
    return 0;
}

static const struct record *gradient_of(const struct value_case *c, const struct record *r)
{
    for (int i = 0; i < c->nrecords; i++) {
        const struct record *g = &c->record[i];
        if (g->what == (r->what == PARAM ? PARAM_GRAD : GRAD) && strcmp(g->name, r->name) == 0 &&
            g->index == r->index)
            return g;
    }
    return NULL;
}

static int difference_check(struct net *net, const struct value_case *c, const struct record *r,
                            const struct record *gradient, const struct run *run)
{
    const float step = 1.0f / 128;
    size_t n = shape_elems(&r->shape);
    double up, down;

    for (size_t e = 0; e < n; e++) {
        float before = r->values[e];
        r->values[e] = before + step;
        if (write_inputs(net, c, false) || objective(net, c, run, &up))
            return -1;
        r->values[e] = before - step;
        if (write_inputs(net, c, false) || objective(net, c, run, &down))
            return -1;
        r->values[e] = before;
        double found = (up - down) / (2 * (double)step), expected = gradient->values[e];
        double scale = fmax(1, fmax(fabs(found), fabs(expected)));
        compared++;
        if (fabs(found - expected) <= 1e-2 * scale)
            continue;
        failures++;
        printf("FAIL %s: difference by %s %s element %zu is %g, the gradient %g\n", c->name,
               words[r->what], r->name, e, found, expected);
    }
    return 0;
}

static int differences(struct net *net, const struct value_case *c, const struct run *run)
{
    for (int i = 0; i < c->nrecords; i++) {
        const struct record *r = &c->record[i], *gradient;
        if (r->what != INPUT_VALUE && r->what != PARAM)
            continue;
        gradient = gradient_of(c, r);
        if (gradient && difference_check(net, c, r, gradient, run))
            return -1;
    }
    return 0;
}

/* A net of the definition, all of whose blobs can be read and written at any time. */
static int make_kept(struct made *made, struct text_doc *doc, bool train)
{
    if (made_from(made, doc, train, NULL, NULL))
        return -1;
    net_keep(made->net, NULL);
    return net_build(made->net, &engine, 1);
}

static int run_case(const struct value_case *c, bool layouts)
{
    static char text[16384];
    const struct run run = {.seed = 7};
    struct made made = {0};
    struct text_doc *doc;
    int status = -1;

    net_text(c, layouts, text, sizeof text);
    if (text_read_string("test.prototxt", text, strlen(text), &caffe__net_parameter__descriptor,
                         &doc) ||
        make_kept(&made, doc, c->train) || write_inputs(made.net, c, layouts) ||
        net_forward(made.net, &run, NULL, NULL) || compare_records(made.net, c, layouts, false))
        goto done;
    if (c->train &&
        (run_backward(made.net, c, &run) || compare_records(made.net, c, layouts, true)))
        goto done;
    if (c->differences && !layouts && differences(made.net, c, &run))
        goto done;
    status = 0;
done:
    if (status) {
        failures++;
        printf("FAIL %s%s: %s\n", c->name, layouts ? " (laid out)" : "", error_text());
    }
    unmake_net(&made);
    return status;
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, strlen(name)) == 0)
            return argv[i] + strlen(name);
    return otherwise;
}

int main(int argc, char **argv)
{
    const char *name = option(argc, argv, "--engine=", "cpu");
    const char *part = option(argc, argv, "--case=", "");
    const char *path = argc > 1 && argv[argc - 1][0] != '-'
                           ? argv[argc - 1]
                           : source_file("tests/data/layers_more/values.txt");
    const struct engine_options options = {.threads = 2, .math = MATH_FP32, .deterministic = true};
    static struct value_case c;
    int cases = 0, more;
    FILE *in;

    if (engine_open(name, &options, &engine)) {
        printf("SKIP: %s\n", error_text());
        return 77;
    }
    in = fopen(path, "r");
    if (!in) {
        printf("FAIL: cannot read %s\n", path);
        return 1;
    }
    while ((more = read_case(in, &c)) > 0) {
        if (strstr(c.name, part)) {
            cases++;
            run_case(&c, false);
            run_case(&c, true);
        }
        free_case(&c);
    }
    if (more < 0) {
        printf("FAIL: %s: a record of case '%s' is not as expected\n", path, c.name);
        failures++;
    }
    fclose(in);
    engine_close(&engine);
    printf("engine %s: %d cases, %d comparisons, %d failures\n", name, cases, compared, failures);
    return failures || cases == 0 ? 1 : 0;
}
