/* Sum, product or maximum of several bottoms, element by element, in one common format. */
#include "cuda_internal.h"

#include "engine/op_size.h"

struct eltwise {
    struct cuda_op op;
    const struct cuda_format *format;
    size_t n;
    void *winner; /* MAX in TRAIN: the winning bottom of each element */
};

static const struct cuda_format *eltwise_format(const struct cuda_op *op)
{
    if (!cuda_op_in_place(op))
        for (int i = 0; i < op->args.nbottoms; i++) {
            const struct cuda_format *format = cuda_tensor_format(&op->args.bottoms[i]->value);
            if (format && format->nhwc)
                return cuda_nhwc(op->engine);
        }
    return cuda_tensor_format(&op->args.bottoms[0]->value);
}

static int eltwise_create(struct cuda_op *op)
{
    struct eltwise *elt = (struct eltwise *)op;

    elt->format = eltwise_format(op);
    elt->n = shape_elems(&op->args.tops[0]->value.shape);
    if (!cuda_op_in_place(op))
        cuda_top_set(op->args.tops[0], elt->format);
    if (op->args.u.eltwise.operation == ELTWISE_MAX && op->args.train &&
        !(elt->winner = cuda_op_alloc(op, elt->n * sizeof(int32_t), "the winners of a maximum")))
        return -1;
    for (int i = 0; i < op->args.nbottoms; i++)
        if (cuda_op_take(op, i, elt->format, true))
            return -1;
    return 0;
}

static int eltwise_forward_one(struct eltwise *elt, int i, void *y)
{
    struct cuda_op *op = &elt->op;
    cudaStream_t stream = op->engine->stream;
    enum cuda_type type = cuda_format_type(elt->format);
    const void *x = cuda_op_x(op, i);

    if (i == 0)
        return cuda_check(kernel_axpby(stream, type, 1, x, 0, y, elt->n));
    return cuda_check(kernel_eltwise(
        stream, type, op->args.u.eltwise.operation == ELTWISE_PROD ? KERNEL_PROD : KERNEL_MAX, x, y,
        elt->winner, i, elt->n));
}

/* Adds the first two bottoms, then each further bottom; the last addition does the ReLU. */
static int eltwise_sum(struct eltwise *elt, void *y)
{
    struct cuda_op *op = &elt->op;
    cudaStream_t stream = op->engine->stream;
    enum cuda_type type = cuda_format_type(elt->format);
    bool relu = op->args.relu;
    int n = op->args.nbottoms;
    const void *x = cuda_op_x(op, 0);

    if (n == 1)
        return cuda_check(kernel_eltwise_sum(stream, type, op_eltwise_coeff(&op->args, 0), x, 0,
                                             NULL, relu, y, elt->n));
    for (int i = 1; i < n; i++)
        if (cuda_check(kernel_eltwise_sum(stream, type, op_eltwise_coeff(&op->args, i),
                                          cuda_op_x(op, i),
                                          i == 1 ? op_eltwise_coeff(&op->args, 0) : 1,
                                          i == 1 ? x : y, relu && i == n - 1, y, elt->n)))
            return -1;
    return 0;
}

static int eltwise_forward(struct cuda_op *op)
{
    struct eltwise *elt = (struct eltwise *)op;

    if (op->args.u.eltwise.operation == ELTWISE_SUM)
        return eltwise_sum(elt, cuda_op_y(op));
    /* a single bottom wins everywhere */
    if (elt->winner && op->args.nbottoms == 1 &&
        cuda_check(cudaMemsetAsync(elt->winner, 0, elt->n * sizeof(int32_t), op->engine->stream)))
        return -1;
    for (int i = 0; i < op->args.nbottoms; i++)
        if (eltwise_forward_one(elt, i, cuda_op_y(op)))
            return -1;
    return 0;
}

/* Returns the top's values if a ReLU is fused, since dy is 0 where y is not positive; else NULL. */
static const void *eltwise_relu_top(const struct cuda_op *op)
{
    return op->args.relu ? op->args.tops[0]->value.data : NULL;
}

/* Writes one bottom's gradient. PROD multiplies the other bottoms: x may be 0 in y / x. */
static int eltwise_backward_one(struct eltwise *elt, int who, const void *dy, void *dx)
{
    struct cuda_op *op = &elt->op;
    cudaStream_t stream = op->engine->stream;
    enum cuda_type type = cuda_format_type(elt->format);

    switch (op->args.u.eltwise.operation) {
    case ELTWISE_SUM:
        return cuda_check(kernel_eltwise_sum_back(stream, type, eltwise_relu_top(op), dy,
                                                  op_eltwise_coeff(&op->args, who), dx, 0, NULL,
                                                  elt->n));
    case ELTWISE_MAX:
        return cuda_check(kernel_eltwise_max_back(stream, type, dy, elt->winner, who, dx, elt->n));
    case ELTWISE_PROD:
        break;
    }
    if (cuda_check(kernel_axpby(stream, type, 1, dy, 0, dx, elt->n)))
        return -1;
    for (int i = 0; i < op->args.nbottoms; i++)
        if (i != who && cuda_check(kernel_eltwise(stream, type, KERNEL_PROD, cuda_op_x(op, i), dx,
                                                  NULL, 0, elt->n)))
            return -1;
    return 0;
}

/* Returns true for a sum of two whose gradients need no conversion: one kernel writes both. */
static bool eltwise_pairs(const struct cuda_op *op)
{
    return op->args.u.eltwise.operation == ELTWISE_SUM && op->args.nbottoms == 2 &&
           cuda_op_propagates(op, 0) && cuda_op_propagates(op, 1) && !op->out[0].converts &&
           !op->out[1].converts;
}

static int eltwise_backward(struct cuda_op *op)
{
    struct eltwise *elt = (struct eltwise *)op;

    if (eltwise_pairs(op))
        return cuda_check(kernel_eltwise_sum_back(
            op->engine->stream, cuda_format_type(elt->format), eltwise_relu_top(op), cuda_op_dy(op),
            op_eltwise_coeff(&op->args, 0), cuda_op_dx(op, 0), op_eltwise_coeff(&op->args, 1),
            cuda_op_dx(op, 1), elt->n));
    /* from the last: in place, bottom 0's gradient takes dy's memory, which the others read */
    for (int i = op->args.nbottoms - 1; i >= 0; i--)
        if (cuda_op_propagates(op, i) &&
            (eltwise_backward_one(elt, i, cuda_op_dy(op), cuda_op_dx(op, i)) ||
             cuda_view_move(op->engine, &op->out[i])))
            return -1;
    return 0;
}

const struct cuda_kind cuda_eltwise = {
    .size = sizeof(struct eltwise),
    .create = eltwise_create,
    .forward = eltwise_forward,
    .backward = eltwise_backward,
};
