/* Scale and Bias: a factor or a summand with the shape of some consecutive axes of the first
 * bottom, learnt, or given as a second bottom. A Scale per channel directly behind a BatchNorm, in
 * place, runs as one op with it. */
#include "layers/layers_internal.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

struct scale {
    struct scale_args args;
    struct param *params[5]; /* of the op that does a BatchNorm's work too */
    Caffe__FillerParameter one;
};

/* What both messages say. */
struct factor_field {
    int axis, num_axes;
    const Caffe__FillerParameter *filler;
};

/* The factor is a parameter: which axes. */
static int scale_learnt_axes(const struct layer *layer, const struct factor_field *f,
                             struct scale_args *args)
{
    const struct shape *x = &layer->bottoms[0]->value.shape;
    char found[SHAPE_TEXT_BYTES];

    args->axis = 0;
    if (f->num_axes == 0)
        return 0;
    if (f->num_axes < -1)
        return error_set("num_axes is %d; expected -1 (to the end) or more", f->num_axes);
    if (layer_resolve_axis(layer, "axis", f->axis, &args->axis))
        return -1;
    args->naxes = f->num_axes == -1 ? x->naxes - args->axis : f->num_axes;
    if (args->axis + args->naxes > x->naxes)
        return error_set("axis %d and num_axes %d go beyond bottom '%s' of %d axes: %s", f->axis,
                         f->num_axes, layer->bottoms[0]->name, x->naxes,
                         shape_text(x, found, sizeof(found)));
    return 0;
}

/* The factor is bottom 1: its shape says how many axes. */
static int scale_given_axes(const struct layer *layer, const struct factor_field *f,
                            struct scale_args *args)
{
    const struct shape *x = &layer->bottoms[0]->value.shape;
    const struct shape *factor = &layer->bottoms[1]->value.shape;
    char expected[SHAPE_TEXT_BYTES], found[SHAPE_TEXT_BYTES];

    args->from_bottom = true;
    args->naxes = factor->naxes;
    args->axis = 0;
    if (factor->naxes > 0 && layer_resolve_axis(layer, "axis", f->axis, &args->axis))
        return -1;
    for (int i = 0; i < factor->naxes; i++)
        if (args->axis + i >= x->naxes || factor->dim[i] != x->dim[args->axis + i])
            return error_set("'%s' of shape %s does not fit axes %d and following of '%s': %s",
                             layer->bottoms[1]->name, shape_text(factor, found, sizeof(found)),
                             args->axis, layer->bottoms[0]->name,
                             shape_text(x, expected, sizeof(expected)));
    return 0;
}

static int scale_declare(struct layer *layer, const struct scale_args *args,
                         const Caffe__FillerParameter *filler)
{
    struct shape shape;

    if (shape_set(&shape, args->naxes, layer->bottoms[0]->value.shape.dim + args->axis, "factor"))
        return -1;
    return layer_declare_param(layer, &shape, filler);
}

static int scale_resolve(struct layer *layer, const struct factor_field *f, struct scale **state)
{
    struct scale_args *args;

    layer->state = *state = calloc(1, sizeof(**state));
    if (!*state)
        return error_memory(sizeof(**state), "a scale layer");
    args = &(*state)->args;
    layer_tops_like_bottom(layer);
    layer->flops = (double)shape_elems(&layer->bottoms[0]->value.shape);
    return layer->nbottoms == 2 ? scale_given_axes(layer, f, args)
                                : scale_learnt_axes(layer, f, args);
}

static Caffe__ScaleParameter scale_param(const struct layer *layer)
{
    const Caffe__ScaleParameter defaults = CAFFE__SCALE_PARAMETER__INIT;

    return layer->param->scale_param ? *layer->param->scale_param : defaults;
}

static int scale_setup(struct layer *layer, const struct layer_env *env)
{
    Caffe__ScaleParameter p = scale_param(layer);
    const struct factor_field f = {p.axis, p.num_axes, p.filler};
    struct scale *state;

    (void)env;
    if (scale_resolve(layer, &f, &state))
        return -1;
    state->args.scale = true;
    caffe__filler_parameter__init(&state->one);
    state->one.value = 1;
    state->args.bias = p.bias_term;
    if (p.bias_term)
        layer->flops *= 2;
    if (!state->args.from_bottom &&
        scale_declare(layer, &state->args, p.filler ? p.filler : &state->one))
        return -1;
    return p.bias_term ? scale_declare(layer, &state->args, p.bias_filler) : 0;
}

