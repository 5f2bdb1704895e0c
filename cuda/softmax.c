/* Softmax, softmax loss and accuracy, on plain floats seen as outer x classes x inner. */
#include "cuda_internal.h"

#include "engine/op_size.h"
#include "util/error.h"

/* Scores as every operator here sees them. */
struct scores {
    int outer, classes, inner;
    struct cuda_input plain;
};

static int softmax_scores_create(struct cuda_op *op, int axis, struct scores *out)
{
    const struct tensor *bottom = &op->args.bottoms[0]->value;
    struct op_axes axes = op_axes_at(&bottom->shape, axis);

    out->outer = (int)axes.outer;
    out->classes = (int)axes.length;
    out->inner = (int)axes.inner;
    return cuda_input_create(op->engine, bottom, NULL, WORK_TOP_GRAD, &out->plain);
}

struct softmax {
    struct cuda_op op;
    struct scores scores;
    struct cuda_output bottom_grad;
};

static int softmax_create(struct cuda_op *op)
{
    struct softmax *sm = (struct softmax *)op;
    struct blob *bottom = op->args.bottoms[0], *top = op->args.tops[0];

    cuda_top_set(top, NULL);
    if (softmax_scores_create(op, op->args.u.softmax.axis, &sm->scores))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_output_create(op->engine, &bottom->grad, NULL, WORK_BOTTOM_GRAD, &sm->bottom_grad);
}

static int softmax_forward(struct cuda_op *op, const struct run *run)
{
    struct softmax *sm = (struct softmax *)op;
    const struct scores *s = &sm->scores;

    (void)run;
    if (cuda_input_load(op->engine, &sm->scores.plain))
        return -1;
    return cuda_check(kernel_softmax(op->engine->stream, cuda_input_data(op->engine, &s->plain),
                                     op->args.tops[0]->value.data, s->outer, s->classes, s->inner));
}

static int softmax_backward(struct cuda_op *op, const struct run *run)
{
    struct softmax *sm = (struct softmax *)op;
    const struct scores *s = &sm->scores;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_check(kernel_softmax_back(
            op->engine->stream, op->args.tops[0]->value.data, op->args.tops[0]->grad.data,
            cuda_output_data(op->engine, &sm->bottom_grad), s->outer, s->classes, s->inner)))
        return -1;
    return cuda_output_store(op->engine, &sm->bottom_grad);
}

const struct cuda_kind cuda_softmax = {
    .size = sizeof(struct softmax),
    .create = softmax_create,
    .forward = softmax_forward,
    .backward = softmax_backward,
};

static int softmax_labels_create(const struct cuda_op *op, const struct scores *s, bool has_ignore,
                                 int ignore, struct kernel_labels *out)
{
    const struct blob *blob = op->args.bottoms[1];

    *out = (struct kernel_labels){.outer = s->outer,
                                  .classes = s->classes,
                                  .inner = s->inner,
                                  .has_ignore = has_ignore,
                                  .ignore = ignore,
                                  .report = op->engine->bad,
                                  .layer = op->args.layer};
    if (cuda_tensor_format(&blob->value))
        return error_set("the labels come in the format %s; plain ones are needed",
                         cuda_tensor_format(&blob->value)->name);
    return 0;
}

struct softmax_loss {
    struct cuda_op op;
    struct scores scores;
    struct kernel_labels labels;
    struct cuda_output bottom_grad;
    void *own;       /* probabilities, if there is no second top */
    double *divisor; /* of the last forward; device, with one term per position behind it */
};

static int softmax_loss_create(struct cuda_op *op)
{
    struct softmax_loss *sl = (struct softmax_loss *)op;
    const struct softmax_loss_args *a = &op->args.u.softmax_loss;
    struct blob *bottom = op->args.bottoms[0];
    void *terms = NULL;

    for (int i = 0; i < op->args.ntops; i++)
        cuda_top_set(op->args.tops[i], NULL);
    if (softmax_scores_create(op, a->axis, &sl->scores) ||
        softmax_labels_create(op, &sl->scores, a->has_ignore_label, a->ignore_label, &sl->labels))
        return -1;
    if (cuda_alloc(((size_t)sl->scores.outer * (size_t)sl->scores.inner + 1) * sizeof(double),
                   "the terms of a loss", &terms))
        return -1;
    sl->divisor = terms;
    if (op->args.ntops == 1 && cuda_alloc(shape_elems(&bottom->value.shape) * sizeof(float),
                                          "class probabilities", &sl->own))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_output_create(op->engine, &bottom->grad, NULL, WORK_BOTTOM_GRAD, &sl->bottom_grad);
}

