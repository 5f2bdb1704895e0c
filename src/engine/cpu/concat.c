/* Operators that join, cut, copy or re-shape blobs: concat, slice, split, flatten. */
#include "engine/cpu/cpu_internal.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

#define PIECE 4096 /* floats of a sum that stay in the first-level cache */

struct concat {
    struct cpu_op op;
    int64_t outer;          /* pieces per bottom */
    int64_t *length;        /* per bottom: floats of one piece */
    int64_t total;          /* of one piece of the top */
    struct cpu_input *in;   /* per bottom, in the top's format */
    struct cpu_output *out; /* per bottom that wants its gradient */
};

/* The first bottom's format that is not plain, if pieces in it can be put side by side. */
static const struct cpu_format *concat_format(const struct cpu_op *op, int axis)
{
    const struct cpu_format *format = NULL;

    for (int i = 0; i < op->args.nbottoms && !format; i++)
        format = cpu_tensor_format(&op->args.bottoms[i]->value);
    if (!format || axis > 1)
        return NULL;
    for (int i = 0; axis == 1 && i < op->args.nbottoms; i++)
        if (format->block && op->args.bottoms[i]->value.shape.dim[1] % format->block)
            return NULL;
    return format;
}

static void concat_measure(struct concat *concat, const struct cpu_format *format, int axis)
{
    const struct cpu_op *op = &concat->op;
    const struct shape *top = &op->args.tops[0]->value.shape;
    bool channels_last = format && !format->block;

    concat->outer = (int64_t)shape_count(top, 0, axis);
    if (channels_last && axis == 1)
        concat->outer *= (int64_t)shape_count(top, 2, top->naxes);
    concat->total = 0;
    for (int i = 0; i < op->args.nbottoms; i++) {
        size_t bytes = cpu_format_bytes(&op->args.bottoms[i]->value.shape, format);
        concat->length[i] = (int64_t)(bytes / sizeof(float)) / concat->outer;
        concat->total += concat->length[i];
    }
}

static int concat_create(struct cpu_op *op)
{
    struct concat *concat = (struct concat *)op;
    const struct cpu_format *format;
    size_t n = (size_t)op->args.nbottoms;
    int axis = op_axis(&op->args.tops[0]->value.shape, op->args.u.concat.axis);

    concat->length = calloc(n, sizeof *concat->length);
    concat->in = calloc(n, sizeof *concat->in);
    concat->out = calloc(n, sizeof *concat->out);
    if (!concat->length || !concat->in || !concat->out)
        return error_memory(n * sizeof *concat->in, "a concat operator");
    format = concat_format(op, axis);
    cpu_top_set(op->args.tops[0], format);
    concat_measure(concat, format, axis);
    for (int i = 0; i < op->args.nbottoms; i++) {
        struct blob *bottom = op->args.bottoms[i];
        if (cpu_input_create(op->engine, &bottom->value, format, WORK_TOP_GRAD, &concat->in[i]))
            return -1;
        if (cpu_op_propagates(op, i) &&
            cpu_output_create(op->engine, &bottom->grad, format, WORK_BOTTOM_GRAD, &concat->out[i]))
            return -1;
    }
    return 0;
}

static bool concat_takes_relu(const struct concat *concat, int i)
{
    return concat->op.args.u.concat.relu && concat->op.args.u.concat.relu[i];
}

/* A bottom's pieces to their places in the top. */
static void concat_move(const struct concat *concat, int i, const float *from, float *to)
{
    bool relu = concat_takes_relu(concat, i);
    size_t length = (size_t)concat->length[i];

#pragma omp parallel for
    for (int64_t o = 0; o < concat->outer; o++) {
        const float *x = from + (size_t)o * length;
        float *y = to + o * concat->total;
        if (relu)
            cpu_relu_piece(x, 0, y, length);
        else
            memcpy(y, x, length * sizeof *y);
    }
}

/* The gradient's pieces back; y: the top's values, which tell where the ReLU cut. */
static void concat_move_back(const struct concat *concat, int i, const float *y, const float *from,
                             float *to)
{
    bool relu = concat_takes_relu(concat, i);
    size_t length = (size_t)concat->length[i];

#pragma omp parallel for
    for (int64_t o = 0; o < concat->outer; o++) {
        const float *dy = from + o * concat->total;
        float *dx = to + (size_t)o * length;
        if (relu)
            cpu_relu_back_piece(y + o * concat->total, dy, 0, dx, length);
        else
            memcpy(dx, dy, length * sizeof *dx);
    }
}

