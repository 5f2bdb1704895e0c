/* Products and sums with factors that are constant along some axes (Scale, Bias), and PReLU.
 *
 * Factors per channel, or per sample and channel, work in every format; all other factors need
 * plain memory. */
#include "engine/cpu/channel.h"

struct scale {
    struct cpu_op op;
    struct cpu_channels view;
    struct cpu_view top;        /* y; its format differs from the view's in place only */
    struct param *gamma, *beta; /* NULL: bottom 1 is the factor, or there is none */
    float *a, *b;               /* per slot */
    double *sum, *product;      /* per slot; a third array, per coefficient, follows */
};

static int scale_memory(struct scale *scale)
{
    size_t slots = (size_t)scale->view.slots;

    if (cpu_channels_reserve(scale->op.engine, &scale->view))
        return -1;
    scale->a = cpu_op_alloc(&scale->op, 2 * slots * sizeof(float), "factors");
    scale->sum = cpu_op_alloc(&scale->op, 3 * slots * sizeof(double), "sums per factor");
    if (!scale->a || !scale->sum)
        return -1;
    scale->b = scale->a + slots;
    scale->product = scale->sum + slots;
    for (size_t i = 0; i < slots; i++)
        scale->a[i] = 1;
    return 0;
}

/* Returns the format in which x can be viewed by channels: x's own, or plain. */
static const struct cpu_format *scale_view(struct scale *scale)
{
    const struct scale_args *a = &scale->op.args.u.scale;
    const struct tensor *x = &scale->op.args.bottoms[0]->value;
    const struct cpu_format *format = cpu_tensor_format(x);

    if (cpu_channels_view(&x->shape, format, a->axis, a->naxes, &scale->view))
        return format;
    cpu_channels_view(&x->shape, NULL, a->axis, a->naxes, &scale->view);
    return NULL;
}

static int scale_create(struct cpu_op *op)
{
    struct scale *scale = (struct scale *)op;
    const struct scale_args *a = &op->args.u.scale;
    struct blob *x = op->args.bottoms[0], *y = op->args.tops[0];
    const struct cpu_format *format = scale_view(scale);

    if (!cpu_op_in_place(op))
        cpu_top_set(y, format);
    if (cpu_op_take(op, 0, format, WORK_OWN) ||
        cpu_view_create(op, &y->value, format, true, WORK_TOP_GRAD, &scale->top) ||
        (a->from_bottom && cpu_op_take(op, 1, NULL, WORK_OWN)))
        return -1;
    if (op->out[0].tensor && !cpu_view_differs(&op->out[0]))
        y->grad.base = &x->grad;
    if (a->scale && !a->from_bottom)
        scale->gamma = op->args.params[0];
    if (a->bias && (a->scale || !a->from_bottom))
        scale->beta = op->args.params[op->args.nparams - 1];
    return scale_memory(scale);
}

static int scale_forward(struct cpu_op *op)
{
    struct scale *scale = (struct scale *)op;
    const struct scale_args *a = &op->args.u.scale;

    if (a->scale)
        cpu_channels_spread(&scale->view, scale->gamma ? scale->gamma->value : cpu_op_x(op, 1),
                            scale->a);
    if (a->bias)
        cpu_channels_spread(&scale->view, scale->beta ? scale->beta->value : cpu_op_x(op, 1),
                            scale->b);
    cpu_channels_map(&scale->view, CHANNEL_MAP_AFFINE,
                     &(struct cpu_channel_data){.x = cpu_op_x(op, 0),
                                                .y = cpu_view_data(op->engine, &scale->top),
                                                .a = scale->a,
                                                .b = scale->b});
    return cpu_view_move(op->engine, &scale->top);
}

static void param_learn(struct param *param, const double *grad, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        cpu_channels_learn(param, i, grad[i]);
}

static void scale_param_backward(struct scale *scale, struct param *param, const double *slots)
{
    double *grad = scale->sum + 2 * scale->view.slots;

    if (!param || !param->wants_grad)
        return;
    cpu_channels_gather(&scale->view, slots, grad);
    param_learn(param, grad, scale->view.coefficients);
}

