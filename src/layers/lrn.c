/* LRN, local response normalisation: x times (k + alpha/n * sum of n squares)^-beta, the sum over n
 * neighbouring channels, or over an n x n window of one channel (then alpha/n^2, and k is 1). */
#include "layers/layers_internal.h"

#include "util/error.h"

static struct lrn_args lrn_args(const struct layer *layer)
{
    const Caffe__LRNParameter defaults = CAFFE__LRNPARAMETER__INIT;
    const Caffe__LRNParameter *p = layer->param->lrn_param ? layer->param->lrn_param : &defaults;

    return (struct lrn_args){
        .local_size = p->local_size <= INT32_MAX ? (int)p->local_size : -1,
        .alpha = p->alpha,
        .beta = p->beta,
        .k = p->k,
        .within_channel = p->norm_region == CAFFE__LRNPARAMETER__NORM_REGION__WITHIN_CHANNEL,
    };
}

static int lrn_setup(struct layer *layer, const struct layer_env *env)
{
    struct lrn_args args = lrn_args(layer);

    (void)env;
    if (layer_expect_axes(layer, 0, 4, "N,C,H,W"))
        return -1;
    if (args.local_size < 1 || args.local_size % 2 == 0)
        return error_set("local_size is %d; only odd sizes have a middle", args.local_size);
    layer_tops_like_bottom(layer);
    double window =
        args.within_channel ? (double)args.local_size * args.local_size : args.local_size;
    /* squares and their sum, then scale, shift, power, product */
    layer->flops = (2 * window + 4) * (double)shape_elems(&layer->bottoms[0]->value.shape);
    return 0;
}

static int lrn_arguments(const struct layer *layer, struct op_args *args)
{
    args->u.lrn = lrn_args(layer);
    return 0;
}

const struct layer_i layer_lrn = {
    .type = "LRN",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .own_top = true,
    .setup = lrn_setup,
    .op = OP_LRN,
    .arguments = lrn_arguments,
};
