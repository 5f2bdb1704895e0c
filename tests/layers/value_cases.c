#include "tests/layers/value_cases.h"

#include <inttypes.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const words[] = {"input",   "plain", "param", "after", "top",
                                    "topgrad", "grad",  "pgrad", "loss"};
static const char *const kinds[] = {"UNIT", "AWAY", "INTEGERS", "DISTINCT"};

static int find_word(const char *const *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], word) == 0)
            return (int)i;
    return -1;
}

static uint32_t hashed(int salt, int i)
{
    uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)salt * 40503u + 12345u;

    h = (h ^ (h >> 16)) * 2246822519u;
    h = (h ^ (h >> 13)) * 3266489917u;
    return h ^ (h >> 16);
}

void draw_values(const struct draw *draw, size_t n, float *out)
{
    for (int i = 0; i < (int)n; i++) {
        uint32_t h = hashed(draw->salt, i);
        double u = (h >> 12) * 0x1p-20, value = 0;
        switch (draw->kind) {
        case DRAW_UNIT:
            value = 2 * u - 1;
            break;
        case DRAW_AWAY:
            value = (h & 1 ? 1 : -1) * (0.125 + 0.875 * u);
            break;
        case DRAW_INTEGERS:
            value = draw->a + (double)(h % (uint32_t)(draw->b - draw->a + 1));
            break;
        case DRAW_DISTINCT:
            value = ((i * draw->a + 7) % (int)n - (int)n / 2) / 16.0;
            break;
        }
        out[i] = (float)(value * (draw->scale != 0 ? draw->scale : 1) + draw->shift);
    }
}

/* ---- The file ---------------------------------------------------------------------------------
 */

/* `mark`: what stands after the shape. */
static int read_dims(FILE *in, struct shape *shape, char mark[8])
{
    int64_t dim[SHAPE_MAX_AXES];
    int naxes;

    if (fscanf(in, "%d", &naxes) != 1 || naxes < 0 || naxes > SHAPE_MAX_AXES)
        return -1;
    for (int i = 0; i < naxes; i++)
        if (fscanf(in, "%" SCNd64, &dim[i]) != 1)
            return -1;
    return fscanf(in, "%7s", mark) == 1 && shape_set(shape, naxes, dim, "a value") == 0 ? 0 : -1;
}

static int read_values(FILE *in, const char *mark, size_t n, float *values)
{
    struct draw draw;
    char kind[16];
    int found;

    if (strcmp(mark, ":") == 0) {
        for (size_t i = 0; i < n; i++)
            if (fscanf(in, "%f", &values[i]) != 1)
                return -1;
        return 0;
    }
    if (strcmp(mark, "draw") != 0 || fscanf(in, "%15s %d %d %d %lf %lf", kind, &draw.a, &draw.b,
                                            &draw.salt, &draw.scale, &draw.shift) != 6)
        return -1;
    found = find_word(kinds, COUNT(kinds), kind);
    draw.kind = (enum draw_kind)found;
    if (found >= 0)
        draw_values(&draw, n, values);
    return found < 0 ? -1 : 0;
}

