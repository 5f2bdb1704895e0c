/* Operators that take values from elsewhere: crop, tile, batch reindex, embed, channel shuffle; and
 * silence and parameter. */
#include "engine/cpu/cpu_internal.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <inttypes.h>
#include <string.h>

/* Crop, tile and batch reindex: plain in, plain out. */
struct plain_op {
    struct cpu_op op;
    struct cpu_plain plain;
};

static void move_destroy(struct cpu_op *op)
{
    cpu_plain_destroy(&((struct plain_op *)op)->plain);
}

static int crop_create(struct cpu_op *op)
{
    cpu_top_set(op->args.tops[0], NULL);
    return cpu_plain_create(op, 0, false, &((struct plain_op *)op)->plain);
}

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

static int crop_forward(struct cpu_op *op, const struct run *run)
{
    struct plain_op *crop = (struct plain_op *)op;
    const struct shape *y = &op->args.tops[0]->value.shape;
    int64_t width = y->dim[y->naxes - 1], rows = (int64_t)shape_elems(y) / width;
    float *to = op->args.tops[0]->value.data;
    const float *from;

    (void)run;
    if (cpu_input_load(op->engine, &crop->plain.in))
        return -1;
    from = cpu_input_data(op->engine, &crop->plain.in);
#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * width, from + crop_place(op, r), (size_t)width * sizeof *to);
    return 0;
}

static int crop_backward(struct cpu_op *op, const struct run *run)
{
    struct plain_op *crop = (struct plain_op *)op;
    const struct shape *y = &op->args.tops[0]->value.shape;
    int64_t width = y->dim[y->naxes - 1], rows = (int64_t)shape_elems(y) / width;
    const float *from = op->args.tops[0]->grad.data;
    float *to;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    to = cpu_output_data(op->engine, &crop->plain.out);
    cpu_zero(to, shape_elems(&op->args.bottoms[0]->value.shape));
#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + crop_place(op, r), from + r * width, (size_t)width * sizeof *to);
    return cpu_output_store(op->engine, &crop->plain.out);
}

const struct cpu_kind cpu_crop = {
    .size = sizeof(struct plain_op),
    .create = crop_create,
    .forward = crop_forward,
    .backward = crop_backward,
    .destroy = move_destroy,
};

static int tile_create(struct cpu_op *op)
{
    cpu_top_set(op->args.tops[0], NULL);
    return cpu_plain_create(op, 0, false, &((struct plain_op *)op)->plain);
}

/* The bottom as outer rows; each is repeated. */
static void tile_rows(const struct cpu_op *op, int64_t *outer, int64_t *length)
{
    struct op_axes axes = op_axes_from(&op->args.bottoms[0]->value.shape, op->args.u.tile.axis);

    *outer = axes.outer;
    *length = axes.length;
}

static int tile_forward(struct cpu_op *op, const struct run *run)
{
    struct plain_op *tile = (struct plain_op *)op;
    int64_t outer, length, tiles = op->args.u.tile.tiles;
    float *to = op->args.tops[0]->value.data;
    const float *from;

    (void)run;
    tile_rows(op, &outer, &length);
    if (cpu_input_load(op->engine, &tile->plain.in))
        return -1;
    from = cpu_input_data(op->engine, &tile->plain.in);
#pragma omp parallel for
    for (int64_t i = 0; i < outer * tiles; i++)
        memcpy(to + i * length, from + i / tiles * length, (size_t)length * sizeof *to);
    return 0;
}

static int tile_backward(struct cpu_op *op, const struct run *run)
{
    struct plain_op *tile = (struct plain_op *)op;
    int64_t outer, length, tiles = op->args.u.tile.tiles;
    const float *from = op->args.tops[0]->grad.data;
    float *to;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    tile_rows(op, &outer, &length);
    to = cpu_output_data(op->engine, &tile->plain.out);
#pragma omp parallel for
    for (int64_t o = 0; o < outer; o++)
        for (int64_t t = 0; t < tiles; t++)
            for (int64_t i = 0; i < length; i++) {
                float value = from[(o * tiles + t) * length + i];
                to[o * length + i] = t ? to[o * length + i] + value : value;
            }
    return cpu_output_store(op->engine, &tile->plain.out);
}

const struct cpu_kind cpu_tile = {
    .size = sizeof(struct plain_op),
    .create = tile_create,
    .forward = tile_forward,
    .backward = tile_backward,
    .destroy = move_destroy,
};

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

