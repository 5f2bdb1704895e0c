/* Operators that join, cut, copy or re-shape blobs: concat, slice, split, flatten. */
#include "cuda_internal.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <stdlib.h>

struct concat {
    struct cuda_op op;
    const struct cuda_format *format;
    int outer;               /* pieces per bottom */
    int *length;             /* per bottom: elements of one piece */
    int total;               /* of one piece of the top */
    struct cuda_input *in;   /* per bottom, in the top's format */
    struct cuda_output *out; /* per bottom that wants its gradient */
};

/* NHWC if any bottom has it, else as the first bottom. */
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

static void concat_measure(struct concat *concat, int axis)
{
    const struct cuda_op *op = &concat->op;
    const struct shape *top = &op->args.tops[0]->value.shape;

    concat->outer = cuda_pieces(top, concat->format, axis);
    concat->total = (int)shape_elems(top) / concat->outer;
    for (int i = 0; i < op->args.nbottoms; i++)
        concat->length[i] = (int)shape_elems(&op->args.bottoms[i]->value.shape) / concat->outer;
}

static int concat_create(struct cuda_op *op)
{
    struct concat *concat = (struct concat *)op;
    size_t n = (size_t)op->args.nbottoms;
    int axis = op_axis(&op->args.tops[0]->value.shape, op->args.u.concat.axis);

    concat->length = calloc(n, sizeof *concat->length);
    concat->in = calloc(n, sizeof *concat->in);
    concat->out = calloc(n, sizeof *concat->out);
    if (!concat->length || !concat->in || !concat->out)
        return error_memory(n * sizeof *concat->in, "a concat operator");
    concat->format = concat_format(op);
    cuda_top_set(op->args.tops[0], concat->format);
    concat_measure(concat, axis);
    for (int i = 0; i < op->args.nbottoms; i++) {
        struct blob *bottom = op->args.bottoms[i];
        if (cuda_input_create(op->engine, &bottom->value, concat->format, WORK_TOP_GRAD,
                              &concat->in[i]))
            return -1;
        if (cuda_op_propagates(op, i) &&
            cuda_output_create(op->engine, &bottom->grad, concat->format, WORK_BOTTOM_GRAD,
                               &concat->out[i]))
            return -1;
    }
    return 0;
}

static char *concat_advance(const struct concat *concat, void *data, int elems)
{
    return (char *)data + (size_t)elems * cuda_type_bytes(cuda_format_type(concat->format));
}

static bool concat_takes_relu(const struct concat *concat, int i)
{
    return concat->op.args.u.concat.relu && concat->op.args.u.concat.relu[i];
}

/* A bottom's pieces to their places in the top. */
static int concat_move(const struct concat *concat, int i, const void *from, void *to)
{
    cudaStream_t stream = concat->op.engine->stream;
    enum cuda_type type = cuda_format_type(concat->format);
    int length = concat->length[i];

    return cuda_check(concat_takes_relu(concat, i)
                          ? kernel_relu_rows(stream, type, from, NULL, length, to, concat->total,
                                             length, concat->outer)
                          : kernel_copy_rows(stream, type, from, length, to, concat->total, length,
                                             concat->outer));
}

/* The gradient's pieces back; y: the top's values, which tell where the ReLU cut. */
static int concat_move_back(const struct concat *concat, int i, const void *y, const void *from,
                            void *to)
{
    cudaStream_t stream = concat->op.engine->stream;
    enum cuda_type type = cuda_format_type(concat->format);
    int length = concat->length[i];

    return cuda_check(concat_takes_relu(concat, i)
                          ? kernel_relu_rows(stream, type, from, y, concat->total, to, length,
                                             length, concat->outer)
                          : kernel_copy_rows(stream, type, from, concat->total, to, length, length,
                                             concat->outer));
}

