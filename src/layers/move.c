/* Layers that take blobs apart and put them together otherwise: Slice, Crop, Tile, Reshape,
 * BatchReindex, ShuffleChannel; and Embed, Parameter, Silence. */
#include "layers/layers_internal.h"

#include "util/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int slice_axis(const struct layer *layer, int *axis)
{
    const Caffe__SliceParameter *p = layer->param->slice_param;

    if (p && p->has_axis && p->has_slice_dim)
        return error_set("axis %d and the old slice_dim %" PRIu32 " are both given; expected one",
                         p->axis, p->slice_dim);
    if (p && p->has_slice_dim) {
        if (p->slice_dim >= SHAPE_MAX_AXES)
            return error_set("slice_dim %" PRIu32 " is out of range", p->slice_dim);
        return layer_resolve_axis(layer, "slice_dim", (int)p->slice_dim, axis);
    }
    return layer_resolve_axis(layer, "slice axis", p ? p->axis : 1, axis);
}

/* Where top t begins, or the end of the last one. */
static int slice_place(const struct layer *layer, int t, int64_t size, int64_t *place)
{
    const Caffe__SliceParameter *p = layer->param->slice_param;

    if (!p || p->n_slice_point == 0)
        *place = size / layer->ntops * t;
    else
        *place = t == 0 ? 0 : t == layer->ntops ? size : p->slice_point[t - 1];
    return *place <= size
               ? 0
               : error_set("slice_point %" PRId64 " is beyond the axis of %" PRId64, *place, size);
}

static int slice_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__SliceParameter *p = layer->param->slice_param;
    struct shape shape = layer->bottoms[0]->value.shape;
    int64_t size, begin, end;
    int axis;

    (void)env;
    if (slice_axis(layer, &axis))
        return -1;
    size = shape.dim[axis];
    if (p && p->n_slice_point > 0 && p->n_slice_point + 1 != (size_t)layer->ntops)
        return error_set("found %zu values of slice_point for %d tops; expected %d, or none",
                         p->n_slice_point, layer->ntops, layer->ntops - 1);
    if ((!p || p->n_slice_point == 0) && size % layer->ntops != 0)
        return error_set("%d tops do not divide axis %d of size %" PRId64 " evenly; slice_point "
                         "would say where to cut",
                         layer->ntops, axis, size);
    for (int t = 0; t < layer->ntops; t++) {
        if (slice_place(layer, t, size, &begin) || slice_place(layer, t + 1, size, &end))
            return -1;
        if (end <= begin)
            return error_set("top '%s' would be empty: it goes from %" PRId64 " to %" PRId64
                             "; slice_point must rise within the axis of %" PRId64,
                             layer->tops[t]->name, begin, end, size);
        shape.dim[axis] = end - begin;
        layer->tops[t]->value.shape = shape;
    }
    return 0;
}

static int slice_arguments(const struct layer *layer, struct op_args *args)
{
    if (slice_axis(layer, &args->u.slice.axis))
        return -1;
    return 0;
}

const struct layer_i layer_slice = {
    .type = "Slice",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = -1,
    .no_in_place = true,
    .setup = slice_setup,
    .op = OP_SLICE,
    .arguments = slice_arguments,
};

/* The window's place on every axis, and the top's shape. */
static int crop_window(const struct layer *layer, struct crop_args *args, struct shape *top)
{
    const Caffe__CropParameter defaults = CAFFE__CROP_PARAMETER__INIT;
    const Caffe__CropParameter *p = layer->param->crop_param ? layer->param->crop_param : &defaults;
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    const struct shape *size = &layer->bottoms[1]->value.shape;
    int axis;

    *args = (struct crop_args){{0}};
    *top = *bottom;
    if (layer_resolve_axis(layer, "axis", p->axis, &axis))
        return -1;
    if (p->n_offset > 1 && p->n_offset != (size_t)(bottom->naxes - axis))
        return error_set("found %zu values of offset for axes %d to %d; expected one, or one each",
                         p->n_offset, axis, bottom->naxes - 1);
    if (size->naxes < bottom->naxes)
        return error_set("'%s' has %d axes; expected %d, as '%s' has", layer->bottoms[1]->name,
                         size->naxes, bottom->naxes, layer->bottoms[0]->name);
    for (int i = axis; i < bottom->naxes; i++) {
        if (p->n_offset > 0)
            args->offset[i] = p->offset[p->n_offset == 1 ? 0 : i - axis];
        top->dim[i] = size->dim[i];
        if (args->offset[i] + size->dim[i] > bottom->dim[i])
            return error_set("offset %" PRId64 " plus size %" PRId64 " of '%s' exceed axis %d of "
                             "'%s', which has %" PRId64,
                             args->offset[i], size->dim[i], layer->bottoms[1]->name, i,
                             layer->bottoms[0]->name, bottom->dim[i]);
    }
    return 0;
}

static int crop_setup(struct layer *layer, const struct layer_env *env)
{
    struct crop_args args;

    (void)env;
    return crop_window(layer, &args, &layer->tops[0]->value.shape);
}