static int scale_backward(struct cpu_op *op)
{
    struct scale *scale = (struct scale *)op;
    bool learns = op->args.nbottoms == 2 && cpu_op_propagates(op, 1);

    for (int p = 0; p < op->args.nparams; p++)
        learns |= op->args.params[p]->wants_grad;
    if (!learns)
        return 0;
    cpu_channels_sums(op->engine, &scale->view, CHANNEL_SUM_GRADIENT,
                      &(struct cpu_channel_data){.x = cpu_op_x(op, 0), .dy = cpu_op_dy(op)},
                      scale->sum, scale->product);
    scale_param_backward(scale, scale->gamma, scale->product);
    scale_param_backward(scale, scale->beta, scale->sum);
    return 0;
}

/* Writes x's gradient, which may share dy's memory, or the factor's, from the sums. */
static int scale_gradient(struct cpu_op *op, int bottom, float *dx)
{
    struct scale *scale = (struct scale *)op;
    double *grad = scale->sum + 2 * scale->view.slots;

    if (bottom == 0) {
        cpu_channels_map(&scale->view, CHANNEL_MAP_AFFINE,
                         &(struct cpu_channel_data){.x = cpu_op_dy(op), .y = dx, .a = scale->a});
        return 0;
    }
    cpu_channels_gather(&scale->view, op->args.u.scale.scale ? scale->product : scale->sum, grad);
    for (int64_t i = 0; i < scale->view.coefficients; i++)
        dx[i] = (float)grad[i];
    return 0;
}

const struct cpu_kind cpu_scale = {
    .size = sizeof(struct scale),
    .create = scale_create,
    .forward = scale_forward,
    .backward = scale_backward,
    .gradient = scale_gradient,
};

struct prelu {
    struct cpu_op op;
    struct cpu_channels view;
    float *slope;
    double *sums; /* two per slot */
};

static int prelu_create(struct cpu_op *op)
{
    struct prelu *prelu = (struct prelu *)op;
    const struct tensor *x = &op->args.bottoms[0]->value;
    int axis = op->args.u.prelu.shared ? 0 : 1;

    cpu_channels_view(&x->shape, cpu_tensor_format(x), axis, axis, &prelu->view);
    if (cpu_channels_reserve(op->engine, &prelu->view))
        return -1;
    prelu->slope = cpu_op_alloc(op, (size_t)prelu->view.slots * sizeof(float), "slopes");
    prelu->sums =
        cpu_op_alloc(op, (size_t)prelu->view.slots * 2 * sizeof(double), "sums per slope");
    return prelu->slope && prelu->sums ? 0 : -1;
}

/* Multiplies x, or dy where back, by the slope where x is not positive. */
static int prelu_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    struct prelu *prelu = (struct prelu *)op;

    if (!back)
        cpu_channels_spread(&prelu->view, op->args.params[0]->value, prelu->slope);
    cpu_channels_map(
        &prelu->view, CHANNEL_MAP_SLOPE,
        &(struct cpu_channel_data){.x = cpu_op_x(op, 0), .dy = from, .y = to, .a = prelu->slope});
    return 0;
}

static int prelu_backward(struct cpu_op *op)
{
    struct prelu *prelu = (struct prelu *)op;
    const struct cpu_channel_data data = {.x = op->args.bottoms[0]->value.data,
                                          .dy = cpu_op_dy(op)};
    double *grad = prelu->sums, *product = grad + prelu->view.slots;

    if (!op->args.params[0]->wants_grad)
        return 0;
    cpu_channels_sums(op->engine, &prelu->view, CHANNEL_SUM_NEGATIVE, &data, grad, product);
    cpu_channels_gather(&prelu->view, product, grad);
    param_learn(op->args.params[0], grad, prelu->view.coefficients);
    return 0;
}

const struct cpu_kind cpu_prelu = {
    .size = sizeof(struct prelu),
    .blobs = CPU_OVER_GRADIENT,
    .halves = true,
    .create = prelu_create,
    .run = prelu_run,
    .backward = prelu_backward,
};
