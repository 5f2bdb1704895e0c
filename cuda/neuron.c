/* ReLU and dropout: one value in, one value out, in any format. */
#include "cuda_internal.h"

static int relu_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    enum cuda_type type = cuda_bottom_type(op);
    cudaStream_t stream = op->engine->stream;
    float slope = op->args.u.relu.negative_slope;
    size_t n = shape_elems(&op->args.tops[0]->value.shape);

    return cuda_check(back ? kernel_relu_back(stream, type, cuda_op_x(op, 0), from, slope, to, n)
                           : kernel_relu(stream, type, from, slope, to, n));
}

const struct cuda_kind cuda_relu = {.blobs = CUDA_AS_BOTTOM, .run = relu_run};

struct dropout {
    struct cuda_op op;
    struct kernel_dropout args;
};

static int dropout_create(struct cuda_op *op)
{
    struct dropout *drop = (struct dropout *)op;
    const struct tensor *bottom = &op->args.bottoms[0]->value;
    const struct cuda_format *format = cuda_tensor_format(bottom);

    if (!op->args.train) {
        if (!cuda_op_in_place(op))
            cuda_top_alias(op->args.tops[0], op->args.bottoms[0], false);
        return 0;
    }
    if (!cuda_op_in_place(op))
        cuda_top_set(op->args.tops[0], format);
    drop->args = (struct kernel_dropout){.layer = (uint32_t)op->args.layer_index,
                                         .ratio = op->args.u.dropout.ratio,
                                         .samples = (int)shape_dim(&bottom->shape, 0),
                                         .channels = (int)shape_dim(&bottom->shape, 1),
                                         .nhwc = format && format->nhwc};
    drop->args.pixels = (int)shape_elems(&bottom->shape) / drop->args.samples / drop->args.channels;
    return 0;
}

/* Drops elements of x or dy. Backward sets args.pass again: a recorded forward does not. */
static int dropout_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    struct dropout *drop = (struct dropout *)op;

    (void)back;
    if (!op->args.train)
        return 0;
    drop->args.pass = (struct kernel_pass){op->pass->seed, op->pass->first_sample};
    drop->args.at = cuda_recorded_pass(op->engine);
    return cuda_check(
        kernel_dropout(op->engine->stream, cuda_bottom_type(op), &drop->args, from, to));
}

const struct cuda_kind cuda_dropout = {
    .size = sizeof(struct dropout),
    .create = dropout_create,
    .run = dropout_run,
};
