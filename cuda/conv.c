/* Convolution in NHWC, weights KRSC: cuDNN where it has a kernel under the asked precision, the plain
 * definition (direct.cu) otherwise.
 *
 * Parameters stay as Caffe has them, O x C x kh x kw floats; the copy that the kernels read is renewed when
 * the parameter's version changes, and the weight gradient is turned back on its way out. Where the two
 * layouts are one (1x1 kernels in float) nothing is copied. */
#include "cuda_internal.h"

#include "util/error.h"

#include <inttypes.h>

struct conv {
    struct cuda_op op;
    struct kernel_conv shape;
    struct cuda_plan *forward, *back_data, *back_weight; /* NULL: direct */
    struct cuda_input bottom; /* kept for backward */
    struct cuda_input top_grad;
    struct cuda_output bottom_grad;
    bool same;      /* parameter and kernels agree on the layout of weights */
    size_t weights;
    void *weight;   /* the kernels' copy, unless same */
    void *bias;     /* the same of the bias, in bfloat16 */
    bool biased;    /* the plan adds it */
    uint64_t version, bias_version; /* of the parameters when they were copied */
    bool fresh, bias_fresh;
};

static int shape_fill(struct conv *conv)
{
    const struct cuda_op *op = &conv->op;
    const struct conv_args *a = &op->args.u.conv;
    const struct shape *bottom = &op->args.bottoms[0]->value.shape;
    const struct shape *top = &op->args.tops[0]->value.shape;
    struct kernel_conv *s = &conv->shape;
    char text[128];

    if (bottom->naxes != 4 || top->naxes != 4)
        return error_set("convolution needs blobs of 4 axes (N, C, H, W); the bottom's shape is %s",
                         shape_text(bottom, text, sizeof text));
    if (a->group < 1 || bottom->dim[1] % a->group || top->dim[1] % a->group)
        return error_set("%" PRId64 " input and %" PRId64 " output channels do not divide into %d groups",
                         bottom->dim[1], top->dim[1], a->group);
    *s = (struct kernel_conv){.samples = (int)bottom->dim[0],
                              .channels = (int)bottom->dim[1],
                              .height = (int)bottom->dim[2],
                              .width = (int)bottom->dim[3],
                              .outputs = (int)top->dim[1],
                              .top_height = (int)top->dim[2],
                              .top_width = (int)top->dim[3],
                              .group = a->group};
    for (int i = 0; i < 2; i++) {
        s->kernel[i] = a->kernel[i];
        s->stride[i] = a->stride[i];
        s->pad[i] = a->pad[i];
        s->dilation[i] = a->dilation[i];
    }
    conv->weights = (size_t)s->outputs * (size_t)(s->channels / s->group) *
                    (size_t)(s->kernel[0] * s->kernel[1]);
    return 0;
}

static int params_check(const struct conv *conv)
{
    const struct cuda_op *op = &conv->op;
    int wanted = op->args.u.conv.bias ? 2 : 1;

    if (op->args.nparams != wanted)
        return error_set("convolution needs %d parameters, not %d", wanted, op->args.nparams);
    if (shape_elems(&op->args.params[0]->shape) != conv->weights)
        return error_set("the weight has %zu elements, not %zu", shape_elems(&op->args.params[0]->shape),
                         conv->weights);
    if (wanted == 2 && shape_elems(&op->args.params[1]->shape) != (size_t)conv->shape.outputs)
        return error_set("the bias has %zu elements, not %d", shape_elems(&op->args.params[1]->shape),
                         conv->shape.outputs);
    return 0;
}

static bool needs_backward(const struct conv *conv)
{
    return conv->op.args.train &&
           (conv->op.args.params[0]->wants_grad || cuda_op_propagates(&conv->op, 0) ||
            (conv->op.args.nparams > 1 && conv->op.args.params[1]->wants_grad));
}

static int create_backward(struct conv *conv)
{
    struct cuda_op *op = &conv->op;
    struct cuda_engine *engine = op->engine;
    const struct kernel_conv *s = &conv->shape;
    int rows = s->samples * s->top_height * s->top_width;

    if (!needs_backward(conv))
        return 0;
    if (cuda_input_create(engine, &op->args.tops[0]->grad, cuda_nhwc(engine), WORK_TOP_GRAD,
                          &conv->top_grad) ||
        cuda_work_reserve(engine, WORK_WEIGHT_GRAD, conv->weights * sizeof(float)) ||
        cuda_bias_reserve(engine, rows, s->outputs))
        return -1;
    if (op->args.params[0]->wants_grad &&
        cuda_plan_create(engine, PLAN_BACK_WEIGHT, s, &conv->back_weight))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_plan_create(engine, PLAN_BACK_DATA, s, &conv->back_data))
        return -1;
    return cuda_output_create(engine, &op->args.bottoms[0]->grad, cuda_nhwc(engine), WORK_BOTTOM_GRAD,
                              &conv->bottom_grad);
}

static int conv_create(struct cuda_op *op)
{
    struct conv *conv = (struct conv *)op;
    struct cuda_engine *engine = op->engine;
    const struct kernel_conv *s = &conv->shape;

    if (shape_fill(conv) || params_check(conv))
        return -1;
    cuda_top_set(op->args.tops[0], cuda_nhwc(engine));
    conv->same = engine->type == CUDA_F32 &&
                 (s->kernel[0] * s->kernel[1] == 1 || s->channels == s->group);
    if (cuda_input_create(engine, &op->args.bottoms[0]->value, cuda_nhwc(engine), WORK_OWN,
                          &conv->bottom) ||
        (op->args.u.conv.bias ? cuda_plan_create_biased(engine, s, &conv->forward, &conv->biased)
                              : cuda_plan_create(engine, PLAN_FORWARD, s, &conv->forward)))
        return -1;
    if (conv->biased && engine->type == CUDA_BF16 &&
        cuda_alloc((size_t)s->outputs * 2, "a convolution's bias in bfloat16", &conv->bias))
        return -1;
    if (!conv->same && cuda_alloc(conv->weights * cuda_type_bytes(engine->type),
                                  "a convolution's weights in the GPU's layout", &conv->weight))
        return -1;
    return create_backward(conv);
}