static int read_record(FILE *in, enum value_what what, struct value_case *c)
{
    struct value_record *r = &c->records[c->nrecords];
    bool indexed = what == VALUE_PARAM || what == VALUE_AFTER || what == VALUE_PARAM_GRAD;
    char mark[8];
    size_t n;

    if (c->nrecords == VALUE_MAX_RECORDS)
        return -1;
    *r = (struct value_record){.what = what};
    if (fscanf(in, "%31s", r->name) != 1 || (indexed && fscanf(in, "%d", &r->index) != 1) ||
        read_dims(in, &r->shape, mark))
        return -1;
    n = shape_elems(&r->shape);
    if (n > VALUE_MOST)
        return -1;
    r->values = malloc((n + 1) * sizeof(float));
    c->nrecords++;
    return r->values ? read_values(in, mark, n, r->values) : -1;
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
    int what;

    c->differences = true;
    c->tolerance = 1e-5;
    while (fscanf(in, "%31s", word) == 1) {
        what = find_word(words, COUNT(words), word);
        if (what >= 0) {
            if (read_record(in, (enum value_what)what, c))
                return -1;
        } else if (strcmp(word, "case") == 0) {
            if (fscanf(in, " %95[^\n]", c->name) != 1)
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

struct value_case *value_cases_read(const char *path)
{
    struct value_case *cases = calloc(VALUE_CASES + 1, sizeof *cases);
    FILE *in;
    int n = 0, more = -1;

    if (!path)
        path = source_file("tests/data/layers/values.txt");
    in = fopen(path, "r");
    while (in && cases && n <= VALUE_CASES && (more = read_case(in, &cases[n])) > 0)
        n++;
    if (in)
        fclose(in);
    if (more == 0 && n == VALUE_CASES)
        return cases;
    if (!in)
        printf("FAIL: cannot read %s\n", path);
    else if (more < 0)
        printf("FAIL: %s: a record after case %d is not as expected\n", path, n);
    else
        printf("FAIL: %s: %s%d cases, expected %d (VALUE_CASES of value_cases.h)\n", path,
               more > 0 ? "at least " : "", n, VALUE_CASES);
    value_cases_free(cases);
    return NULL;
}

void value_cases_free(struct value_case *cases)
{
    for (int i = 0; cases && i <= VALUE_CASES; i++)
        for (int r = 0; r < cases[i].nrecords; r++)
            free(cases[i].records[r].values);
    free(cases);
}

const char *value_word(enum value_what what)
{
    return words[what];
}

/* ---- A case -----------------------------------------------------------------------------------
 */

bool value_case_has(const struct value_case *c, enum value_what what)
{
    for (int i = 0; i < c->nrecords; i++)
        if (c->records[i].what == what)
            return true;
    return false;
}

bool value_case_has_gradient(const struct value_case *c)
{
    return value_case_has(c, VALUE_GRAD) || value_case_has(c, VALUE_PARAM_GRAD);
}

const struct value_record *value_case_gradient(const struct value_case *c,
                                               const struct value_record *r)
{
    enum value_what what = r->what == VALUE_PARAM ? VALUE_PARAM_GRAD : VALUE_GRAD;

    for (int i = 0; i < c->nrecords; i++) {
        const struct value_record *g = &c->records[i];
        if (g->what == what && strcmp(g->name, r->name) == 0 && g->index == r->index)
            return g;
    }
    return NULL;
}

static bool is_laid_out(const struct value_record *r, bool laid_out)
{
    return laid_out && r->what == VALUE_INPUT && r->shape.naxes > 2 && r->shape.naxes < 6;
}

void value_case_text(const struct value_case *c, bool laid_out, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "force_backward: %s\n", c->train ? "true" : "false");

    for (int i = 0; i < c->nrecords; i++) {
        const struct value_record *r = &c->records[i];
        if (r->what != VALUE_INPUT && r->what != VALUE_PLAIN)
            continue;
        const char *suffix = is_laid_out(r, laid_out) ? "_raw" : "";
        used +=
            (size_t)snprintf(text + used, size - used,
                             "layer { name: '%s%s' type: 'Input' top: '%s%s' input_param { shape {",
                             r->name, suffix, r->name, suffix);
        for (int d = 0; d < r->shape.naxes; d++)
            used += (size_t)snprintf(text + used, size - used, " dim: %d", (int)r->shape.dim[d]);
        used += (size_t)snprintf(text + used, size - used, " } } }\n");
        if (is_laid_out(r, laid_out))
            used +=
                (size_t)snprintf(text + used, size - used,
                                 "layer { name: 'lay_%s' type: 'Convolution' bottom: '%s_raw' top: "
                                 "'%s' param { lr_mult: 0 } convolution_param { num_output: %d "
                                 "kernel_size: 1 bias_term: false } }\n",
                                 r->name, r->name, r->name, (int)r->shape.dim[1]);
    }
    snprintf(text + used, size - used, "%s", c->layers);
}

/* ---- A case at work ----------------------------------------------------------------------------
 */

int value_net_open(struct value_net *n, const struct value_case *c, bool laid_out,
                   struct engine *engine)
{
    static char text[16384];
    struct text_doc *doc;

    *n = (struct value_net){.c = c, .laid_out = laid_out, .engine = engine, .pass = {.seed = 7}};
    value_case_text(c, laid_out, text, sizeof text);
    if (text_read_string("test.prototxt", text, strlen(text), &caffe__net_parameter__descriptor,
                         &doc) ||
        made_from(&n->made, doc, c->train, NULL, NULL))
        return -1;
    n->net = n->made.net;
    net_keep(n->net, NULL);
    return net_build(n->net, engine, 1);
}

void value_net_close(struct value_net *n)
{
    unmake_net(&n->made);
}

/* Of blobs of one name, that which the input fills: layers may work in place on it. */
static struct blob *first_blob(const struct net *net, const char *name)
{
    for (int i = 0; i < net->nblobs; i++)
        if (strcmp(net->blobs[i]->name, name) == 0)
            return net->blobs[i];
    return NULL;
}

static struct tensor plain_tensor(const struct shape *shape, float *data)
{
    return (struct tensor){
        .shape = *shape, .data = data, .bytes = shape_elems(shape) * sizeof(float)};
}

static int write_param(struct value_net *n, const char *layer, int index, const float *values)
{
    struct param *param = net_find_layer(n->net, layer)->params[index];
    struct tensor tensor = plain_tensor(&param->shape, param->value);

    for (int g = 0; g < n->net->ngroups; g++)
        net_touch(n->net, g);
    return n->engine->i->write(n->engine->context, &tensor, values);
}

/* The convolution that lays out passes its input on as it is. */
static int write_identity(struct value_net *n, const struct value_record *r)
{
    int64_t channels = r->shape.dim[1];
    char name[64];
    float *values = calloc((size_t)(channels * channels), sizeof(float));
    int status;

    for (int64_t i = 0; i < channels; i++)
        values[i * channels + i] = 1;
    snprintf(name, sizeof name, "lay_%s", r->name);
    status = write_param(n, name, 0, values);
    free(values);
    return status;
}

static int write_record(struct value_net *n, const struct value_record *r)
{
    bool laid_out = is_laid_out(r, n->laid_out);
    char name[64];

    switch (r->what) {
    case VALUE_INPUT:
    case VALUE_PLAIN:
        if (laid_out && write_identity(n, r))
            return -1;
        snprintf(name, sizeof name, "%s%s", r->name, laid_out ? "_raw" : "");
        return n->engine->i->write(n->engine->context, &first_blob(n->net, name)->value, r->values);
    case VALUE_PARAM:
        return write_param(n, r->name, r->index, r->values);
    default:
        return 0;
    }
}

int value_net_load(struct value_net *n)
{
    for (int i = 0; i < n->c->nrecords; i++)
        if (write_record(n, &n->c->records[i]))
            return -1;
    return 0;
}

int value_net_forward(struct value_net *n, double *loss)
{
    return net_forward(n->net, &n->pass, NULL, loss);
}

int value_net_backward(struct value_net *n)
{
    struct net *net = n->net;

    if (!value_case_has(n->c, VALUE_TOP_GRAD))
        return net_backward(net, &n->pass, true, NULL);
    for (int i = 0; i < n->c->nrecords; i++) {
        const struct value_record *r = &n->c->records[i];
        if (r->what == VALUE_TOP_GRAD &&
            n->engine->i->write(n->engine->context, &net_find_blob(net, r->name)->grad, r->values))
            return -1;
    }
    for (int p = 0; p < net->nparams; p++)
        net->params[p].accumulate = false; /* no such case shares a parameter */
    for (int l = net->nlayers - 1; l >= 0; l--)
        if (net->layers[l].needs_backward && strncmp(net->layers[l].def->name, "lay_", 4) != 0 &&
            layer_backward(&net->layers[l], &n->pass))
            return -1;
    return 0;
}

int value_net_read(struct value_net *n, const struct value_record *r, float *out,
                   struct shape *shape)
{
    const struct blob *blob =
        r->what == VALUE_GRAD ? first_blob(n->net, r->name) : net_find_blob(n->net, r->name);
    struct layer *layer = net_find_layer(n->net, r->name);
    struct param *param = layer && r->index < layer->nparams ? layer->params[r->index] : NULL;
    struct tensor plain = {0};
    const struct tensor *tensor = &plain;

    if (r->what == VALUE_AFTER || r->what == VALUE_PARAM_GRAD) {
        if (!param)
            return error_set("no parameter %d of layer '%s'", r->index, r->name);
        plain = plain_tensor(&param->shape, r->what == VALUE_AFTER ? param->value : param->grad);
    } else if (!blob) {
        return error_set("no blob '%s'", r->name);
    } else {
        tensor = r->what == VALUE_GRAD ? &blob->grad : &blob->value;
    }
    *shape = tensor == &plain ? param->shape : blob->value.shape;
    return shape_elems(shape) > VALUE_MOST ? error_set("'%s' is large", r->name)
                                           : n->engine->i->read(n->engine->context, tensor, out);
}