static int concat_forward(struct cuda_op *op, const struct run *run)
{
    struct concat *concat = (struct concat *)op;
    void *to = op->args.tops[0]->value.data;

    (void)run;
    for (int i = 0; i < op->args.nbottoms; i++) {
        if (cuda_input_load(op->engine, &concat->in[i]) ||
            concat_move(concat, i, cuda_input_data(op->engine, &concat->in[i]), to))
            return -1;
        to = concat_advance(concat, to, concat->length[i]);
    }
    return 0;
}

static int concat_backward(struct cuda_op *op, const struct run *run)
{
    struct concat *concat = (struct concat *)op;
    void *from = op->args.tops[0]->grad.data, *y = op->args.tops[0]->value.data;

    (void)run;
    for (int i = 0; i < op->args.nbottoms; i++) {
        if (concat->out[i].tensor && cuda_op_propagates(op, i) &&
            (concat_move_back(concat, i, y, from, cuda_output_data(op->engine, &concat->out[i])) ||
             cuda_output_store(op->engine, &concat->out[i])))
            return -1;
        from = concat_advance(concat, from, concat->length[i]);
        y = concat_advance(concat, y, concat->length[i]);
    }
    return 0;
}

static void concat_destroy(struct cuda_op *op)
{
    struct concat *concat = (struct concat *)op;

    for (int i = 0; concat->in && i < op->args.nbottoms; i++)
        cuda_input_destroy(&concat->in[i]);
    free(concat->length);
    free(concat->in);
    free(concat->out);
}

const struct cuda_kind cuda_concat = {
    .size = sizeof(struct concat),
    .create = concat_create,
    .forward = concat_forward,
    .backward = concat_backward,
    .destroy = concat_destroy,
};

struct slice {
    struct cuda_op op;
    const struct cuda_format *format;
    int outer, total;
    int *length; /* per top: elements of one piece */
};

static int slice_create(struct cuda_op *op)
{
    struct slice *slice = (struct slice *)op;
    struct blob *bottom = op->args.bottoms[0];
    const struct shape *shape = &bottom->value.shape;
    int axis = op_axis(shape, op->args.u.slice.axis);

    slice->length = calloc((size_t)op->args.ntops, sizeof *slice->length);
    if (!slice->length)
        return error_memory((size_t)op->args.ntops * sizeof *slice->length, "a slice operator");
    slice->format = cuda_tensor_format(&bottom->value);
    slice->outer = cuda_pieces(shape, slice->format, axis);
    slice->total = (int)shape_elems(shape) / slice->outer;
    for (int i = 0; i < op->args.ntops; i++) {
        const struct shape *top = &op->args.tops[i]->value.shape;
        slice->length[i] = (int)shape_elems(top) / slice->outer;
        cuda_top_set(op->args.tops[i], slice->format);
    }
    return 0;
}

static int slice_forward(struct cuda_op *op, const struct run *run)
{
    struct slice *slice = (struct slice *)op;
    enum cuda_type type = cuda_format_type(slice->format);
    char *from = (char *)op->args.bottoms[0]->value.data;

    (void)run;
    for (int i = 0; i < op->args.ntops; i++) {
        if (cuda_check(kernel_copy_rows(op->engine->stream, type, from, slice->total,
                                        op->args.tops[i]->value.data, slice->length[i],
                                        slice->length[i], slice->outer)))
            return -1;
        from += (size_t)slice->length[i] * cuda_type_bytes(type);
    }
    return 0;
}

static int slice_backward(struct cuda_op *op, const struct run *run)
{
    struct slice *slice = (struct slice *)op;
    enum cuda_type type = cuda_format_type(slice->format);
    const struct blob *bottom = op->args.bottoms[0];
    char *to = (char *)bottom->grad.data;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_check(cudaMemsetAsync(to, 0, shape_elems(&bottom->value.shape) * cuda_type_bytes(type),
                                   op->engine->stream)))
        return -1;
    for (int i = 0; i < op->args.ntops; i++) {
        const struct blob *top = op->args.tops[i];
        if (top->wants_grad && top->grad.data &&
            cuda_check(kernel_copy_rows(op->engine->stream, type, top->grad.data, slice->length[i],
                                        to, slice->total, slice->length[i], slice->outer)))
            return -1;
        to += (size_t)slice->length[i] * cuda_type_bytes(type);
    }
    return 0;
}

