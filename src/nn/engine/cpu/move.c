/* Operators that move or repeat values: crop, tile, batch reindex, upsample, embed, channel
 * shuffle, parameter. */
#include "engine/cpu/element.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Returns the offset in the bottom of the top's row number `row` (all axes but the last). */
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

/* Copies the top's rows from their places in the bottom; back: gradients to these places. */
static int crop_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct shape *y = &op->args.tops[0]->value.shape;
    int64_t width = y->dim[y->naxes - 1], rows = (int64_t)shape_elems(y) / width;

    if (back)
        cpu_zero(to, shape_elems(&op->args.bottoms[0]->value.shape));
#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++) {
        int64_t top = r * width, bottom = crop_place(op, r);
        memcpy(to + (back ? bottom : top), from + (back ? top : bottom),
               (size_t)width * sizeof *to);
    }
    return 0;
}

const struct cpu_kind cpu_crop = {.blobs = CPU_PLAIN, .run = crop_run};

/* Repeats each of the bottom's outer rows; back: adds up the gradients of the repeated rows. */
static int tile_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct tile_args *a = &op->args.u.tile;
    const struct op_axes rows = op_axes_from(&op->args.bottoms[0]->value.shape, a->axis);
    int64_t length = rows.length, tiles = a->tiles;

#pragma omp parallel for
    for (int64_t i = 0; i < (back ? 0 : rows.outer * tiles); i++)
        memcpy(to + i * length, from + i / tiles * length, (size_t)length * sizeof *to);
#pragma omp parallel for
    for (int64_t i = 0; i < (back ? rows.outer : 0); i++)
        for (int64_t t = 0; t < tiles; t++)
            cpu_axpby_piece(to + i * length, 1, from + (i * tiles + t) * length, t ? 1 : 0,
                            (size_t)length);
    return 0;
}

const struct cpu_kind cpu_tile = {.blobs = CPU_PLAIN, .run = tile_run};

/* Reads row number i from a list of floats; an error where there is no such row. */
static int move_index_at(const float *list, int64_t i, int64_t rows, int64_t *out)
{
    bool whole = list[i] == floorf(list[i]); /* false for NaN */

    *out = 0;
    if (!(whole && list[i] >= 0 && list[i] < (float)rows))
        return error_set("index %g at place %" PRId64 " is %s 0..%" PRId64, (double)list[i], i,
                         whole ? "outside" : "not a whole number in", rows - 1);
    *out = (int64_t)list[i];
    return 0;
}

/* Copies to row i of the top the bottom's row that index i names; back: adds gradients up. */
static int reindex_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    int64_t length = (int64_t)shape_count(y, 1, y->naxes), row;

    if (back)
        cpu_zero(to, shape_elems(x));
    for (int64_t i = 0; i < y->dim[0]; i++) {
        if (move_index_at(cpu_op_x(op, 1), i, x->dim[0], &row))
            return -1;
        if (back)
            cpu_axpby(to + row * length, 1, from + i * length, 1, (size_t)length);
        else
            memcpy(to + i * length, from + row * length, (size_t)length * sizeof *to);
    }
    return 0;
}

const struct cpu_kind cpu_batch_reindex = {.blobs = CPU_PLAIN, .plain = 2, .run = reindex_run};

static int upsample_create(struct cpu_op *op)
{
    return cpu_op_take(op, 1, cpu_format_floats(cpu_tensor_format(&op->args.bottoms[0]->value)),
                       WORK_OWN);
}

/* Moves values to their places in the top's planes; back: takes gradients from there. */
static int upsample_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct cpu_format *format = cpu_tensor_format(&op->args.bottoms[0]->value);
    const struct cpu_planes x = cpu_planes_of(&op->args.bottoms[0]->value.shape, format);
    const struct cpu_planes y = cpu_planes_of(&op->args.tops[0]->value.shape, format);
    const int64_t n = x.pixels * x.block, m = y.pixels * y.block;
    const bool half = cpu_format_half(format);
    const float *places = cpu_op_x(op, 1);
    int64_t last = -1; /* last element with a wrong place */

    if (!back)
        cpu_zero_tensor(&op->args.tops[0]->value, to);
#pragma omp parallel for reduction(max : last)
    for (int64_t p = 0; p < x.planes; p++)
        for (int64_t i = p * n; i < (p + 1) * n; i++) {
            float place = places[i];
            bool fits = place >= 0 && place < (float)y.pixels && place == floorf(place);
            int64_t at = fits ? p * m + (int64_t)place * x.block + i % x.block : 0;

            if (!fits && place != -1)
                last = i;
            if (back)
                element_put(to, i, half, fits ? element_at(from, at, half) : 0);
            else if (fits)
                element_put(to, at, half, element_at(from, i, half));
        }
    return last < 0 ? 0
                    : error_set("the mask says place %g of planes of %" PRId64 " pixels; expected "
                                "the second top of the pooling that this layer undoes",
                                (double)places[last], y.pixels);
}

const struct cpu_kind cpu_upsample = {
    .blobs = CPU_AS_BOTTOM, .halves = true, .create = upsample_create, .run = upsample_run};

/* Finds the row of the weight that place i of the bottom asks for. */
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
    .blobs = CPU_PLAIN_AGAIN, .forward = embed_forward, .backward = embed_backward};

/* Moves x's channel (i, j) to y's channel (j, i); rows: the range of i, or in backward of j. */
static int shuffle_run(struct cpu_op *op, bool back, const float *x, float *y)
{
    const struct tensor *top = &op->args.tops[0]->value;
    const struct cpu_planes p = cpu_planes_of(&top->shape, cpu_tensor_format(top));
    int64_t channels = top->shape.dim[1], group = op->args.u.shuffle.group, pixels = p.pixels;
    int64_t rows = back ? channels / group : group, columns = channels / rows;
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
    return 0;
}

const struct cpu_kind cpu_shuffle = {.blobs = CPU_AS_BOTTOM, .run = shuffle_run};

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