static int concat_forward(struct cpu_op *op, const struct run *run)
{
    struct concat *concat = (struct concat *)op;
    float *to = op->args.tops[0]->value.data;

    (void)run;
    for (int i = 0; i < op->args.nbottoms; to += concat->length[i], i++) {
        if (cpu_input_load(op->engine, &concat->in[i]))
            return -1;
        concat_move(concat, i, cpu_input_data(op->engine, &concat->in[i]), to);
    }
    return 0;
}

static int concat_backward(struct cpu_op *op, const struct run *run)
{
    struct concat *concat = (struct concat *)op;
    const float *from = op->args.tops[0]->grad.data, *y = op->args.tops[0]->value.data;

    (void)run;
    for (int i = 0; i < op->args.nbottoms; from += concat->length[i], y += concat->length[i], i++) {
        if (!concat->out[i].tensor || !cpu_op_propagates(op, i))
            continue;
        concat_move_back(concat, i, y, from, cpu_output_data(op->engine, &concat->out[i]));
        if (cpu_output_store(op->engine, &concat->out[i]))
            return -1;
    }
    return 0;
}

static void concat_destroy(struct cpu_op *op)
{
    struct concat *concat = (struct concat *)op;

    for (int i = 0; i < op->args.nbottoms; i++) {
        if (concat->in)
            cpu_input_destroy(&concat->in[i]);
        if (concat->out)
            cpu_output_destroy(&concat->out[i]);
    }
    free(concat->length);
    free(concat->in);
    free(concat->out);
}

const struct cpu_kind cpu_concat = {
    .size = sizeof(struct concat),
    .create = concat_create,
    .forward = concat_forward,
    .backward = concat_backward,
    .destroy = concat_destroy,
};

struct split {
    struct cpu_op op;
    const struct blob **from; /* the tops whose gradients are added, behind the first of them */
    int nfrom;
    bool any; /* there is a first: its gradient lies in the bottom's memory */
};

struct slice {
    struct cpu_op op;
    int64_t outer, total; /* pieces; floats of one, all tops together */
    int64_t *length;      /* per top: floats of one piece */
    struct cpu_input in;
    struct cpu_output out;
};

/* The bottom's format, if it can be cut at the tops' bounds. */
static const struct cpu_format *slice_format(const struct cpu_op *op, int axis)
{
    const struct cpu_format *format = cpu_tensor_format(&op->args.bottoms[0]->value);

    if (!format || axis > 1)
        return NULL;
    for (int i = 0; axis == 1 && format->block && i < op->args.ntops; i++)
        if (op->args.tops[i]->value.shape.dim[1] % format->block)
            return NULL;
    return format;
}

static int slice_create(struct cpu_op *op)
{
    struct slice *slice = (struct slice *)op;
    struct blob *bottom = op->args.bottoms[0];
    int axis = op_axis(&bottom->value.shape, op->args.u.slice.axis);
    const struct cpu_format *format = slice_format(op, axis);

    slice->length = calloc((size_t)op->args.ntops, sizeof *slice->length);
    if (!slice->length)
        return error_memory((size_t)op->args.ntops * sizeof *slice->length, "a slice operator");
    slice->outer = (int64_t)shape_count(&bottom->value.shape, 0, axis);
    if (format && !format->block && axis == 1)
        slice->outer *= (int64_t)shape_count(&bottom->value.shape, 2, bottom->value.shape.naxes);
    for (int i = 0; i < op->args.ntops; i++) {
        cpu_top_set(op->args.tops[i], format);
        slice->length[i] = (int64_t)cpu_tensor_stored(&op->args.tops[i]->value) / slice->outer;
        slice->total += slice->length[i];
    }
    if (cpu_input_create(op->engine, &bottom->value, format, WORK_TOP_GRAD, &slice->in))
        return -1;
    if (!cpu_op_propagates(op, 0))
        return 0;
    return cpu_output_create(op->engine, &bottom->grad, format, WORK_BOTTOM_GRAD, &slice->out);
}

static int slice_forward(struct cpu_op *op, const struct run *run)
{
    struct slice *slice = (struct slice *)op;
    const float *from;

    (void)run;
    if (cpu_input_load(op->engine, &slice->in))
        return -1;
    from = cpu_input_data(op->engine, &slice->in);
    for (int i = 0; i < op->args.ntops; from += slice->length[i], i++) {
        int64_t length = slice->length[i];
        float *to = op->args.tops[i]->value.data;
#pragma omp parallel for
        for (int64_t o = 0; o < slice->outer; o++)
            memcpy(to + o * length, from + o * slice->total, (size_t)length * sizeof *to);
    }
    return 0;
}

