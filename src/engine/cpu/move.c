/* Operators that take values from elsewhere: crop, tile, batch reindex, embed, channel shuffle,
 * parameter. */
#include "engine/cpu/cpu_internal.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <inttypes.h>
#include <string.h>

/* Where row `row` of the top (all axes but the last) begins in the bottom. */
static int64_t crop_place(const struct cpu_op *op, int64_t row)
{
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    const int64_t *offset = op->args.u.crop.offset;
    int64_t place = 0, stride = x->dim[x->naxes - 1];

    for (int i = x->naxes - 2; i >= 0; i--) {
        place += (row % y->dim[i] + offset[i]) * stride;
        row /= y->dim[i];
        stride *= x->dim[i];
    }
    return place + offset[x->naxes - 1];
}

/* The top's rows, to or from their places in the bottom: y is x's, or dx of dy. */
static void crop_run(const struct cpu_op *op, const float *from, float *to, bool back)
{
    const struct shape *y = &op->args.tops[0]->value.shape;
    int64_t width = y->dim[y->naxes - 1], rows = (int64_t)shape_elems(y) / width;

#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++) {
        int64_t top = r * width, bottom = crop_place(op, r);
        memcpy(to + (back ? bottom : top), from + (back ? top : bottom),
               (size_t)width * sizeof *to);
    }
}

static int crop_forward(struct cpu_op *op)
{
    crop_run(op, cpu_op_x(op, 0), cpu_op_y(op), false);
    return 0;
}

static int crop_gradient(struct cpu_op *op, int bottom, float *dx)
{
    cpu_zero(dx, shape_elems(&op->args.bottoms[bottom]->value.shape));
    crop_run(op, cpu_op_dy(op), dx, true);
    return 0;
}

const struct cpu_kind cpu_crop = {
    .blobs = CPU_PLAIN, .plain = 1, .forward = crop_forward, .gradient = crop_gradient};

/* The bottom as outer rows; each is repeated. */
static struct op_axes tile_rows(const struct cpu_op *op)
{
    return op_axes_from(&op->args.bottoms[0]->value.shape, op->args.u.tile.axis);
}

static int tile_forward(struct cpu_op *op)
{
    const struct op_axes rows = tile_rows(op);
    const float *x = cpu_op_x(op, 0);
    float *y = cpu_op_y(op);
    int64_t tiles = op->args.u.tile.tiles, length = rows.length;

#pragma omp parallel for
    for (int64_t i = 0; i < rows.outer * tiles; i++)
        memcpy(y + i * length, x + i / tiles * length, (size_t)length * sizeof *y);
    return 0;
}

static int tile_gradient(struct cpu_op *op, int bottom, float *dx)
{
    const struct op_axes rows = tile_rows(op);
    const float *dy = cpu_op_dy(op);
    int64_t tiles = op->args.u.tile.tiles, length = rows.length;

    (void)bottom;
#pragma omp parallel for
    for (int64_t o = 0; o < rows.outer; o++)
        for (int64_t t = 0; t < tiles; t++)
            for (int64_t i = 0; i < length; i++) {
                float value = dy[(o * tiles + t) * length + i];
                dx[o * length + i] = t ? dx[o * length + i] + value : value;
            }
    return 0;
}

const struct cpu_kind cpu_tile = {
    .blobs = CPU_PLAIN, .plain = 1, .forward = tile_forward, .gradient = tile_gradient};

/* Row number i of a list of floats; an error where there is no such row. */
static int move_index_at(const float *list, int64_t i, int64_t rows, int64_t *out)
{
    *out = 0;
    if (!(list[i] > -1 && list[i] < (float)rows))
        return error_set("index %g at place %" PRId64 " is outside 0..%" PRId64, (double)list[i], i,
                         rows - 1);
    *out = (int64_t)list[i];
    return 0;
}

/* Row i of the top is that row of the bottom. */
static int reindex_row(const struct cpu_op *op, int64_t i, int64_t *row)
{
    return move_index_at(cpu_op_x(op, 1), i, op->args.bottoms[0]->value.shape.dim[0], row);
}

static int reindex_forward(struct cpu_op *op)
{
    const struct shape *y = &op->args.tops[0]->value.shape;
    int64_t length = (int64_t)shape_count(y, 1, y->naxes), row;

    for (int64_t i = 0; i < y->dim[0]; i++) {
        if (reindex_row(op, i, &row))
            return -1;
        memcpy(cpu_op_y(op) + i * length, cpu_op_x(op, 0) + row * length,
               (size_t)length * sizeof(float));
    }
    return 0;
}

static int reindex_gradient(struct cpu_op *op, int bottom, float *dx)
{
    const struct shape *y = &op->args.tops[0]->value.shape;
    int64_t length = (int64_t)shape_count(y, 1, y->naxes), row;

    cpu_zero(dx, shape_elems(&op->args.bottoms[bottom]->value.shape));
    for (int64_t i = 0; i < y->dim[0]; i++) {
        if (reindex_row(op, i, &row))
            return -1;
        cpu_axpby(dx + row * length, 1, cpu_op_dy(op) + i * length, 1, (size_t)length);
    }
    return 0;
}

