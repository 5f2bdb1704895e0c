/* Layers that look at rows of elements: Reduction, ArgMax, MVN. */
#include "layers/layers_internal.h"

#include "util/error.h"

#include <inttypes.h>

static Caffe__ReductionParameter reduction_param(const struct layer *layer)
{
    const Caffe__ReductionParameter defaults = CAFFE__REDUCTION_PARAMETER__INIT;

    return layer->param->reduction_param ? *layer->param->reduction_param : defaults;
}

static int reduction_setup(struct layer *layer, const struct layer_env *env)
{
    Caffe__ReductionParameter p = reduction_param(layer);
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    int axis = 0;

    (void)env;
    if (bottom->naxes > 0 && layer_resolve_axis(layer, "axis", p.axis, &axis))
        return -1;
    layer->flops = (double)shape_elems(bottom);
    return shape_set(&layer->tops[0]->value.shape, axis, bottom->dim, layer->tops[0]->name);
}

static int reduction_arguments(const struct layer *layer, struct op_args *args)
{
    Caffe__ReductionParameter p = reduction_param(layer);
    struct reduce_args *reduce = &args->u.reduce;

    *reduce = (struct reduce_args){REDUCE_SUM, layer->tops[0]->value.shape.naxes, p.coeff};
    if (p.operation == CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__ASUM)
        reduce->operation = REDUCE_ASUM;
    if (p.operation == CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUMSQ)
        reduce->operation = REDUCE_SUMSQ;
    if (p.operation == CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__MEAN)
        reduce->operation = REDUCE_MEAN;
    return 0;
}

const struct layer_i layer_reduction = {
    .type = "Reduction",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .no_in_place = true,
    .setup = reduction_setup,
    .op = OP_REDUCE,
    .arguments = reduction_arguments,
};

static Caffe__ArgMaxParameter argmax_param(const struct layer *layer)
{
    const Caffe__ArgMaxParameter defaults = CAFFE__ARG_MAX_PARAMETER__INIT;

    return layer->param->argmax_param ? *layer->param->argmax_param : defaults;
}

static int argmax_setup(struct layer *layer, const struct layer_env *env)
{
    Caffe__ArgMaxParameter p = argmax_param(layer);
    struct shape shape = layer->bottoms[0]->value.shape;
    int64_t places;
    int axis = 0;

    (void)env;
    if (shape.naxes == 0)
        return error_set("expected a bottom of at least 1 axis, found the scalar '%s'",
                         layer->bottoms[0]->name);
    if (p.has_axis && layer_resolve_axis(layer, "axis", p.axis, &axis))
        return -1;
    places = p.has_axis ? shape.dim[axis] : (int64_t)shape_count(&shape, 1, shape.naxes);
    if (p.top_k < 1 || (int64_t)p.top_k > places)
        return error_set("top_k is %" PRIu32 "; expected 1 to the number of values, %" PRId64,
                         p.top_k, places);
    layer->flops = (double)shape_elems(&shape);
    if (p.has_axis) {
        shape.dim[axis] = p.top_k;
    } else {
        shape.naxes = shape.naxes < 3 ? 3 : shape.naxes;
        for (int i = 1; i < shape.naxes; i++)
            shape.dim[i] = 1;
        shape.dim[1] = p.out_max_val ? 2 : 1;
        shape.dim[2] = p.top_k;
    }
    return shape_set(&layer->tops[0]->value.shape, shape.naxes, shape.dim, layer->tops[0]->name);
}

static int argmax_arguments(const struct layer *layer, struct op_args *args)
{
    Caffe__ArgMaxParameter p = argmax_param(layer);

    args->u.argmax = (struct argmax_args){p.has_axis, p.axis, (int)p.top_k, p.out_max_val};
    return 0;
}

const struct layer_i layer_argmax = {
    .type = "ArgMax",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .no_in_place = true,
    .no_gradient_to = 1u,
    .no_gradient_from = 1u,
    .setup = argmax_setup,
    .op = OP_ARGMAX,
    .arguments = argmax_arguments,
};

static Caffe__MVNParameter mvn_param(const struct layer *layer)
{
    const Caffe__MVNParameter defaults = CAFFE__MVNPARAMETER__INIT;

    return layer->param->mvn_param ? *layer->param->mvn_param : defaults;
}

static int mvn_setup(struct layer *layer, const struct layer_env *env)
{
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    char found[SHAPE_TEXT_BYTES];

    (void)env;
    if (bottom->naxes < 1 || bottom->naxes > 4)
        return error_set("expected a bottom of at most 4 axes (N,C,H,W), found '%s' of %d: %s",
                         layer->bottoms[0]->name, bottom->naxes,
                         shape_text(bottom, found, sizeof(found)));
    layer_tops_like_bottom(layer);
    layer->flops = 5.0 * (double)shape_elems(bottom);
    return 0;
}

static int mvn_arguments(const struct layer *layer, struct op_args *args)
{
    Caffe__MVNParameter p = mvn_param(layer);

    args->u.mvn = (struct mvn_args){p.normalize_variance, p.across_channels, p.eps};
    return 0;
}

const struct layer_i layer_mvn = {
    .type = "MVN",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .own_top = true,
    .setup = mvn_setup,
    .op = OP_MVN,
    .arguments = mvn_arguments,
};