static int weight_refresh(struct conv *conv)
{
    const struct param *param = conv->op.args.params[0];
    const struct kernel_conv *s = &conv->shape;
    struct cuda_engine *engine = conv->op.engine;

    if (conv->same || (conv->fresh && conv->version == param->version))
        return 0;
    conv->version = param->version;
    conv->fresh = true;
    return cuda_check(kernel_transpose(engine->stream, CUDA_F32, param->value, engine->type,
                                       conv->weight, s->outputs, s->channels / s->group,
                                       s->kernel[0] * s->kernel[1], false));
}

static int bias_refresh(struct conv *conv)
{
    const struct param *param = conv->bias ? conv->op.args.params[1] : NULL;
    struct cuda_engine *engine = conv->op.engine;

    if (!param || (conv->bias_fresh && conv->bias_version == param->version))
        return 0;
    conv->bias_version = param->version;
    conv->bias_fresh = true;
    return cuda_check(kernel_transpose(engine->stream, CUDA_F32, param->value, CUDA_BF16, conv->bias, 1, 1,
                                       conv->shape.outputs, false));
}

static const void *weight_data(const struct conv *conv)
{
    return conv->same ? conv->op.args.params[0]->value : conv->weight;
}

static int conv_forward(struct cuda_op *op, const struct run *run)
{
    struct conv *conv = (struct conv *)op;
    struct cuda_engine *engine = op->engine;
    const struct kernel_conv *s = &conv->shape;
    void *top = op->args.tops[0]->value.data;
    const void *bottom = cuda_input_data(engine, &conv->bottom), *bias = NULL;

    (void)run;
    if (cuda_input_load(engine, &conv->bottom) || weight_refresh(conv) || bias_refresh(conv))
        return -1;
    if (op->args.u.conv.bias)
        bias = conv->bias ? conv->bias : op->args.params[1]->value;
    if (conv->forward ? cuda_plan_run(engine, conv->forward, bottom, weight_data(conv), top, bias)
                      : cuda_check(kernel_conv(engine->stream, engine->type, s, bottom,
                                               weight_data(conv), top)))
        return -1;
    if (!op->args.u.conv.bias || conv->biased)
        return 0;
    return cuda_check(kernel_add_bias(engine->stream, engine->type, top, op->args.params[1]->value,
                                      s->samples * s->top_height * s->top_width, s->outputs));
}

static int weight_backward(struct conv *conv, const void *dy)
{
    struct param *param = conv->op.args.params[0];
    const struct kernel_conv *s = &conv->shape;
    struct cuda_engine *engine = conv->op.engine;
    const void *x = cuda_input_data(engine, &conv->bottom);
    bool direct = conv->same && !param->accumulate;
    void *dw = direct ? param->grad : engine->work[WORK_WEIGHT_GRAD].data;

    if (conv->back_weight ? cuda_plan_run(engine, conv->back_weight, x, dw, dy, NULL)
                          : cuda_check(kernel_conv_back_weight(engine->stream, engine->type, s, dy, x,
                                                               dw)))
        return -1;
    if (direct)
        return 0;
    /* (O, kh kw, C) becomes (O, C, kh kw) */
    return cuda_check(kernel_transpose(engine->stream, engine->type, dw, CUDA_F32, param->grad,
                                       s->outputs, s->kernel[0] * s->kernel[1],
                                       s->channels / s->group, param->accumulate));
}

static int conv_backward(struct cuda_op *op, const struct run *run)
{
    struct conv *conv = (struct conv *)op;
    struct cuda_engine *engine = op->engine;
    const struct kernel_conv *s = &conv->shape;
    struct param *bias = op->args.u.conv.bias ? op->args.params[1] : NULL;
    const void *dy = cuda_input_data(engine, &conv->top_grad);
    void *dx;

    (void)run;
    if (!needs_backward(conv))
        return 0;
    if (cuda_input_load(engine, &conv->top_grad))
        return -1;
    if (bias && bias->wants_grad &&
        cuda_bias_gradient(engine, engine->type, dy, s->samples * s->top_height * s->top_width,
                           s->outputs, bias))
        return -1;
    if (op->args.params[0]->wants_grad && weight_backward(conv, dy))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    dx = cuda_output_data(engine, &conv->bottom_grad);
    if (conv->back_data ? cuda_plan_run(engine, conv->back_data, dx, weight_data(conv), dy, NULL)
                        : cuda_check(kernel_conv_back_data(engine->stream, engine->type, s, dy,
                                                           weight_data(conv), dx)))
        return -1;
    return cuda_output_store(engine, &conv->bottom_grad);
}

static void conv_destroy(struct cuda_op *op)
{
    struct conv *conv = (struct conv *)op;

    cuda_plan_destroy(op->engine, conv->forward);
    cuda_plan_destroy(op->engine, conv->back_data);
    cuda_plan_destroy(op->engine, conv->back_weight);
    cuda_input_destroy(&conv->bottom);
    cuda_free(conv->weight);
    cuda_free(conv->bias);
}

const struct cuda_kind cuda_conv = {
    .size = sizeof(struct conv),
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .params = 2,
    .create = conv_create,
    .forward = conv_forward,
    .backward = conv_backward,
    .destroy = conv_destroy,
};
