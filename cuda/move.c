/* Operators that take values from elsewhere: crop, tile, batch reindex, embed, shuffle; and silence
 * and parameter. All but embed's sums are copies, so they work in the format that comes. */
#include "cuda_internal.h"

#include "engine/op_size.h"

int cuda_pair_create(struct cuda_op *op, int i, const struct cuda_format *format, bool kept,
                     struct cuda_pair *out)
{
    struct blob *bottom = op->args.bottoms[i];

    if (cuda_input_create(op->engine, &bottom->value, format, kept ? WORK_OWN : WORK_TOP_GRAD,
                          &out->in))
        return -1;
    if (!cuda_op_propagates(op, i))
        return 0;
    return cuda_output_create(op->engine, &bottom->grad, format, WORK_BOTTOM_GRAD, &out->out);
}

void cuda_pair_destroy(struct cuda_pair *pair)
{
    cuda_input_destroy(&pair->in);
}

struct crop {
    struct cuda_op op;
    struct kernel_window window;
    enum cuda_type type;
};

static int crop_create(struct cuda_op *op)
{
    struct crop *crop = (struct crop *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    const struct cuda_format *format = cuda_tensor_format(&op->args.bottoms[0]->value);
    const int64_t *offset = op->args.u.crop.offset;

    crop->type = cuda_format_type(format);
    crop->window.naxes = x->naxes;
    for (int i = 0; i < x->naxes; i++) {
        int axis = cuda_axis_at(x, format, i);
        crop->window.small[i] = (int)y->dim[axis];
        crop->window.large[i] = (int)x->dim[axis];
        crop->window.offset[i] = (int)offset[axis];
    }
    cuda_top_set(op->args.tops[0], format);
    return 0;
}

static int crop_forward(struct cuda_op *op, const struct run *run)
{
    const struct crop *crop = (struct crop *)op;

    (void)run;
    return cuda_check(kernel_window(op->engine->stream, crop->type, &crop->window, false,
                                    op->args.bottoms[0]->value.data, op->args.tops[0]->value.data));
}

static int crop_backward(struct cuda_op *op, const struct run *run)
{
    const struct crop *crop = (struct crop *)op;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_check(kernel_window(op->engine->stream, crop->type, &crop->window, true,
                                    op->args.tops[0]->grad.data, op->args.bottoms[0]->grad.data));
}

const struct cuda_kind cuda_crop = {
    .size = sizeof(struct crop),
    .create = crop_create,
    .forward = crop_forward,
    .backward = crop_backward,
};

struct tile {
    struct cuda_op op;
    enum cuda_type type;
    int outer, length;
};

static int tile_create(struct cuda_op *op)
{
    struct tile *tile = (struct tile *)op;
    const struct tile_args *a = &op->args.u.tile;
    const struct tensor *x = &op->args.bottoms[0]->value;

    tile->type = cuda_format_type(cuda_tensor_format(x));
    tile->outer = cuda_pieces(&x->shape, cuda_tensor_format(x), op_axis(&x->shape, a->axis));
    tile->length = (int)shape_elems(&x->shape) / tile->outer;
    cuda_top_set(op->args.tops[0], cuda_tensor_format(x));
    return 0;
}

static int tile_forward(struct cuda_op *op, const struct run *run)
{
    const struct tile *tile = (struct tile *)op;

    (void)run;
    return cuda_check(kernel_tile(op->engine->stream, tile->type, tile->outer, tile->length,
                                  op->args.u.tile.tiles, op->args.bottoms[0]->value.data,
                                  op->args.tops[0]->value.data));
}

static int tile_backward(struct cuda_op *op, const struct run *run)
{
    const struct tile *tile = (struct tile *)op;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_check(kernel_tile_back(op->engine->stream, tile->type, tile->outer, tile->length,
                                       op->args.u.tile.tiles, op->args.tops[0]->grad.data,
                                       op->args.bottoms[0]->grad.data));
}

const struct cuda_kind cuda_tile = {
    .size = sizeof(struct tile),
    .create = tile_create,
    .forward = tile_forward,
    .backward = tile_backward,
};

/* Row numbers: `count` of them, into a table of `rows`. */
static struct kernel_labels move_row_numbers(const struct cuda_op *op, size_t count, int64_t rows)
{
    return (struct kernel_labels){.outer = (int)count,
                                  .classes = (int)rows,
                                  .inner = 1,
                                  .rows = true,
                                  .report = op->engine->bad,
                                  .layer = op->args.layer};
}

struct reindex {
    struct cuda_op op;
    struct cuda_input index;
    struct kernel_labels numbers;
    enum cuda_type type;
    int length;
};

static int reindex_create(struct cuda_op *op)
{
    struct reindex *reindex = (struct reindex *)op;
    const struct tensor *x = &op->args.bottoms[0]->value;
    const struct shape *y = &op->args.tops[0]->value.shape;
    size_t count = shape_elems(&op->args.bottoms[1]->value.shape);

    reindex->numbers = move_row_numbers(op, count, x->shape.dim[0]);
    reindex->type = cuda_format_type(cuda_tensor_format(x));
    reindex->length = (int)shape_count(y, 1, y->naxes);
    cuda_top_set(op->args.tops[0], cuda_tensor_format(x));
    return cuda_input_create(op->engine, &op->args.bottoms[1]->value, NULL, WORK_OWN,
                             &reindex->index);
}

static int reindex_forward(struct cuda_op *op, const struct run *run)
{
    struct reindex *reindex = (struct reindex *)op;

    (void)run;
    if (cuda_input_load(op->engine, &reindex->index))
        return -1;
    return cuda_check(kernel_take_rows(
        op->engine->stream, &reindex->numbers, cuda_input_data(op->engine, &reindex->index),
        reindex->length, reindex->type, op->args.bottoms[0]->value.data, NULL, reindex->type,
        op->args.tops[0]->value.data));
}

static int reindex_backward(struct cuda_op *op, const struct run *run)
{
    const struct reindex *reindex = (struct reindex *)op;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_check(kernel_take_rows_back(
        op->engine->stream, &reindex->numbers, cuda_input_data(op->engine, &reindex->index),
        reindex->length, reindex->type, op->args.tops[0]->grad.data, reindex->type,
        op->args.bottoms[0]->grad.data, false));
}

static void reindex_destroy(struct cuda_op *op)
{
    cuda_input_destroy(&((struct reindex *)op)->index);
}

const struct cuda_kind cuda_batch_reindex = {
    .size = sizeof(struct reindex),
    .create = reindex_create,
    .forward = reindex_forward,
    .backward = reindex_backward,
    .destroy = reindex_destroy,
};

struct embed {
    struct cuda_op op;
    struct cuda_input index;
    struct kernel_labels numbers;
    int outputs;
};

static int embed_create(struct cuda_op *op)
{
    struct embed *embed = (struct embed *)op;
    struct cuda_engine *engine = op->engine;
    size_t count = shape_elems(&op->args.bottoms[0]->value.shape);

    embed->numbers = move_row_numbers(op, count, op->args.params[0]->shape.dim[0]);
    embed->outputs = (int)op->args.params[0]->shape.dim[1];
    cuda_top_set(op->args.tops[0], cuda_plain(engine));
    if (cuda_bias_reserve(engine, (int)count, embed->outputs))
        return -1;
    return cuda_input_create(engine, &op->args.bottoms[0]->value, NULL, WORK_OWN, &embed->index);
}

static int embed_forward(struct cuda_op *op, const struct run *run)
{
    struct embed *embed = (struct embed *)op;
    struct cuda_engine *engine = op->engine;

    (void)run;
    if (cuda_input_load(engine, &embed->index))
        return -1;
    return cuda_check(kernel_take_rows(engine->stream, &embed->numbers,
                                       cuda_input_data(engine, &embed->index), embed->outputs,
                                       CUDA_F32, op->args.params[0]->value,
                                       op->args.u.embed.bias ? op->args.params[1]->value : NULL,
                                       engine->type, op->args.tops[0]->value.data));
}

static int embed_backward(struct cuda_op *op, const struct run *run)
{
    const struct embed *embed = (struct embed *)op;
    struct cuda_engine *engine = op->engine;
    struct param *weight = op->args.params[0];
    struct param *bias = op->args.u.embed.bias ? op->args.params[1] : NULL;
    const void *dy = op->args.tops[0]->grad.data;

    (void)run;
    if (weight->wants_grad &&
        cuda_check(kernel_take_rows_back(
            engine->stream, &embed->numbers, cuda_input_data(engine, &embed->index), embed->outputs,
            engine->type, dy, CUDA_F32, weight->grad, weight->accumulate)))
        return -1;
    if (!bias || !bias->wants_grad)
        return 0;
    return cuda_bias_gradient(engine, engine->type, dy, embed->numbers.outer, embed->outputs, bias);
}

static void embed_destroy(struct cuda_op *op)
{
    cuda_input_destroy(&((struct embed *)op)->index);
}

const struct cuda_kind cuda_embed = {
    .size = sizeof(struct embed),
    .create = embed_create,
    .forward = embed_forward,
    .backward = embed_backward,
    .destroy = embed_destroy,
};

struct shuffle {
    struct cuda_op op;
    struct kernel_channels view;
    enum cuda_type type;
};

static int shuffle_create(struct cuda_op *op)
{
    struct shuffle *shuffle = (struct shuffle *)op;
    const struct tensor *x = &op->args.bottoms[0]->value;

    cuda_channels_view(x, 1, 1, &shuffle->view);
    shuffle->type = cuda_format_type(cuda_tensor_format(x));
    cuda_top_set(op->args.tops[0], cuda_tensor_format(x));
    return 0;
}

static int shuffle_forward(struct cuda_op *op, const struct run *run)
{
    const struct shuffle *shuffle = (struct shuffle *)op;

    (void)run;
    return cuda_check(kernel_shuffle(op->engine->stream, shuffle->type, &shuffle->view,
                                     op->args.u.shuffle.group, op->args.bottoms[0]->value.data,
                                     op->args.tops[0]->value.data));
}

/* The inverse is the shuffle with the matrix turned. */
static int shuffle_backward(struct cuda_op *op, const struct run *run)
{
    const struct shuffle *shuffle = (struct shuffle *)op;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_check(kernel_shuffle(op->engine->stream, shuffle->type, &shuffle->view,
                                     shuffle->view.channels / op->args.u.shuffle.group,
                                     op->args.tops[0]->grad.data, op->args.bottoms[0]->grad.data));
}

const struct cuda_kind cuda_shuffle = {
    .size = sizeof(struct shuffle),
    .create = shuffle_create,
    .forward = shuffle_forward,
    .backward = shuffle_backward,
};

static int silence_create(struct cuda_op *op)
{
    (void)op;
    return 0;
}

static int silence_forward(struct cuda_op *op, const struct run *run)
{
    (void)op;
    (void)run;
    return 0;
}

static int silence_backward(struct cuda_op *op, const struct run *run)
{
    (void)run;
    for (int i = 0; i < op->args.nbottoms; i++) {
        const struct tensor *grad = &op->args.bottoms[i]->grad;
        if (cuda_op_propagates(op, i) &&
            cuda_check(cudaMemsetAsync(grad->data, 0, grad->bytes, op->engine->stream)))
            return -1;
    }
    return 0;
}

const struct cuda_kind cuda_silence = {
    .size = sizeof(struct cuda_op),
    .create = silence_create,
    .forward = silence_forward,
    .backward = silence_backward,
};

static int parameter_create(struct cuda_op *op)
{
    cuda_top_set(op->args.tops[0], cuda_plain(op->engine));
    return 0;
}

static int parameter_forward(struct cuda_op *op, const struct run *run)
{
    const struct param *param = op->args.params[0];

    (void)run;
    return cuda_check(kernel_transpose(op->engine->stream, CUDA_F32, param->value, op->engine->type,
                                       op->args.tops[0]->value.data, 1, 1,
                                       (int)shape_elems(&param->shape), false));
}

static int parameter_backward(struct cuda_op *op, const struct run *run)
{
    const struct param *param = op->args.params[0];

    (void)run;
    if (!param->wants_grad)
        return 0;
    return cuda_check(kernel_transpose(op->engine->stream, op->engine->type,
                                       op->args.tops[0]->grad.data, CUDA_F32, param->grad, 1, 1,
                                       (int)shape_elems(&param->shape), param->accumulate));
}

const struct cuda_kind cuda_parameter = {
    .size = sizeof(struct cuda_op),
    .create = parameter_create,
    .forward = parameter_forward,
    .backward = parameter_backward,
};
