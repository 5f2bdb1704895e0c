#include "tests/layers/case_net.h"

void case_net_open_text(struct case_net *n, const char *text, int threads)
{
    const struct engine_options options = {.threads = threads};

    *n = (struct case_net){.pass = {.seed = 3, .first_sample = 1000}};
    ck_assert_msg(engine_open("cpu", &options, &n->engine) == 0, "%s", error_text());
    ck_assert_msg(make_net(&n->made, text, true, NULL, NULL) == 0, "%s", error_text());
    n->net = n->made.net;
    net_keep(n->net, NULL); /* every blob is looked at */
    ck_assert_msg(net_build(n->net, &n->engine, 1) == 0, "%s", error_text());
}

void case_net_close(struct case_net *n)
{
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

double case_net_forward(struct case_net *n)
{
    double loss;

    ck_assert_msg(net_forward(n->net, &n->pass, NULL, &loss) == 0, "%s", error_text());
    return loss;
}

void case_net_backward(struct case_net *n, bool first)
{
    ck_assert_msg(net_backward(n->net, &n->pass, first, NULL) == 0, "%s", error_text());
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
