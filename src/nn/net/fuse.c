/* Fusion: the op of one layer also does the work of an in-place layer before or behind it, in one
 * pass over memory. The in-place layer then has no op. A Concat takes ReLUs before it, as it moves
 * each number anyway.
 *
 * Names of layers and blobs do not change: both layers write the same blob, and each version of a
 * blob has one reader. A layer fused with the op before runs together with that op, so gradients
 * are ready no later. A Concat does not write its bottoms, so it takes no ReLU on a blob that is
 * read after the pass. The engine tells what it can fuse. */
#include "net/net_internal.h"

static bool is_in_place(const struct layer *layer)
{
    return layer->nbottoms == 1 && layer->ntops == 1 && layer->tops[0] == layer->bottoms[0];
}

/* Returns the previous layer if its op might do this in-place layer's work; else NULL. */
static struct layer *find_doer(const struct net *net, const struct layer *layer)
{
    struct net_wire wire;
    struct layer *before;

    if (layer->idle || !is_in_place(layer))
        return NULL;
    wire = net->internals->wires[layer->index][0];
    before = &net->layers[wire.layer];
    if (before->idle || before->fused || before->ntops != 1 || before->tops[0] != layer->tops[0])
        return NULL;
    return before;
}

/* True if the signs of the top's values may be lost before the layer's backward. Dropout in place
 * sets to 0 only where the gradient is 0, too. */
static bool is_overwritten(const struct net *net, const struct layer *maker)
{
    for (int l = maker->index + 1; net->train && l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];
        for (int b = 0; b < layer->nbottoms; b++) {
            bool in_place = b < layer->ntops && layer->tops[b] == layer->bottoms[b];
            if (layer->bottoms[b] != maker->tops[0])
                continue;
            if (in_place ? !layer->i->only_masks : layer->i->passes_memory && layer->ntops == 1)
                return true;
        }
    }
    return false;
}

static bool is_loss(const struct net *net, const struct blob *blob)
{
    for (int i = 0; i < net->internals->nlosses; i++)
        if (net->internals->losses[i].blob == blob)
            return true;
    return false;
}

/* Returns the in-place layer on bottom b if `layer`'s op might do its work; else NULL. */
static struct layer *find_taken(const struct net *net, const struct layer *layer, int b)
{
    struct net_wire wire = net->internals->wires[layer->index][b];
    struct layer *before = &net->layers[wire.layer];
    const struct blob *blob = layer->bottoms[b];

    if (before->idle || !is_in_place(before) || blob->kept || is_loss(net, blob))
        return NULL;
    return before;
}

static void take_before(struct net *net, struct layer *layer)
{
    bool overwritten = layer->i->takes_relus_before && is_overwritten(net, layer);

    for (int b = 0; b < layer->nbottoms && !overwritten; b++) {
        struct layer *before = find_taken(net, layer, b);
        if (!before || !layer_takes_before(layer, before, net->engine))
            continue;
        layer->taken[b] = before;
        before->idle = true;
    }
}

/* Fuses in-place layers with ops before them. last: only with ops that have takes_relu_last; else
 * only with the rest. */
static void fuse_behind(struct net *net, bool last)
{
    for (int l = 0; l < net->nlayers; l++) {
        struct layer *layer = &net->layers[l], *before = find_doer(net, layer);
        if (!before || before->i->takes_relu_last != last ||
            !layer_takes(before, layer, net->engine))
            continue;
        before->fused = layer;
        layer->idle = true;
    }
}

void net_fuse(struct net *net)
{
    fuse_behind(net, false);
    for (int l = 0; l < net->nlayers; l++)
        take_before(net, &net->layers[l]);
    fuse_behind(net, true);
}