static void slice_destroy(struct cuda_op *op)
{
    free(((struct slice *)op)->length);
}

const struct cuda_kind cuda_slice = {
    .size = sizeof(struct slice),
    .create = slice_create,
    .forward = slice_forward,
    .backward = slice_backward,
    .destroy = slice_destroy,
};

struct split {
    struct cuda_op op;
};

static int split_create(struct cuda_op *op)
{
    for (int i = 0; i < op->args.ntops; i++)
        cuda_top_alias(op->args.tops[i], op->args.bottoms[0], false);
    return 0;
}

static int split_forward(struct cuda_op *op, const struct run *run)
{
    (void)op;
    (void)run;
    return 0; /* the tops are the bottom */
}

static int split_backward(struct cuda_op *op, const struct run *run)
{
    struct cuda_engine *engine = op->engine;
    const struct tensor *bottom = &op->args.bottoms[0]->grad;
    enum cuda_type type = cuda_format_type(cuda_tensor_format(&op->args.bottoms[0]->value));
    size_t n = shape_elems(&op->args.bottoms[0]->value.shape);
    const void *sum = NULL; /* the first alone, then what was added to it */

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    for (int i = 0; i < op->args.ntops; i++) {
        const struct blob *top = op->args.tops[i];
        if (!top->wants_grad || !top->grad.data)
            continue;
        if (sum && cuda_check(kernel_eltwise_sum(engine->stream, type, 1, top->grad.data, 1, sum,
                                                 false, bottom->data, n)))
            return -1;
        sum = sum ? bottom->data : top->grad.data;
    }
    if (sum == bottom->data)
        return 0;
    if (sum)
        return cuda_check(kernel_axpby(engine->stream, type, 1, sum, 0, bottom->data, n));
    return cuda_check(cudaMemsetAsync(bottom->data, 0, n * cuda_type_bytes(type), engine->stream));
}

const struct cuda_kind cuda_split = {
    .size = sizeof(struct split),
    .create = split_create,
    .forward = split_forward,
    .backward = split_backward,
};

struct flatten {
    struct cuda_op op;
    const struct cuda_format *from, *to;
    bool alias;
};

static int flatten_create(struct cuda_op *op)
{
    struct flatten *flatten = (struct flatten *)op;
    struct blob *bottom = op->args.bottoms[0], *top = op->args.tops[0];

    flatten->from = cuda_tensor_format(&bottom->value);
    flatten->alias = !flatten->from || !flatten->from->nhwc;
    if (flatten->alias) {
        cuda_top_alias(top, bottom, cuda_op_propagates(op, 0));
        return 0;
    }
    flatten->to = flatten->from->type == CUDA_BF16 ? &cuda_plain_bf16 : NULL;
    cuda_top_set(top, flatten->to);
    return 0;
}

/* The bottom's shape is the one that has channels and pixels; the top's elements are in its order.
 */
static int flatten_forward(struct cuda_op *op, const struct run *run)
{
    struct flatten *flatten = (struct flatten *)op;

    (void)run;
    if (flatten->alias)
        return 0;
    return cuda_convert(op->engine, &op->args.bottoms[0]->value.shape, flatten->from,
                        op->args.bottoms[0]->value.data, flatten->to, op->args.tops[0]->value.data);
}

static int flatten_backward(struct cuda_op *op, const struct run *run)
{
    struct flatten *flatten = (struct flatten *)op;

    (void)run;
    if (flatten->alias || !cuda_op_propagates(op, 0))
        return 0;
    return cuda_convert(op->engine, &op->args.bottoms[0]->value.shape, flatten->to,
                        op->args.tops[0]->grad.data, flatten->from, op->args.bottoms[0]->grad.data);
}

const struct cuda_kind cuda_flatten = {
    .size = sizeof(struct flatten),
    .create = flatten_create,
    .forward = flatten_forward,
    .backward = flatten_backward,
};
