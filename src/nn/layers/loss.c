/* The losses other than SoftmaxWithLoss. All but the sigmoid and infogain losses divide by the
 * batch size. */
#include "layers/layers_internal.h"

#include "util/alloc.h"
#include "spec/modelfile.h"
#include "util/path.h"

#include <inttypes.h>
#include <stdlib.h>

#define LOSS_FLOPS 4.0 /* per element */

static int loss_setup(struct layer *layer)
{
    if (layer->param->loss_param && layer->param->loss_param->has_label_smoothing)
        return error_set("label_smoothing is for SoftmaxWithLoss, not for %s", layer->i->type);
    return layer_set_scalar(layer, LOSS_FLOPS);
}

LOSS(layer_euclidean_loss, "EuclideanLoss", OP_EUCLIDEAN_LOSS, .setup = loss_setup);

struct loss_args layer_loss_args(const struct layer *layer)
{
    static const enum loss_normalization modes[] = {
        [CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__FULL] = LOSS_FULL,
        [CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID] = LOSS_VALID,
        [CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE] = LOSS_BATCH_SIZE,
        [CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__NONE] = LOSS_NONE};
    const Caffe__LossParameter *p = LAYER_PARAM(layer, loss_param, LossParameter, LOSS_PARAMETER);

    return (struct loss_args){.smoothing = p->label_smoothing,
                              .has_ignore_label = p->has_ignore_label,
                              .ignore_label = p->ignore_label,
                              .normalization = p->has_normalization ? modes[p->normalization]
                                               : !p->has_normalize  ? layer->i->normalization
                                               : p->normalize       ? LOSS_VALID
                                                                    : LOSS_BATCH_SIZE};
}

bool layer_loss_means(const struct layer *layer)
{
    return !layer->i->normalizes || layer_loss_args(layer).normalization != LOSS_NONE;
}

bool layer_ignores_label(const struct layer *layer, float *label, bool *divides)
{
    const struct accuracy_args *score = layer->i->is_score ? &layer->u.accuracy : NULL;
    const struct loss_args args = layer_loss_args(layer);

    *label = (float)(score ? score->ignore_label : args.ignore_label);
    *divides = score || args.normalization == LOSS_VALID;
    return score ? score->has_ignore_label : layer->i->normalizes && args.has_ignore_label;
}

static int sigmoid_setup(struct layer *layer)
{
    layer->u.sigmoid_loss = layer_loss_args(layer);
    return loss_setup(layer);
}

LOSS(layer_sigmoid_loss, "SigmoidCrossEntropyLoss", OP_SIGMOID_LOSS, .normalizes = true,
     .normalization = LOSS_BATCH_SIZE, .setup = sigmoid_setup);

static int loss_labels_setup(struct layer *layer)
{
    if (layer->bottoms[0]->value.shape.naxes == 0)
        return error_set("expected a bottom of scores (N,C), found the scalar '%s'",
                         layer->bottoms[0]->name);
    return loss_setup(layer);
}

static int hinge_setup(struct layer *layer)
{
    const Caffe__HingeLossParameter *p = layer->param->hinge_loss_param;

    layer->u.hinge_loss.l2 = p && p->norm == CAFFE__HINGE_LOSS_PARAMETER__NORM__L2;
    return loss_labels_setup(layer);
}

LOSS(layer_hinge_loss, "HingeLoss", OP_HINGE_LOSS, .reads_labels = true, .setup = hinge_setup);

LOSS(layer_multinomial_loss, "MultinomialLogisticLoss", OP_MULTINOMIAL_LOSS, .reads_labels = true,
     .setup = loss_labels_setup);

static int contrastive_setup(struct layer *layer)
{
    const Caffe__ContrastiveLossParameter *p = LAYER_PARAM(
        layer, contrastive_loss_param, ContrastiveLossParameter, CONTRASTIVE_LOSS_PARAMETER);

    layer->u.contrastive_loss = (struct contrastive_loss_args){p->margin, p->legacy_version};
    return loss_setup(layer);
}

LOSS(layer_contrastive_loss, "ContrastiveLoss", OP_CONTRASTIVE_LOSS, .drops_gradient = 1u << 2,
     .setup = contrastive_setup);

/* Reads the infogain matrix: classes x classes floats, which the caller frees. */
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
    const struct shape *scores = &layer->bottoms[0]->value.shape;
    struct loss_args *args = &layer->u.infogain_loss;
    float *matrix = NULL;
    size_t classes;

    *args = layer_loss_args(layer);
    if (layer_resolve_axis(layer, "infogain_loss_param axis", p ? p->axis : 1, &args->axis))
        return -1;
    classes = (size_t)scores->dim[args->axis];
    if (layer->nbottoms == 2 && (!p || !p->source || !p->source[0]))
        return error_set("infogain_loss_param source is missing; give the matrix's file there, or "
                         "the matrix as a third bottom");
    if (layer->nbottoms == 2 && env->look_only) { /* look_only passes run on blank input */
        if (ALLOC(matrix, classes * classes, "the infogain matrix"))
            return -1;
    } else if (layer->nbottoms == 2 && find_matrix(p->source, env, classes, &matrix)) {
        return -1;
    }
    args->matrix = layer->state = matrix; /* owned as layer->state */
    return layer_set_scalar(layer, LOSS_FLOPS);
}

LOSS(layer_infogain_loss, "InfogainLoss", OP_INFOGAIN_LOSS, .reads_labels = true, .keeps_top = true,
     .no_gradient_from = 1u << 1, .normalizes = true, .normalization = LOSS_VALID,
     .setup_in = infogain_setup);
