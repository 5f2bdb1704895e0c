/* Operators that take values from other places: crop, tile, batch reindex, embed, shuffle; and
 * silence and parameter. All but embed's sums are copies, so they keep the bottom's format. */
#include "cuda_internal.h"

#include "engine/op_size.h"

struct crop {
    struct cuda_op op;
    struct kernel_window window;
};

static int crop_create(struct cuda_op *op)
{
    struct crop *crop = (struct crop *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    const struct cuda_format *format = cuda_tensor_format(&op->args.bottoms[0]->value);
    const int64_t *offset = op->args.u.crop.offset;

    crop->window.naxes = x->naxes;
    for (int i = 0; i < x->naxes; i++) {
        int axis = cuda_axis_at(x, format, i);
        crop->window.small[i] = (int)y->dim[axis];
        crop->window.large[i] = (int)x->dim[axis];
        crop->window.offset[i] = (int)offset[axis];
    }
    return 0;
}

static int crop_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    return cuda_check(kernel_window(op->engine->stream, cuda_bottom_type(op),
                                    &((struct crop *)op)->window, back, from, to));
}

const struct cuda_kind cuda_crop = {
    .size = sizeof(struct crop),
    .blobs = CUDA_AS_BOTTOM,
    .create = crop_create,
    .run = crop_run,
};

static int tile_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    const struct tile_args *a = &op->args.u.tile;
    const struct tensor *x = &op->args.bottoms[0]->value;
    int outer = cuda_pieces(&x->shape, cuda_tensor_format(x), op_axis(&x->shape, a->axis));
    int length = (int)shape_elems(&x->shape) / outer;

    return cuda_check((back ? kernel_tile_back : kernel_tile)(
        op->engine->stream, cuda_bottom_type(op), outer, length, a->tiles, from, to));
}

const struct cuda_kind cuda_tile = {.blobs = CUDA_AS_BOTTOM, .run = tile_run};

/* Describes `count` row numbers into a table of `rows` rows. */
static struct kernel_labels move_row_numbers(const struct cuda_op *op, size_t count, int64_t rows)
{
    return (struct kernel_labels){.outer = (int)count,
                                  .classes = (int)rows,
                                  .inner = 1,
                                  .rows = 1,
                                  .report = op->engine->bad,
                                  .layer = op->args.layer};
}

static int reindex_create(struct cuda_op *op)
{
    return cuda_op_take(op, 1, NULL, true);
}

static int reindex_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    const struct kernel_labels numbers =
        move_row_numbers(op, shape_elems(&op->args.bottoms[1]->value.shape), x->dim[0]);
    enum cuda_type type = cuda_bottom_type(op);
    cudaStream_t stream = op->engine->stream;
    int length = (int)shape_count(y, 1, y->naxes);

    return cuda_check(back ? kernel_take_rows_back(stream, &numbers, cuda_op_x(op, 1), length, type,
                                                   from, type, to, false)
                           : kernel_take_rows(stream, &numbers, cuda_op_x(op, 1), length, type,
                                              from, NULL, type, to));
}

const struct cuda_kind cuda_batch_reindex = {
    .blobs = CUDA_AS_BOTTOM, .create = reindex_create, .run = reindex_run};

struct upsample {
    struct cuda_op op;
    struct kernel_upsample kernel;
    int32_t *last;
};

static int upsample_create(struct cuda_op *op)
{
    struct upsample *upsample = (struct upsample *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    int pixels = (int)shape_count(y, 2, y->naxes);

    upsample->kernel =
        (struct kernel_upsample){move_row_numbers(op, shape_elems(x), pixels), (int)x->dim[0],
                                 (int)x->dim[1], (int)shape_count(x, 2, x->naxes)};
    upsample->kernel.labels.rows = 2;
    upsample->kernel.labels.has_ignore = true;
    upsample->kernel.labels.ignore = -1;
    upsample->last = cuda_op_alloc(op, shape_elems(y) * sizeof *upsample->last,
                                   "the pixels that upsampling moves");
    return upsample->last ? cuda_op_take(op, 1, &cuda_nhwc_f32, true) : -1;
}

static int upsample_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    const struct upsample *upsample = (const struct upsample *)op;
    cudaStream_t stream = op->engine->stream;
    size_t bytes = shape_elems(&op->args.tops[0]->value.shape) * sizeof *upsample->last;

    if (back)
        return cuda_check(kernel_upsample_back(stream, op->engine->type, &upsample->kernel,
                                               cuda_op_x(op, 1), from, to));
    return error_status(cuda_check(cudaMemsetAsync(upsample->last, 0, bytes, stream)) ||
                        cuda_check(kernel_upsample(stream, op->engine->type, &upsample->kernel,
                                                   cuda_op_x(op, 1), from, upsample->last, to)));
}

