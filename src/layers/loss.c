/* The losses other than SoftmaxWithLoss. All but the sigmoid and infogain ones divide by the batch.
 */
#include "layers/layers_internal.h"

#include "util/error.h"
#include "spec/modelfile.h"
#include "util/path.h"

#include <inttypes.h>
#include <stdlib.h>

#define LOSS_FLOPS 4.0 /* per element */

/* Bottoms 0 and 1 with `expected` elements in the latter; `what` says why. */
static int loss_expect_elems(const struct layer *layer, int bottom, size_t expected,
                             const char *what)
{
    const struct blob *first = layer->bottoms[0], *other = layer->bottoms[bottom];

    if (shape_elems(&other->value.shape) == expected)
        return 0;
    return error_set("expected %zu %s for '%s' of shape %s, found '%s' of shape %s", expected, what,
                     first->name, shape_text(&first->value.shape).text, other->name,
                     shape_text(&other->value.shape).text);
}

/* Both have one batch and as many elements per sample. */
static int loss_expect_pair(const struct layer *layer)
{
    const struct shape *a = &layer->bottoms[0]->value.shape, *b = &layer->bottoms[1]->value.shape;

    if (a->naxes > 0 && b->naxes > 0 && a->dim[0] == b->dim[0] && shape_elems(a) == shape_elems(b))
        return 0;
    return error_set("expected two bottoms with as many samples and elements: '%s' is %s, '%s' is "
                     "%s",
                     layer->bottoms[0]->name, shape_text(a).text, layer->bottoms[1]->name,
                     shape_text(b).text);
}

static int loss_pair_setup(struct layer *layer)
{
    return loss_expect_pair(layer) ? -1 : layer_set_scalar(layer, LOSS_FLOPS);
}

const struct layer_i layer_euclidean_loss = {
    .type = "EuclideanLoss",
    .no_in_place = true,
    .auto_tops = true,
    .setup = loss_pair_setup,
    .op = OP_EUCLIDEAN_LOSS,
};

enum loss_normalization layer_loss_normalization(const struct layer *layer)
{
    const Caffe__LossParameter *p = layer->param->loss_param;

    if (!p || (!p->has_normalization && !p->has_normalize))
        return layer->i->normalization;
    if (!p->has_normalization)
        return p->normalize ? LOSS_VALID : LOSS_BATCH_SIZE;
    switch (p->normalization) {
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__FULL:
        return LOSS_FULL;
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE:
        return LOSS_BATCH_SIZE;
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__NONE:
        return LOSS_NONE;
    default:
        return LOSS_VALID;
    }
}

bool layer_ignores_label(const struct layer *layer, int *label)
{
    const Caffe__LossParameter *p = layer->param->loss_param;

    *label = p ? p->ignore_label : 0;
    return layer->i->normalizes && p && p->has_ignore_label &&
           layer_loss_normalization(layer) == LOSS_VALID;
}

static int sigmoid_setup(struct layer *layer)
{
    const Caffe__LossParameter *p = layer->param->loss_param;

    layer->u.sigmoid_loss = (struct sigmoid_loss_args){
        .has_ignore_label = p && p->has_ignore_label,
        .ignore_label = p ? p->ignore_label : 0,
        .normalization = layer_loss_normalization(layer),
    };
    return loss_pair_setup(layer);
}

const struct layer_i layer_sigmoid_loss = {
    .type = "SigmoidCrossEntropyLoss",
    .no_in_place = true,
    .auto_tops = true,
    .normalizes = true,
    .normalization = LOSS_BATCH_SIZE,
    .setup = sigmoid_setup,
    .op = OP_SIGMOID_LOSS,
};

/* One label per sample. */
static int loss_labels_setup(struct layer *layer)
{
    const struct shape *scores = &layer->bottoms[0]->value.shape;

    if (scores->naxes == 0)
        return error_set("expected a bottom of scores (N,C), found the scalar '%s'",
                         layer->bottoms[0]->name);
    if (loss_expect_elems(layer, 1, (size_t)scores->dim[0], "labels, one per sample,"))
        return -1;
    return layer_set_scalar(layer, LOSS_FLOPS);
}

