/* Layers that join, copy or re-shape blobs: Concat, Split, Flatten, and Eltwise. */
#include "layers/layers_internal.h"

#include "util/error.h"

#include <inttypes.h>

static int concat_axis(const struct layer *layer, int *axis)
{
    const Caffe__ConcatParameter *p = layer->param->concat_param;

    if (p && p->has_axis && p->has_concat_dim)
        return error_set("axis %d and the old concat_dim %" PRIu32 " are both given; expected one",
                         p->axis, p->concat_dim);
    if (p && p->has_concat_dim) {
        if (p->concat_dim >= SHAPE_MAX_AXES)
            return error_set("concat_dim %" PRIu32 " is out of range", p->concat_dim);
        return layer_resolve_axis(layer, "concat_dim", (int)p->concat_dim, axis);
    }
    return layer_resolve_axis(layer, "concat axis", p ? p->axis : 1, axis);
}

static bool fits(const struct shape *a, const struct shape *b, int axis)
{
    if (a->naxes != b->naxes)
        return false;
    for (int i = 0; i < a->naxes; i++)
        if (i != axis && a->dim[i] != b->dim[i])
            return false;
    return true;
}

static int concat_setup(struct layer *layer, const struct layer_env *env)
{
    struct shape shape = layer->bottoms[0]->value.shape;
    char expected[SHAPE_TEXT_BYTES], found[SHAPE_TEXT_BYTES];
    int axis;

    (void)env;
    if (concat_axis(layer, &axis))
        return -1;
    for (int b = 1; b < layer->nbottoms; b++) {
        const struct shape *other = &layer->bottoms[b]->value.shape;
        if (!fits(&shape, other, axis))
            return error_set(
                "bottoms must have the same shape except on axis %d: '%s' is %s, '%s' "
                "is %s",
                axis, layer->bottoms[0]->name,
                shape_text(&layer->bottoms[0]->value.shape, expected, sizeof(expected)),
                layer->bottoms[b]->name, shape_text(other, found, sizeof(found)));
        shape.dim[axis] += other->dim[axis];
    }
    return shape_set(&layer->tops[0]->value.shape, shape.naxes, shape.dim, layer->tops[0]->name);
}

static int concat_arguments(const struct layer *layer, struct op_args *args)
{
    if (concat_axis(layer, &args->u.concat.axis))
        return -1;
    return 0;
}

const struct layer_i layer_concat = {
    .type = "Concat",
    .min_bottoms = 1,
    .max_bottoms = -1,
    .min_tops = 1,
    .max_tops = 1,
    .no_in_place = true,
    .setup = concat_setup,
    .op = OP_CONCAT,
    .arguments = concat_arguments,
};

static int split_setup(struct layer *layer, const struct layer_env *env)
{
    (void)env;
    layer_tops_like_bottom(layer);
    return 0;
}

const struct layer_i layer_split = {
    .type = "Split",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = -1,
    .no_in_place = true,
    .passes_memory = true,
    .setup = split_setup,
    .op = OP_SPLIT,
};

/* Axes axis..end_axis become one; where end_axis is just before axis, an axis of size 1 comes in.
 */
static int flatten_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__FlattenParameter defaults = CAFFE__FLATTEN_PARAMETER__INIT;
    const Caffe__FlattenParameter *p =
        layer->param->flatten_param ? layer->param->flatten_param : &defaults;
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    int64_t dim[SHAPE_MAX_AXES + 1];
    int axis, end, naxes = 0;

    (void)env;
    if (layer_resolve_axis(layer, "axis", p->axis, &axis) ||
        layer_resolve_axis(layer, "end_axis", p->end_axis, &end))
        return -1;
    if (end + 1 < axis)
        return error_set("end_axis %d lies before axis %d", p->end_axis, p->axis);
    for (int i = 0; i < axis; i++)
        dim[naxes++] = bottom->dim[i];
    dim[naxes++] = (int64_t)shape_count(bottom, axis, end + 1);
    for (int i = end + 1; i < bottom->naxes; i++)
        dim[naxes++] = bottom->dim[i];
    return shape_set(&layer->tops[0]->value.shape, naxes, dim, layer->tops[0]->name);
}

const struct layer_i layer_flatten = {
    .type = "Flatten",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .no_in_place = true,
    .passes_memory = true,
    .setup = flatten_setup,
    .op = OP_FLATTEN,
};

static int eltwise_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__EltwiseParameter *p = layer->param->eltwise_param;
    const struct shape *first = &layer->bottoms[0]->value.shape;
    char expected[SHAPE_TEXT_BYTES], found[SHAPE_TEXT_BYTES];

    (void)env;
    if (p && p->n_coeff > 0 && p->operation != CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__SUM)
        return error_set("coeff goes with operation: SUM only");
    if (p && p->n_coeff > 0 && p->n_coeff != (size_t)layer->nbottoms)
        return error_set("found %zu values of coeff for %d bottoms; expected one each, or none",
                         p->n_coeff, layer->nbottoms);
    for (int b = 1; b < layer->nbottoms; b++) {
        const struct shape *other = &layer->bottoms[b]->value.shape;
        if (!shape_equal(first, other))
            return error_set("bottoms must have one shape: '%s' is %s, '%s' is %s",
                             layer->bottoms[0]->name, shape_text(first, expected, sizeof(expected)),
                             layer->bottoms[b]->name, shape_text(other, found, sizeof(found)));
    }
    layer_tops_like_bottom(layer);
    layer->flops = (double)shape_elems(first) * layer->nbottoms;
    return 0;
}

static int eltwise_arguments(const struct layer *layer, struct op_args *args)
{
    const Caffe__EltwiseParameter *p = layer->param->eltwise_param;

    args->u.eltwise.operation = ELTWISE_SUM;
    if (p && p->operation == CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__PROD)
        args->u.eltwise.operation = ELTWISE_PROD;
    if (p && p->operation == CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__MAX)
        args->u.eltwise.operation = ELTWISE_MAX;
    args->u.eltwise.coeff = p && p->n_coeff > 0 ? p->coeff : NULL;
    return 0;
}

const struct layer_i layer_eltwise = {
    .type = "Eltwise",
    .min_bottoms = 2,
    .max_bottoms = -1,
    .min_tops = 1,
    .max_tops = 1,
    .own_top = true,
    .setup = eltwise_setup,
    .op = OP_ELTWISE,
    .arguments = eltwise_arguments,
};
