/* The rig does what the net does: ops first, then memory, then data. */
#include "tests/engine/engine_rig.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

void rig_start(struct rig *rig, struct engine *engine, enum op_kind kind)
{
    *rig = (struct rig){.engine = engine};
    rig->args = (struct op_args){.kind = kind, .train = true, .layer = "rig"};
    rig->pass = (struct pass){.seed = 7, .first_sample = 100};
}

static void blob_start(struct blob *blob, const char *name, int naxes, const int64_t *dims)
{
    *blob = (struct blob){.name = name, .wants_grad = true};
    shape_set(&blob->value.shape, naxes, dims, name);
    blob->value.bytes = shape_elems(&blob->value.shape) * sizeof(float);
    blob->grad = blob->value;
}

void rig_bottom(struct rig *rig, int naxes, const int64_t *dims)
{
    static const char *const names[RIG_BLOBS] = {"bottom0", "bottom1", "bottom2", "bottom3"};
    int i = rig->args.nbottoms++;

    blob_start(&rig->bottom[i], names[i], naxes, dims);
    rig->bottoms[i] = &rig->bottom[i];
    rig->propagate[i] = true;
}

void rig_top(struct rig *rig, int naxes, const int64_t *dims)
{
    static const char *const names[RIG_BLOBS] = {"top0", "top1", "top2", "top3"};
    int i = rig->args.ntops++;

    blob_start(&rig->top[i], names[i], naxes, dims);
    rig->tops[i] = rig->in_place && i == 0 ? &rig->bottom[0] : &rig->top[i];
}

void rig_param(struct rig *rig, int naxes, const int64_t *dims)
{
    int i = rig->args.nparams++;

    rig->param[i] = (struct param){.wants_grad = true, .lr_mult = 1, .decay_mult = 1};
    shape_set(&rig->param[i].shape, naxes, dims, "parameter");
    rig->params[i] = &rig->param[i];
}

int rig_lay_out(struct rig *rig, int i)
{
    struct rig maker;
    const struct shape *shape = &rig->bottom[i].value.shape;
    int64_t in[2 + OP_SPATIAL], weight[2 + OP_SPATIAL] = {shape->dim[1], 16, 1, 1, 1};
    int status;

    rig_start(&maker, rig->engine, OP_CONV);
    maker.args.train = false;
    maker.args.u.conv = (struct conv_args){
        .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .group = 1};
    /* many input channels: with few, the engine might keep them plain */
    memcpy(in, shape->dim, sizeof in);
    in[1] = 16;
    rig_bottom(&maker, shape->naxes, in);
    rig_param(&maker, shape->naxes, weight);
    maker.args.ntops = 1;
    maker.tops[0] = &rig->bottom[i];
    maker.args.bottoms = maker.bottoms;
    maker.args.tops = maker.tops;
    maker.args.params = maker.params;
    status = engine_op_create(rig->engine, &maker.args, &maker.op);
    op_destroy(maker.op);
    return status;
}

static int tensor_place(struct rig *rig, struct tensor *tensor)
{
    void *memory = NULL;

    if (tensor->data || tensor->base)
        return 0;
    if (rig->engine->device.i->alloc(rig->engine->context, tensor->bytes, "a blob", &memory))
        return -1;
    tensor->data = memory;
    return 0;
}

static int blob_place(struct rig *rig, struct blob *blob)
{
    if (tensor_place(rig, &blob->value) || tensor_place(rig, &blob->grad))
        return -1;
    if (blob->value.base)
        blob->value.data = blob->value.base->data;
    if (blob->grad.base)
        blob->grad.data = blob->grad.base->data;
    return 0;
}

/* One behind the other, as a net places a layer's: a bias begins wherever the weight ends. */
static int params_place(struct rig *rig)
{
    const struct device_i *i = rig->engine->device.i;
    size_t elems = 0;
    void *values, *grads;

    for (int p = 0; p < rig->args.nparams; p++)
        elems += shape_elems(&rig->param[p].shape);
    if (elems == 0)
        return 0;
    if (i->alloc(rig->engine->context, elems * sizeof(float), "parameters", &values))
        return -1;
    rig->param[0].value = values;
    if (i->alloc(rig->engine->context, elems * sizeof(float), "gradients", &grads))
        return -1;
    rig->param[0].grad = grads;
    for (int p = 1; p < rig->args.nparams; p++) {
        size_t before = shape_elems(&rig->param[p - 1].shape);
        rig->param[p].value = rig->param[p - 1].value + before;
        rig->param[p].grad = rig->param[p - 1].grad + before;
    }
    return 0;
}

int rig_create(struct rig *rig)
{
    rig->args.bottoms = rig->bottoms;
    rig->args.tops = rig->tops;
    rig->args.params = rig->params;
    rig->args.propagate = rig->propagate;
    if (engine_op_create(rig->engine, &rig->args, &rig->op))
        return -1;
    for (int b = 0; b < rig->args.nbottoms; b++)
        if (blob_place(rig, rig->bottoms[b]))
            return -1;
    for (int t = 0; t < rig->args.ntops; t++)
        if (blob_place(rig, rig->tops[t]))
            return -1;
    return params_place(rig);
}

static void tensor_finish(struct rig *rig, struct tensor *tensor)
{
    if (!tensor->base)
        rig->engine->device.i->free(rig->engine->context, tensor->data);
    rig->engine->i->release(rig->engine->context, tensor);
}

void rig_finish(struct rig *rig)
{
    op_destroy(rig->op);
    for (int t = rig->in_place ? 1 : 0; t < rig->args.ntops; t++) {
        tensor_finish(rig, &rig->tops[t]->value);
        tensor_finish(rig, &rig->tops[t]->grad);
    }
    for (int b = 0; b < rig->args.nbottoms; b++) {
        tensor_finish(rig, &rig->bottoms[b]->value);
        tensor_finish(rig, &rig->bottoms[b]->grad);
    }
    if (rig->args.nparams > 0) {
        rig->engine->device.i->free(rig->engine->context, rig->param[0].value);
        rig->engine->device.i->free(rig->engine->context, rig->param[0].grad);
    }
}

int rig_forward(struct rig *rig)
{
    return op_forward(rig->op, &rig->pass);
}

int rig_backward(struct rig *rig)
{
    return op_backward(rig->op, &rig->pass);
}

int rig_write(struct rig *rig, struct tensor *tensor, const float *values)
{
    return rig->engine->i->write(rig->engine->context, tensor, values);
}

int rig_read(struct rig *rig, const struct tensor *tensor, float *values)
{
    return rig->engine->i->read(rig->engine->context, tensor, values);
}

int rig_param_write(struct rig *rig, int i, const float *values)
{
    struct tensor plain = {.shape = rig->param[i].shape, .data = rig->param[i].value};

    rig->param[i].version++;
    plain.bytes = shape_elems(&plain.shape) * sizeof(float);
    return rig_write(rig, &plain, values);
}

int rig_param_read_grad(struct rig *rig, int i, float *values)
{
    struct tensor plain = {.shape = rig->param[i].shape, .data = rig->param[i].grad};

    plain.bytes = shape_elems(&plain.shape) * sizeof(float);
    return rig_read(rig, &plain, values);
}
