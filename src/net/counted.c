/* Losses that divide by how many of their labels count: each rank knows those of its own batch
 * alone, and the mean over ranks of what each divided by its own is not what one rank with all
 * batches divides by them all. What is lacking, one factor for value and gradient, is put where the
 * gradient of the loss begins, at its top: no operator knows of ranks. */
#include "net/net_internal.h"

#include <math.h>

/* A loss that no parameter depends on may have lost its labels by the end of the pass. */
static bool is_counted(const struct net *net, const struct net_loss *loss)
{
    return loss->counted && net->layers[loss->layer].needs_backward;
}

int net_counted_losses(const struct net *net)
{
    int count = 0;

    for (int i = 0; i < net->internals->nlosses; i++)
        count += is_counted(net, &net->internals->losses[i]);
    return count;
}

int net_count_labels(struct net *net, double *counts)
{
    float *labels = net->internals->scratch;

    for (int i = 0; i < net->internals->nlosses; i++) {
        struct net_loss *loss = &net->internals->losses[i];
        const struct blob *blob = net->layers[loss->layer].bottoms[LOSS_LABELS];
        size_t n = shape_elems(&blob->value.shape), count = 0;
        if (!is_counted(net, loss))
            continue;
        if (net_read_blob(net, blob, labels))
            return -1;
        for (size_t e = 0; e < n; e++)
            count += truncf(labels[e]) != (float)loss->ignored;
        *counts++ = loss->mine = (double)count;
    }
    return 0;
}

static double at_least_one(double divisor)
{
    return divisor > 1 ? divisor : 1;
}

static void set_share(struct net *net, struct net_loss *loss, double share)
{
    loss->share = share;
    for (int o = 0; o < net->noutputs; o++)
        if (net->outputs[o].blob == net->layers[loss->layer].tops[loss->top])
            net->outputs[o].share = share;
}

int net_share_losses(struct net *net, int nranks, const double *counts, double *sum)
{
    for (int i = 0; i < net->internals->nlosses; i++) {
        struct net_loss *loss = &net->internals->losses[i];
        if (is_counted(net, loss))
            set_share(net, loss, nranks * at_least_one(loss->mine) / at_least_one(*counts++));
    }
    return net_add_losses(net, sum);
}

void net_scale_sums(struct net *net, double factor)
{
    for (int i = 0; i < net->internals->nlosses; i++) {
        struct net_loss *loss = &net->internals->losses[i];
        const struct layer *layer = &net->layers[loss->layer];
        if (layer->i->normalizes && layer_loss_normalization(layer) == LOSS_NONE)
            set_share(net, loss, factor);
    }
}
