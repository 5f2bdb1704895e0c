/* Cases are data; this is all the code they need. */
#include "tests/layers/test_cases.h"

#include "tests/data/layers/layer_values.h"

int case_count(void)
{
    return (int)(sizeof layer_cases / sizeof layer_cases[0]);
}

const struct layer_case *case_get(int i)
{
    return &layer_cases[i];
}

const struct value_spec *case_spec(const struct layer_case *c, int i)
{
    return &layer_specs[c->first_spec + i];
}

const struct expectation *case_expected(const struct layer_case *c, int i)
{
    return &layer_expected[c->first_expected + i];
}

const float *expectation_values(const struct expectation *expected)
{
    return layer_numbers + expected->at;
}

bool case_has_gradient(const struct layer_case *c)
{
    for (int i = 0; i < c->nexpected; i++)
        if (case_expected(c, i)->kind >= EXPECT_BOTTOM)
            return true;
    return false;
}

static uint32_t hashed(int salt, int i)
{
    uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)salt * 40503u + 12345u;

    h = (h ^ (h >> 16)) * 2246822519u;
    h = (h ^ (h >> 13)) * 3266489917u;
    return h ^ (h >> 16);
}

void value_draw(const struct value_spec *spec, float *out)
{
    for (int i = 0; i < spec->n; i++) {
        uint32_t h = hashed(spec->salt, i);
        double u = (h >> 12) * 0x1p-20, value = 0;
        switch (spec->kind) {
        case VALUE_UNIT:
            value = 2 * u - 1;
            break;
        case VALUE_AWAY:
            value = (h & 1 ? 1 : -1) * (0.125 + 0.875 * u);
            break;
        case VALUE_INTEGERS:
            value = spec->a + (double)(h % (uint32_t)(spec->b - spec->a + 1));
            break;
        case VALUE_DISTINCT:
            value = ((i * spec->a + 7) % spec->n - spec->n / 2) / 16.0;
            break;
        }
        out[i] = (float)(spec->param >= 0 ? value / 2 : value);
    }
}

static void draw_values(struct case_net *n)
{
    n->values = calloc((size_t)n->c->nspecs, sizeof *n->values);
    ck_assert_ptr_nonnull(n->values);
    for (int i = 0; i < n->c->nspecs; i++) {
        const struct value_spec *spec = case_spec(n->c, i);
        n->values[i] = calloc((size_t)spec->n, sizeof **n->values);
        ck_assert_ptr_nonnull(n->values[i]);
        value_draw(spec, n->values[i]);
    }
}

void case_net_open_text(struct case_net *n, const char *text, int threads)
{
    const struct engine_options options = {.threads = threads};

    *n = (struct case_net){.run = {.seed = 3, .first_sample = 1000}};
    ck_assert_msg(engine_open("cpu", &options, &n->engine) == 0, "%s", error_text());
    ck_assert_msg(make_net(&n->made, text, true, NULL, NULL) == 0, "%s", error_text());
    n->net = n->made.net;
    net_keep(n->net, NULL); /* every blob is looked at */
    ck_assert_msg(net_build(n->net, &n->engine, 1) == 0, "%s", error_text());
}

void case_net_open(struct case_net *n, const struct layer_case *c, int threads)
{
    case_net_open_text(n, c->net, threads);
    n->c = c;
    draw_values(n);
    case_net_load(n);
}

void case_net_close(struct case_net *n)
{
    for (int i = 0; n->c && i < n->c->nspecs; i++)
        free(n->values[i]);
    free(n->values);
    unmake_net(&n->made);
    engine_close(&n->engine);
}

static struct blob *find_blob(struct case_net *n, const char *name)
{
    struct blob *blob = net_find_blob(n->net, name);

    ck_assert_msg(blob != NULL, "no blob '%s'", name);
    return blob;
}

void case_net_write_blob(struct case_net *n, const char *name, const float *values)
{
    ck_assert_int_eq(n->engine.i->write(n->engine.context, &find_blob(n, name)->value, values), 0);
}

static struct tensor param_tensor(const struct case_net *n, int param, float *data)
{
    struct tensor tensor = {.shape = n->net->params[param].shape, .data = data};

    tensor.bytes = shape_elems(&tensor.shape) * sizeof(float);
    return tensor;
}

void case_net_write_param(struct case_net *n, int param, const float *values)
{
    struct tensor tensor = param_tensor(n, param, n->net->params[param].value);

    ck_assert_int_eq(n->engine.i->write(n->engine.context, &tensor, values), 0);
    for (int g = 0; g < n->net->ngroups; g++)
        net_touch(n->net, g);
}

void case_net_load_spec(struct case_net *n, int i)
{
    const struct value_spec *spec = case_spec(n->c, i);

    if (spec->param >= 0) {
        ck_assert_int_lt(spec->param, n->net->nparams);
        ck_assert_uint_eq(shape_elems(&n->net->params[spec->param].shape), spec->n);
        case_net_write_param(n, spec->param, n->values[i]);
    } else {
        ck_assert_uint_eq(shape_elems(&find_blob(n, spec->name)->value.shape), spec->n);
        case_net_write_blob(n, spec->name, n->values[i]);
    }
}

void case_net_load(struct case_net *n)
{
    for (int i = 0; i < n->c->nspecs; i++)
        case_net_load_spec(n, i);
}

double case_net_forward(struct case_net *n)
{
    double loss;

    ck_assert_msg(net_forward(n->net, &n->run, NULL, &loss) == 0, "%s", error_text());
    return loss;
}

void case_net_backward(struct case_net *n, bool first)
{
    ck_assert_msg(net_backward(n->net, &n->run, first, NULL) == 0, "%s", error_text());
}

float *case_net_read(struct case_net *n, const struct tensor *tensor)
{
    float *out = calloc(shape_elems(&tensor->shape) + 1, sizeof *out);

    ck_assert_ptr_nonnull(out);
    ck_assert_ptr_nonnull(tensor->data);
    ck_assert_int_eq(n->engine.i->read(n->engine.context, tensor, out), 0);
    return out;
}

float *case_net_blob(struct case_net *n, const char *name)
{
    return case_net_read(n, &find_blob(n, name)->value);
}

float *case_net_blob_grad(struct case_net *n, const char *name)
{
    return case_net_read(n, &find_blob(n, name)->grad);
}

float *case_net_param_grad(struct case_net *n, int param)
{
    struct tensor tensor = param_tensor(n, param, n->net->params[param].grad);

    return case_net_read(n, &tensor);
}