static int slice_backward(struct cpu_op *op, const struct run *run)
{
    struct slice *slice = (struct slice *)op;
    float *to;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    to = cpu_output_data(op->engine, &slice->out);
    for (int i = 0; i < op->args.ntops; to += slice->length[i], i++) {
        const struct blob *top = op->args.tops[i];
        const float *from = top->wants_grad ? top->grad.data : NULL;
        size_t bytes = (size_t)slice->length[i] * sizeof *to;
#pragma omp parallel for
        for (int64_t o = 0; o < slice->outer; o++) {
            if (from)
                memcpy(to + o * slice->total, from + o * slice->length[i], bytes);
            else
                memset(to + o * slice->total, 0, bytes);
        }
    }
    return cpu_output_store(op->engine, &slice->out);
}

static void slice_destroy(struct cpu_op *op)
{
    struct slice *slice = (struct slice *)op;

    cpu_input_destroy(&slice->in);
    cpu_output_destroy(&slice->out);
    free(slice->length);
}

const struct cpu_kind cpu_slice = {
    .size = sizeof(struct slice),
    .create = slice_create,
    .forward = slice_forward,
    .backward = slice_backward,
    .destroy = slice_destroy,
};

static int split_create(struct cpu_op *op)
{
    struct split *split = (struct split *)op;
    size_t bytes = (size_t)op->args.ntops * sizeof(struct blob *);

    split->from = malloc(bytes);
    if (!split->from)
        return error_memory(bytes, "a split operator");
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

static int split_forward(struct cpu_op *op, const struct run *run)
{
    (void)op;
    (void)run;
    return 0; /* the tops are the bottom */
}

static int split_backward(struct cpu_op *op, const struct run *run)
{
    const struct split *split = (const struct split *)op;
    float *to = op->args.bottoms[0]->grad.data;
    size_t n = cpu_tensor_stored(&op->args.bottoms[0]->value);

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    if (!split->any)
        cpu_zero(to, n);
#pragma omp parallel for
    for (size_t at = 0; at < n; at += PIECE)
        for (int i = 0; i < split->nfrom; i++)
            cpu_axpby_piece(to + at, 1, split->from[i]->grad.data + at, 1,
                            n - at < PIECE ? n - at : PIECE);
    return 0;
}

static void split_destroy(struct cpu_op *op)
{
    free(((struct split *)op)->from);
}

const struct cpu_kind cpu_split = {
    .size = sizeof(struct split),
    .create = split_create,
    .forward = split_forward,
    .backward = split_backward,
    .destroy = split_destroy,
};

struct flatten {
    struct cpu_op op;
    struct cpu_input bottom;
    struct cpu_output bottom_grad;
    bool alias;
};

static int flatten_create(struct cpu_op *op)
{
    struct flatten *flatten = (struct flatten *)op;
    struct blob *bottom = op->args.bottoms[0], *top = op->args.tops[0];

    flatten->alias = !cpu_tensor_format(&bottom->value);
    if (flatten->alias) {
        cpu_top_alias(top, bottom, cpu_op_propagates(op, 0));
        return 0;
    }
    cpu_top_set(top, NULL);
    if (cpu_input_create(op->engine, &bottom->value, NULL, WORK_TOP_GRAD, &flatten->bottom))
        return -1;
    if (!cpu_op_propagates(op, 0))
        return 0;
    return cpu_output_create(op->engine, &bottom->grad, NULL, WORK_BOTTOM_GRAD,
                             &flatten->bottom_grad);
}

/* The reorders run from and to the top itself: nothing is copied twice. */
static int flatten_forward(struct cpu_op *op, const struct run *run)
{
    struct flatten *flatten = (struct flatten *)op;

    (void)run;
    if (flatten->alias)
        return 0;
    return cpu_reorder_run(op->engine, &flatten->bottom.reorder, op->args.bottoms[0]->value.data,
                           op->args.tops[0]->value.data);
}

static int flatten_backward(struct cpu_op *op, const struct run *run)
{
    struct flatten *flatten = (struct flatten *)op;

    (void)run;
    if (flatten->alias || !flatten->bottom_grad.tensor || !cpu_op_propagates(op, 0))
        return 0;
    return cpu_reorder_run(op->engine, &flatten->bottom_grad.reorder, op->args.tops[0]->grad.data,
                           op->args.bottoms[0]->grad.data);
}

static void flatten_destroy(struct cpu_op *op)
{
    struct flatten *flatten = (struct flatten *)op;

    cpu_input_destroy(&flatten->bottom);
    cpu_output_destroy(&flatten->bottom_grad);
}

const struct cpu_kind cpu_flatten = {
    .size = sizeof(struct flatten),
    .create = flatten_create,
    .forward = flatten_forward,
    .backward = flatten_backward,
    .destroy = flatten_destroy,
};
