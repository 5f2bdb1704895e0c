/* Layers that copy or select values: Crop, Tile, BatchReindex, ShuffleChannel, Embed. Also
 * Parameter and Silence. */
#include "layers/layers_internal.h"

#include "util/error.h"
#include "util/units.h"

static int crop_setup(struct layer *layer)
{
    const Caffe__CropParameter *p = LAYER_PARAM(layer, crop_param, CropParameter, CROP_PARAMETER);
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    const struct shape *size = &layer->bottoms[1]->value.shape;
    struct shape *top = &layer->tops[0]->value.shape;
    int64_t *offset = layer->u.crop.offset;
    int axis;

    if (layer_resolve_axis(layer, "axis", p->axis, &axis))
        return -1;
    if (p->n_offset > 1 && p->n_offset != (size_t)(bottom->naxes - axis))
        return error_set("found %zu values of offset for axes %d to %d; expected one, or one each",
                         p->n_offset, axis, bottom->naxes - 1);
    if (size->naxes < bottom->naxes)
        return error_set("'%s' has %s; expected %d, as '%s' has", layer->bottoms[1]->name,
                         units_count(size->naxes, "axis").text, bottom->naxes,
                         layer->bottoms[0]->name);
    for (int i = axis; i < bottom->naxes; i++) {
        if (p->n_offset > 0)
            offset[i] = p->offset[p->n_offset == 1 ? 0 : i - axis];
        top->dim[i] = size->dim[i];
    }
    return 0;
}

const struct layer_i layer_crop = {
    .type = "Crop",
    .bottoms = {2, 2},
    .tops = {1, 1},
    .no_in_place = true,
    .no_gradient_to = 1u << 1,
    .drops_gradient = 1u << 1,
    .setup = crop_setup,
    .op = OP_CROP,
};

static int tile_setup(struct layer *layer)
{
    const Caffe__TileParameter *p = layer->param->tile_param;
    struct shape shape = layer->bottoms[0]->value.shape;
    int axis;

    if (!p || !p->has_tiles || p->tiles < 1)
        return error_set("tile_param tiles is %s; expected at least 1",
                         p && p->has_tiles ? "out of range" : "missing");
    if (layer_resolve_axis(layer, "axis", p->axis, &axis))
        return -1;
    layer->u.tile = (struct tile_args){axis, p->tiles};
    shape.dim[axis] *= p->tiles;
    return shape_set(&layer->tops[0]->value.shape, shape.naxes, shape.dim, layer->tops[0]->name);
}

const struct layer_i layer_tile = {
    .type = "Tile",
    .no_in_place = true,
    .setup = tile_setup,
    .op = OP_TILE,
};

static int batch_reindex_setup(struct layer *layer)
{
    struct shape shape = layer->bottoms[0]->value.shape;
    const struct shape *index = &layer->bottoms[1]->value.shape;

    if (shape.naxes == 0 || index->naxes != 1)
        return error_set("expected a bottom of samples and one of 1 axis with their numbers, found "
                         "'%s' of %s: %s",
                         layer->bottoms[1]->name, units_count(index->naxes, "axis").text,
                         shape_text(index).text);
    shape.dim[0] = index->dim[0];
    return shape_set(&layer->tops[0]->value.shape, shape.naxes, shape.dim, layer->tops[0]->name);
}

const struct layer_i layer_batch_reindex = {
    .type = "BatchReindex",
    .no_in_place = true,
    .setup = batch_reindex_setup,
    .op = OP_BATCH_REINDEX,
};

static int shuffle_setup(struct layer *layer)
{
    const Caffe__ShuffleChannelParameter *p = layer->param->shuffle_channel_param;

    layer->u.shuffle.group = p ? (int)p->group : 1;
    return 0;
}

const struct layer_i layer_shuffle_channel = {
    .type = "ShuffleChannel",
    .own_top = true,
    .setup = shuffle_setup,
    .op = OP_SHUFFLE,
};

static int embed_setup(struct layer *layer)
{
    const Caffe__EmbedParameter *p = layer->param->embed_param;
    struct shape shape = layer->bottoms[0]->value.shape;
    int64_t weight[2], outputs;

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
    if (shape_set(&layer->tops[0]->value.shape, shape.naxes + 1, shape.dim, layer->tops[0]->name))
        return -1;
    layer->u.embed.bias = p->bias_term;
    return layer_declare_weights(layer, 2, weight, p->weight_filler, p->bias_term, outputs,
                                 p->bias_filler);
}

const struct layer_i layer_embed = {
    .type = "Embed",
    .no_in_place = true,
    .setup = embed_setup,
    .op = OP_EMBED,
};

static int parameter_setup(struct layer *layer)
{
    const Caffe__ParameterParameter *p = layer->param->parameter_param;
    struct shape *top = &layer->tops[0]->value.shape;

    if (!p || !p->shape)
        return error_set("parameter_param shape is missing");
    if (layer_set_shape(layer, 0, p->shape->n_dim, p->shape->dim))
        return -1;
    return layer_declare_param(layer, "parameter", top->naxes, top->dim, NULL);
}

const struct layer_i layer_parameter = {
    .type = "Parameter",
    .setup = parameter_setup,
    .op = OP_PARAMETER,
};

const struct layer_i layer_silence = {
    .type = "Silence",
    .op = OP_SILENCE,
};
