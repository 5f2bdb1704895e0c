/* Convolution and deconvolution with channels last and weights (O, kernel..., C). cuDNN computes
 * where it has a kernel under the asked precision, conv.cu otherwise.
 *
 * Parameters stay Caffe's O x C x kernel... floats. The kernels read a copy, renewed when the
 * parameter's version changes; the weight gradient is transposed back. Where the two layouts are
 * equal (1x1 kernels in float) nothing is copied. */
#include "cuda_internal.h"

#include "engine/op_size.h"

struct kernel_conv cuda_conv_shape(const struct conv_args *a, const struct shape *image,
                                   const struct shape *places)
{
    const struct op_windows w = op_conv_windows(a, image, places);
    struct kernel_conv s = {.samples = (int)image->dim[0],
                            .channels = (int)image->dim[1],
                            .outputs = (int)places->dim[1],
                            .group = a->group};

    for (int i = 0; i < OP_SPATIAL; i++) {
        s.size[i] = (int)w.size[i];
        s.places[i] = (int)w.places[i];
        s.kernel[i] = w.kernel[i];
        s.stride[i] = w.stride[i];
        s.pad[i] = w.pad[i];
        s.dilation[i] = w.dilation[i];
    }
    return s;
}

/* A convolution, or its transpose, which exchanges the forward and the data gradient's kernels.
 * image, places: the convolution's bottom and top, or the transpose's top and bottom. */
struct conv {
    struct cuda_op op;
    bool transposed;
    struct kernel_conv shape;                           /* convolution from image to places */
    struct cuda_plan *to_places, *to_image, *to_weight; /* NULL: by conv.cu */
    struct cuda_param weight; /* copy in layout (O, kernel..., C per group) */
    bool biased;              /* the plan adds the bias, and applies the ReLU */
    struct cuda_param bias;   /* bias that the plan reads, with `biased` */
};

static void conv_shape_fill(struct conv *conv)
{
    const struct cuda_op *op = &conv->op;
    const struct conv_args *a = &op->args.u.conv;
    const struct shape *bottom = &op->args.bottoms[0]->value.shape;
    const struct shape *top = &op->args.tops[0]->value.shape;
    const struct shape *image = conv->transposed ? top : bottom,
                       *places = conv->transposed ? bottom : top;

    conv->shape = cuda_conv_shape(a, image, places);
}

static bool conv_needs_backward(const struct conv *conv)
{
    return conv->op.args.train &&
           (conv->op.args.params[0]->wants_grad || cuda_op_propagates(&conv->op, 0) ||
            (conv->op.args.nparams > 1 && conv->op.args.params[1]->wants_grad));
}

/* Returns the number of rows of the top as a matrix with one column per channel. */
static int conv_top_rows(const struct conv *conv)
{
    const struct shape *top = &conv->op.args.tops[0]->value.shape;

    return (int)(shape_elems(top) / (size_t)top->dim[1]);
}

static int conv_top_channels(const struct conv *conv)
{
    return (int)conv->op.args.tops[0]->value.shape.dim[1];
}

static int conv_create_backward(struct conv *conv)
{
    struct cuda_op *op = &conv->op;
    struct cuda_engine *engine = op->engine;
    const struct kernel_conv *s = &conv->shape;

    if (!conv_needs_backward(conv))
        return 0;
    if (cuda_work_reserve(engine, WORK_WEIGHT_GRAD,
                          shape_elems(&op->args.params[0]->shape) * sizeof(float)) ||
        cuda_bias_reserve(engine, conv_top_rows(conv), conv_top_channels(conv)))
        return -1;
    if (op->args.params[0]->wants_grad &&
        cuda_plan_create(engine, PLAN_BACK_WEIGHT, s, &conv->to_weight))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return conv->transposed ? cuda_plan_create(engine, PLAN_FORWARD, s, &conv->to_places)
                            : cuda_plan_create(engine, PLAN_BACK_DATA, s, &conv->to_image);
}

static int conv_create_forward(struct conv *conv)
{
    struct cuda_engine *engine = conv->op.engine;
    const struct kernel_conv *s = &conv->shape;

    if (conv->transposed)
        return cuda_plan_create(engine, PLAN_BACK_DATA, s, &conv->to_image);
    if (!conv->op.args.u.conv.bias)
        return cuda_plan_create(engine, PLAN_FORWARD, s, &conv->to_places);
    return cuda_plan_create_biased(engine, s, conv->op.args.relu, &conv->to_places, &conv->biased);
}

static int conv_create(struct cuda_op *op)
{
    struct conv *conv = (struct conv *)op;
    const struct kernel_conv *s = &conv->shape;

    conv->transposed = op->args.kind == OP_DECONV;
    conv_shape_fill(conv);
    conv->weight = (struct cuda_param){.outer = s->outputs,
                                       .rows = s->channels / s->group,
                                       .columns = s->kernel[0] * s->kernel[1] * s->kernel[2]};
    if (conv_create_forward(conv) ||
        cuda_param_create(op, op->args.params[0], false,
                          "a convolution's weights in the GPU's layout", &conv->weight) ||
        (conv->biased &&
         cuda_param_create(op, op->args.params[1], true, "a convolution's bias", &conv->bias)))
        return -1;
    return conv_create_backward(conv);
}

static int conv_run_to_places(struct conv *conv, const void *image, void *places, const void *bias)
{
    struct cuda_engine *engine = conv->op.engine;
    const void *weight = cuda_param_data(engine, &conv->weight);

    if (conv->to_places)
        return cuda_plan_run(engine, conv->to_places, image, weight, places, bias);
    return cuda_check(
        kernel_conv(engine->stream, engine->type, &conv->shape, image, weight, places));
}