static int crop_arguments(const struct layer *layer, struct op_args *args)
{
    struct shape top;

    if (crop_window(layer, &args->u.crop, &top))
        return -1;
    return 0;
}

const struct layer_i layer_crop = {
    .type = "Crop",
    .min_bottoms = 2,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 1,
    .no_in_place = true,
    .no_gradient_to = 1u << 1,
    .drops_gradient = 1u << 1,
    .setup = crop_setup,
    .op = OP_CROP,
    .arguments = crop_arguments,
};

static int tile_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__TileParameter *p = layer->param->tile_param;
    struct shape shape = layer->bottoms[0]->value.shape;
    int axis;

    (void)env;
    if (!p || !p->has_tiles || p->tiles < 1)
        return error_set("tile_param tiles is %s; expected at least 1",
                         p && p->has_tiles ? "out of range" : "missing");
    if (layer_resolve_axis(layer, "axis", p->axis, &axis))
        return -1;
    shape.dim[axis] *= p->tiles;
    return shape_set(&layer->tops[0]->value.shape, shape.naxes, shape.dim, layer->tops[0]->name);
}

static int tile_arguments(const struct layer *layer, struct op_args *args)
{
    args->u.tile =
        (struct tile_args){layer->param->tile_param->axis, layer->param->tile_param->tiles};
    return 0;
}

const struct layer_i layer_tile = {
    .type = "Tile",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .no_in_place = true,
    .setup = tile_setup,
    .op = OP_TILE,
    .arguments = tile_arguments,
};

/* Which axes of the bottom are replaced: [begin, end). */
static int reshape_range(const struct layer *layer, const Caffe__ReshapeParameter *p, int *begin,
                         int *end)
{
    int naxes = layer->bottoms[0]->value.shape.naxes;

    *begin = p->axis >= 0 ? p->axis : naxes + p->axis + 1;
    if (*begin < 0 || *begin > naxes)
        return error_set("axis %d is out of range for bottom '%s' of %d axes", p->axis,
                         layer->bottoms[0]->name, naxes);
    if (p->num_axes < -1)
        return error_set("num_axes is %d; expected -1 (to the end) or more", p->num_axes);
    *end = p->num_axes == -1 ? naxes : *begin + p->num_axes;
    if (*end > naxes)
        return error_set("axis %d and num_axes %d go beyond bottom '%s' of %d axes", p->axis,
                         p->num_axes, layer->bottoms[0]->name, naxes);
    return 0;
}

/* The new axes, 0 and -1 resolved; `room` elements are theirs. */
static int reshape_dims(const struct layer *layer, const Caffe__BlobShape *wanted, int begin,
                        int64_t room, int64_t *dim)
{
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    char found[SHAPE_TEXT_BYTES];
    int64_t known = 1;
    int infer = -1;

    for (size_t i = 0; i < wanted->n_dim; i++) {
        dim[i] = wanted->dim[i];
        if (dim[i] < -1)
            return error_set("shape has a dim of %" PRId64 "; expected -1, 0 or a size", dim[i]);
        if (dim[i] == -1 && infer >= 0)
            return error_set("shape has more than one dim of -1; one at most can be inferred");
        if (dim[i] == 0 && begin + (int)i >= bottom->naxes)
            return error_set("dim 0 at place %zu of shape copies axis %d, but bottom '%s' has %d "
                             "axes",
                             i, begin + (int)i, layer->bottoms[0]->name, bottom->naxes);
        if (dim[i] == 0)
            dim[i] = bottom->dim[begin + (int)i];
        if (dim[i] == -1)
            infer = (int)i;
        else if (dim[i] > 0 && known <= INT32_MAX)
            known *= dim[i];
    }
    if (infer >= 0 ? known == 0 || room % known != 0 : known != room)
        return error_set("shape makes %" PRId64 " elements%s of %" PRId64 " of bottom '%s': %s",
                         known, infer >= 0 ? " times a whole number" : "", room,
                         layer->bottoms[0]->name, shape_text(bottom, found, sizeof(found)));
    if (infer >= 0)
        dim[infer] = room / known;
    return 0;
}

static int reshape_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__ReshapeParameter defaults = CAFFE__RESHAPE_PARAMETER__INIT;
    const Caffe__ReshapeParameter *p =
        layer->param->reshape_param ? layer->param->reshape_param : &defaults;
    const Caffe__BlobShape none = CAFFE__BLOB_SHAPE__INIT;
    const Caffe__BlobShape *wanted = p->shape ? p->shape : &none;
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    int64_t dim[SHAPE_MAX_AXES];
    int begin = 0, end = 0, naxes = 0;

    (void)env;
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
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .no_in_place = true,
    .passes_memory = true,
    .setup = reshape_setup,
    .op = OP_FLATTEN,
};

