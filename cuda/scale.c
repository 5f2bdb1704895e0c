/* Operators with one coefficient per channel, or per place along some axes: Scale, Bias, PReLU. */
#include "cuda_internal.h"

#include "util/error.h"

struct scale {
    struct cuda_op op;
    struct kernel_channels view;
    enum cuda_type type;
    struct cuda_view dy, top;  /* gradient and value of the top; the value converts in place only */
    struct param *gain, *bias; /* NULL: bottom 1, or none */
};

static int scale_create(struct cuda_op *op)
{
    struct scale *scale = (struct scale *)op;
    const struct scale_args *a = &op->args.u.scale;
    struct blob *x = op->args.bottoms[0], *y = op->args.tops[0];
    const struct cuda_format *format = cuda_tensor_format(&x->value);

    if (!cuda_channels_view(&x->value, a->axis, a->naxes, &scale->view))
        format = cuda_plain(op->engine);
    scale->type = cuda_format_type(format);
    if (!cuda_op_in_place(op))
        cuda_top_set(y, format);
    if (a->scale && !a->from_bottom)
        scale->gain = op->args.params[0];
    if (a->bias && (a->scale || !a->from_bottom))
        scale->bias = op->args.params[op->args.nparams - 1];
    return error_status((a->from_bottom && cuda_op_take(op, 1, NULL, true)) ||
                        cuda_op_take(op, 0, format, true) ||
                        cuda_view_create(op, &y->grad, format, false, WORK_TOP_GRAD, &scale->dy) ||
                        cuda_view_create(op, &y->value, format, true, WORK_TOP_GRAD, &scale->top) ||
                        cuda_work_reserve(op->engine, WORK_SCRATCH,
                                          kernel_sums_scratch(&scale->view) * sizeof(double)));
}

/* Returns a vector of coefficients: of param, or of bottom 1 without param; NULL unless `there`. */
static const float *scale_factor(const struct cuda_op *op, bool there, const struct param *param)
{
    return !there ? NULL : param ? param->value : cuda_op_x(op, 1);
}

static int scale_forward(struct cuda_op *op)
{
    const struct scale *scale = (const struct scale *)op;
    const struct scale_args *a = &op->args.u.scale;

    if (cuda_check(kernel_scale(op->engine->stream, scale->type, &scale->view, cuda_op_x(op, 0),
                                scale_factor(op, a->scale, scale->gain),
                                scale_factor(op, a->bias, scale->bias),
                                cuda_view_data(op->engine, &scale->top))))
        return -1;
    return cuda_view_move(op->engine, &scale->top);
}

static int scale_learn(const struct scale *scale, struct param *param, const double *sums)
{
    if (!param || !param->wants_grad)
        return 0;
    return cuda_check(kernel_sums_store(scale->op.engine->stream, sums, scale->view.channels,
                                        param->grad, param->accumulate));
}

/* Sums dy x and then dy per channel, and stores the parameters' gradients. */
static int scale_backward(struct cuda_op *op)
{
    const struct scale *scale = (const struct scale *)op;
    struct cuda_engine *engine = op->engine;
    double *sums = engine->work[WORK_SCRATCH].data;
    bool learns = op->args.nbottoms == 2 && cuda_op_propagates(op, 1);

    for (int p = 0; p < op->args.nparams; p++)
        learns |= op->args.params[p]->wants_grad;
    if (cuda_view_move(engine, &scale->dy) ||
        (learns && cuda_check(kernel_sums(engine->stream, scale->type, SUMS_SCALE, &scale->view,
                                          cuda_op_x(op, 0), cuda_view_data(engine, &scale->dy),
                                          NULL, NULL, sums))))
        return -1;
    return error_status(scale_learn(scale, scale->gain, sums) ||
                        scale_learn(scale, scale->bias, sums + scale->view.channels));
}

static int scale_gradient(struct cuda_op *op, int bottom, void *dx)
{
    const struct scale *scale = (const struct scale *)op;
    const struct scale_args *a = &op->args.u.scale;
    struct cuda_engine *engine = op->engine;
    const double *sums = engine->work[WORK_SCRATCH].data;
    int n = scale->view.channels;

    return cuda_check(
        bottom == 0 ? kernel_scale(engine->stream, scale->type, &scale->view,
                                   cuda_view_data(engine, &scale->dy),
                                   scale_factor(op, a->scale, scale->gain), NULL, dx)
                    : kernel_sums_store(engine->stream, a->scale ? sums : sums + n, n, dx, false));
}

const struct cuda_kind cuda_scale = {
    .size = sizeof(struct scale),
    .create = scale_create,
    .forward = scale_forward,
    .backward = scale_backward,
    .gradient = scale_gradient,
};

struct prelu {
    struct cuda_op op;
    struct kernel_channels view; /* channels of the slopes' sums */
    struct kernel_channels all;  /* channels of the values */
};

static int prelu_create(struct cuda_op *op)
{
    struct prelu *prelu = (struct prelu *)op;
    const struct tensor *x = &op->args.bottoms[0]->value;

    cuda_channels_view(x, 1, 1, &prelu->all);
    prelu->view = prelu->all;
    if (op->args.u.prelu.shared)
        prelu->view = (struct kernel_channels){1, 1, (int)shape_elems(&x->shape)};
    return cuda_work_reserve(op->engine, WORK_SCRATCH,
                             kernel_sums_scratch(&prelu->view) * sizeof(double));
}

static int prelu_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    return cuda_check(kernel_prelu(op->engine->stream, cuda_bottom_type(op),
                                   &((struct prelu *)op)->all, cuda_op_x(op, 0), back ? from : NULL,
                                   op->args.params[0]->value, op->args.u.prelu.shared, to));
}

static int prelu_backward(struct cuda_op *op)
{
    const struct prelu *prelu = (const struct prelu *)op;
    cudaStream_t stream = op->engine->stream;
    struct param *slope = op->args.params[0];
    double *sums = op->engine->work[WORK_SCRATCH].data;

    if (!slope->wants_grad)
        return 0;
    if (cuda_check(kernel_sums(stream, cuda_bottom_type(op), SUMS_PRELU, &prelu->view,
                               cuda_op_x(op, 0), cuda_op_dy(op), NULL, NULL, sums)))
        return -1;
    return cuda_check(
        kernel_sums_store(stream, sums, prelu->view.channels, slope->grad, slope->accumulate));
}

const struct cuda_kind cuda_prelu = {
    .size = sizeof(struct prelu),
    .blobs = CUDA_AS_BOTTOM,
    .create = prelu_create,
    .run = prelu_run,
    .backward = prelu_backward,
};
