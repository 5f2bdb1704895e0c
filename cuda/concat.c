/* Operators that join, cut, copy or reshape blobs: concat, slice, split, flatten. */
#include "cuda_internal.h"

#include "engine/op_size.h"

/* A whole blob cut along one axis: each of its rows holds one row of every part, side by side. The
 * parts are the bottoms of a concat, or the tops of a slice. */
struct joint {
    struct cuda_op op;
    enum cuda_type type; /* element type of whole and parts */
    int rows, row;       /* number of rows; elements of a row */
    int *begin;          /* each part's first element in a row, then the row's end */
};

/* Returns NHWC if any bottom has it, else the first bottom's format. */
static const struct cuda_format *concat_format(const struct cuda_op *op)
{
    for (int i = 0; i < op->args.nbottoms; i++) {
        const struct cuda_format *format = cuda_tensor_format(&op->args.bottoms[i]->value);
        if (format && format->nhwc)
            return cuda_nhwc(op->engine);
    }
    return cuda_tensor_format(&op->args.bottoms[0]->value);
}

int cuda_pieces(const struct shape *shape, const struct cuda_format *format, int axis)
{
    int pieces = 1;

    for (int d = 0; d < shape->naxes; d++) {
        int at = cuda_axis_at(shape, format, d);
        if (at == axis)
            break;
        pieces *= (int)shape->dim[at];
    }
    return pieces;
}

static int joint_create(struct joint *joint, const struct cuda_format *format, int axis,
                        const struct shape *whole, struct blob *const *parts, int n)
{
    if (OWN(&joint->op.owner, joint->begin, n + 1, "the parts of a blob"))
        return -1;
    joint->type = cuda_format_type(format);
    joint->rows = cuda_pieces(whole, format, op_axis(whole, axis));
    for (int i = 0; i < n; i++)
        joint->begin[i + 1] =
            joint->begin[i] + (int)shape_elems(&parts[i]->value.shape) / joint->rows;
    joint->row = joint->begin[n];
    return 0;
}

static int joint_length(const struct joint *joint, int part)
{
    return joint->begin[part + 1] - joint->begin[part];
}

/* Returns the place of a part's first row in the whole. */
static void *joint_at(const struct joint *joint, const void *whole, int part)
{
    return (char *)(uintptr_t)whole + (size_t)joint->begin[part] * cuda_type_bytes(joint->type);
}

/* Copies a part's rows. from_row, to_row: elements from one row to the next. */
static int joint_move(const struct joint *joint, int part, const void *from, int from_row, void *to,
                      int to_row)
{
    return cuda_check(kernel_copy_rows(joint->op.engine->stream, joint->type, from, from_row, to,
                                       to_row, joint_length(joint, part), joint->rows));
}

static int concat_create(struct cuda_op *op)
{
    const struct cuda_format *format = concat_format(op);

    cuda_top_set(op->args.tops[0], format);
    if (joint_create((struct joint *)op, format, op->args.u.concat.axis,
                     &op->args.tops[0]->value.shape, op->args.bottoms, op->args.nbottoms))
        return -1;
    for (int i = 0; i < op->args.nbottoms; i++)
        if (cuda_op_take(op, i, format, false))
            return -1;
    return 0;
}

static bool concat_takes_relu(const struct cuda_op *op, int i)
{
    return op->args.u.concat.relu && op->args.u.concat.relu[i];
}

static int concat_forward(struct cuda_op *op)
{
    const struct joint *joint = (const struct joint *)op;

    for (int i = 0; i < op->args.nbottoms; i++) {
        int length = joint_length(joint, i);
        void *to = joint_at(joint, cuda_op_y(op), i);
        if (cuda_view_move(op->engine, &op->in[i]))
            return -1;
        if (concat_takes_relu(op, i)
                ? cuda_check(kernel_relu_rows(op->engine->stream, joint->type, cuda_op_x(op, i),
                                              NULL, length, to, joint->row, length, joint->rows))
                : joint_move(joint, i, cuda_op_x(op, i), length, to, joint->row))
            return -1;
    }
    return 0;
}

/* Cuts a part's gradient out of dy. With a fused ReLU, dx is 0 where the top is not positive. */
static int concat_gradient(struct cuda_op *op, int i, void *dx)
{
    const struct joint *joint = (const struct joint *)op;
    const void *dy = joint_at(joint, cuda_op_dy(op), i);
    int length = joint_length(joint, i);

    if (!concat_takes_relu(op, i))
        return joint_move(joint, i, dy, joint->row, dx, length);
    return cuda_check(kernel_relu_rows(op->engine->stream, joint->type, dy,
                                       joint_at(joint, cuda_op_y(op), i), joint->row, dx, length,
                                       length, joint->rows));
}

