/* The two passes. */
#include "net/net_internal.h"

#include "trace/trace.h"
#include "util/error.h"

#include <assert.h>
#include <string.h>

static int call_before(const struct net *net, int layer, const struct net_hooks *hooks)
{
    int groups[LAYER_MAX_PARAMS], count;

    if (!hooks || !hooks->before_forward)
        return 0;
    count = net_groups_of(net, layer, groups);
    for (int i = 0; i < count; i++)
        if (hooks->before_forward(hooks->context, groups[i]))
            return -1;
    return 0;
}

int net_add_losses(struct net *net, double *sum)
{
    struct net_internals *internals = net->internals;

    *sum = 0;
    for (int i = 0; i < internals->nlosses; i++) {
        const struct net_loss *loss = &internals->losses[i];
        const struct blob *blob = net->layers[loss->layer].tops[loss->top];
        size_t elems = shape_elems(&blob->value.shape);
        if (net_read_blob(net, blob, internals->scratch))
            return -1;
        for (size_t e = 0; e < elems; e++)
            *sum += (double)loss->weight * loss->share * internals->scratch[e];
    }
    return 0;
}

/* One thread writes, so no locked instruction is needed. */
void net_note_position(struct net *net, int64_t at)
{
    struct net_internals *internals = net->internals;
    int64_t ran = atomic_load_explicit(&internals->ran, memory_order_relaxed);

    atomic_store_explicit(&internals->ran, ran + 1, memory_order_relaxed);
    atomic_store_explicit(&internals->at, at, memory_order_relaxed);
}

struct net_position net_position(const struct net *net)
{
    int64_t at = atomic_load_explicit(&net->internals->at, memory_order_relaxed);
    uint64_t done = (uint64_t)atomic_load_explicit(&net->internals->ran, memory_order_relaxed);
    const char *path;

    for (int l = 0; l < net->nlayers; l++)
        if (net->layers[l].i->records)
            done += net->layers[l].i->records(&net->layers[l], &path);
    return (struct net_position){
        .layer = at < 0 ? -1 : (int)(at / 2), .backward = at >= 0 && at % 2, .done = done};
}

int net_layer_forward(struct net *net, int layer, const struct run *run)
{
    net_note_position(net, 2 * (int64_t)layer);
    return layer_forward(&net->layers[layer], run) ? net_layer_error(net, layer) : 0;
}

static int traced_forward(struct net *net, int layer, const struct run *run)
{
    int64_t start = trace_begin(net->trace);
    int status = net_layer_forward(net, layer, run);

    trace_span(net->trace, TRACE_COMPUTE,
               net->layers[layer].i->is_data ? TRACE_INPUT : TRACE_FORWARD, layer, start);
    return status;
}

int net_forward(struct net *net, const struct run *run, const struct net_hooks *hooks, double *loss)
{
    if (net_graphs_usable(net)) {
        if (net_forward_recorded(net, run, hooks))
            return -1;
        net_note_position(net, -1);
        return loss ? net_add_losses(net, loss) : 0;
    }
    for (int l = 0; l < net->nlayers; l++)
        if (call_before(net, l, hooks) || traced_forward(net, l, run))
            return -1;
    net_note_position(net, -1);
    return loss ? net_add_losses(net, loss) : 0;
}

bool net_seeds_loss(const struct net *net, int layer)
{
    for (int i = 0; i < net->internals->nlosses; i++)
        if (net->internals->losses[i].layer == layer)
            return true;
    return false;
}

/* The gradient of the whole loss by each element of a loss top is its weight, or that rank's share
 * of it. */
int net_seed_losses(struct net *net, int layer)
{
    struct net_internals *internals = net->internals;

    for (int i = 0; i < internals->nlosses; i++) {
        const struct net_loss *loss = &internals->losses[i];
        if (loss->layer != layer)
            continue;
        struct blob *blob = net->layers[layer].tops[loss->top];
        size_t elems = shape_elems(&blob->value.shape);
        assert(blob->wants_grad && blob->grad.data);
        for (size_t e = 0; e < elems; e++)
            internals->scratch[e] = (float)(loss->weight * loss->share);
        if (net->engine->i->write(net->engine->context, &blob->grad, internals->scratch))
            return -1;
    }
    return 0;
}

/* A gradient is overwritten by the first layer that computes it in an iteration, added to by
 * others. */
void net_set_accumulate(struct net *net, int index, bool first)
{
    struct layer *layer = &net->layers[index];

    for (int p = 0; p < layer->nparams; p++) {
        int param = net->internals->param_of_layer[index][p];
        assert(0 <= param && param < net->nparams);
        layer->params[p]->accumulate = !first || net->internals->written[param];
        net->internals->written[param] = true;
    }
}

static int call_after(const struct net *net, int layer, const struct net_hooks *hooks)
{
    int groups[LAYER_MAX_PARAMS], count;

    if (!hooks || !hooks->after_backward)
        return 0;
    count = net_groups_of(net, layer, groups);
    for (int i = 0; i < count; i++)
        if (net->internals->last_contributor[groups[i]] == layer &&
            hooks->after_backward(hooks->context, groups[i]))
            return -1;
    return 0;
}

/* What the syncer decided of a parameter holds for its other shapes too. */
static void refresh_views(struct net *net)
{
    for (int v = 0; v < net->internals->nviews; v++) {
        struct param *view = &net->internals->views[v];
        view->factored = net->params[net->internals->view_of[v]].factored;
    }
}

int net_run_backward(struct net *net, int layer, const struct run *run)
{
    if (!net->layers[layer].needs_backward)
        return 0;
    net_note_position(net, 2 * (int64_t)layer + 1);
    return layer_backward(&net->layers[layer], run) ? net_layer_error(net, layer) : 0;
}

static int backward_layer(struct net *net, int l, const struct run *run, bool first)
{
    if (!net->layers[l].needs_backward)
        return 0;
    net_set_accumulate(net, l, first);
    return net_seed_losses(net, l) ? net_layer_error(net, l) : net_run_backward(net, l, run);
}

int net_layer_backward(struct net *net, int layer, const struct run *run)
{
    memset(net->internals->written, 0, (size_t)net->nparams * sizeof(bool));
    return backward_layer(net, layer, run, true);
}

int net_backward(struct net *net, const struct run *run, bool first, const struct net_hooks *hooks)
{
    if (!net->train)
        return error_set("a net of the TEST phase has no backward pass");
    memset(net->internals->written, 0, (size_t)net->nparams * sizeof(bool));
    refresh_views(net);
    if (net_graphs_usable(net))
        return net_backward_recorded(net, run, first, hooks);
    for (int l = net->nlayers - 1; l >= 0; l--) {
        int64_t start = trace_begin(net->trace);
        if (backward_layer(net, l, run, first))
            return -1;
        if (net->layers[l].needs_backward)
            trace_span(net->trace, TRACE_COMPUTE, TRACE_BACKWARD, l, start);
        if (net->layers[l].needs_backward && call_after(net, l, hooks))
            return -1;
    }
    net_note_position(net, -1);
    return 0;
}

int net_read_blob(const struct net *net, const struct blob *blob, float *out)
{
    return net->engine->i->read(net->engine->context, &blob->value, out);
}
