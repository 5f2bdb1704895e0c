/* Operators that join, cut, copy or re-shape blobs: concat, slice, split, flatten. */
#include "engine/cpu/element.h"

#include "engine/op_size.h"

#include <string.h>

/* A whole blob as rows, in which the blob's parts stand side by side. Parts are cut along one axis:
 * the bottoms of a concat, or the tops of a slice. */
struct joint {
    struct cpu_op op;
    const struct cpu_format *format; /* format of whole and parts */
    int64_t rows, row;               /* number of rows; elements of a row */
    int64_t *begin; /* offset of each part in a row; behind the last part, the row's length */
};

/* Returns the format in which parts can stand side by side: `format`, or plain. */
static const struct cpu_format *joint_format(const struct cpu_format *format, int axis,
                                             struct blob *const *parts, int n)
{
    if (!format || axis > 1)
        return NULL;
    for (int i = 0; axis == 1 && format->block && i < n; i++)
        if (parts[i]->value.shape.dim[1] % format->block)
            return NULL;
    return format;
}

static int joint_create(struct joint *joint, const struct cpu_format *format, int axis,
                        const struct shape *whole, struct blob *const *parts, int n)
{
    if (OWN(&joint->op.owner, joint->begin, n + 1, "the parts of a blob"))
        return -1;
    joint->format = joint_format(format, axis, parts, n);
    joint->rows = (int64_t)shape_count(whole, 0, axis);
    if (joint->format && !joint->format->block && axis == 1) /* channels come last */
        joint->rows *= (int64_t)shape_count(whole, 2, whole->naxes);
    for (int i = 0; i < n; i++) {
        size_t elems = cpu_format_elems(&parts[i]->value.shape, joint->format);
        joint->begin[i + 1] = joint->begin[i] + (int64_t)elems / joint->rows;
    }
    joint->row = joint->begin[n];
    return 0;
}

/* Copies a part's rows from the whole x to the part y or, with `whole`, from the part x to the
 * whole y. x NULL: writes zeros. */
static void copy_rows(const struct joint *joint, int part, bool whole, const float *x, float *y)
{
    const bool half = cpu_format_half(joint->format);
    const int64_t begin = joint->begin[part], length = joint->begin[part + 1] - begin;
    const size_t bytes = (size_t)length * cpu_format_width(joint->format);

#pragma omp parallel for
    for (int64_t r = 0; r < joint->rows; r++) {
        void *to = element_room(y, whole ? r * joint->row + begin : r * length, half);
        if (x)
            memcpy(to, element_place(x, whole ? r * length : r * joint->row + begin, half), bytes);
        else
            memset(to, 0, bytes);
    }
}

static int concat_create(struct cpu_op *op)
{
    struct joint *concat = (struct joint *)op;
    const struct shape *top = &op->args.tops[0]->value.shape;
    int n = op->args.nbottoms;

    if (joint_create(concat, cpu_format_of_bottoms(op), op_axis(top, op->args.u.concat.axis), top,
                     op->args.bottoms, n))
        return -1;
    cpu_top_set(op->args.tops[0], concat->format);
    for (int i = 0; i < n; i++)
        if (cpu_op_take(op, i, concat->format, WORK_TOP_GRAD))
            return -1;
    return 0;
}

static bool concat_takes_relu(const struct joint *concat, int i)
{
    return concat->op.args.u.concat.relu && concat->op.args.u.concat.relu[i];
}

static int concat_forward(struct cpu_op *op)
{
    const struct joint *concat = (const struct joint *)op;
    const bool half = cpu_format_half(concat->format);

    for (int i = 0; i < op->args.nbottoms; i++) {
        int64_t begin = concat->begin[i], length = concat->begin[i + 1] - begin;
        if (cpu_view_move(op->engine, &op->in[i]))
            return -1;
        const float *x = cpu_op_x(op, i);
        if (!concat_takes_relu(concat, i)) {
            copy_rows(concat, i, true, x, cpu_op_y(op));
            continue;
        }
#pragma omp parallel for
        for (int64_t r = 0; r < concat->rows; r++)
            cpu_relu_span(half, element_place(x, r * length, half), 0,
                          element_room(cpu_op_y(op), r * concat->row + begin, half), 0,
                          (size_t)length);
    }
    return 0;
}

/* Computes the gradient of bottom i. With a fused ReLU, dx is 0 where the top is not positive. */
static int concat_gradient(struct cpu_op *op, int i, float *dx)
{
    const struct joint *concat = (const struct joint *)op;
    const bool half = cpu_format_half(concat->format);
    int64_t begin = concat->begin[i], length = concat->begin[i + 1] - begin;

    if (!concat_takes_relu(concat, i)) {
        copy_rows(concat, i, false, cpu_op_dy(op), dx);
        return 0;
    }
#pragma omp parallel for
    for (int64_t r = 0; r < concat->rows; r++) {
        int64_t at = r * concat->row + begin;
        cpu_relu_back_span(half, element_place(cpu_op_y(op), at, half),
                           element_place(cpu_op_dy(op), at, half), 0,
                           element_room(dx, r * length, half), 0, (size_t)length);
    }
    return 0;
}

