/* Products and sums with factors that are the same along some axes (Scale, Bias), and PReLU.
 *
 * Channel factors, and factors per sample and channel, work in every format; others in plain
 * memory. */
#include "engine/cpu/channel.h"

/* A vector of coefficients: a parameter, or a bottom. */
struct factor {
    struct param *param;
    struct cpu_input bottom;       /* plain, if param is NULL */
    struct cpu_output bottom_grad; /* plain floats too, where it propagates */
    bool there;
};

struct scale {
    struct cpu_op op;
    struct cpu_channels view;
    struct cpu_input in;   /* x in the view's format */
    struct cpu_output top; /* y, which has another format only in place */
    struct cpu_output out; /* dx */
    struct factor gamma, beta;
    float *a, *b, *zero;   /* per slot */
    double *sum, *product; /* per slot; a third array per coefficient behind them */
};

/* param < 0: it is bottom 1. */
static int scale_factor_create(struct cpu_op *op, struct factor *f, int param)
{
    struct blob *blob;

    f->there = true;
    if (param >= 0) {
        f->param = op->args.params[param];
        return 0;
    }
    blob = op->args.bottoms[1];
    if (cpu_input_create(op->engine, &blob->value, NULL, WORK_OWN, &f->bottom))
        return -1;
    if (!cpu_op_propagates(op, 1))
        return 0;
    return cpu_output_create(op->engine, &blob->grad, NULL, WORK_BOTTOM_GRAD, &f->bottom_grad);
}

static int scale_factors_create(struct scale *scale)
{
    struct cpu_op *op = &scale->op;
    const struct scale_args *a = &op->args.u.scale;
    int next = 0;

    if (a->scale && scale_factor_create(op, &scale->gamma, a->from_bottom ? -1 : next++))
        return -1;
    return a->bias
               ? scale_factor_create(op, &scale->beta, a->from_bottom && !a->scale ? -1 : next++)
               : 0;
}

static int scale_memory(struct scale *scale)
{
    size_t slots = (size_t)scale->view.slots;
    void *memory = NULL;

    if (cpu_channels_reserve(scale->op.engine, &scale->view) ||
        cpu_alloc(3 * slots * sizeof(float), "factors", &memory))
        return -1;
    scale->a = memory;
    scale->b = scale->a + slots;
    scale->zero = scale->b + slots;
    if (cpu_alloc(3 * slots * sizeof(double), "sums per factor", &memory))
        return -1;
    scale->sum = memory;
    scale->product = scale->sum + slots;
    for (size_t i = 0; i < slots; i++)
        scale->a[i] = 1;
    return 0;
}

static int scale_create(struct cpu_op *op)
{
    struct scale *scale = (struct scale *)op;
    const struct scale_args *a = &op->args.u.scale;
    struct blob *x = op->args.bottoms[0], *y = op->args.tops[0];
    const struct cpu_format *format = cpu_tensor_format(&x->value);

    if (!cpu_channels_view(&x->value.shape, format, a->axis, a->naxes, &scale->view)) {
        format = NULL;
        cpu_channels_view(&x->value.shape, NULL, a->axis, a->naxes, &scale->view);
    }
    if (!cpu_op_in_place(op))
        cpu_top_set(y, format);
    if (cpu_input_create(op->engine, &x->value, format, WORK_OWN, &scale->in) ||
        cpu_output_create(op->engine, &y->value, format, WORK_TOP_GRAD, &scale->top))
        return -1;
    if (cpu_op_propagates(op, 0)) {
        if (cpu_output_create(op->engine, &x->grad, format, WORK_BOTTOM_GRAD, &scale->out))
            return -1;
        if (!scale->out.reorder.primitive)
            y->grad.base = &x->grad;
    }
    return scale_factors_create(scale) || scale_memory(scale) ? -1 : 0;
}

static int scale_factor_load(struct scale *scale, struct factor *f, float *slots)
{
    if (!f->there)
        return 0;
    if (!f->param && cpu_input_load(scale->op.engine, &f->bottom))
        return -1;
    cpu_channels_spread(&scale->view,
                        f->param ? f->param->value : cpu_input_data(scale->op.engine, &f->bottom),
                        slots);
    return 0;
}

static int scale_forward(struct cpu_op *op, const struct run *run)
{
    struct scale *scale = (struct scale *)op;

    (void)run;
    if (cpu_input_load(op->engine, &scale->in) ||
        scale_factor_load(scale, &scale->gamma, scale->a) ||
        scale_factor_load(scale, &scale->beta, scale->b))
        return -1;
    cpu_channels_affine(&scale->view, cpu_input_data(op->engine, &scale->in), scale->zero, scale->a,
                        scale->b, false, cpu_output_data(op->engine, &scale->top));
    return cpu_output_store(op->engine, &scale->top);
}

static void scale_param_add(struct param *param, const double *grad, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        param->grad[i] = (float)(grad[i] + (param->accumulate ? param->grad[i] : 0));
}

static bool scale_factor_learns(const struct scale *scale, const struct factor *f)
{
    if (!f->there)
        return false;
    return f->param ? f->param->wants_grad : cpu_op_propagates(&scale->op, 1);
}

