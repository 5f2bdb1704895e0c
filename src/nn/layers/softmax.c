/* Softmax, its loss, and Accuracy: layers over one axis of class scores. Scores have the shape
 * (outer, classes, inner), with a label for each of outer x inner places. */
#include "layers/layers_internal.h"

#include "util/error.h"

/* Approximate flops per score: maximum, difference, exponential, sum, division. */
#define SOFTMAX_FLOPS 5.0

static int softmax_axis(const struct layer *layer, int *axis)
{
    const Caffe__SoftmaxParameter *p = layer->param->softmax_param;

    return layer_resolve_axis(layer, "softmax_param axis", p ? p->axis : 1, axis);
}

static int softmax_setup(struct layer *layer)
{
    layer->flops = SOFTMAX_FLOPS * (double)shape_elems(&layer->bottoms[0]->value.shape);
    return softmax_axis(layer, &layer->u.softmax.axis);
}

const struct layer_i layer_softmax = {
    .type = "Softmax",
    .own_top = true,
    .keeps_top = true,
    .setup = softmax_setup,
    .op = OP_SOFTMAX,
};

static int softmax_loss_setup(struct layer *layer)
{
    layer->u.softmax_loss = layer_loss_args(layer);
    if (softmax_axis(layer, &layer->u.softmax_loss.axis))
        return -1;
    if (!(layer->u.softmax_loss.smoothing >= 0 && layer->u.softmax_loss.smoothing < 1))
        return error_set("label_smoothing is %g; expected 0 to below 1",
                         (double)layer->u.softmax_loss.smoothing);
    return layer_set_scalar(layer, SOFTMAX_FLOPS);
}

LOSS(layer_softmax_loss, "SoftmaxWithLoss", OP_SOFTMAX_LOSS, .reads_labels = true,
     .keeps_top = true, .no_gradient_from = 1u << 1, .normalizes = true,
     .normalization = LOSS_VALID, .setup = softmax_loss_setup);

static int accuracy_setup(struct layer *layer)
{
    const Caffe__AccuracyParameter *p =
        LAYER_PARAM(layer, accuracy_param, AccuracyParameter, ACCURACY_PARAMETER);
    const struct shape *scores = &layer->bottoms[0]->value.shape;
    int axis;

    if (layer_resolve_axis(layer, "accuracy_param axis", p->axis, &axis))
        return -1;
    layer->u.accuracy = (struct accuracy_args){
        .top_k = (int)p->top_k,
        .axis = axis,
        .has_ignore_label = p->has_ignore_label,
        .ignore_label = p->ignore_label,
    };
    if (layer->ntops == 2 &&
        shape_set(&layer->tops[1]->value.shape, 1, &scores->dim[axis], layer->tops[1]->name))
        return -1;
    return layer_set_scalar(layer, 1);
}

const struct layer_i layer_accuracy = {
    .type = "Accuracy",
    .reads_labels = true,
    .is_score = true,
    .no_in_place = true,
    .no_gradient_to = 3u,
    .no_gradient_from = 3u,
    .setup = accuracy_setup,
    .op = OP_ACCURACY,
};