static int reindex_create(struct cpu_op *op)
{
    const struct cpu_format *format = cpu_tensor_format(&op->args.bottoms[1]->value);

    if (format)
        return error_set("the indices come in the format %s; plain ones are needed", format->name);
    cpu_top_set(op->args.tops[0], NULL);
    return cpu_plain_create(op, 0, false, &((struct plain_op *)op)->plain);
}

static int reindex_forward(struct cpu_op *op, const struct run *run)
{
    struct plain_op *reindex = (struct plain_op *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    int64_t rows = op->args.tops[0]->value.shape.dim[0], row;
    size_t length = shape_count(x, 1, x->naxes);
    float *to = op->args.tops[0]->value.data;

    (void)run;
    if (cpu_input_load(op->engine, &reindex->plain.in))
        return -1;
    for (int64_t i = 0; i < rows; i++) {
        if (move_index_at(op->args.bottoms[1]->value.data, i, x->dim[0], &row))
            return -1;
        memcpy(to + (size_t)i * length,
               cpu_input_data(op->engine, &reindex->plain.in) + (size_t)row * length,
               length * sizeof *to);
    }
    return 0;
}

static int reindex_backward(struct cpu_op *op, const struct run *run)
{
    struct plain_op *reindex = (struct plain_op *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    int64_t rows = op->args.tops[0]->value.shape.dim[0], row;
    size_t length = shape_count(x, 1, x->naxes);
    float *to;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    to = cpu_output_data(op->engine, &reindex->plain.out);
    cpu_zero(to, shape_elems(x));
    for (int64_t i = 0; i < rows; i++) {
        if (move_index_at(op->args.bottoms[1]->value.data, i, x->dim[0], &row))
            return -1;
        cpu_axpby(to + (size_t)row * length, 1, op->args.tops[0]->grad.data + (size_t)i * length, 1,
                  length);
    }
    return cpu_output_store(op->engine, &reindex->plain.out);
}

const struct cpu_kind cpu_batch_reindex = {
    .size = sizeof(struct plain_op),
    .create = reindex_create,
    .forward = reindex_forward,
    .backward = reindex_backward,
    .destroy = move_destroy,
};

struct embed {
    struct cpu_op op;
    struct cpu_input in;
    int64_t count, rows, outputs;
};

static int embed_create(struct cpu_op *op)
{
    struct embed *embed = (struct embed *)op;

    embed->count = (int64_t)shape_elems(&op->args.bottoms[0]->value.shape);
    embed->rows = op->args.params[0]->shape.dim[0];
    embed->outputs = op->args.params[0]->shape.dim[1];
    cpu_top_set(op->args.tops[0], NULL);
    return cpu_input_create(op->engine, &op->args.bottoms[0]->value, NULL, WORK_OWN, &embed->in);
}

static int embed_forward(struct cpu_op *op, const struct run *run)
{
    struct embed *embed = (struct embed *)op;
    const float *bias = op->args.u.embed.bias ? op->args.params[1]->value : NULL;
    float *to = op->args.tops[0]->value.data;
    int64_t row, n = embed->outputs;

    (void)run;
    if (cpu_input_load(op->engine, &embed->in))
        return -1;
    for (int64_t i = 0; i < embed->count; i++) {
        if (move_index_at(cpu_input_data(op->engine, &embed->in), i, embed->rows, &row))
            return -1;
        const float *from = op->args.params[0]->value + row * n;
        for (int64_t j = 0; j < n; j++)
            to[i * n + j] = from[j] + (bias ? bias[j] : 0);
    }
    return 0;
}

static int embed_backward(struct cpu_op *op, const struct run *run)
{
    struct embed *embed = (struct embed *)op;
    struct param *weight = op->args.params[0];
    struct param *bias = op->args.u.embed.bias ? op->args.params[1] : NULL;
    const float *from = op->args.tops[0]->grad.data;
    int64_t row, n = embed->outputs;

    (void)run;
    if (weight->wants_grad && !weight->accumulate)
        cpu_zero(weight->grad, shape_elems(&weight->shape));
    if (bias && bias->wants_grad && !bias->accumulate)
        cpu_zero(bias->grad, (size_t)n);
    for (int64_t i = 0; i < embed->count; i++) {
        if (move_index_at(cpu_input_data(op->engine, &embed->in), i, embed->rows, &row))
            return -1;
        if (weight->wants_grad)
            cpu_axpby(weight->grad + row * n, 1, from + i * n, 1, (size_t)n);
        if (bias && bias->wants_grad)
            cpu_axpby(bias->grad, 1, from + i * n, 1, (size_t)n);
    }
    return 0;
}

static void embed_destroy(struct cpu_op *op)
{
    cpu_input_destroy(&((struct embed *)op)->in);
}

const struct cpu_kind cpu_embed = {
    .size = sizeof(struct embed),
    .create = embed_create,
    .forward = embed_forward,
    .backward = embed_backward,
    .destroy = embed_destroy,
};

struct no_state {
    struct cpu_op op;
};

struct shuffle {
    struct cpu_op op;
    struct cpu_planes planes;
    int64_t channels;
};

static int shuffle_create(struct cpu_op *op)
{
    struct shuffle *shuffle = (struct shuffle *)op;
    const struct tensor *x = &op->args.bottoms[0]->value;

    shuffle->channels = x->shape.dim[1];
    shuffle->planes = cpu_planes_of(&x->shape, cpu_tensor_format(x));
    cpu_top_set(op->args.tops[0], cpu_tensor_format(x));
    return 0;
}

/* y's channel (j, i) is x's (i, j); rows: i's range. Backward is the same with the other range. */
static void shuffle_run(const struct shuffle *s, int64_t rows, const float *x, float *y)
{
    const struct cpu_planes *p = &s->planes;
    int64_t columns = s->channels / rows, pixels = p->pixels;
    int64_t sample = p->groups * pixels * p->block, samples = p->planes / p->groups;

#pragma omp parallel for collapse(2)
    for (int64_t n = 0; n < samples; n++) {
        for (int64_t c = 0; c < s->channels; c++) {
            int64_t source = c % rows * columns + c / rows;
            const float *from =
                x + n * sample + source / p->block * pixels * p->block + source % p->block;
            float *to = y + n * sample + c / p->block * pixels * p->block + c % p->block;
            if (p->block == 1) {
                memcpy(to, from, (size_t)pixels * sizeof *to);
                continue;
            }
            for (int64_t i = 0; i < pixels; i++)
                to[i * p->block] = from[i * p->block];
        }
    }
}

static int shuffle_forward(struct cpu_op *op, const struct run *run)
{
    const struct tensor *top = &op->args.tops[0]->value;

    (void)run;
    shuffle_run((struct shuffle *)op, op->args.u.shuffle.group, op->args.bottoms[0]->value.data,
                top->data);
    cpu_clear_padding(top->data, &top->shape, cpu_tensor_format(top));
    return 0;
}

static int shuffle_backward(struct cpu_op *op, const struct run *run)
{
    const struct shuffle *s = (struct shuffle *)op;
    const struct tensor *grad = &op->args.bottoms[0]->grad;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    shuffle_run(s, s->channels / op->args.u.shuffle.group, op->args.tops[0]->grad.data, grad->data);
    cpu_clear_padding(grad->data, &grad->shape, cpu_tensor_format(grad));
    return 0;
}

const struct cpu_kind cpu_shuffle = {
    .size = sizeof(struct shuffle),
    .create = shuffle_create,
    .forward = shuffle_forward,
    .backward = shuffle_backward,
};

static int silence_create(struct cpu_op *op)
{
    (void)op;
    return 0;
}

static int silence_forward(struct cpu_op *op, const struct run *run)
{
    (void)op;
    (void)run;
    return 0;
}

static int silence_backward(struct cpu_op *op, const struct run *run)
{
    (void)run;
    for (int i = 0; i < op->args.nbottoms; i++)
        if (cpu_op_propagates(op, i))
            cpu_zero(op->args.bottoms[i]->grad.data, cpu_tensor_stored(&op->args.bottoms[i]->grad));
    return 0;
}

const struct cpu_kind cpu_silence = {
    .size = sizeof(struct no_state),
    .create = silence_create,
    .forward = silence_forward,
    .backward = silence_backward,
};

static int parameter_create(struct cpu_op *op)
{
    cpu_top_set(op->args.tops[0], NULL);
    return 0;
}

static int parameter_forward(struct cpu_op *op, const struct run *run)
{
    (void)run;
    cpu_copy(op->args.tops[0]->value.data, op->args.params[0]->value,
             shape_elems(&op->args.params[0]->shape));
    return 0;
}

static int parameter_backward(struct cpu_op *op, const struct run *run)
{
    struct param *param = op->args.params[0];

    (void)run;
    if (param->wants_grad)
        cpu_axpby(param->grad, 1, op->args.tops[0]->grad.data, param->accumulate ? 1 : 0,
                  shape_elems(&param->shape));
    return 0;
}

const struct cpu_kind cpu_parameter = {
    .size = sizeof(struct no_state),
    .create = parameter_create,
    .forward = parameter_forward,
    .backward = parameter_backward,
};