static int scale_factor_backward(struct scale *scale, struct factor *f, const double *slots)
{
    int64_t n = scale->view.coefficients;
    double *grad = scale->sum + 2 * scale->view.slots;
    float *to;

    if (!scale_factor_learns(scale, f))
        return 0;
    cpu_channels_gather(&scale->view, slots, grad);
    if (f->param) {
        scale_param_add(f->param, grad, n);
        return 0;
    }
    to = cpu_output_data(scale->op.engine, &f->bottom_grad);
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)grad[i];
    return cpu_output_store(scale->op.engine, &f->bottom_grad);
}

static int scale_backward(struct cpu_op *op, const struct run *run)
{
    struct scale *scale = (struct scale *)op;
    const float *x = cpu_input_data(op->engine, &scale->in), *dy = op->args.tops[0]->grad.data;

    (void)run;
    if (scale_factor_learns(scale, &scale->gamma) || scale_factor_learns(scale, &scale->beta)) {
        cpu_channels_sums(op->engine, &scale->view, x, dy, scale->zero, NULL, NULL, scale->sum,
                          scale->product);
        if (scale_factor_backward(scale, &scale->gamma, scale->product) ||
            scale_factor_backward(scale, &scale->beta, scale->sum))
            return -1;
    }
    if (!cpu_op_propagates(op, 0))
        return 0;
    cpu_channels_affine(&scale->view, dy, scale->zero, scale->a, scale->zero, false,
                        cpu_output_data(op->engine, &scale->out));
    return cpu_output_store(op->engine, &scale->out);
}

static void scale_destroy(struct cpu_op *op)
{
    struct scale *scale = (struct scale *)op;

    cpu_input_destroy(&scale->in);
    cpu_output_destroy(&scale->top);
    cpu_output_destroy(&scale->out);
    cpu_input_destroy(&scale->gamma.bottom);
    cpu_output_destroy(&scale->gamma.bottom_grad);
    cpu_input_destroy(&scale->beta.bottom);
    cpu_output_destroy(&scale->beta.bottom_grad);
    cpu_free(scale->a);
    cpu_free(scale->sum);
}

const struct cpu_kind cpu_scale = {
    .size = sizeof(struct scale),
    .create = scale_create,
    .forward = scale_forward,
    .backward = scale_backward,
    .destroy = scale_destroy,
};

struct prelu {
    struct cpu_op op;
    struct cpu_channels view;
    float *slope;
    double *sums; /* per slot, then per coefficient */
};

static int prelu_create(struct cpu_op *op)
{
    struct prelu *prelu = (struct prelu *)op;
    struct blob *x = op->args.bottoms[0], *y = op->args.tops[0];
    const struct cpu_format *format = cpu_tensor_format(&x->value);
    bool shared = op->args.u.prelu.shared;
    void *memory = NULL;

    cpu_channels_view(&x->value.shape, format, shared ? 0 : 1, shared ? 0 : 1, &prelu->view);
    if (!cpu_op_in_place(op)) {
        cpu_top_set(y, format);
        if (cpu_op_propagates(op, 0))
            y->grad.base = &x->grad;
    }
    if (cpu_channels_reserve(op->engine, &prelu->view) ||
        cpu_alloc((size_t)prelu->view.slots * sizeof(float), "slopes", &memory))
        return -1;
    prelu->slope = memory;
    if (cpu_alloc((size_t)prelu->view.slots * 2 * sizeof(double), "sums per slope", &memory))
        return -1;
    prelu->sums = memory;
    return 0;
}

static int prelu_forward(struct cpu_op *op, const struct run *run)
{
    struct prelu *prelu = (struct prelu *)op;
    const float *x = op->args.bottoms[0]->value.data;

    (void)run;
    cpu_channels_spread(&prelu->view, op->args.params[0]->value, prelu->slope);
    cpu_channels_slope(&prelu->view, x, x, prelu->slope, op->args.tops[0]->value.data);
    return 0;
}

static int prelu_backward(struct cpu_op *op, const struct run *run)
{
    struct prelu *prelu = (struct prelu *)op;
    const float *x = op->args.bottoms[0]->value.data, *dy = op->args.tops[0]->grad.data;
    double *grad = prelu->sums + prelu->view.slots;

    (void)run;
    if (op->args.params[0]->wants_grad) {
        cpu_channels_negative_sums(op->engine, &prelu->view, x, dy, prelu->sums);
        cpu_channels_gather(&prelu->view, prelu->sums, grad);
        scale_param_add(op->args.params[0], grad, prelu->view.coefficients);
    }
    if (cpu_op_propagates(op, 0))
        cpu_channels_slope(&prelu->view, x, dy, prelu->slope, op->args.bottoms[0]->grad.data);
    return 0;
}

static void prelu_destroy(struct cpu_op *op)
{
    struct prelu *prelu = (struct prelu *)op;

    cpu_free(prelu->slope);
    cpu_free(prelu->sums);
}

const struct cpu_kind cpu_prelu = {
    .size = sizeof(struct prelu),
    .create = prelu_create,
    .forward = prelu_forward,
    .backward = prelu_backward,
    .destroy = prelu_destroy,
};