static int conv_run_to_image(struct conv *conv, const void *places, void *image)
{
    struct cuda_engine *engine = conv->op.engine;
    const void *weight = cuda_param_data(engine, &conv->weight);

    if (conv->to_image)
        return cuda_plan_run(engine, conv->to_image, image, weight, places, NULL);
    return cuda_check(
        kernel_conv_back_data(engine->stream, engine->type, &conv->shape, places, weight, image));
}

static int conv_forward(struct cuda_op *op)
{
    struct conv *conv = (struct conv *)op;
    struct cuda_engine *engine = op->engine;
    void *top = cuda_op_y(op);
    const void *bottom = cuda_op_x(op, 0), *bias = cuda_param_data(engine, &conv->bias);

    if (cuda_param_load(engine, &conv->weight) || cuda_param_load(engine, &conv->bias))
        return -1;
    if (conv->transposed ? conv_run_to_image(conv, bottom, top)
                         : conv_run_to_places(conv, bottom, top, bias))
        return -1;
    if (!op->args.u.conv.bias || conv->biased)
        return 0;
    return cuda_check(kernel_add_bias(engine->stream, engine->type, top, op->args.params[1]->value,
                                      op->args.relu, conv_top_rows(conv), conv_top_channels(conv)));
}

static int conv_weight_backward(struct conv *conv, const void *image, const void *places)
{
    const struct cuda_param *weight = &conv->weight;
    struct param *param = weight->param;
    struct cuda_engine *engine = conv->op.engine;
    /* cuDNN 9.19 has no kernel for float gradients of bfloat16 (tests/cuda/test_plans): its kernels
     * add in float, and round the sums once */
    enum cuda_type type = conv->to_weight ? engine->type : CUDA_F32;
    bool direct = !cuda_param_is_turned(weight) && type == CUDA_F32 && !param->accumulate &&
                  (uintptr_t)param->grad % CUDA_ALIGNMENT == 0;
    void *dw = direct ? param->grad : engine->work[WORK_WEIGHT_GRAD].data;

    if (conv->to_weight ? cuda_plan_run(engine, conv->to_weight, image, dw, places, NULL)
                        : cuda_check(kernel_conv_back_weight(engine->stream, engine->type,
                                                             &conv->shape, places, image, dw)))
        return -1;
    if (direct)
        return 0;
    /* from (O, kernel..., C) to (O, C, kernel...) */
    return cuda_check(kernel_transpose(engine->stream, type, dw, CUDA_F32, param->grad,
                                       weight->outer, weight->columns, weight->rows,
                                       param->accumulate));
}

/* Computes the bias's gradient. With a fused ReLU, first makes dy 0 in place where y is not
 * positive: only this operator reads dy from here on. */
static int conv_bias_backward(struct conv *conv)
{
    const struct cuda_op *op = &conv->op;
    struct cuda_engine *engine = op->engine;
    struct param *bias = op->args.u.conv.bias ? op->args.params[1] : NULL;
    int rows = conv_top_rows(conv), columns = conv_top_channels(conv);
    void *dy = op->args.tops[0]->grad.data;

    if (op->args.relu)
        return cuda_bias_gradient_behind_relu(engine, engine->type, cuda_op_y(op), dy, rows,
                                              columns, bias);
    return bias && bias->wants_grad
               ? cuda_bias_gradient(engine, engine->type, dy, rows, columns, bias)
               : 0;
}

static int conv_backward(struct cuda_op *op)
{
    struct conv *conv = (struct conv *)op;
    const void *x = cuda_op_x(op, 0), *dy = cuda_op_dy(op);

    if (!conv_needs_backward(conv))
        return 0;
    if (conv_bias_backward(conv))
        return -1;
    return op->args.params[0]->wants_grad
               ? conv_weight_backward(conv, conv->transposed ? dy : x, conv->transposed ? x : dy)
               : 0;
}

static int conv_gradient(struct cuda_op *op, int bottom, void *dx)
{
    struct conv *conv = (struct conv *)op;

    (void)bottom;
    return conv->transposed ? conv_run_to_places(conv, cuda_op_dy(op), dx, NULL)
                            : conv_run_to_image(conv, cuda_op_dy(op), dx);
}

static void conv_destroy(struct cuda_op *op)
{
    struct conv *conv = (struct conv *)op;

    cuda_plan_destroy(op->engine, conv->to_places);
    cuda_plan_destroy(op->engine, conv->to_image);
    cuda_plan_destroy(op->engine, conv->to_weight);
}

#define CONV_KIND                                                                                  \
    {                                                                                              \
        .size = sizeof(struct conv), .blobs = CUDA_NHWC, .again = true, .create = conv_create,     \
        .forward = conv_forward, .backward = conv_backward, .gradient = conv_gradient,             \
        .destroy = conv_destroy,                                                                   \
    }

const struct cuda_kind cuda_conv = CONV_KIND;
const struct cuda_kind cuda_deconv = CONV_KIND;

static int im2col_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    const struct kernel_conv kernel = cuda_conv_shape(
        &op->args.u.conv, &op->args.bottoms[0]->value.shape, &op->args.tops[0]->value.shape);

    return cuda_check(
        kernel_columns(op->engine->stream, op->engine->type, &kernel, back, from, to));
}

const struct cuda_kind cuda_im2col = {.blobs = CUDA_PLAIN, .run = im2col_run};
