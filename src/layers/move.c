/* Layers that take values from elsewhere: Crop, Tile, BatchReindex, ShuffleChannel, Embed; and
 * Parameter, Silence. */
#include "layers/layers_internal.h"

#include "util/error.h"

#include <inttypes.h>

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
