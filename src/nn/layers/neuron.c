/* Element-wise layers that may work in place: ReLU and Dropout. */
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

static int relu_setup(struct layer *layer)
{
    layer->u.relu.negative_slope = relu_slope(layer);
    layer->flops = (double)shape_elems(&layer->bottoms[0]->value.shape);
    return 0;
}

/* True for slope < 0: the top then hides the bottom's sign, which backward in place needs. */
static bool relu_wants_own_top(const struct layer *layer)
{
    return relu_slope(layer) < 0;
}

const struct layer_i layer_relu = {
    .type = "ReLU",
    .keeps_top_in_place = true,
    .keeps_sign_only = true,
    .wants_own_top = relu_wants_own_top,
    .setup = relu_setup,
    .op = OP_RELU,
};

static int dropout_setup(struct layer *layer)
{
    const Caffe__DropoutParameter *p =
        LAYER_PARAM(layer, dropout_param, DropoutParameter, DROPOUT_PARAMETER);
    float ratio = p->dropout_ratio;

    if (!(ratio >= 0 && (ratio < 1 || (ratio == 1 && !layer->train))))
        return error_set("dropout_ratio is %g; expected at least 0 and %s than 1", (double)ratio,
                         layer->train ? "less" : "no more");
    layer->u.dropout.ratio = layer->train ? ratio : 0; /* TEST drops nothing */
    layer->flops = layer->train ? (double)shape_elems(&layer->bottoms[0]->value.shape) : 0;
    return 0;
}

const struct layer_i layer_dropout = {
    .type = "Dropout",
    .only_masks = true,
    .passes_memory = true,
    .setup = dropout_setup,
    .op = OP_DROPOUT,
};
