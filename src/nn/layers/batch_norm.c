/* BatchNorm: normalises each channel by its batch's mean and variance, or by the running ones in
 * its three parameters: mean sum, variance sum, and the weight of both. These parameters are
 * measured, not learnt. */
#include "layers/layers_internal.h"

#include "util/error.h"

static int batch_norm_declare_statistic(struct layer *layer, int64_t elems)
{
    const Caffe__ParamSpec *spec =
        (size_t)layer->nparams < layer->param->n_param ? layer->param->param[layer->nparams] : NULL;

    if (spec && spec->lr_mult != 0)
        return error_set("parameter %d has lr_mult %g; expected 0: batch statistics are not learnt",
                         layer->nparams, (double)spec->lr_mult);
    if (layer_declare_param(layer, "batch statistics", 1, &elems, NULL))
        return -1;
    layer->param_defs[layer->nparams - 1].statistic = true;
    return 0;
}

static int batch_norm_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__BatchNormParameter *p =
        LAYER_PARAM(layer, batch_norm_param, BatchNormParameter, BATCH_NORM_PARAMETER);
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    int64_t channels = bottom->naxes > 1 ? bottom->dim[1] : 1;

    if (bottom->naxes == 0)
        return error_set("expected a bottom of at least 1 axis, found the scalar '%s'",
                         layer->bottoms[0]->name);
    if (!(p->eps >= 0))
        return error_set("eps is %g; expected at least 0", (double)p->eps);
    if (!(p->moving_average_fraction >= 0 && p->moving_average_fraction <= 1))
        return error_set("moving_average_fraction is %g; expected 0 to 1",
                         (double)p->moving_average_fraction);
    if (batch_norm_declare_statistic(layer, channels) ||
        batch_norm_declare_statistic(layer, channels) || batch_norm_declare_statistic(layer, 1))
        return -1;
    layer->u.batch_norm = (struct batch_norm_args){
        .global_stats = p->has_use_global_stats ? p->use_global_stats : !layer->train,
        .fraction = p->moving_average_fraction,
        .eps = p->eps,
    };
    layer->joins = env->ranks && !layer->u.batch_norm.global_stats;
    if (layer->joins)
        layer->u.batch_norm.ranks = env->ranks;
    layer->flops = 5.0 * (double)shape_elems(bottom);
    if (layer->train && p->has_use_global_stats && p->use_global_stats)
        return layer_notice(layer, env,
                            "use_global_stats is true in training: the statistics come from the "
                            "weights given; without weights, means and variances are 0");
    return 0;
}

const struct layer_i layer_batch_norm = {
    .type = "BatchNorm",
    .wants_own_top = layer_always, /* a Scale in place on the top can still be merged */
    .takes_relu = layer_always,
    .setup_in = batch_norm_setup,
    .op = OP_BATCH_NORM,
};
