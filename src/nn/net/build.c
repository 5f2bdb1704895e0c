/* Building: arenas and initial parameters, then ops bottom-up, then the memory of blobs.
 *
 * Ops choose memory layouts, and so sizes, at creation: blobs are allocated last (net_memory.c). */
#include "net/net_internal.h"

#include "util/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int net_allocate(struct net *net, size_t bytes, const char *what, float **out)
{
    *out = device_own(&net->engine->device, &net->internals->owner, bytes, what);
    if (!*out)
        return -1;
    net->internals->bytes += bytes;
    return 0;
}

/* Allocates an arena of all parameters in the engine's memory, and on the host if separate. */
static int allocate_arena(struct net *net, const char *what, float **host, float **engine)
{
    size_t bytes = net->elems * sizeof(float);

    if (net_allocate(net, bytes, what, engine))
        return -1;
    *host = net->engine->device.i->own_memory
                ? device_own_host(&net->engine->device, &net->internals->owner, bytes, what)
                : *engine;
    return *host ? 0 : -1;
}

void net_use_arenas(struct net *net, float *values, float *grads)
{
    net->internals->given_values = values;
    net->internals->given_grads = grads;
}

void net_leave_values(struct net *net)
{
    net->internals->leave_values = true;
}

void net_limit_memory(struct net *net, size_t bytes)
{
    net->internals->limit = bytes;
}

size_t net_param_begin(const struct net *net, int param)
{
    const struct group *group = net->groups;
    size_t at;

    assert(0 <= param && param < net->nparams);
    while (param >= group->first + group->nparams)
        group++;
    at = group->begin;
    for (int p = group->first; p < param; p++)
        at += shape_elems(&net->params[p].shape);
    return at;
}

static int allocate_arenas(struct net *net)
{
    const struct net_internals *internals = net->internals;

    if (internals->given_values) {
        net->values = net->engine_values = internals->given_values;
        net->grads = net->engine_grads = internals->given_grads;
        return 0;
    }
    if (allocate_arena(net, "the parameters", &net->values, &net->engine_values))
        return -1;
    return net->train
               ? allocate_arena(net, "the parameters' gradients", &net->grads, &net->engine_grads)
               : 0;
}

/* Gives parameters that a pass changes (BatchNorm's running sums) memory of this net alone. */
static int place_statistics(struct net *net)
{
    size_t elems = 0, at = 0;
    float *memory;

    for (int i = 0; i < net->nparams; i++)
        elems += net->params[i].statistic ? shape_elems(&net->params[i].shape) : 0;
    if (elems == 0)
        return 0;
    if (net_allocate(net, elems * sizeof(float), "batch statistics", &memory))
        return -1;
    for (int i = 0; i < net->nparams; i++)
        if (net->params[i].statistic) {
            net->params[i].value = memory + at;
            at += shape_elems(&net->params[i].shape);
        }
    return 0;
}

static int place_params(struct net *net)
{
    struct net_internals *internals = net->internals;

    if (net->nparams == 0)
        return 0;
    if (allocate_arenas(net))
        return -1;
    for (int i = 0; i < net->nparams; i++) {
        struct param *param = &net->params[i];
        size_t at = net_param_begin(net, i);
        assert(at + shape_elems(&param->shape) <= net->elems);
        param->value = net->engine_values + at;
        if (net->train && param->wants_grad)
            param->grad = net->engine_grads + at;
    }
    if (internals->given_values && place_statistics(net))
        return -1;
    for (int v = 0; v < internals->nviews; v++) {
        struct shape shape = internals->views[v].shape;
        internals->views[v] = net->params[internals->view_of[v]];
        internals->views[v].shape = shape;
    }
    return 0;
}

/* Returns the declaration of parameter number `index` of the net. */
static const struct param_def *param_def(const struct net *net, int index)
{
    int owner = net->internals->layer_of_param[index];
    int p = 0;

    while (net->internals->param_of_layer[owner][p] != index)
        p++;
    return &net->layers[owner].param_defs[p];
}

static int fill_params(struct net *net, uint64_t seed)
{
    int status = 0;

    if (net->engine->device.i->blank)
        return 0;
    for (int i = 0; !status && i < net->nparams; i++) {
        struct param *param = &net->params[i];
        const struct param_def *def = param_def(net, i);
        float *values = net_host_value(net, param);

        if (net->internals->leave_values && !param->statistic)
            continue;
        status = filler_fill(def->filler, &param->shape, seed, i, values);
        for (size_t e = 0; !def->filler && e < shape_elems(&param->shape); e++)
            values[e] = def->constant;
        if (status)
            net_layer_error(net, net->internals->layer_of_param[i]);
    }
    for (int g = 0; g < net->ngroups && !status; g++)
        status = net_push_values(net, g);
    return status;
}

static void start_plain(struct tensor *tensor)
{
    tensor->layout = NULL;
    tensor->bytes = shape_elems(&tensor->shape) * sizeof(float);
    tensor->padded = false;
    tensor->base = NULL;
    tensor->data = NULL;
}

static int create_ops(struct net *net)
{
    for (int i = 0; i < net->nblobs; i++) {
        start_plain(&net->blobs[i]->value);
        start_plain(&net->blobs[i]->grad);
    }
    net_fuse(net);
    for (int l = 0; l < net->nlayers; l++)
        if (layer_build(&net->layers[l], net->engine))
            return net_layer_error(net, l);
    return 0;
}

static void enlarge(size_t *elems, const struct blob *blob)
{
    if (blob && shape_elems(&blob->value.shape) > *elems)
        *elems = shape_elems(&blob->value.shape);
}

static int make_scratch(struct net *net)
{
    size_t largest = 1;

    for (int i = 0; i < net->internals->nlosses; i++) {
        const struct net_loss *loss = &net->internals->losses[i];
        enlarge(&largest, loss->blob);
        enlarge(&largest, loss->labels);
    }
    for (int o = 0; o < net->noutputs; o++)
        enlarge(&largest, net->outputs[o].labels);
    return OWN(&net->internals->owner, net->internals->scratch, largest, "the losses");
}

int net_hold(struct net *net, struct engine *engine)
{
    assert(!net->engine); /* called once */
    net->engine = engine;
    return place_params(net);
}

int net_build(struct net *net, struct engine *engine, uint64_t seed)
{
    if (net_hold(net, engine) || fill_params(net, seed) || create_ops(net) ||
        net_place_blobs(net) || net_graphs_open(net))
        return -1;
    return make_scratch(net);
}
