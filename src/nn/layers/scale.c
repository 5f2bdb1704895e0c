/* Scale and Bias: a factor or a summand with the shape of some consecutive axes of the first
 * bottom, learnt or given as a second bottom. A Scale per channel in place on a BatchNorm's top is
 * merged with the BatchNorm into one op. */
#include "layers/layers_internal.h"

#include "util/alloc.h"
#include "util/units.h"

#include <stdlib.h>
#include <string.h>

struct scale {
    struct param *params[5]; /* merged op: three of the BatchNorm, two of the Scale */
};

/* Fields common to scale_param and bias_param. */
struct factor_field {
    int axis, num_axes;
};

/* Finds the axes of a factor that is a parameter. */
static int scale_learnt_axes(const struct layer *layer, const struct factor_field *f,
                             struct scale_args *args)
{
    const struct shape *x = &layer->bottoms[0]->value.shape;

    args->axis = 0;
    if (f->num_axes == 0)
        return 0;
    if (f->num_axes < -1)
        return error_set("num_axes is %d; expected -1 (to the end) or more", f->num_axes);
    if (layer_resolve_axis(layer, "axis", f->axis, &args->axis))
        return -1;
    args->naxes = f->num_axes == -1 ? x->naxes - args->axis : f->num_axes;
    if (args->axis + args->naxes > x->naxes)
        return error_set("axis %d and num_axes %d go beyond bottom '%s' of %s: %s", f->axis,
                         f->num_axes, layer->bottoms[0]->name, units_count(x->naxes, "axis").text,
                         shape_text(x).text);
    return 0;
}

/* Finds the axes of a factor that is bottom 1, from that bottom's shape. */
static int scale_given_axes(const struct layer *layer, const struct factor_field *f,
                            struct scale_args *args)
{
    const struct shape *x = &layer->bottoms[0]->value.shape;
    const struct shape *factor = &layer->bottoms[1]->value.shape;

    args->from_bottom = true;
    args->naxes = factor->naxes;
    args->axis = 0;
    if (factor->naxes > 0 && layer_resolve_axis(layer, "axis", f->axis, &args->axis))
        return -1;
    for (int i = 0; i < factor->naxes; i++)
        if (args->axis + i >= x->naxes || factor->dim[i] != x->dim[args->axis + i])
            return error_set("'%s' of shape %s does not fit axes %d and following of '%s': %s",
                             layer->bottoms[1]->name, shape_text(factor).text, args->axis,
                             layer->bottoms[0]->name, shape_text(x).text);
    return 0;
}

static int scale_declare(struct layer *layer, const Caffe__FillerParameter *filler)
{
    const struct scale_args *args = &layer->u.scale;

    return layer_declare_param(layer, "factor", args->naxes,
                               layer->bottoms[0]->value.shape.dim + args->axis, filler);
}

static int scale_resolve(struct layer *layer, const struct factor_field *f)
{
    layer->flops = (double)shape_elems(&layer->bottoms[0]->value.shape);
    return layer->nbottoms == 2 ? scale_given_axes(layer, f, &layer->u.scale)
                                : scale_learnt_axes(layer, f, &layer->u.scale);
}

static const Caffe__ScaleParameter scale_defaults = CAFFE__SCALE_PARAMETER__INIT;

static const Caffe__ScaleParameter *scale_param(const struct layer *layer)
{
    return layer->param->scale_param ? layer->param->scale_param : &scale_defaults;
}

static int scale_setup(struct layer *layer)
{
    const Caffe__ScaleParameter *p = scale_param(layer);
    const struct factor_field f = {p->axis, p->num_axes};
    struct scale *state;

    if (ALLOC(state, 1, "a scale layer"))
        return -1;
    layer->state = state;
    if (scale_resolve(layer, &f))
        return -1;
    layer->u.scale.scale = true;
    layer->u.scale.bias = p->bias_term;
    if (p->bias_term)
        layer->flops *= 2;
    layer->param_defs[0].constant = layer->u.scale.from_bottom ? 0 : 1;
    if (!layer->u.scale.from_bottom && scale_declare(layer, p->filler))
        return -1;
    return p->bias_term ? scale_declare(layer, p->bias_filler) : 0;
}

static int bias_setup(struct layer *layer)
{
    const Caffe__BiasParameter *p = LAYER_PARAM(layer, bias_param, BiasParameter, BIAS_PARAMETER);
    const struct factor_field f = {p->axis, p->num_axes};

    if (scale_resolve(layer, &f))
        return -1;
    layer->u.scale.bias = true;
    return layer->u.scale.from_bottom ? 0 : scale_declare(layer, p->filler);
}

static bool scale_merges(const struct layer *layer, const struct layer *before)
{
    const Caffe__ScaleParameter *p = scale_param(layer);
    int naxes = layer->bottoms[0]->value.shape.naxes;

    return before->i == &layer_batch_norm && layer->nbottoms == 1 && naxes > 1 &&
           p->num_axes == 1 && (p->axis == 1 || p->axis == 1 - naxes);
}

/* Sets the arguments of a merged op: from the BatchNorm's bottom to the Scale's top. */
static void scale_arguments(const struct layer *layer, struct op_args *args)
{
    struct scale *state = layer->state;
    const struct layer *norm = layer->merged;

    if (!norm)
        return;
    memcpy(state->params, norm->params, 3 * sizeof(struct param *));
    memcpy(state->params + 3, layer->params, (size_t)layer->nparams * sizeof(struct param *));
    args->kind = OP_BATCH_NORM;
    args->with = norm->def->name;
    args->bottoms = norm->bottoms;
    args->propagate = norm->propagate;
    args->params = state->params;
    args->nparams = 3 + layer->nparams;
    args->u.batch_norm = norm->u.batch_norm;
    args->u.batch_norm.scale = true;
    args->u.batch_norm.bias = layer->u.scale.bias;
}

/* True if the Scale is merged with a BatchNorm. */
static bool scale_takes_relu(const struct layer *layer)
{
    return layer->merged;
}

const struct layer_i layer_scale = {
    .type = "Scale",
    .wants_own_top = layer_always,
    .merges = scale_merges,
    .takes_relu = scale_takes_relu,
    .setup = scale_setup,
    .op = OP_SCALE,
    .arguments = scale_arguments,
};

const struct layer_i layer_bias = {
    .type = "Bias",
    .wants_own_top = layer_always,
    .setup = bias_setup,
    .op = OP_SCALE,
};

static int prelu_setup(struct layer *layer)
{
    const Caffe__PReLUParameter *p = layer->param->prelu_param;
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    bool shared = p && p->channel_shared;

    layer->u.prelu.shared = shared;
    layer->param_defs[0].constant = 0.25f;
    layer->flops = (double)shape_elems(bottom);
    return layer_declare_param(layer, "slope", shared ? 0 : 1, &bottom->dim[1],
                               p ? p->filler : NULL);
}

const struct layer_i layer_prelu = {
    .type = "PReLU",
    .wants_own_top = layer_always,
    .setup = prelu_setup,
    .op = OP_PRELU,
};