const struct cuda_kind cuda_upsample = {
    .size = sizeof(struct upsample),
    .blobs = CUDA_NHWC,
    .create = upsample_create,
    .run = upsample_run,
};

struct embed {
    struct cuda_op op;
    struct kernel_labels numbers;
    int outputs;
};

static int embed_create(struct cuda_op *op)
{
    struct embed *embed = (struct embed *)op;
    size_t count = shape_elems(&op->args.bottoms[0]->value.shape);

    embed->numbers = move_row_numbers(op, count, op->args.params[0]->shape.dim[0]);
    embed->outputs = (int)op->args.params[0]->shape.dim[1];
    cuda_top_set(op->args.tops[0], cuda_plain(op->engine));
    if (cuda_bias_reserve(op->engine, (int)count, embed->outputs))
        return -1;
    return cuda_op_take(op, 0, NULL, true);
}

static int embed_forward(struct cuda_op *op)
{
    const struct embed *embed = (const struct embed *)op;

    return cuda_check(kernel_take_rows(op->engine->stream, &embed->numbers, cuda_op_x(op, 0),
                                       embed->outputs, CUDA_F32, op->args.params[0]->value,
                                       op->args.u.embed.bias ? op->args.params[1]->value : NULL,
                                       op->engine->type, cuda_op_y(op)));
}

static int embed_backward(struct cuda_op *op)
{
    const struct embed *embed = (const struct embed *)op;
    struct cuda_engine *engine = op->engine;
    struct param *weight = op->args.params[0];
    struct param *bias = op->args.u.embed.bias ? op->args.params[1] : NULL;
    const void *dy = cuda_op_dy(op);

    if (weight->wants_grad && cuda_check(kernel_take_rows_back(
                                  engine->stream, &embed->numbers, cuda_op_x(op, 0), embed->outputs,
                                  engine->type, dy, CUDA_F32, weight->grad, weight->accumulate)))
        return -1;
    if (!bias || !bias->wants_grad)
        return 0;
    return cuda_bias_gradient(engine, engine->type, dy, embed->numbers.outer, embed->outputs, bias);
}

const struct cuda_kind cuda_embed = {
    .size = sizeof(struct embed),
    .create = embed_create,
    .forward = embed_forward,
    .backward = embed_backward,
};

/* Shuffles channels. The inverse is the shuffle with rows and columns exchanged. */
static int shuffle_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    struct kernel_channels view;
    int group = op->args.u.shuffle.group;

    cuda_channels_view(&op->args.bottoms[0]->value, 1, 1, &view);
    return cuda_check(kernel_shuffle(op->engine->stream, cuda_bottom_type(op), &view,
                                     back ? view.channels / group : group, from, to));
}

const struct cuda_kind cuda_shuffle = {.blobs = CUDA_AS_BOTTOM, .run = shuffle_run};

static int silence_gradient(struct cuda_op *op, int bottom, void *dx)
{
    return cuda_check(
        cudaMemsetAsync(dx, 0, op->args.bottoms[bottom]->grad.bytes, op->engine->stream));
}

const struct cuda_kind cuda_silence = {.gradient = silence_gradient};

static int parameter_forward(struct cuda_op *op)
{
    const struct param *param = op->args.params[0];

    return cuda_check(kernel_transpose(op->engine->stream, CUDA_F32, param->value, op->engine->type,
                                       cuda_op_y(op), 1, 1, (int)shape_elems(&param->shape),
                                       false));
}

static int parameter_backward(struct cuda_op *op)
{
    const struct param *param = op->args.params[0];

    if (!param->wants_grad)
        return 0;
    return cuda_check(kernel_transpose(op->engine->stream, op->engine->type, cuda_op_dy(op),
                                       CUDA_F32, param->grad, 1, 1, (int)shape_elems(&param->shape),
                                       param->accumulate));
}

const struct cuda_kind cuda_parameter = {
    .blobs = CUDA_PLAIN, .forward = parameter_forward, .backward = parameter_backward};
