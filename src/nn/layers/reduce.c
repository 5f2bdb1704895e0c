/* Layers that reduce or normalise rows of elements: Reduction, ArgMax, MVN. */
#include "layers/layers_internal.h"

#include "util/error.h"

static int reduction_setup(struct layer *layer)
{
    static const enum reduce_operation operations[] = {
        [CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUM] = REDUCE_SUM,
        [CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__ASUM] = REDUCE_ASUM,
        [CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUMSQ] = REDUCE_SUMSQ,
        [CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__MEAN] = REDUCE_MEAN};
    const Caffe__ReductionParameter *p =
        LAYER_PARAM(layer, reduction_param, ReductionParameter, REDUCTION_PARAMETER);
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    int axis = 0;

    if (bottom->naxes > 0 && layer_resolve_axis(layer, "axis", p->axis, &axis))
        return -1;
    layer->flops = (double)shape_elems(bottom);
    layer->u.reduce = (struct reduce_args){operations[p->operation], axis, p->coeff};
    return shape_set(&layer->tops[0]->value.shape, axis, bottom->dim, layer->tops[0]->name);
}

static bool reduction_means(const struct layer *layer)
{
    return layer->u.reduce.operation == REDUCE_MEAN && layer->u.reduce.axis == 0;
}

const struct layer_i layer_reduction = {
    .type = "Reduction",
    .means = reduction_means,
    .no_in_place = true,
    .setup = reduction_setup,
    .op = OP_REDUCE,
};

static int argmax_setup(struct layer *layer)
{
    const Caffe__ArgMaxParameter *p =
        LAYER_PARAM(layer, argmax_param, ArgMaxParameter, ARG_MAX_PARAMETER);
    struct shape shape = layer->bottoms[0]->value.shape;
    int axis = 0;

    if (shape.naxes == 0)
        return error_set("expected a bottom of at least 1 axis, found the scalar '%s'",
                         layer->bottoms[0]->name);
    if (p->has_axis && layer_resolve_axis(layer, "axis", p->axis, &axis))
        return -1;
    layer->flops = (double)shape_elems(&shape);
    layer->u.argmax = (struct argmax_args){p->has_axis, p->axis, (int)p->top_k, p->out_max_val};
    if (p->has_axis) {
        shape.dim[axis] = p->top_k;
    } else {
        shape.naxes = shape.naxes < 3 ? 3 : shape.naxes;
        for (int i = 1; i < shape.naxes; i++)
            shape.dim[i] = 1;
        shape.dim[1] = p->out_max_val ? 2 : 1;
        shape.dim[2] = p->top_k;
    }
    return shape_set(&layer->tops[0]->value.shape, shape.naxes, shape.dim, layer->tops[0]->name);
}

const struct layer_i layer_argmax = {
    .type = "ArgMax",
    .no_in_place = true,
    .no_gradient_to = 1u,
    .no_gradient_from = 1u,
    .setup = argmax_setup,
    .op = OP_ARGMAX,
};

static int mvn_setup(struct layer *layer)
{
    const Caffe__MVNParameter *p = LAYER_PARAM(layer, mvn_param, MVNParameter, MVNPARAMETER);
    const struct shape *bottom = &layer->bottoms[0]->value.shape;

    if (bottom->naxes < 1 || bottom->naxes > 4)
        return error_set("expected a bottom of at most 4 axes (N,C,H,W), found '%s' of %d: %s",
                         layer->bottoms[0]->name, bottom->naxes, shape_text(bottom).text);
    layer->u.mvn = (struct mvn_args){p->normalize_variance, p->across_channels, p->eps};
    layer->flops = 5.0 * (double)shape_elems(bottom);
    return 0;
}

const struct layer_i layer_mvn = {
    .type = "MVN",
    .own_top = true,
    .setup = mvn_setup,
    .op = OP_MVN,
};
