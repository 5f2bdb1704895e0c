/* Factors that make losses and accuracies over parts of a batch equal those over the whole batch.
 *
 * A loss that sums over samples lacks those of other parts: its factor is the number of parts, so
 * that the mean over parts is right. A loss that divides by its count of labels (without ignored
 * ones) divides by its own part's count: its factor is own count / mean count. The factor scales
 * value and gradient at the loss's top, so that no operator knows of ranks. */
#include "net/net_internal.h"

#include "util/alloc.h"
#include "util/strbuf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* True if the layer's top grows with the batch. sums: per earlier blob, true if the blob does. */
static bool top_sums(const struct net *net, const struct layer *layer, int top, const bool *sums)
{
    bool any = layer->i->is_data;

    for (int b = 0; b < layer->nbottoms; b++)
        any |= sums[net_blob_number(net, layer->bottoms[b])];
    return any && !layer->i->is_score && !(top == 0 && layer->i->means && layer->i->means(layer));
}

/* Sets the labels whose count weights an output: of scores that ignore a label, and, in a test net,
 * of losses that ignore a label and of scores per class. */
static void find_labels(struct net *net, const struct layer *layer)
{
    float ignored;
    bool divides, ignores = layer_ignores_label(layer, &ignored, &divides);

    if (!net->train && (ignores || layer->i->is_score))
        net_keep(net, layer->bottoms[LOSS_LABELS]);
    for (int o = 0; o < net->noutputs; o++) {
        const struct blob *blob = net->outputs[o].blob;
        bool whole = ignores && divides && blob == layer->tops[0],
             parts = layer->i->is_score && layer->ntops > 1 && blob == layer->tops[1];

        if (net->train ? whole && layer->i->is_score : whole || parts) {
            net->outputs[o].labels = layer->bottoms[LOSS_LABELS];
            net->outputs[o].ignored = ignores ? ignored : NAN;
        }
    }
}

int net_find_sums(struct net *net)
{
    bool *sums;

    if (ALLOC(sums, net->nblobs + 1, "the losses"))
        return -1;
    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];
        for (int t = 0; t < layer->ntops; t++)
            sums[net_blob_number(net, layer->tops[t])] = top_sums(net, layer, t, sums);
        find_labels(net, layer);
    }
    for (int i = 0; i < net->internals->nlosses; i++) {
        struct net_loss *loss = &net->internals->losses[i];
        loss->sums = sums[net_blob_number(net, loss->blob)];
    }
    for (int o = 0; o < net->noutputs; o++)
        net->outputs[o].sums = sums[net_blob_number(net, net->outputs[o].blob)];
    free(sums);
    return 0;
}

static void set_share(struct net *net, struct net_loss *loss, double share)
{
    loss->share = share;
    for (int o = 0; o < net->noutputs; o++)
        if (net->outputs[o].blob == loss->blob)
            net->outputs[o].share = share;
}

void net_share_sums(struct net *net, double share)
{
    for (int i = 0; i < net->internals->nlosses; i++)
        if (net->internals->losses[i].sums)
            set_share(net, &net->internals->losses[i], share);
}

void net_share_means(struct net *net, double share)
{
    for (int i = 0; i < net->internals->nlosses; i++)
        if (!net->internals->losses[i].sums)
            set_share(net, &net->internals->losses[i], share);
    for (int o = 0; o < net->noutputs; o++) /* outputs with labels are weighted by their count */
        if (net->outputs[o].loss_weight == 0 && !net->outputs[o].sums && !net->outputs[o].labels)
            net->outputs[o].share = share;
}

void net_list_sums(const struct net *net, struct strbuf *out)
{
    for (int i = 0; i < net->internals->nlosses; i++)
        if (net->internals->losses[i].sums)
            strbuf_printf(out, "%s%s", out->length ? ", " : "",
                          net->layers[net->internals->losses[i].layer].def->name);
}

/* True if the loss's labels are counted. Without backward, memory of labels may be reused before
 * counting. */
static bool is_counted(const struct net *net, const struct net_loss *loss)
{
    return loss->labels && net->layers[loss->layer].needs_backward;
}

int net_counted_losses(const struct net *net)
{
    int count = 0;

    for (int i = 0; i < net->internals->nlosses; i++)
        count += is_counted(net, &net->internals->losses[i]);
    return count;
}

/* Counts labels other than `ignored`: all of them if classes is 1, else per class. */
static int count_labels(struct net *net, const struct blob *blob, float ignored, size_t classes,
                        double *out)
{
    float *labels = net->internals->scratch;
    size_t n = shape_elems(&blob->value.shape);

    if (net_read_blob(net, blob, labels))
        return -1;
    memset(out, 0, classes * sizeof *out);
    for (size_t e = 0; e < n; e++) {
        float label = truncf(labels[e]), place = classes > 1 ? label : 0;

        if (label != ignored && place >= 0 && place < (float)classes)
            out[(size_t)place]++;
    }
    return 0;
}

int net_count_scored(struct net *net, const struct net_output *output, double *out)
{
    return count_labels(net, output->labels, output->ignored,
                        shape_elems(&output->blob->value.shape), out);
}

int net_read_loss(struct net *net, int number, double *value, double *count)
{
    const struct net_loss *loss = &net->internals->losses[number];

    *value = 0;
    if (net_add_loss(net, loss, value))
        return -1;
    return count && loss->labels ? count_labels(net, loss->labels, loss->ignored, 1, count) : 0;
}

int net_count_labels(struct net *net, double *counts)
{
    for (int i = 0; i < net->internals->nlosses; i++) {
        struct net_loss *loss = &net->internals->losses[i];
        if (!is_counted(net, loss))
            continue;
        if (count_labels(net, loss->labels, loss->ignored, 1, &loss->mine))
            return -1;
        *counts++ = loss->mine;
    }
    return 0;
}

static double at_least_one(double divisor)
{
    return divisor > 1 ? divisor : 1;
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