static int bias_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__BiasParameter defaults = CAFFE__BIAS_PARAMETER__INIT;
    const Caffe__BiasParameter *p = layer->param->bias_param ? layer->param->bias_param : &defaults;
    const struct factor_field f = {p->axis, p->num_axes, p->filler};
    struct scale *state;

    (void)env;
    if (scale_resolve(layer, &f, &state))
        return -1;
    state->args.bias = true;
    return state->args.from_bottom ? 0 : scale_declare(layer, &state->args, p->filler);
}

static bool scale_wants_own_top(const struct layer *layer)
{
    (void)layer;
    return true;
}

static bool scale_merges(const struct layer *layer, const struct layer *before)
{
    Caffe__ScaleParameter p = scale_param(layer);
    int naxes = layer->bottoms[0]->value.shape.naxes;

    return before->i == &layer_batch_norm && layer->nbottoms == 1 && naxes > 1 && p.num_axes == 1 &&
           (p.axis == 1 || p.axis == 1 - naxes);
}

/* One op from the BatchNorm's bottom to this layer's top. */
static int scale_merged_arguments(const struct layer *layer, struct op_args *args)
{
    struct scale *state = layer->state;
    const struct layer *norm = layer->merged;

    memcpy(state->params, norm->params, 3 * sizeof(struct param *));
    memcpy(state->params + 3, layer->params, (size_t)layer->nparams * sizeof(struct param *));
    args->kind = OP_BATCH_NORM;
    args->with = norm->def->name;
    args->bottoms = norm->bottoms;
    args->propagate = norm->propagate;
    args->params = state->params;
    args->nparams = 3 + layer->nparams;
    args->u.batch_norm = layer_batch_norm_args(norm);
    args->u.batch_norm.scale = true;
    args->u.batch_norm.bias = state->args.bias;
    args->u.batch_norm.relu = layer->fused != NULL;
    return 0;
}

static int scale_arguments(const struct layer *layer, struct op_args *args)
{
    const struct scale *state = layer->state;

    if (layer->merged)
        return scale_merged_arguments(layer, args);
    args->u.scale = state->args;
    return 0;
}

/* With a BatchNorm's work alone. */
static enum op_kind scale_takes_relu(const struct layer *layer)
{
    return layer->merged ? OP_BATCH_NORM : OP_KINDS;
}

static void scale_destroy(struct layer *layer)
{
    free(layer->state);
}

const struct layer_i layer_scale = {
    .type = "Scale",
    .min_bottoms = 1,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 1,
    .wants_own_top = scale_wants_own_top,
    .merges = scale_merges,
    .takes_relu = scale_takes_relu,
    .setup = scale_setup,
    .op = OP_SCALE,
    .arguments = scale_arguments,
    .destroy = scale_destroy,
};

const struct layer_i layer_bias = {
    .type = "Bias",
    .min_bottoms = 1,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 1,
    .wants_own_top = scale_wants_own_top,
    .setup = bias_setup,
    .op = OP_SCALE,
    .arguments = scale_arguments,
    .destroy = scale_destroy,
};

static int prelu_setup(struct layer *layer, const struct layer_env *env)
{
    Caffe__FillerParameter *quarter;
    const Caffe__PReLUParameter *p = layer->param->prelu_param;
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    bool shared = p && p->channel_shared;
    char found[SHAPE_TEXT_BYTES];
    struct shape shape;

    (void)env;
    if (bottom->naxes < 2)
        return error_set("expected a bottom of at least 2 axes (N,C), found '%s' of %d: %s",
                         layer->bottoms[0]->name, bottom->naxes,
                         shape_text(bottom, found, sizeof(found)));
    layer->state = quarter = malloc(sizeof(*quarter));
    if (!quarter)
        return error_memory(sizeof(*quarter), "a PReLU layer");
    caffe__filler_parameter__init(quarter);
    quarter->value = 0.25f;
    layer_tops_like_bottom(layer);
    layer->flops = (double)shape_elems(bottom);
    if (shape_set(&shape, shared ? 0 : 1, &bottom->dim[1], "slope"))
        return -1;
    return layer_declare_param(layer, &shape, p && p->filler ? p->filler : quarter);
}

static int prelu_arguments(const struct layer *layer, struct op_args *args)
{
    const Caffe__PReLUParameter *p = layer->param->prelu_param;

    args->u.prelu.shared = p && p->channel_shared;
    return 0;
}

static bool prelu_wants_own_top(const struct layer *layer)
{
    (void)layer;
    return true;
}

static void prelu_destroy(struct layer *layer)
{
    free(layer->state);
}

const struct layer_i layer_prelu = {
    .type = "PReLU",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .wants_own_top = prelu_wants_own_top,
    .setup = prelu_setup,
    .op = OP_PRELU,
    .arguments = prelu_arguments,
    .destroy = prelu_destroy,
};
