/* Sum, product or maximum of several bottoms, element by element, in one common format. */
#include "cuda_internal.h"

#include "util/error.h"

#include <stdlib.h>

struct eltwise {
    struct cuda_op op;
    const struct cuda_format *format;
    size_t n;
    float *coeff;
    struct cuda_input *in;
    struct cuda_output *out;
    void *winner; /* MAX in TRAIN: which bottom */
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

static int eltwise_arrays(struct eltwise *elt)
{
    const struct cuda_op *op = &elt->op;
    size_t n = (size_t)op->args.nbottoms;

    elt->coeff = calloc(n, sizeof *elt->coeff);
    elt->in = calloc(n, sizeof *elt->in);
    elt->out = calloc(n, sizeof *elt->out);
    if (!elt->coeff || !elt->in || !elt->out)
        return error_memory(n * sizeof *elt->in, "an eltwise operator");
    for (size_t i = 0; i < n; i++)
        elt->coeff[i] = op->args.u.eltwise.coeff ? op->args.u.eltwise.coeff[i] : 1;
    elt->op.args.u.eltwise.coeff = NULL; /* was lent for this call only */
    if (op->args.u.eltwise.operation != ELTWISE_MAX || !op->args.train)
        return 0;
    return cuda_alloc(elt->n * sizeof(int32_t), "the winners of a maximum", &elt->winner);
}

static int eltwise_create(struct cuda_op *op)
{
    struct eltwise *elt = (struct eltwise *)op;

    elt->format = eltwise_format(op);
    elt->n = shape_elems(&op->args.tops[0]->value.shape);
    if (!cuda_op_in_place(op))
        cuda_top_set(op->args.tops[0], elt->format);
    if (eltwise_arrays(elt))
        return -1;
    for (int i = 0; i < op->args.nbottoms; i++) {
        struct blob *bottom = op->args.bottoms[i];
        if (cuda_input_create(op->engine, &bottom->value, elt->format, WORK_OWN, &elt->in[i]))
            return -1;
        if (cuda_op_propagates(op, i) && cuda_output_create(op->engine, &bottom->grad, elt->format,
                                                            WORK_BOTTOM_GRAD, &elt->out[i]))
            return -1;
    }
    return 0;
}

static int eltwise_forward_one(struct eltwise *elt, int i, void *y)
{
    struct cuda_op *op = &elt->op;
    cudaStream_t stream = op->engine->stream;
    enum cuda_type type = cuda_format_type(elt->format);
    const void *x;

    if (cuda_input_load(op->engine, &elt->in[i]))
        return -1;
    x = cuda_input_data(op->engine, &elt->in[i]);
    if (i == 0)
        return cuda_check(kernel_axpby(stream, type, 1, x, 0, y, elt->n));
    return cuda_check(kernel_eltwise(
        stream, type, op->args.u.eltwise.operation == ELTWISE_PROD ? KERNEL_PROD : KERNEL_MAX, x, y,
        elt->winner, i, elt->n));
}

/* The first two bottoms together, each further one to what there is; a ReLU with the last. */
static int eltwise_sum(struct eltwise *elt, void *y)
{
    struct cuda_op *op = &elt->op;
    cudaStream_t stream = op->engine->stream;
    enum cuda_type type = cuda_format_type(elt->format);
    bool relu = op->args.u.eltwise.relu;
    int n = op->args.nbottoms;
    const void *x;

    for (int i = 0; i < n; i++)
        if (cuda_input_load(op->engine, &elt->in[i]))
            return -1;
    x = cuda_input_data(op->engine, &elt->in[0]);
    if (n == 1)
        return cuda_check(
            kernel_eltwise_sum(stream, type, elt->coeff[0], x, 0, NULL, relu, y, elt->n));
    for (int i = 1; i < n; i++)
        if (cuda_check(kernel_eltwise_sum(
                stream, type, elt->coeff[i], cuda_input_data(op->engine, &elt->in[i]),
                i == 1 ? elt->coeff[0] : 1, i == 1 ? x : y, relu && i == n - 1, y, elt->n)))
            return -1;
    return 0;
}

static int eltwise_forward(struct cuda_op *op, const struct run *run)
{
    struct eltwise *elt = (struct eltwise *)op;

    (void)run;
    if (op->args.u.eltwise.operation == ELTWISE_SUM)
        return eltwise_sum(elt, op->args.tops[0]->value.data);
    /* of a single bottom, that one wins */
    if (elt->winner && op->args.nbottoms == 1 &&
        cuda_check(cudaMemsetAsync(elt->winner, 0, elt->n * sizeof(int32_t), op->engine->stream)))
        return -1;
    for (int i = 0; i < op->args.nbottoms; i++)
        if (eltwise_forward_one(elt, i, op->args.tops[0]->value.data))
            return -1;
    return 0;
}

/* What tells where a fused ReLU cut; NULL: there is none. */
static const void *eltwise_relu_top(const struct cuda_op *op)
{
    return op->args.u.eltwise.relu ? op->args.tops[0]->value.data : NULL;
}

/* The product of the others, not y / x: x may be 0. */
static int eltwise_backward_one(struct eltwise *elt, int who, const void *dy, void *dx)
{
    struct cuda_op *op = &elt->op;
    cudaStream_t stream = op->engine->stream;
    enum cuda_type type = cuda_format_type(elt->format);

    switch (op->args.u.eltwise.operation) {
    case ELTWISE_SUM:
        return cuda_check(kernel_eltwise_sum_back(stream, type, eltwise_relu_top(op), dy,
                                                  elt->coeff[who], dx, 0, NULL, elt->n));
    case ELTWISE_MAX:
        return cuda_check(kernel_eltwise_max_back(stream, type, dy, elt->winner, who, dx, elt->n));
    case ELTWISE_PROD:
        break;
    }
    if (cuda_check(kernel_axpby(stream, type, 1, dy, 0, dx, elt->n)))
        return -1;
    for (int i = 0; i < op->args.nbottoms; i++)
        if (i != who && cuda_check(kernel_eltwise(stream, type, KERNEL_PROD,
                                                  cuda_input_data(op->engine, &elt->in[i]), dx,
                                                  NULL, 0, elt->n)))
            return -1;
    return 0;
}

/* Whether it is a sum of two whose gradients are both written where they belong: one pass. */
static bool eltwise_pairs(const struct eltwise *elt)
{
    const struct cuda_op *op = &elt->op;

    if (op->args.u.eltwise.operation != ELTWISE_SUM || op->args.nbottoms != 2)
        return false;
    for (int i = 0; i < 2; i++)
        if (!elt->out[i].tensor || !cuda_op_propagates(op, i) || elt->out[i].converts)
            return false;
    return true;
}

static int eltwise_backward(struct cuda_op *op, const struct run *run)
{
    struct eltwise *elt = (struct eltwise *)op;

    (void)run;
    if (eltwise_pairs(elt))
        return cuda_check(kernel_eltwise_sum_back(
            op->engine->stream, cuda_format_type(elt->format), eltwise_relu_top(op),
            op->args.tops[0]->grad.data, elt->coeff[0], cuda_output_data(op->engine, &elt->out[0]),
            elt->coeff[1], cuda_output_data(op->engine, &elt->out[1]), elt->n));
    /* downwards: in place, bottom 0's gradient takes the memory that the others are made from */
    for (int i = op->args.nbottoms - 1; i >= 0; i--) {
        if (!elt->out[i].tensor || !cuda_op_propagates(op, i))
            continue;
        if (eltwise_backward_one(elt, i, op->args.tops[0]->grad.data,
                                 cuda_output_data(op->engine, &elt->out[i])) ||
            cuda_output_store(op->engine, &elt->out[i]))
            return -1;
    }
    return 0;
}

static void eltwise_destroy(struct cuda_op *op)
{
    struct eltwise *elt = (struct eltwise *)op;

    for (int i = 0; elt->in && i < op->args.nbottoms; i++)
        cuda_input_destroy(&elt->in[i]);
    free(elt->coeff);
    free(elt->in);
    free(elt->out);
    cuda_free(elt->winner);
}

const struct cuda_kind cuda_eltwise = {
    .size = sizeof(struct eltwise),
    .create = eltwise_create,
    .forward = eltwise_forward,
    .backward = eltwise_backward,
    .destroy = eltwise_destroy,
};
