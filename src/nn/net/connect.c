/* Wiring: resolves the blobs of bottoms and tops, and the shapes along the way.
 *
 * A name means the latest blob produced under that name. A top named like the bottom of the same
 * index is the bottom's blob: the layer works in place. The definition already contains Splits, so
 * each version of a blob has at most one reader. */
#include "net/net_internal.h"

#include "util/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A version of a blob while the graph is built: a layer in place makes a new version. */
struct version {
    struct blob *blob;
    struct net_wire from;
    bool consumed;
};

struct wiring {
    struct net *net;
    struct version *versions; /* one per blob, same index as net->blobs */
};

static int find_version(const struct wiring *wiring, const char *name)
{
    for (int i = wiring->net->nblobs - 1; i >= 0; i--)
        if (strcmp(wiring->versions[i].blob->name, name) == 0)
            return i;
    return -1;
}

/* Connects bottom b. The definition's checks ensure that an unread blob of this name exists. */
static void connect_bottom(struct wiring *wiring, struct layer *layer, int b)
{
    int found = find_version(wiring, layer->def->bottoms[b]);

    assert(found >= 0 && !wiring->versions[found].consumed);
    wiring->versions[found].consumed = true;
    layer->bottoms[b] = wiring->versions[found].blob;
    wiring->net->internals->wires[layer->index][b] = wiring->versions[found].from;
}

static struct blob *add_blob(struct wiring *wiring, const char *name)
{
    struct net *net = wiring->net;
    struct blob *blob;

    if (OWN(&net->internals->owner, blob, 1, "a blob"))
        return NULL;
    blob->name = name;
    wiring->versions[net->nblobs].blob = blob;
    net->blobs[net->nblobs++] = blob;
    return blob;
}

/* True if the layer may overwrite the blob of bottom b: no other backward needs the values, and no
 * other layer reads this memory. Follows the blob back to the layer that computed its values. */
static bool may_overwrite(const struct net *net, const struct layer *layer, int b)
{
    struct net_wire wire = net->internals->wires[layer->index][b];

    for (;;) {
        const struct layer *from = &net->layers[wire.layer];
        bool in_place =
            wire.top < from->nbottoms && from->tops[wire.top] == from->bottoms[wire.top];
        bool keeps_sign = from->i->keeps_sign_only && layer->i->only_masks;
        if (from->i->passes_memory && from->ntops > 1)
            return false;
        if (net->train && (from->i->keeps_top || (in_place && from->i->keeps_top_in_place)) &&
            !keeps_sign)
            return false;
        if (!in_place && !from->i->passes_memory)
            return true;
        wire = net->internals->wires[wire.layer][in_place ? wire.top : 0];
    }
}

/* True if top t, named like bottom t, can be the same blob. */
static bool works_in_place(struct net *net, struct layer *layer, int t)
{
    struct net_wire wire = net->internals->wires[layer->index][t];
    struct layer *before = &net->layers[wire.layer];

    if (layer->i->merges && layer->i->merges(layer, before)) {
        layer->merged = before;
        before->idle = true;
        return true;
    }
    if (layer->i->own_top)
        return false;
    if (net->train && layer->i->wants_own_top && layer->i->wants_own_top(layer))
        return false;
    return may_overwrite(net, layer, t);
}

static int connect_top(struct wiring *wiring, struct layer *layer, int t)
{
    bool automatic = t >= layer->def->ntops;
    const char *name = automatic ? "(automatic)" : layer->def->tops[t];
    int found = automatic ? -1 : find_version(wiring, name);

    /* checked in the definition: only a top in place has an older blob's name */
    assert(found < 0 || (t < layer->nbottoms && layer->bottoms[t] == wiring->versions[found].blob));
    if (found >= 0 && layer->i->no_in_place)
        return error_set("top '%s' is also the bottom; layers of type %s cannot work in place",
                         name, layer->i->type);
    if (found < 0 || !works_in_place(wiring->net, layer, t)) {
        if (!add_blob(wiring, name))
            return -1;
        found = wiring->net->nblobs - 1;
    }
    layer->tops[t] = wiring->versions[found].blob;
    wiring->versions[found].from = (struct net_wire){layer->index, t};
    wiring->versions[found].consumed = false;
    return 0;
}

static int count_blobs(struct layer *layer)
{
    const struct op_count count = layer_tops(layer->i);
    int tops = layer->def->ntops;

    layer->nbottoms = layer->def->nbottoms;
    layer->ntops = layer->i->auto_tops && tops < count.least ? count.least : tops;
    if (op_check_count("bottom", layer->nbottoms, layer_bottoms(layer->i)))
        return -1;
    return op_check_count("top", layer->ntops, count);
}