const struct cpu_kind cpu_batch_reindex = {
    .blobs = CPU_PLAIN, .plain = 2, .forward = reindex_forward, .gradient = reindex_gradient};

/* Which row of the weight place i of the bottom asks for. */
static int embed_row(const struct cpu_op *op, int64_t i, int64_t *row)
{
    return move_index_at(cpu_op_x(op, 0), i, op->args.params[0]->shape.dim[0], row);
}

static int embed_forward(struct cpu_op *op)
{
    const float *bias = op->args.u.embed.bias ? op->args.params[1]->value : NULL;
    int64_t count = (int64_t)shape_elems(&op->args.bottoms[0]->value.shape);
    int64_t row, n = op->args.params[0]->shape.dim[1];
    float *to = cpu_op_y(op);

    for (int64_t i = 0; i < count; i++) {
        if (embed_row(op, i, &row))
            return -1;
        const float *from = op->args.params[0]->value + row * n;
        for (int64_t j = 0; j < n; j++)
            to[i * n + j] = from[j] + (bias ? bias[j] : 0);
    }
    return 0;
}

static int embed_backward(struct cpu_op *op)
{
    struct param *weight = op->args.params[0];
    struct param *bias = op->args.u.embed.bias ? op->args.params[1] : NULL;
    int64_t count = (int64_t)shape_elems(&op->args.bottoms[0]->value.shape);
    int64_t row, n = weight->shape.dim[1];
    const float *from = cpu_op_dy(op);

    if (weight->wants_grad && !weight->accumulate)
        cpu_zero(weight->grad, shape_elems(&weight->shape));
    if (bias && bias->wants_grad && !bias->accumulate)
        cpu_zero(bias->grad, (size_t)n);
    for (int64_t i = 0; i < count; i++) {
        if (embed_row(op, i, &row))
            return -1;
        if (weight->wants_grad)
            cpu_axpby(weight->grad + row * n, 1, from + i * n, 1, (size_t)n);
        if (bias && bias->wants_grad)
            cpu_axpby(bias->grad, 1, from + i * n, 1, (size_t)n);
    }
    return 0;
}

const struct cpu_kind cpu_embed = {
    .blobs = CPU_PLAIN_AGAIN, .plain = 1, .forward = embed_forward, .backward = embed_backward};

/* y's channel (j, i) is x's (i, j); rows: i's range. Backward is the same with the other range. */
static void shuffle_run(const struct cpu_op *op, int64_t rows, const float *x, float *y)
{
    const struct tensor *top = &op->args.tops[0]->value;
    const struct cpu_planes p = cpu_planes_of(&top->shape, cpu_tensor_format(top));
    int64_t channels = top->shape.dim[1], columns = channels / rows, pixels = p.pixels;
    int64_t sample = p.groups * pixels * p.block, samples = p.planes / p.groups;

#pragma omp parallel for collapse(2)
    for (int64_t n = 0; n < samples; n++) {
        for (int64_t c = 0; c < channels; c++) {
            int64_t source = c % rows * columns + c / rows;
            const float *from =
                x + n * sample + source / p.block * pixels * p.block + source % p.block;
            float *to = y + n * sample + c / p.block * pixels * p.block + c % p.block;
            if (p.block == 1) {
                memcpy(to, from, (size_t)pixels * sizeof *to);
                continue;
            }
            for (int64_t i = 0; i < pixels; i++)
                to[i * p.block] = from[i * p.block];
        }
    }
    cpu_clear_padding(y, &top->shape, cpu_tensor_format(top));
}

static int shuffle_forward(struct cpu_op *op)
{
    shuffle_run(op, op->args.u.shuffle.group, cpu_op_x(op, 0), cpu_op_y(op));
    return 0;
}

static int shuffle_gradient(struct cpu_op *op, int bottom, float *dx)
{
    int64_t channels = op->args.bottoms[bottom]->value.shape.dim[1];

    shuffle_run(op, channels / op->args.u.shuffle.group, cpu_op_dy(op), dx);
    return 0;
}

const struct cpu_kind cpu_shuffle = {
    .blobs = CPU_AS_BOTTOM, .forward = shuffle_forward, .gradient = shuffle_gradient};

static int parameter_forward(struct cpu_op *op)
{
    cpu_copy(cpu_op_y(op), op->args.params[0]->value, shape_elems(&op->args.params[0]->shape));
    return 0;
}

static int parameter_backward(struct cpu_op *op)
{
    struct param *param = op->args.params[0];

    if (param->wants_grad)
        cpu_axpby(param->grad, 1, cpu_op_dy(op), param->accumulate ? 1 : 0,
                  shape_elems(&param->shape));
    return 0;
}

const struct cpu_kind cpu_parameter = {
    .blobs = CPU_PLAIN, .forward = parameter_forward, .backward = parameter_backward};
