/* Layers that join, cut, copy or re-shape blobs: Concat, Slice, Split, Flatten, Reshape. */
#include "layers/layers_internal.h"

#include "util/alloc.h"
#include "util/units.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Resolves the axis of a `name` layer: `axis`, or Caffe's old field `name`_dim. NULL: not given. */
static int find_axis(const struct layer *layer, const char *name, const int32_t *axis,
                     const uint32_t *old, int *out)
{
    char text[32];

    if (axis && old)
        return error_set("axis %d and the old %s_dim %" PRIu32 " are both given; expected one",
                         *axis, name, *old);
    if (old && *old >= SHAPE_MAX_AXES)
        return error_set("%s_dim %" PRIu32 " is out of range", name, *old);
    snprintf(text, sizeof text, old ? "%s_dim" : "%s axis", name);
    return layer_resolve_axis(layer, text, old ? (int)*old : axis ? *axis : 1, out);
}

static int concat_setup(struct layer *layer)
{
    const Caffe__ConcatParameter *p = layer->param->concat_param;
    struct shape shape = layer->bottoms[0]->value.shape;
    int axis;

    if (find_axis(layer, "concat", p && p->has_axis ? &p->axis : NULL,
                  p && p->has_concat_dim ? &p->concat_dim : NULL, &axis))
        return -1;
    layer->u.concat.axis = axis;
    layer->state = alloc_array((size_t)layer->nbottoms, sizeof(bool), "a concat layer");
    if (!layer->state)
        return -1;
    assert(0 <= axis && axis < shape.naxes);
    for (int b = 1; b < layer->nbottoms; b++)
        shape.dim[axis] += shape_dim(&layer->bottoms[b]->value.shape, axis);
    return shape_set(&layer->tops[0]->value.shape, shape.naxes, shape.dim, layer->tops[0]->name);
}

static void concat_arguments(const struct layer *layer, struct op_args *args)
{
    bool *relu = layer->state; /* per bottom: the op applies a ReLU */

    for (int b = 0; b < layer->nbottoms; b++)
        relu[b] = layer->taken[b] != NULL;
    args->u.concat.relu = relu;
}

const struct layer_i layer_concat = {
    .type = "Concat",
    .no_in_place = true,
    .takes_relus_before = true,
    .ignores_bottoms = true,
    .setup = concat_setup,
    .op = OP_CONCAT,
    .arguments = concat_arguments,
};

const struct layer_i layer_split = {
    .type = "Split",
    .no_in_place = true,
    .passes_memory = true,
    .op = OP_SPLIT,
};

/* Joins axes axis..end_axis. If end_axis is just before axis, inserts an axis of size 1. */
static int flatten_setup(struct layer *layer)
{
    const Caffe__FlattenParameter *p =
        LAYER_PARAM(layer, flatten_param, FlattenParameter, FLATTEN_PARAMETER);
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    int64_t dim[SHAPE_MAX_AXES + 1];
    int axis, end, naxes = 0;

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
    .no_in_place = true,
    .passes_memory = true,
    .setup = flatten_setup,
    .op = OP_FLATTEN,
};

/* Sets *place to where top t begins along the axis; t = ntops: to the end of the last top. */
static int slice_place(const struct layer *layer, int t, int64_t size, int64_t *place)
{
    const Caffe__SliceParameter *p = layer->param->slice_param;

    if (!p || p->n_slice_point == 0)
        *place = size / layer->ntops * t;
    else
        *place = t == 0 ? 0 : t == layer->ntops ? size : p->slice_point[t - 1];
    return *place <= size ? 0
                          : error_set("slice_point %" PRId64 " is beyond the axis of size %" PRId64,
                                      *place, size);
}

static int slice_setup(struct layer *layer)
{
    const Caffe__SliceParameter *p = layer->param->slice_param;
    struct shape shape = layer->bottoms[0]->value.shape;
    int64_t size, begin, end;
    int axis;

    if (find_axis(layer, "slice", p && p->has_axis ? &p->axis : NULL,
                  p && p->has_slice_dim ? &p->slice_dim : NULL, &axis))
        return -1;
    layer->u.slice.axis = axis;
    size = shape.dim[axis];
    if (p && p->n_slice_point > 0 && p->n_slice_point + 1 != (size_t)layer->ntops)
        return error_set("found %s of slice_point for %s; expected %d, or none",
                         units_count((long long)p->n_slice_point, "value").text,
                         units_count(layer->ntops, "top").text, layer->ntops - 1);
    if ((!p || p->n_slice_point == 0) && size % layer->ntops != 0)
        return error_set("%d tops do not divide axis %d of size %" PRId64
                         " evenly; set slice_point to where to cut",
                         layer->ntops, axis, size);
    for (int t = 0; t < layer->ntops; t++) {
        if (slice_place(layer, t, size, &begin) || slice_place(layer, t + 1, size, &end))
            return -1;
        if (end <= begin)
            return error_set(
                "top '%s' would be empty: it goes from %" PRId64 " to %" PRId64
                "; slice_point must increase and stay within the axis of size %" PRId64,
                layer->tops[t]->name, begin, end, size);
        shape.dim[axis] = end - begin;
        layer->tops[t]->value.shape = shape;
    }
    return 0;
}

