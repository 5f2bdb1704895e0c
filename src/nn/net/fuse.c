/* Fusion: where a layer works in place on the top of the layer before it, and the op of the layer
 * before can do both in one pass over memory, the layer has no op of its own. Or the op of the
 * layer behind does both: a Concat moves each number anyway.
 *
 * Names of layers and blobs stay what they were: both layers write the same blob, and no other
 * layer sees it in between, since each version of a blob has one reader. What is fused with the
 * layer before runs when that one does, so that parameters' gradients are ready no later. What is
 * fused with the one behind leaves its blob as it found it, so that a blob that is to be read after
 * the pass is left alone. The engine says what it can fuse; the pass is the same for all. */
#include "net/net_internal.h"

static bool is_in_place(const struct layer *layer)
{
    return layer->nbottoms == 1 && layer->ntops == 1 && layer->tops[0] == layer->bottoms[0];
}

/* The layer before, whose op might do this layer's work, too; NULL: there is none. */
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

/* Whether the signs of what the layer makes may be lost before its backward. Dropout in place
 * leaves 0 only where the gradient is 0, too. */
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

/* The layer in place on bottom b, whose work the op of `layer` might do, too; NULL: none. */
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

/* last: those that take a ReLU only where no other does. */
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
