/* ReLU and dropout: one value in, one value out, whatever the format. */
#include "cuda_internal.h"

struct relu {
    struct cuda_op op;
};

static int relu_create(struct cuda_op *op)
{
    if (!cuda_op_in_place(op))
        cuda_top_set(op->args.tops[0], cuda_tensor_format(&op->args.bottoms[0]->value));
    return 0;
}

static int relu_forward(struct cuda_op *op, const struct run *run)
{
    (void)run;
    return cuda_check(kernel_relu(op->engine->stream, cuda_bottom_type(op),
                                  op->args.bottoms[0]->value.data, op->args.u.relu.negative_slope,
                                  op->args.tops[0]->value.data,
                                  shape_elems(&op->args.tops[0]->value.shape)));
}

static int relu_backward(struct cuda_op *op, const struct run *run)
{
    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_check(kernel_relu_back(
        op->engine->stream, cuda_bottom_type(op), op->args.bottoms[0]->value.data,
        op->args.tops[0]->grad.data, op->args.u.relu.negative_slope, op->args.bottoms[0]->grad.data,
        shape_elems(&op->args.tops[0]->value.shape)));
}

const struct cuda_kind cuda_relu = {
    .size = sizeof(struct relu),
    .create = relu_create,
    .forward = relu_forward,
    .backward = relu_backward,
};

struct dropout {
    struct cuda_op op;
    struct kernel_dropout args; /* run: of the last forward */
};

static int dropout_create(struct cuda_op *op)
{
    struct dropout *drop = (struct dropout *)op;
    const struct tensor *bottom = &op->args.bottoms[0]->value;
    const struct cuda_format *format = cuda_tensor_format(bottom);
    float ratio = op->args.u.dropout.ratio;

    if (!op->args.train) {
        if (!cuda_op_in_place(op))
            cuda_top_alias(op->args.tops[0], op->args.bottoms[0], false);
        return 0;
    }
    if (!cuda_op_in_place(op))
        cuda_top_set(op->args.tops[0], format);
    drop->args = (struct kernel_dropout){.layer = (uint32_t)op->args.layer_index,
                                         .ratio = ratio,
                                         .samples = (int)shape_dim(&bottom->shape, 0),
                                         .channels = (int)shape_dim(&bottom->shape, 1),
                                         .nhwc = format && format->nhwc};
    drop->args.pixels = (int)shape_elems(&bottom->shape) / drop->args.samples / drop->args.channels;
    return 0;
}

static int dropout_run(struct dropout *drop, const void *from, void *to)
{
    drop->args.at = cuda_recorded_run(drop->op.engine);
    return cuda_check(kernel_dropout(drop->op.engine->stream, cuda_bottom_type(&drop->op),
                                     &drop->args, from, to));
}

static int dropout_forward(struct cuda_op *op, const struct run *run)
{
    struct dropout *drop = (struct dropout *)op;

    if (!op->args.train)
        return 0;
    drop->args.run = (struct kernel_run){run->seed, run->first_sample};
    return dropout_run(drop, op->args.bottoms[0]->value.data, op->args.tops[0]->value.data);
}

static int dropout_backward(struct cuda_op *op, const struct run *run)
{
    /* forward may have been launched from a recording */
    ((struct dropout *)op)->args.run = (struct kernel_run){run->seed, run->first_sample};
    if (!cuda_op_propagates(op, 0))
        return 0;
    return dropout_run((struct dropout *)op, op->args.tops[0]->grad.data,
                       op->args.bottoms[0]->grad.data);
}

const struct cuda_kind cuda_dropout = {
    .size = sizeof(struct dropout),
    .create = dropout_create,
    .forward = dropout_forward,
    .backward = dropout_backward,
};
