/* Needs: which layers run backward and which blobs carry a gradient.
 *
 * Forward sweep: a blob needs a gradient if a parameter at or below its layer learns. Backward
 * sweep: removes layers that no loss depends on, and layers whose tops get no gradient. */
#include "net/net_internal.h"

#include "util/alloc.h"

#include <stdlib.h>

/* Sweep results for a blob; arrays are indexed as net->blobs. */
struct flow {
    bool need;       /* forward sweep: a parameter of a layer at or below the blob learns */
    bool under_loss; /* backward sweep: a loss depends on the blob */
    bool wet;        /* backward sweep: the blob's reader writes its gradient */
};

struct sweep {
    struct net *net;
    struct flow *flow;
};

static struct flow *flow_of(const struct sweep *sweep, const struct blob *blob)
{
    return &sweep->flow[net_blob_number(sweep->net, blob)];
}

static float loss_weight(const struct layer *layer, int top)
{
    return top < layer->def->nweights ? layer->def->loss_weights[top] : 0;
}

static int read_layer_losses(struct net *net, struct layer *layer)
{
    struct net_internals *internals = net->internals;
    struct net_loss *loss;
    bool divides;

    for (int t = 0; t < layer->ntops; t++) {
        float weight = loss_weight(layer, t);
        if (weight == 0)
            continue;
        if (net->train && (layer->i->no_gradient_from >> t & 1))
            return error_set("top '%s' has loss_weight %g, but no gradient can come from it",
                             layer->tops[t]->name, (double)weight);
        loss = &internals->losses[internals->nlosses++];
        *loss = (struct net_loss){
            .layer = layer->index, .top = t, .blob = layer->tops[t], .weight = weight, .share = 1};
        if (layer_ignores_label(layer, &loss->ignored, &divides) && divides)
            loss->labels = layer->bottoms[LOSS_LABELS];
    }
    return 0;
}

static int read_losses(struct net *net)
{
    size_t ntops = 0;

    for (int l = 0; l < net->nlayers; l++)
        ntops += (size_t)net->layers[l].ntops;
    if (OWN(&net->internals->owner, net->internals->losses, ntops + 1, "the losses"))
        return -1;
    for (int l = 0; l < net->nlayers; l++)
        if (read_layer_losses(net, &net->layers[l]))
            return net_layer_error(net, l);
    for (int o = 0; o < net->noutputs; o++)
        for (int i = 0; i < net->internals->nlosses; i++)
            if (net->internals->losses[i].blob == net->outputs[o].blob)
                net->outputs[o].loss_weight = net->internals->losses[i].weight;
    return 0;
}

int net_losses(const struct net *net)
{
    return net->internals->nlosses;
}

static bool learns(const struct layer *layer)
{
    for (int p = 0; p < layer->nparams; p++)
        if (layer->params[p]->lr_mult != 0)
            return true;
    return false;
}

/* True if a layer below bottom b learns, or propagate_down says true. False for bottoms that only
 * give a size (drops_gradient). */
static bool wants_bottom(const struct sweep *sweep, const struct layer *layer, int b)
{
    if (layer->i->drops_gradient >> b & 1)
        return false;
    if (layer->param->n_propagate_down > 0)
        return layer->param->propagate_down[b];
    return flow_of(sweep, layer->bottoms[b])->need;
}

/* Sets `propagate` of bottoms, and `need` of tops without the effect of force_backward: labels
 * behind a Split would otherwise need a gradient, which losses do not give. */
static void sweep_forward(struct sweep *sweep, struct layer *layer)
{
    bool force = sweep->net->def->param->force_backward, need = learns(layer);

    layer->needs_backward = need;
    for (int b = 0; b < layer->nbottoms; b++) {
        bool wants = wants_bottom(sweep, layer, b);
        layer->propagate[b] = wants || (force && !(layer_no_gradient_to(layer->i) >> b & 1));
        layer->needs_backward |= layer->propagate[b];
        need |= wants;
    }
    for (int t = 0; t < layer->ntops; t++)
        flow_of(sweep, layer->tops[t])->need = need && !(layer->i->no_gradient_from >> t & 1);
}

bool net_has_loss(const struct net *net, int layer, int top)
{
    for (int i = 0; i < net->internals->nlosses; i++) {
        const struct net_loss *loss = &net->internals->losses[i];
        if (loss->layer == layer && (top < 0 || loss->top == top))
            return true;
    }
    return false;
}

static void sweep_backward(struct sweep *sweep, struct layer *layer)
{
    bool contributes = false, wet = false;

    for (int t = 0; t < layer->ntops; t++) {
        const struct flow *top = flow_of(sweep, layer->tops[t]);
        bool loss = net_has_loss(sweep->net, layer->index, t);
        contributes |= loss || top->under_loss;
        wet |= loss || top->wet;
    }
    if (!contributes || !wet)
        layer->needs_backward = false;
    for (int b = 0; b < layer->nbottoms; b++) {
        struct flow *bottom = flow_of(sweep, layer->bottoms[b]);
        if (!layer->needs_backward)
            layer->propagate[b] = false;
        bottom->under_loss = contributes && !(layer_no_gradient_to(layer->i) >> b & 1);
        bottom->wet = layer->propagate[b];
    }
}

/* Fails if a bottom needs a gradient that its reader does not give. */
static int check_layers(const struct net *net)
{
    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];
        for (int b = 0; b < layer->nbottoms; b++) {
            if (!layer->propagate[b] || !(layer_no_gradient_to(layer->i) >> b & 1))
                continue;
            error_set("bottom '%s' (index %d) comes from layers that learn, or has propagate_down: "
                      "true, but layers of type %s give it no gradient; propagate_down: false for "
                      "this bottom accepts that",
                      layer->bottoms[b]->name, b, layer->i->type);
            return net_layer_error(net, l);
        }
    }
    return 0;
}

/* Sets wants_grad of blobs whose reader writes the gradient or that a loss seeds. */
static void mark_blobs(struct net *net)
{
    for (int l = 0; l < net->nlayers; l++) {
        struct layer *layer = &net->layers[l];
        for (int b = 0; b < layer->nbottoms; b++)
            if (layer->propagate[b])
                layer->bottoms[b]->wants_grad = true;
    }
    for (int i = 0; i < net->internals->nlosses; i++) {
        const struct net_loss *loss = &net->internals->losses[i];
        if (net->layers[loss->layer].needs_backward)
            loss->blob->wants_grad = true;
    }
}

int net_find_needs(struct net *net)
{
    struct sweep sweep = {.net = net};

    if (read_losses(net))
        return -1;
    if (!net->train)
        return error_status(check_layers(net) || net_find_sums(net));
    if (ALLOC(sweep.flow, net->nblobs + 1, "the gradient flow"))
        return -1;
    for (int l = 0; l < net->nlayers; l++)
        sweep_forward(&sweep, &net->layers[l]);
    for (int l = net->nlayers - 1; l >= 0; l--)
        sweep_backward(&sweep, &net->layers[l]);
    free(sweep.flow);
    if (check_layers(net))
        return -1;
    mark_blobs(net);
    return net_find_sums(net);
}