static float *softmax_loss_probabilities(const struct softmax_loss *sl)
{
    return sl->own ? sl->own : sl->op.args.tops[1]->value.data;
}

static int softmax_loss_forward(struct cuda_op *op, const struct run *run)
{
    static const enum kernel_normalization normalizations[] = {[LOSS_FULL] = KERNEL_FULL,
                                                               [LOSS_VALID] = KERNEL_VALID,
                                                               [LOSS_BATCH_SIZE] = KERNEL_BATCH,
                                                               [LOSS_NONE] = KERNEL_NONE};
    struct softmax_loss *sl = (struct softmax_loss *)op;
    const struct scores *s = &sl->scores;
    cudaStream_t stream = op->engine->stream;

    (void)run;
    if (cuda_input_load(op->engine, &sl->scores.plain) ||
        cuda_check(kernel_softmax(stream, cuda_input_data(op->engine, &s->plain),
                                  softmax_loss_probabilities(sl), s->outer, s->classes, s->inner)))
        return -1;
    return cuda_check(kernel_softmax_loss(
        stream, &sl->labels, softmax_loss_probabilities(sl), op->args.bottoms[1]->value.data,
        normalizations[op->args.u.softmax_loss.normalization], sl->divisor + 1, sl->divisor,
        op->args.tops[0]->value.data));
}

static int softmax_loss_backward(struct cuda_op *op, const struct run *run)
{
    struct softmax_loss *sl = (struct softmax_loss *)op;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_check(kernel_softmax_loss_back(
            op->engine->stream, &sl->labels, softmax_loss_probabilities(sl),
            op->args.bottoms[1]->value.data, op->args.tops[0]->grad.data, sl->divisor,
            cuda_output_data(op->engine, &sl->bottom_grad))))
        return -1;
    return cuda_output_store(op->engine, &sl->bottom_grad);
}

static void softmax_loss_destroy(struct cuda_op *op)
{
    struct softmax_loss *sl = (struct softmax_loss *)op;

    cuda_free(sl->own);
    cuda_free(sl->divisor);
}

const struct cuda_kind cuda_softmax_loss = {
    .size = sizeof(struct softmax_loss),
    .create = softmax_loss_create,
    .forward = softmax_loss_forward,
    .backward = softmax_loss_backward,
    .destroy = softmax_loss_destroy,
};

struct accuracy {
    struct cuda_op op;
    struct scores scores;
    struct kernel_labels labels;
    void *hits;
};

static int accuracy_create(struct cuda_op *op)
{
    struct accuracy *acc = (struct accuracy *)op;
    const struct accuracy_args *a = &op->args.u.accuracy;

    for (int i = 0; i < op->args.ntops; i++)
        cuda_top_set(op->args.tops[i], NULL);
    if (softmax_scores_create(op, a->axis, &acc->scores) ||
        softmax_labels_create(op, &acc->scores, a->has_ignore_label, a->ignore_label, &acc->labels))
        return -1;
    return cuda_alloc((size_t)acc->scores.outer * (size_t)acc->scores.inner * sizeof(int32_t),
                      "hits", &acc->hits);
}

static int accuracy_forward(struct cuda_op *op, const struct run *run)
{
    struct accuracy *acc = (struct accuracy *)op;

    (void)run;
    if (cuda_input_load(op->engine, &acc->scores.plain))
        return -1;
    return cuda_check(kernel_accuracy(
        op->engine->stream, &acc->labels, op->args.u.accuracy.top_k,
        cuda_input_data(op->engine, &acc->scores.plain), op->args.bottoms[1]->value.data, acc->hits,
        op->args.tops[0]->value.data, op->args.ntops == 2 ? op->args.tops[1]->value.data : NULL));
}

static void accuracy_destroy(struct cuda_op *op)
{
    cuda_free(((struct accuracy *)op)->hits);
}

const struct cuda_kind cuda_accuracy = {
    .size = sizeof(struct accuracy),
    .create = accuracy_create,
    .forward = accuracy_forward,
    .destroy = accuracy_destroy,
};