const struct layer_i layer_slice = {
    .type = "Slice",
    .no_in_place = true,
    .setup = slice_setup,
    .op = OP_SLICE,
};

/* Finds the axes of the bottom that are replaced: [begin, end). */
static int reshape_range(const struct layer *layer, const Caffe__ReshapeParameter *p, int *begin,
                         int *end)
{
    int naxes = layer->bottoms[0]->value.shape.naxes;

    *begin = p->axis >= 0 ? p->axis : naxes + p->axis + 1;
    if (*begin < 0 || *begin > naxes)
        return error_set("axis %d is out of range for bottom '%s' of %s", p->axis,
                         layer->bottoms[0]->name, units_count(naxes, "axis").text);
    if (p->num_axes < -1)
        return error_set("num_axes is %d; expected -1 (to the end) or more", p->num_axes);
    *end = p->num_axes == -1 ? naxes : *begin + p->num_axes;
    if (*end > naxes)
        return error_set("axis %d and num_axes %d go beyond bottom '%s' of %s", p->axis,
                         p->num_axes, layer->bottoms[0]->name, units_count(naxes, "axis").text);
    return 0;
}

/* Sets dim to the new axes, with 0 and -1 resolved. The new axes must hold `room` elements. */
static int reshape_dims(const struct layer *layer, const Caffe__BlobShape *wanted, int begin,
                        int64_t room, int64_t *dim)
{
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    int64_t known = 1, own = 0; /* own: `known` with the bottom's batch as first dim */
    int infer = -1;
    char hint[128] = "";

    for (size_t i = 0; i < wanted->n_dim; i++) {
        dim[i] = wanted->dim[i];
        if (dim[i] < -1)
            return error_set("shape has a dim of %" PRId64 "; expected -1, 0 or a size", dim[i]);
        if (dim[i] == -1 && infer >= 0)
            return error_set("shape has more than one dim of -1; at most one can be inferred");
        if (dim[i] == 0 && begin + (int)i >= bottom->naxes)
            return error_set("dim 0 at place %zu of shape copies axis %d, but bottom '%s' has %s",
                             i, begin + (int)i, layer->bottoms[0]->name,
                             units_count(bottom->naxes, "axis").text);
        if (dim[i] == 0)
            dim[i] = bottom->dim[begin + (int)i];
        if (dim[i] == -1)
            infer = (int)i;
        else if (dim[i] > 0 && known <= INT32_MAX)
            known *= dim[i];
    }
    if (begin == 0 && wanted->n_dim > 0 && bottom->naxes > 0 && dim[0] > 0)
        own = known / dim[0] * bottom->dim[0];
    if (own > 0 && (infer >= 0 ? room % own == 0 : room == own))
        snprintf(hint, sizeof hint,
                 "; its first dim is %" PRId64 ", and the batch is %" PRId64
                 ": 0 follows the batch",
                 dim[0], bottom->dim[0]);
    if (infer >= 0 ? known == 0 || room % known != 0 : known != room)
        return error_set("shape has %" PRId64 " elements%s; expected %" PRId64
                         ", as the replaced axes of bottom '%s' have: %s%s",
                         known, infer >= 0 ? " times a whole number" : "", room,
                         layer->bottoms[0]->name, shape_text(bottom).text, hint);
    if (infer >= 0)
        dim[infer] = room / known;
    return 0;
}

static int reshape_setup(struct layer *layer)
{
    const Caffe__ReshapeParameter *p =
        LAYER_PARAM(layer, reshape_param, ReshapeParameter, RESHAPE_PARAMETER);
    const Caffe__BlobShape none = CAFFE__BLOB_SHAPE__INIT;
    const Caffe__BlobShape *wanted = p->shape ? p->shape : &none;
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    int64_t dim[SHAPE_MAX_AXES];
    int begin = 0, end = 0, naxes = 0;

    if (reshape_range(layer, p, &begin, &end))
        return -1;
    if (wanted->n_dim + (size_t)(bottom->naxes - (end - begin)) > SHAPE_MAX_AXES)
        return error_set("the top would have more than %d axes", SHAPE_MAX_AXES);
    for (int i = 0; i < begin; i++)
        dim[naxes++] = bottom->dim[i];
    if (reshape_dims(layer, wanted, begin, (int64_t)shape_count(bottom, begin, end), dim + naxes))
        return -1;
    naxes += (int)wanted->n_dim;
    for (int i = end; i < bottom->naxes; i++)
        dim[naxes++] = bottom->dim[i];
    return shape_set(&layer->tops[0]->value.shape, naxes, dim, layer->tops[0]->name);
}

const struct layer_i layer_reshape = {
    .type = "Reshape",
    .no_in_place = true,
    .passes_memory = true,
    .setup = reshape_setup,
    .op = OP_FLATTEN,
};