static int hinge_setup(struct layer *layer)
{
    const Caffe__HingeLossParameter *p = layer->param->hinge_loss_param;

    layer->u.hinge_loss.l2 = p && p->norm == CAFFE__HINGE_LOSS_PARAMETER__NORM__L2;
    return loss_labels_setup(layer);
}

const struct layer_i layer_hinge_loss = {
    .type = "HingeLoss",
    .reads_labels = true,
    .no_in_place = true,
    .auto_tops = true,
    .setup = hinge_setup,
    .op = OP_HINGE_LOSS,
};

const struct layer_i layer_multinomial_loss = {
    .type = "MultinomialLogisticLoss",
    .reads_labels = true,
    .no_in_place = true,
    .auto_tops = true,
    .setup = loss_labels_setup,
    .op = OP_MULTINOMIAL_LOSS,
};

static int contrastive_setup(struct layer *layer)
{
    const Caffe__ContrastiveLossParameter *p = LAYER_PARAM(
        layer, contrastive_loss_param, ContrastiveLossParameter, CONTRASTIVE_LOSS_PARAMETER);

    if (loss_expect_pair(layer) ||
        loss_expect_elems(layer, 2, (size_t)layer->bottoms[0]->value.shape.dim[0],
                          "similarities, one per pair,"))
        return -1;
    layer->u.contrastive_loss = (struct contrastive_loss_args){p->margin, p->legacy_version};
    return layer_set_scalar(layer, LOSS_FLOPS);
}

const struct layer_i layer_contrastive_loss = {
    .type = "ContrastiveLoss",
    .no_in_place = true,
    .auto_tops = true,
    .drops_gradient = 1u << 2,
    .setup = contrastive_setup,
    .op = OP_CONTRASTIVE_LOSS,
};

/* classes x classes floats, the caller's to free. */
static int find_matrix(const char *source, const struct layer_env *env, size_t classes, float **out)
{
    char *path = path_find(source, env->base_file, NULL);
    struct stored_blob blob;
    int status = path ? stored_blob_load(path, &blob, out) : -1;

    if (!status && blob.elems != classes * classes) {
        status = error_set("%s has %" PRIu64 " values; expected %zu x %zu, one for each pair of "
                           "classes",
                           path, blob.elems, classes, classes);
        free(*out);
    }
    free(path);
    return status ? error_context("infogain_loss_param source '%s'", source) : 0;
}

static int infogain_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__InfogainLossParameter *p = layer->param->infogain_loss_param;
    const Caffe__LossParameter *loss = layer->param->loss_param;
    const struct shape *scores = &layer->bottoms[0]->value.shape;
    struct infogain_loss_args *args = &layer->u.infogain_loss;
    float *matrix = NULL;
    size_t classes;

    if (layer_resolve_axis(layer, "infogain_loss_param axis", p ? p->axis : 1, &args->axis))
        return -1;
    classes = (size_t)scores->dim[args->axis];
    if (loss_expect_elems(layer, 1, shape_elems(scores) / classes, "labels, one for each place,"))
        return -1;
    if (layer->nbottoms == 3) {
        if (loss_expect_elems(layer, 2, classes * classes, "values of a classes x classes matrix"))
            return -1;
    } else if (!p || !p->source || !p->source[0]) {
        return error_set("infogain_loss_param source is missing; the matrix comes from there or "
                         "from a third bottom");
    } else if (env->look_only) { /* passes over blank input want a blank matrix */
        matrix = calloc(classes * classes, sizeof *matrix);
        if (!matrix)
            return error_memory(classes * classes * sizeof *matrix, "the infogain matrix");
    } else if (find_matrix(p->source, env, classes, &matrix)) {
        return -1;
    }
    args->matrix = layer->state = matrix; /* owned */
    args->has_ignore_label = loss && loss->has_ignore_label;
    args->ignore_label = loss ? loss->ignore_label : 0;
    args->normalization = layer_loss_normalization(layer);
    return layer_set_scalar(layer, LOSS_FLOPS);
}

const struct layer_i layer_infogain_loss = {
    .type = "InfogainLoss",
    .reads_labels = true,
    .no_in_place = true,
    .auto_tops = true,
    .keeps_top = true,
    .no_gradient_from = 1u << 1,
    .normalizes = true,
    .normalization = LOSS_VALID,
    .setup_in = infogain_setup,
    .op = OP_INFOGAIN_LOSS,
};
