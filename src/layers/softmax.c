/* Softmax, its loss, and Accuracy: layers over one axis of class scores. The scores are seen as
 * (outer, classes, inner); there is one label for each of outer x inner places. */
#include "layers/layers_internal.h"

#include "util/error.h"

#include <inttypes.h>

/* Rough work per score: maximum, difference, exponential, sum, division. */
#define SOFTMAX_FLOPS 5.0

static int softmax_axis(const struct layer *layer, int *axis)
{
    const Caffe__SoftmaxParameter *p = layer->param->softmax_param;

    return layer_resolve_axis(layer, "softmax_param axis", p ? p->axis : 1, axis);
}

static int softmax_setup(struct layer *layer, const struct layer_env *env)
{
    int axis;

    (void)env;
    if (softmax_axis(layer, &axis))
        return -1;
    layer_tops_like_bottom(layer);
    layer->flops = SOFTMAX_FLOPS * (double)shape_elems(&layer->bottoms[0]->value.shape);
    return 0;
}

static int softmax_arguments(const struct layer *layer, struct op_args *args)
{
    if (softmax_axis(layer, &args->u.softmax.axis))
        return -1;
    return 0;
}

const struct layer_i layer_softmax = {
    .type = "Softmax",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .own_top = true,
    .keeps_top = true,
    .setup = softmax_setup,
    .op = OP_SOFTMAX,
    .arguments = softmax_arguments,
};

/* There must be one label per place, however its axes are written: N, Nx1, Nx1xHxW, NxHxW. */
static int softmax_check_labels(const struct layer *layer, int axis)
{
    const struct shape *scores = &layer->bottoms[0]->value.shape;
    const struct shape *labels = &layer->bottoms[1]->value.shape;
    size_t expected = shape_count(scores, 0, axis) * shape_count(scores, axis + 1, scores->naxes);
    char score_text[SHAPE_TEXT_BYTES], label_text[SHAPE_TEXT_BYTES];

    if (shape_elems(labels) == expected)
        return 0;
    return error_set("expected %zu labels, one for each place of the scores '%s' of shape %s with "
                     "classes on axis %d, found '%s' of shape %s",
                     expected, layer->bottoms[0]->name,
                     shape_text(scores, score_text, sizeof(score_text)), axis,
                     layer->bottoms[1]->name, shape_text(labels, label_text, sizeof(label_text)));
}

static int softmax_loss_setup(struct layer *layer, const struct layer_env *env)
{
    int axis;

    (void)env;
    if (softmax_axis(layer, &axis) || softmax_check_labels(layer, axis))
        return -1;
    if (shape_set(&layer->tops[0]->value.shape, 0, NULL, layer->tops[0]->name))
        return -1;
    if (layer->ntops == 2)
        layer->tops[1]->value.shape = layer->bottoms[0]->value.shape;
    layer->flops = SOFTMAX_FLOPS * (double)shape_elems(&layer->bottoms[0]->value.shape);
    return 0;
}

static int softmax_loss_arguments(const struct layer *layer, struct op_args *args)
{
    const Caffe__LossParameter *p = layer->param->loss_param;
    int axis;

    if (softmax_axis(layer, &axis))
        return -1;
    args->u.softmax_loss = (struct softmax_loss_args){
        .axis = axis,
        .has_ignore_label = p && p->has_ignore_label,
        .ignore_label = p ? p->ignore_label : 0,
        .normalization = layer_loss_normalization(p, LOSS_VALID),
    };
    return 0;
}

static bool softmax_loss_ignores(const struct layer *layer, int *label)
{
    return layer_loss_ignores(layer, LOSS_VALID, label);
}

const struct layer_i layer_softmax_loss = {
    .type = "SoftmaxWithLoss",
    .min_bottoms = 2,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 2,
    .reads_labels = true,
    .no_in_place = true,
    .auto_tops = true,
    .keeps_top = true,
    .no_gradient_to = 1u << 1,
    .no_gradient_from = 1u << 1,
    .ignores_label = softmax_loss_ignores,
    .setup = softmax_loss_setup,
    .op = OP_SOFTMAX_LOSS,
    .arguments = softmax_loss_arguments,
};

static Caffe__AccuracyParameter accuracy_param(const struct layer *layer)
{
    const Caffe__AccuracyParameter defaults = CAFFE__ACCURACY_PARAMETER__INIT;

    return layer->param->accuracy_param ? *layer->param->accuracy_param : defaults;
}

static int accuracy_setup(struct layer *layer, const struct layer_env *env)
{
    Caffe__AccuracyParameter p = accuracy_param(layer);
    const struct shape *scores = &layer->bottoms[0]->value.shape;
    int axis;

    (void)env;
    if (layer_resolve_axis(layer, "accuracy_param axis", p.axis, &axis) ||
        softmax_check_labels(layer, axis))
        return -1;
    if (p.top_k < 1 || (int64_t)p.top_k > scores->dim[axis])
        return error_set("top_k is %" PRIu32 "; expected 1 to the number of classes, %" PRId64,
                         p.top_k, scores->dim[axis]);
    if (shape_set(&layer->tops[0]->value.shape, 0, NULL, layer->tops[0]->name))
        return -1;
    if (layer->ntops == 2 &&
        shape_set(&layer->tops[1]->value.shape, 1, &scores->dim[axis], layer->tops[1]->name))
        return -1;
    layer->flops = (double)shape_elems(scores);
    return 0;
}

static int accuracy_arguments(const struct layer *layer, struct op_args *args)
{
    Caffe__AccuracyParameter p = accuracy_param(layer);
    int axis;

    if (layer_resolve_axis(layer, "accuracy_param axis", p.axis, &axis))
        return -1;
    args->u.accuracy = (struct accuracy_args){
        .top_k = (int)p.top_k,
        .axis = axis,
        .has_ignore_label = p.has_ignore_label,
        .ignore_label = p.ignore_label,
    };
    return 0;
}

const struct layer_i layer_accuracy = {
    .type = "Accuracy",
    .min_bottoms = 2,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 2,
    .reads_labels = true,
    .is_score = true,
    .no_in_place = true,
    .no_gradient_to = 3u,
    .no_gradient_from = 3u,
    .setup = accuracy_setup,
    .op = OP_ACCURACY,
    .arguments = accuracy_arguments,
};
