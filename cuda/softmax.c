/* Softmax, softmax loss and accuracy, on plain floats seen as outer x classes x inner. */
#include "cuda_internal.h"

#include "engine/op_size.h"
#include "util/error.h"

static int softmax_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    const struct op_axes axes =
        op_axes_at(&op->args.bottoms[0]->value.shape, op->args.u.softmax.axis);
    int outer = (int)axes.outer, classes = (int)axes.length, inner = (int)axes.inner;
    cudaStream_t stream = op->engine->stream;

    return cuda_check(
        back ? kernel_softmax_back(stream, cuda_op_y(op), from, to, outer, classes, inner)
             : kernel_softmax(stream, from, to, outer, classes, inner));
}

const struct cuda_kind cuda_softmax = {.blobs = CUDA_FLOATS, .run = softmax_run};

static int softmax_labels_create(const struct cuda_op *op, int axis, bool has_ignore, int ignore,
                                 struct kernel_labels *out)
{
    const struct op_axes axes = op_axes_at(&op->args.bottoms[0]->value.shape, axis);
    const struct cuda_format *format = cuda_tensor_format(&op->args.bottoms[1]->value);

    *out = (struct kernel_labels){.outer = (int)axes.outer,
                                  .classes = (int)axes.length,
                                  .inner = (int)axes.inner,
                                  .has_ignore = has_ignore,
                                  .ignore = ignore,
                                  .report = op->engine->bad,
                                  .layer = op->args.layer};
    return format ? error_set("the labels have the format %s; expected plain floats", format->name)
                  : 0;
}

struct softmax_loss {
    struct cuda_op op;
    struct kernel_labels labels;
    float *own;      /* probabilities, if there is no second top */
    double *divisor; /* device: divisor of the last forward, then one term per position */
};

static int softmax_loss_create(struct cuda_op *op)
{
    struct softmax_loss *sl = (struct softmax_loss *)op;
    const struct loss_args *a = &op->args.u.softmax_loss;
    size_t places;

    if (softmax_labels_create(op, a->axis, a->has_ignore_label, a->ignore_label, &sl->labels))
        return -1;
    sl->labels.smoothing = a->smoothing;
    places = (size_t)sl->labels.outer * (size_t)sl->labels.inner;
    sl->divisor = cuda_op_alloc(op, (places + 1) * sizeof(double), "the terms of a loss");
    if (!sl->divisor || op->args.ntops == 2)
        return sl->divisor ? 0 : -1;
    sl->own = cuda_op_alloc(op, shape_elems(&op->args.bottoms[0]->value.shape) * sizeof(float),
                            "class probabilities");
    return sl->own ? 0 : -1;
}

static float *softmax_loss_probabilities(const struct softmax_loss *sl)
{
    return sl->own ? sl->own : sl->op.args.tops[1]->value.data;
}

static int softmax_loss_forward(struct cuda_op *op)
{
    struct softmax_loss *sl = (struct softmax_loss *)op;
    const struct kernel_labels *l = &sl->labels;
    cudaStream_t stream = op->engine->stream;
    float *p = softmax_loss_probabilities(sl);
    double divisor = op_loss_divisor(op->args.u.softmax_loss.normalization,
                                     (int64_t)l->outer * l->inner, l->outer);

    if (cuda_check(kernel_softmax(stream, cuda_op_x(op, 0), p, l->outer, l->classes, l->inner)))
        return -1;
    return cuda_check(kernel_softmax_loss(stream, l, p, op->args.bottoms[1]->value.data, divisor,
                                          sl->divisor + 1, sl->divisor, cuda_op_y(op)));
}

static int softmax_loss_gradient(struct cuda_op *op, int bottom, void *dx)
{
    const struct softmax_loss *sl = (const struct softmax_loss *)op;

    (void)bottom;
    return cuda_check(
        kernel_softmax_loss_back(op->engine->stream, &sl->labels, softmax_loss_probabilities(sl),
                                 op->args.bottoms[1]->value.data, cuda_op_dy(op), sl->divisor, dx));
}

const struct cuda_kind cuda_softmax_loss = {
    .size = sizeof(struct softmax_loss),
    .blobs = CUDA_FLOATS,
    .create = softmax_loss_create,
    .forward = softmax_loss_forward,
    .gradient = softmax_loss_gradient,
};

struct accuracy {
    struct cuda_op op;
    struct kernel_labels labels;
    void *hits;
};

static int accuracy_create(struct cuda_op *op)
{
    struct accuracy *acc = (struct accuracy *)op;
    const struct accuracy_args *a = &op->args.u.accuracy;

    if (softmax_labels_create(op, a->axis, a->has_ignore_label, a->ignore_label, &acc->labels))
        return -1;
    acc->hits = cuda_op_alloc(
        op, (size_t)acc->labels.outer * (size_t)acc->labels.inner * sizeof(int32_t), "hits");
    return acc->hits ? 0 : -1;
}

static int accuracy_forward(struct cuda_op *op)
{
    const struct accuracy *acc = (const struct accuracy *)op;

    return cuda_check(kernel_accuracy(op->engine->stream, &acc->labels, op->args.u.accuracy.top_k,
                                      cuda_op_x(op, 0), op->args.bottoms[1]->value.data, acc->hits,
                                      cuda_op_y(op),
                                      op->args.ntops == 2 ? op->args.tops[1]->value.data : NULL));
}

const struct cuda_kind cuda_accuracy = {
    .size = sizeof(struct accuracy),
    .blobs = CUDA_FLOATS,
    .create = accuracy_create,
    .forward = accuracy_forward,
};