static int batch_reindex_setup(struct layer *layer, const struct layer_env *env)
{
    struct shape shape = layer->bottoms[0]->value.shape;
    const struct shape *index = &layer->bottoms[1]->value.shape;
    char found[SHAPE_TEXT_BYTES];

    (void)env;
    if (shape.naxes == 0 || index->naxes != 1)
        return error_set("expected a bottom of samples and one of 1 axis with their numbers, found "
                         "'%s' of %d axes: %s",
                         layer->bottoms[1]->name, index->naxes,
                         shape_text(index, found, sizeof(found)));
    shape.dim[0] = index->dim[0];
    return shape_set(&layer->tops[0]->value.shape, shape.naxes, shape.dim, layer->tops[0]->name);
}

const struct layer_i layer_batch_reindex = {
    .type = "BatchReindex",
    .min_bottoms = 2,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 1,
    .no_in_place = true,
    .no_gradient_to = 1u << 1,
    .setup = batch_reindex_setup,
    .op = OP_BATCH_REINDEX,
};

static uint32_t shuffle_group(const struct layer *layer)
{
    const Caffe__ShuffleChannelParameter *p = layer->param->shuffle_channel_param;

    return p ? p->group : 1;
}

static int shuffle_setup(struct layer *layer, const struct layer_env *env)
{
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    uint32_t group = shuffle_group(layer);
    char found[SHAPE_TEXT_BYTES];

    (void)env;
    if (bottom->naxes < 2)
        return error_set("expected a bottom with channels (N,C), found '%s': %s",
                         layer->bottoms[0]->name, shape_text(bottom, found, sizeof(found)));
    if (group == 0 || bottom->dim[1] % group != 0)
        return error_set("shuffle_channel_param group %" PRIu32 " does not divide the %" PRId64
                         " channels of '%s'",
                         group, bottom->dim[1], layer->bottoms[0]->name);
    layer_tops_like_bottom(layer);
    return 0;
}

static int shuffle_arguments(const struct layer *layer, struct op_args *args)
{
    args->u.shuffle.group = (int)shuffle_group(layer);
    return 0;
}

const struct layer_i layer_shuffle_channel = {
    .type = "ShuffleChannel",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .own_top = true,
    .setup = shuffle_setup,
    .op = OP_SHUFFLE,
    .arguments = shuffle_arguments,
};

static int embed_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__EmbedParameter *p = layer->param->embed_param;
    struct shape shape = layer->bottoms[0]->value.shape;
    int64_t weight[2], outputs;

    (void)env;
    if (!p || p->num_output == 0 || p->num_output > INT32_MAX)
        return error_set("embed_param num_output is %s; expected at least 1",
                         p && p->has_num_output ? "out of range" : "missing");
    if (p->input_dim == 0 || p->input_dim > INT32_MAX)
        return error_set("embed_param input_dim is %s; expected at least 1",
                         p->has_input_dim ? "out of range" : "missing");
    if (shape.naxes == SHAPE_MAX_AXES)
        return error_set("the top would have more than %d axes", SHAPE_MAX_AXES);
    weight[0] = p->input_dim;
    weight[1] = outputs = shape.dim[shape.naxes] = p->num_output;
    if (shape_set(&layer->tops[0]->value.shape, shape.naxes + 1, shape.dim, layer->tops[0]->name) ||
        shape_set(&shape, 2, weight, "weight") ||
        layer_declare_param(layer, &shape, p->weight_filler))
        return -1;
    if (!p->bias_term)
        return 0;
    if (shape_set(&shape, 1, &outputs, "bias"))
        return -1;
    return layer_declare_param(layer, &shape, p->bias_filler);
}

static int embed_arguments(const struct layer *layer, struct op_args *args)
{
    args->u.embed.bias = layer->param->embed_param->bias_term;
    return 0;
}

const struct layer_i layer_embed = {
    .type = "Embed",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .no_in_place = true,
    .no_gradient_to = 1u,
    .setup = embed_setup,
    .op = OP_EMBED,
    .arguments = embed_arguments,
};

static int parameter_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__ParameterParameter *p = layer->param->parameter_param;
    struct shape *top = &layer->tops[0]->value.shape;

    (void)env;
    if (!p || !p->shape)
        return error_set("parameter_param shape is missing");
    if (p->shape->n_dim > SHAPE_MAX_AXES)
        return error_set("parameter_param shape has %zu axes; at most %d are possible",
                         p->shape->n_dim, SHAPE_MAX_AXES);
    if (shape_set(top, (int)p->shape->n_dim, p->shape->dim, layer->tops[0]->name))
        return -1;
    return layer_declare_param(layer, top, NULL);
}

const struct layer_i layer_parameter = {
    .type = "Parameter",
    .min_bottoms = 0,
    .max_bottoms = 0,
    .min_tops = 1,
    .max_tops = 1,
    .setup = parameter_setup,
    .op = OP_PARAMETER,
};

static int silence_setup(struct layer *layer, const struct layer_env *env)
{
    (void)layer;
    (void)env;
    return 0;
}

const struct layer_i layer_silence = {
    .type = "Silence",
    .min_bottoms = 1,
    .max_bottoms = -1,
    .min_tops = 0,
    .max_tops = 0,
    .setup = silence_setup,
    .op = OP_SILENCE,
};
