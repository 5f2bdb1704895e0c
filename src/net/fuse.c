/* Fusion: where a layer works in place on the top of the layer before it, and the op of the layer
 * before can do both in one pass over memory, the layer has no op of its own.
 *
 * Names of layers and blobs stay what they were: both layers write the same blob, and no other
 * layer sees it in between, since each version of a blob has one reader. What is fused runs when
 * the first of the two does, so that parameters' gradients are ready no later. The engine says what
 * it can fuse; the pass is the same for all. */
#include "net/net_internal.h"

/* The layer before, whose op might do this layer's work, too; NULL: there is none. */
static struct layer *find_doer(const struct net *net, const struct layer *layer)
{
    struct net_wire wire;
    struct layer *before;

    if (layer->idle || layer->nbottoms != 1 || layer->ntops != 1 ||
        layer->tops[0] != layer->bottoms[0])
        return NULL;
    wire = net->internals->wires[layer->index][0];
    before = &net->layers[wire.layer];
    if (before->idle || before->fused || before->ntops != 1 || before->tops[0] != layer->tops[0])
        return NULL;
    return before;
}

void net_fuse(struct net *net)
{
    for (int l = 0; l < net->nlayers; l++) {
        struct layer *layer = &net->layers[l], *before = find_doer(net, layer);
        if (!before || !layer_takes(before, layer, net->engine))
            continue;
        before->fused = layer;
        layer->idle = true;
    }
}
