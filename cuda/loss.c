/* Losses other than the softmax loss, in float with every engine type; loss.cu has the formulas. */
#include "cuda_internal.h"

#include "engine/op_size.h"

enum { LOSS_BOTTOMS = 3 };

struct loss {
    struct cuda_op op;
    struct kernel_loss kernel;
    void *scratch;           /* divisor for backward, then partial sums */
    void *distance;          /* CONTRASTIVE: squared distance of each pair */
    void *own;               /* INFOGAIN: probabilities, if there is no second top */
    void *matrix, *row_sums; /* INFOGAIN: H, unless it is bottom 2; sums of H's rows */
};

static int loss_create(struct cuda_op *op)
{
    struct loss *loss = (struct loss *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape;

    loss->kernel.rows = (int)shape_dim(x, 0);
    loss->kernel.length = (int)((int64_t)shape_elems(x) / loss->kernel.rows);
    loss->scratch = cuda_op_alloc(op, KERNEL_LOSS_SCRATCH * sizeof(double), "the terms of a loss");
    return loss->scratch ? 0 : -1;
}

static const float *loss_bottom(const struct loss *loss, int i)
{
    return i < loss->op.args.nbottoms ? cuda_op_x(&loss->op, i) : NULL;
}

static float *loss_probabilities(const struct loss *loss)
{
    return loss->own ? loss->own : loss->op.args.tops[1]->value.data;
}

static struct kernel_loss_data loss_data(const struct loss *loss)
{
    bool infogain = loss->kernel.kind == KERNEL_INFOGAIN;

    return (struct kernel_loss_data){.x =
                                         infogain ? loss_probabilities(loss) : loss_bottom(loss, 0),
                                     .t = loss_bottom(loss, 1),
                                     .third = loss->matrix ? loss->matrix : loss_bottom(loss, 2),
                                     .distance = loss->distance,
                                     .row_sums = loss->row_sums};
}

/* Computes what the sum needs: distances (CONTRASTIVE), row sums and probabilities (INFOGAIN). */
static int loss_prepare(const struct loss *loss)
{
    const struct kernel_labels *l = &loss->kernel.labels;
    cudaStream_t stream = loss->op.engine->stream;

    if (loss->kernel.kind == KERNEL_CONTRASTIVE)
        return cuda_check(kernel_distances(stream, loss_bottom(loss, 0), loss_bottom(loss, 1),
                                           loss->kernel.rows, loss->kernel.length, loss->distance));
    if (loss->kernel.kind != KERNEL_INFOGAIN)
        return 0;
    if (cuda_check(kernel_row_sums(stream, loss->matrix ? loss->matrix : loss_bottom(loss, 2),
                                   l->classes, l->classes, loss->row_sums)))
        return -1;
    return cuda_check(kernel_softmax(stream, loss_bottom(loss, 0), loss_probabilities(loss),
                                     l->outer, l->classes, l->inner));
}

static int loss_forward(struct cuda_op *op)
{
    const struct loss *loss = (const struct loss *)op;
    struct kernel_loss_data data;

    if (loss_prepare(loss))
        return -1;
    data = loss_data(loss);
    return cuda_check(
        kernel_loss(op->engine->stream, &loss->kernel, &data, loss->scratch, cuda_op_y(op)));
}

static int loss_gradient(struct cuda_op *op, int bottom, void *dx)
{
    const struct loss *loss = (const struct loss *)op;
    const struct kernel_loss_data data = loss_data(loss);

    return cuda_check(kernel_loss_back(op->engine->stream, &loss->kernel, &data, cuda_op_dy(op),
                                       loss->scratch, bottom == 0 ? 1 : -1, dx));
}

#define LOSS_KIND(variable, create_function)                                                       \
    const struct cuda_kind variable = {                                                            \
        .size = sizeof(struct loss),                                                               \
        .blobs = CUDA_FLOATS,                                                                      \
        .taken = LOSS_BOTTOMS,                                                                     \
        .again = true,                                                                             \
        .create = create_function,                                                                 \
        .forward = loss_forward,                                                                   \
        .gradient = loss_gradient,                                                                 \
    }

static int sigmoid_loss_create(struct cuda_op *op)
{
    struct loss *loss = (struct loss *)op;
    const struct loss_args *a = &op->args.u.sigmoid_loss;
    size_t n = shape_elems(&op->args.bottoms[0]->value.shape);

    if (loss_create(op))
        return -1;
    loss->kernel.kind = KERNEL_SIGMOID;
    loss->kernel.has_ignore = a->has_ignore_label;
    loss->kernel.ignore = a->ignore_label;
    loss->kernel.divisor = op_loss_divisor(a->normalization, (int64_t)n, loss->kernel.rows);
    return 0;
}

LOSS_KIND(cuda_sigmoid_loss, sigmoid_loss_create);

static int euclidean_loss_create(struct cuda_op *op)
{
    struct loss *loss = (struct loss *)op;

    if (loss_create(op))
        return -1;
    loss->kernel.kind = KERNEL_EUCLIDEAN;
    loss->kernel.divisor = 2 * (double)loss->kernel.rows;
    return 0;
}

LOSS_KIND(cuda_euclidean_loss, euclidean_loss_create);

static struct kernel_labels loss_labels(const struct cuda_op *op, int outer, int classes, int inner)
{
    return (struct kernel_labels){.outer = outer,
                                  .classes = classes,
                                  .inner = inner,
                                  .report = op->engine->bad,
                                  .layer = op->args.layer};
}

/* Creates a loss with one label per row. */
static int loss_create_rows(struct cuda_op *op, enum kernel_loss_kind kind)
{
    struct loss *loss = (struct loss *)op;

    if (loss_create(op))
        return -1;
    loss->kernel.kind = kind;
    loss->kernel.divisor = loss->kernel.rows;
    loss->kernel.labels = loss_labels(op, loss->kernel.rows, loss->kernel.length, 1);
    return 0;
}

static int hinge_loss_create(struct cuda_op *op)
{
    ((struct loss *)op)->kernel.other = op->args.u.hinge_loss.l2;
    return loss_create_rows(op, KERNEL_HINGE);
}

LOSS_KIND(cuda_hinge_loss, hinge_loss_create);

static int multinomial_loss_create(struct cuda_op *op)
{
    return loss_create_rows(op, KERNEL_MULTINOMIAL);
}

LOSS_KIND(cuda_multinomial_loss, multinomial_loss_create);

static int contrastive_loss_create(struct cuda_op *op)
{
    struct loss *loss = (struct loss *)op;
    int64_t pairs = shape_dim(&op->args.bottoms[0]->value.shape, 0);

    if (loss_create(op))
        return -1;
    loss->kernel.kind = KERNEL_CONTRASTIVE;
    loss->kernel.other = op->args.u.contrastive_loss.legacy;
    loss->kernel.margin = op->args.u.contrastive_loss.margin;
    loss->kernel.divisor = 2 * (double)pairs;
    loss->distance = cuda_op_alloc(op, (size_t)pairs * sizeof(double), "the distances of a loss");
    return loss->distance ? 0 : -1;
}

LOSS_KIND(cuda_contrastive_loss, contrastive_loss_create);

/* Copies the matrix H to the device, unless it is bottom 2; allocates the sums of H's rows. */
static int infogain_matrix(struct loss *loss, size_t classes)
{
    struct cuda_op *op = &loss->op;
    struct tensor matrix = {.shape = {.naxes = 1, .dim = {(int64_t)(classes * classes)}}};

    matrix.bytes = classes * classes * sizeof(float);
    loss->row_sums = cuda_op_alloc(op, classes * sizeof(float), "sums of the infogain matrix");
    if (!loss->row_sums)
        return -1;
    if (op->args.nbottoms == 3)
        return 0;
    loss->matrix = cuda_op_alloc(op, matrix.bytes, "the infogain matrix");
    if (!loss->matrix)
        return -1;
    matrix.data = loss->matrix;
    return cuda_write(op->engine, &matrix, op->args.u.infogain_loss.matrix);
}

static int infogain_loss_create(struct cuda_op *op)
{
    struct loss *loss = (struct loss *)op;
    const struct loss_args *a = &op->args.u.infogain_loss;
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    struct op_axes axes = op_axes_at(x, a->axis);
    int outer = (int)axes.outer, inner = (int)axes.inner;

    if (loss_create(op) || infogain_matrix(loss, (size_t)axes.length))
        return -1;
    loss->kernel.kind = KERNEL_INFOGAIN;
    loss->kernel.divisor = op_loss_divisor(a->normalization, axes.outer * axes.inner, outer);
    loss->kernel.labels = loss_labels(op, outer, (int)axes.length, inner);
    loss->kernel.labels.has_ignore = a->has_ignore_label;
    loss->kernel.labels.ignore = a->ignore_label;
    if (op->args.ntops == 2)
        return 0;
    loss->own = cuda_op_alloc(op, shape_elems(x) * sizeof(float), "class probabilities");
    return loss->own ? 0 : -1;
}

LOSS_KIND(cuda_infogain_loss, infogain_loss_create);