const struct cuda_kind cuda_concat = {
    .size = sizeof(struct joint),
    .loads = true,
    .create = concat_create,
    .forward = concat_forward,
    .gradient = concat_gradient,
};

static int slice_create(struct cuda_op *op)
{
    const struct tensor *x = &op->args.bottoms[0]->value;

    return joint_create((struct joint *)op, cuda_tensor_format(x), op->args.u.slice.axis, &x->shape,
                        op->args.tops, op->args.ntops);
}

static int slice_forward(struct cuda_op *op)
{
    const struct joint *joint = (const struct joint *)op;

    for (int i = 0; i < op->args.ntops; i++)
        if (joint_move(joint, i, joint_at(joint, cuda_op_x(op, 0), i), joint->row,
                       op->args.tops[i]->value.data, joint_length(joint, i)))
            return -1;
    return 0;
}

static int slice_gradient(struct cuda_op *op, int bottom, void *dx)
{
    const struct joint *joint = (const struct joint *)op;
    size_t bytes = (size_t)joint->rows * (size_t)joint->row * cuda_type_bytes(joint->type);

    (void)bottom;
    if (cuda_check(cudaMemsetAsync(dx, 0, bytes, op->engine->stream)))
        return -1;
    for (int i = 0; i < op->args.ntops; i++) {
        const struct blob *top = op->args.tops[i];
        if (top->wants_grad && top->grad.data &&
            joint_move(joint, i, top->grad.data, joint_length(joint, i), joint_at(joint, dx, i),
                       joint->row))
            return -1;
    }
    return 0;
}

const struct cuda_kind cuda_slice = {
    .size = sizeof(struct joint),
    .blobs = CUDA_AS_BOTTOM,
    .create = slice_create,
    .forward = slice_forward,
    .gradient = slice_gradient,
};

static int split_create(struct cuda_op *op)
{
    for (int i = 0; i < op->args.ntops; i++)
        cuda_top_alias(op->args.tops[i], op->args.bottoms[0], false);
    return 0;
}

static int split_gradient(struct cuda_op *op, int bottom, void *dx)
{
    cudaStream_t stream = op->engine->stream;
    enum cuda_type type = cuda_bottom_type(op);
    size_t n = shape_elems(&op->args.bottoms[bottom]->value.shape);
    const void *sum = NULL; /* sum of gradients so far: the first top's gradient, then dx */

    for (int i = 0; i < op->args.ntops; i++) {
        const struct blob *top = op->args.tops[i];
        if (!top->wants_grad || !top->grad.data)
            continue;
        if (sum &&
            cuda_check(kernel_eltwise_sum(stream, type, 1, top->grad.data, 1, sum, false, dx, n)))
            return -1;
        sum = sum ? dx : top->grad.data;
    }
    if (sum == dx)
        return 0;
    return cuda_check(sum ? kernel_axpby(stream, type, 1, sum, 0, dx, n)
                          : cudaMemsetAsync(dx, 0, n * cuda_type_bytes(type), stream));
}

const struct cuda_kind cuda_split = {.create = split_create, .gradient = split_gradient};

static int flatten_create(struct cuda_op *op)
{
    struct blob *bottom = op->args.bottoms[0], *top = op->args.tops[0];
    const struct cuda_format *format = cuda_tensor_format(&bottom->value);

    if (format && format->nhwc)
        cuda_top_set(top, format->type == CUDA_BF16 ? &cuda_plain_bf16 : NULL);
    else
        cuda_top_alias(top, bottom, cuda_op_propagates(op, 0));
    return 0;
}

/* Converts in the bottom's shape, which has channels and pixels; the top has the same elements in
 * plain order. */
static int flatten_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    const struct tensor *bottom = &op->args.bottoms[0]->value, *top = &op->args.tops[0]->value;

    if (top->base) /* the top shares the bottom's memory */
        return 0;
    return cuda_convert(op->engine, &bottom->shape, cuda_tensor_format(back ? top : bottom), from,
                        cuda_tensor_format(back ? bottom : top), to);
}

const struct cuda_kind cuda_flatten = {.create = flatten_create, .run = flatten_run};
