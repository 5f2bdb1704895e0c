/* BatchNorm: normalises each channel by its batch's mean and variance, or by the running ones that
 * its three parameters hold. Those are measured, not learnt: mean sum, variance sum, and the weight
 * of both.
 */
#include "layers/layers_internal.h"

#include "util/error.h"

static Caffe__BatchNormParameter batch_norm_param(const struct layer *layer)
{
    const Caffe__BatchNormParameter defaults = CAFFE__BATCH_NORM_PARAMETER__INIT;

    return layer->param->batch_norm_param ? *layer->param->batch_norm_param : defaults;
}

struct batch_norm_args layer_batch_norm_args(const struct layer *layer)
{
    Caffe__BatchNormParameter p = batch_norm_param(layer);

    return (struct batch_norm_args){
        .global_stats = p.has_use_global_stats ? p.use_global_stats : !layer->train,
        .fraction = p.moving_average_fraction,
        .eps = p.eps,
        .relu = layer->fused != NULL,
    };
}

static int batch_norm_declare_statistic(struct layer *layer, int64_t elems)
{
    const Caffe__ParamSpec *spec =
        (size_t)layer->nparams < layer->param->n_param ? layer->param->param[layer->nparams] : NULL;
    struct shape shape;

    if (spec && spec->lr_mult != 0)
        return error_set("parameter %d has lr_mult %g; expected 0: batch statistics are not learnt",
                         layer->nparams, (double)spec->lr_mult);
    if (shape_set(&shape, 1, &elems, "batch statistics") ||
        layer_declare_param(layer, &shape, NULL))
        return -1;
    layer->param_defs[layer->nparams - 1].statistic = true;
    return 0;
}

static int batch_norm_setup(struct layer *layer, const struct layer_env *env)
{
    Caffe__BatchNormParameter p = batch_norm_param(layer);
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    int64_t channels = bottom->naxes > 1 ? bottom->dim[1] : 1;

    if (bottom->naxes == 0)
        return error_set("expected a bottom of at least 1 axis, found the scalar '%s'",
                         layer->bottoms[0]->name);
    if (!(p.eps >= 0))
        return error_set("eps is %g; expected at least 0", (double)p.eps);
    if (!(p.moving_average_fraction >= 0 && p.moving_average_fraction <= 1))
        return error_set("moving_average_fraction is %g; expected 0 to 1",
                         (double)p.moving_average_fraction);
    if (batch_norm_declare_statistic(layer, channels) ||
        batch_norm_declare_statistic(layer, channels) || batch_norm_declare_statistic(layer, 1))
        return -1;
    layer_tops_like_bottom(layer);
    layer->flops = 5.0 * (double)shape_elems(bottom);
    if (layer->train && p.has_use_global_stats && p.use_global_stats)
        return layer_notice(layer, env,
                            "use_global_stats: true in training: the statistics come from weights "
                            "alone; without any, all is taken to have mean and variance 0");
    return 0;
}

/* Backward reads the bottom; and the op of a Scale behind works for both. */
static bool batch_norm_wants_own_top(const struct layer *layer)
{
    (void)layer;
    return true;
}

static int batch_norm_arguments(const struct layer *layer, struct op_args *args)
{
    args->u.batch_norm = layer_batch_norm_args(layer);
    return 0;
}

static enum op_kind batch_norm_takes_relu(const struct layer *layer)
{
    (void)layer;
    return OP_BATCH_NORM;
}

const struct layer_i layer_batch_norm = {
    .type = "BatchNorm",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .wants_own_top = batch_norm_wants_own_top,
    .takes_relu = batch_norm_takes_relu,
    .setup = batch_norm_setup,
    .op = OP_BATCH_NORM,
    .arguments = batch_norm_arguments,
};
