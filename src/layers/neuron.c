/* Layers that treat every element alike and may work in place: ReLU and Dropout. */
#include "layers/layers_internal.h"

#include "util/error.h"

static float relu_slope(const struct layer *layer)
{
    const Caffe__ReLUParameter *p = layer->param->relu_param;

    return p ? p->negative_slope : 0;
}

bool layer_is_plain_relu(const struct layer *layer)
{
    return layer->i == &layer_relu && relu_slope(layer) == 0;
}

static int relu_setup(struct layer *layer, const struct layer_env *env)
{
    (void)env;
    layer_tops_like_bottom(layer);
    layer->flops = (double)shape_elems(&layer->bottoms[0]->value.shape);
    return 0;
}

/* In place, backward has only the result; its sign tells the input's as long as slope >= 0. */
static bool relu_wants_own_top(const struct layer *layer)
{
    return relu_slope(layer) < 0;
}

static int relu_arguments(const struct layer *layer, struct op_args *args)
{
    args->u.relu.negative_slope = relu_slope(layer);
    return 0;
}

const struct layer_i layer_relu = {
    .type = "ReLU",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .keeps_top_in_place = true,
    .keeps_sign_only = true,
    .wants_own_top = relu_wants_own_top,
    .setup = relu_setup,
    .op = OP_RELU,
    .arguments = relu_arguments,
};

static float dropout_ratio(const struct layer *layer)
{
    const Caffe__DropoutParameter *p = layer->param->dropout_param;

    return p ? p->dropout_ratio : 0.5f;
}

static int dropout_setup(struct layer *layer, const struct layer_env *env)
{
    float ratio = dropout_ratio(layer);

    (void)env;
    if (!(ratio >= 0 && (ratio < 1 || (ratio == 1 && !layer->train))))
        return error_set("dropout_ratio is %g; expected at least 0 and %s than 1", (double)ratio,
                         layer->train ? "less" : "no more");
    layer_tops_like_bottom(layer);
    layer->flops = layer->train ? (double)shape_elems(&layer->bottoms[0]->value.shape) : 0;
    return 0;
}

static int dropout_arguments(const struct layer *layer, struct op_args *args)
{
    args->u.dropout.ratio = layer->train ? dropout_ratio(layer) : 0; /* TEST drops nothing */
    return 0;
}

const struct layer_i layer_dropout = {
    .type = "Dropout",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .only_masks = true,
    .passes_memory = true,
    .setup = dropout_setup,
    .op = OP_DROPOUT,
    .arguments = dropout_arguments,
};