const struct cpu_kind cpu_concat = {
    .size = sizeof(struct joint),
    .loads = true,
    .create = concat_create,
    .forward = concat_forward,
    .gradient = concat_gradient,
};

static int slice_create(struct cpu_op *op)
{
    struct joint *slice = (struct joint *)op;
    const struct tensor *x = &op->args.bottoms[0]->value;

    if (joint_create(slice, cpu_tensor_format(x), op_axis(&x->shape, op->args.u.slice.axis),
                     &x->shape, op->args.tops, op->args.ntops))
        return -1;
    for (int i = 0; i < op->args.ntops; i++)
        cpu_top_set(op->args.tops[i], slice->format);
    return cpu_op_take(op, 0, slice->format, WORK_TOP_GRAD);
}

static int slice_forward(struct cpu_op *op)
{
    const struct joint *slice = (const struct joint *)op;

    for (int i = 0; i < op->args.ntops; i++)
        copy_rows(slice, i, false, cpu_op_x(op, 0), op->args.tops[i]->value.data);
    return 0;
}

static int slice_gradient(struct cpu_op *op, int bottom, float *dx)
{
    const struct joint *slice = (const struct joint *)op;

    (void)bottom;
    for (int i = 0; i < op->args.ntops; i++) {
        const struct blob *top = op->args.tops[i];
        copy_rows(slice, i, true, top->wants_grad ? top->grad.data : NULL, dx);
    }
    return 0;
}

const struct cpu_kind cpu_slice = {
    .size = sizeof(struct joint),
    .create = slice_create,
    .forward = slice_forward,
    .gradient = slice_gradient,
};

struct split {
    struct cpu_op op;
    const struct blob **from; /* tops whose gradients are added, without the first */
    int nfrom;
    bool any; /* there is a first: its gradient is in the bottom's memory */
};

static int split_create(struct cpu_op *op)
{
    struct split *split = (struct split *)op;

    if (OWN(&op->owner, split->from, op->args.ntops, "a split operator"))
        return -1;
    for (int i = 0; i < op->args.ntops; i++) {
        struct blob *top = op->args.tops[i];
        bool adds = cpu_op_propagates(op, 0) && top->wants_grad;

        cpu_top_alias(top, op->args.bottoms[0], adds && !split->any);
        if (adds && split->any)
            split->from[split->nfrom++] = top;
        split->any |= adds;
    }
    return 0;
}

static int split_gradient(struct cpu_op *op, int bottom, float *dx)
{
    const struct split *split = (const struct split *)op;
    const struct tensor *tensor = &op->args.bottoms[bottom]->grad;
    const bool half = cpu_tensor_half(tensor);
    size_t n = cpu_tensor_stored(tensor);

    if (!split->any)
        cpu_zero_tensor(tensor, dx);
#pragma omp parallel for
    for (size_t at = 0; at < (split->nfrom > 0 ? n : 0); at += CPU_PIECE) {
        float from[CPU_PIECE], sum[CPU_PIECE];
        size_t some = cpu_piece(n, at);
        float *to = piece_open(dx, at, half, sum);

        piece_load(dx, at, some, half, sum);
        for (int i = 0; i < split->nfrom; i++)
            cpu_axpby_piece(to, 1, piece_load(split->from[i]->grad.data, at, some, half, from), 1,
                            some);
        piece_store(sum, dx, at, some, half);
    }
    return 0;
}

const struct cpu_kind cpu_split = {
    .size = sizeof(struct split),
    .create = split_create,
    .gradient = split_gradient,
};

static int silence_gradient(struct cpu_op *op, int bottom, float *dx)
{
    cpu_zero_tensor(&op->args.bottoms[bottom]->grad, dx);
    return 0;
}

const struct cpu_kind cpu_silence = {.gradient = silence_gradient};

/* Lets the top share a plain bottom's memory. With any other format, reorders read and write the
 * top directly, without a second copy. */
static int flatten_create(struct cpu_op *op)
{
    struct blob *bottom = op->args.bottoms[0], *top = op->args.tops[0];

    if (!cpu_tensor_format(&bottom->value)) {
        cpu_top_alias(top, bottom, cpu_op_propagates(op, 0));
        return 0;
    }
    cpu_top_set(top, NULL);
    return cpu_op_take(op, 0, NULL, WORK_TOP_GRAD);
}

static int flatten_forward(struct cpu_op *op)
{
    if (!op->in[0].tensor)
        return 0;
    return cpu_reorder_run(op->engine, &op->in[0].reorder, op->args.bottoms[0]->value.data,
                           cpu_op_y(op));
}

static int flatten_backward(struct cpu_op *op)
{
    if (!op->out[0].tensor || !cpu_op_propagates(op, 0))
        return 0;
    return cpu_reorder_run(op->engine, &op->out[0].reorder, cpu_op_dy(op),
                           op->args.bottoms[0]->grad.data);
}

const struct cpu_kind cpu_flatten = {.loads = true,
                                     .create = flatten_create,
                                     .forward = flatten_forward,
                                     .backward = flatten_backward};