static int allocate_layer(struct net *net, struct layer *layer)
{
    size_t nbottoms = (size_t)layer->nbottoms, ntops = (size_t)layer->ntops;

    return error_status(
        OWN(&net->internals->owner, layer->bottoms, nbottoms + 1, "a layer") ||
        OWN(&net->internals->owner, layer->tops, ntops + 1, "a layer") ||
        OWN(&net->internals->owner, layer->propagate, nbottoms + 1, "a layer") ||
        OWN(&net->internals->owner, layer->taken, nbottoms + 1, "a layer") ||
        OWN(&net->internals->owner, net->internals->wires[layer->index], nbottoms + 1, "a layer"));
}

/* Adds notices about fields of the layer that have no effect. */
static int notice_unused(const struct layer *layer, const struct layer_env *env)
{
    if (layer->param->n_blobs > 0 &&
        layer_notice(layer, env,
                     "the values in blobs { } are not used: --weights=FILE starts from weights"))
        return -1;
    if (layer->param->transform_param && !layer->i->transforms)
        return layer_notice(layer, env, "transform_param has no effect in a layer of type %s",
                            layer->i->type);
    return 0;
}

static int wire_layer(struct wiring *wiring, struct layer *layer, const struct layer_env *env)
{
    struct net *net = wiring->net;

    layer->i = layer_find(layer->def->type);
    if (!layer->i || count_blobs(layer) || allocate_layer(net, layer))
        return -1;
    for (int b = 0; b < layer->nbottoms; b++)
        connect_bottom(wiring, layer, b);
    for (int t = 0; t < layer->ntops; t++)
        if (connect_top(wiring, layer, t))
            return -1;
    if (notice_unused(layer, env) || layer_setup(layer, env))
        return -1;
    for (int t = 0; t < layer->ntops; t++)
        layer->tops[t]->grad.shape = layer->tops[t]->value.shape;
    net->flops += layer->flops;
    return 0;
}

static int compare_outputs(const void *a, const void *b)
{
    const struct net_output *x = a, *y = b;

    return strcmp(x->blob->name, y->blob->name);
}

/* Collects the unread tops as outputs, except those that were added to a loss. */
static int find_outputs(struct wiring *wiring)
{
    struct net *net = wiring->net;

    if (OWN(&net->internals->owner, net->outputs, net->nblobs + 1, "the outputs"))
        return -1;
    for (int i = 0; i < net->nblobs; i++) {
        struct net_wire from = wiring->versions[i].from;
        if (!wiring->versions[i].consumed && from.top < net->layers[from.layer].def->ntops)
            net->outputs[net->noutputs++] = (struct net_output){.blob = net->blobs[i], .share = 1};
    }
    qsort(net->outputs, (size_t)net->noutputs, sizeof(struct net_output), compare_outputs);
    return 0;
}

static int allocate_net(struct wiring *wiring)
{
    struct net *net = wiring->net;
    size_t nlayers = (size_t)net->def->nlayers, ntops = 0;

    for (size_t i = 0; i < nlayers; i++)
        ntops += (size_t)net->def->layers[i].ntops + 1; /* 1: room for a loss's added top */
    return error_status(
        OWN(&net->internals->owner, net->layers, nlayers + 1, "the layers") ||
        OWN(&net->internals->owner, net->blobs, ntops + 1, "the layers") ||
        OWN(&net->internals->owner, net->internals->wires, nlayers + 1, "the layers") ||
        ALLOC(wiring->versions, ntops + 1, "the layers"));
}

int net_wire_layers(struct net *net, const struct layer_env *env)
{
    struct wiring wiring = {.net = net};
    struct layer_env own = *env;
    int status = error_status(layer_check_types(net->def) || allocate_net(&wiring));

    for (int l = 0; !status && l < net->def->nlayers; l++) {
        struct layer *layer = &net->layers[l];
        layer->def = &net->def->layers[l];
        layer->param = layer->def->param;
        layer->index = l;
        layer->train = net->train;
        net->nlayers = l + 1;
        if (wire_layer(&wiring, layer, &own))
            status = net_layer_error(net, l);
        if (own.first_batch == 0)
            own.first_batch = layer->own_batch;
    }
    if (!status)
        status = find_outputs(&wiring);
    free(wiring.versions);
    return status;
}
