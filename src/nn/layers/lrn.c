/* LRN, local response normalisation: x times (k + alpha/n * sum of n squares)^-beta. The sum is
 * over n neighbouring channels, or an n x n window of one channel (then alpha/n^2, and k is 1). */
#include "layers/layers_internal.h"

static int lrn_setup(struct layer *layer)
{
    const Caffe__LRNParameter *p = LAYER_PARAM(layer, lrn_param, LRNParameter, LRNPARAMETER);
    const struct lrn_args args = {
        .local_size = p->local_size <= INT32_MAX ? (int)p->local_size : -1,
        .alpha = p->alpha,
        .beta = p->beta,
        .k = p->k,
        .within_channel = p->norm_region == CAFFE__LRNPARAMETER__NORM_REGION__WITHIN_CHANNEL,
    };
    double window =
        args.within_channel ? (double)args.local_size * args.local_size : args.local_size;

    if (layer_expect_axes(layer, 0, 4, "N,C,H,W"))
        return -1;
    layer->u.lrn = args;
    /* squares and sum, then scale, shift, power, product */
    layer->flops = (2 * window + 4) * (double)shape_elems(&layer->bottoms[0]->value.shape);
    return 0;
}

const struct layer_i layer_lrn = {
    .type = "LRN",
    .own_top = true,
    .setup = lrn_setup,
    .op = OP_LRN,
};
