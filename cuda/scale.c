/* Operators with one coefficient per channel, or per place along some axes: Scale, Bias, PReLU. */
#include "cuda_internal.h"

/* A vector of coefficients: a parameter, or a bottom. */
struct factor {
    bool there;
    struct param *param;
    struct cuda_input bottom;       /* plain floats, if param is NULL */
    struct cuda_output bottom_grad; /* plain floats too, where it propagates */
};

struct scale {
    struct cuda_op op;
    struct kernel_channels view;
    enum cuda_type type;
    struct cuda_input in; /* x in the view's format */
    struct cuda_input dy;
    struct cuda_output top; /* y, which has another format only in place */
    struct cuda_output out; /* dx */
    struct factor gain, bias;
};

/* param < 0: it is bottom 1. */
static int scale_factor_create(struct cuda_op *op, struct factor *f, int param)
{
    struct blob *blob;

    f->there = true;
    if (param >= 0) {
        f->param = op->args.params[param];
        return 0;
    }
    blob = op->args.bottoms[1];
    if (cuda_input_create(op->engine, &blob->value, NULL, WORK_OWN, &f->bottom))
        return -1;
    return cuda_op_propagates(op, 1) ? cuda_output_create(op->engine, &blob->grad, NULL,
                                                          WORK_WEIGHT_GRAD, &f->bottom_grad)
                                     : 0;
}

static int scale_factors_create(struct scale *scale)
{
    struct cuda_op *op = &scale->op;
    const struct scale_args *a = &op->args.u.scale;
    int next = 0;

    if (a->scale && scale_factor_create(op, &scale->gain, a->from_bottom ? -1 : next++))
        return -1;
    return a->bias
               ? scale_factor_create(op, &scale->bias, a->from_bottom && !a->scale ? -1 : next++)
               : 0;
}

static int scale_create(struct cuda_op *op)
{
    struct scale *scale = (struct scale *)op;
    struct cuda_engine *engine = op->engine;
    const struct scale_args *a = &op->args.u.scale;
    struct blob *x = op->args.bottoms[0], *y = op->args.tops[0];
    const struct cuda_format *format = cuda_tensor_format(&x->value);

    if (!cuda_channels_view(&x->value, a->axis, a->naxes, &scale->view))
        format = cuda_plain(engine);
    scale->type = cuda_format_type(format);
    if (!cuda_op_in_place(op))
        cuda_top_set(y, format);
    if (scale_factors_create(scale) ||
        cuda_input_create(engine, &x->value, format, WORK_OWN, &scale->in) ||
        cuda_input_create(engine, &y->grad, format, WORK_TOP_GRAD, &scale->dy) ||
        cuda_output_create(engine, &y->value, format, WORK_TOP_GRAD, &scale->top) ||
        cuda_work_reserve(engine, WORK_SCRATCH, kernel_sums_scratch(&scale->view) * sizeof(double)))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_output_create(engine, &x->grad, format, WORK_BOTTOM_GRAD, &scale->out);
}

static const float *scale_factor_data(const struct cuda_engine *engine, const struct factor *f)
{
    if (!f->there)
        return NULL;
    return f->param ? f->param->value : cuda_input_data(engine, &f->bottom);
}

static int scale_factor_load(struct cuda_engine *engine, struct factor *f)
{
    return f->there && !f->param ? cuda_input_load(engine, &f->bottom) : 0;
}

static int scale_forward(struct cuda_op *op, const struct run *run)
{
    struct scale *scale = (struct scale *)op;
    struct cuda_engine *engine = op->engine;

    (void)run;
    if (cuda_input_load(engine, &scale->in) || scale_factor_load(engine, &scale->gain) ||
        scale_factor_load(engine, &scale->bias) ||
        cuda_check(kernel_scale(
            engine->stream, scale->type, &scale->view, cuda_input_data(engine, &scale->in),
            scale_factor_data(engine, &scale->gain), scale_factor_data(engine, &scale->bias),
            cuda_output_data(engine, &scale->top))))
        return -1;
    return cuda_output_store(engine, &scale->top);
}

static bool scale_factor_wants(const struct cuda_op *op, const struct factor *f)
{
    return f->there && (f->param ? f->param->wants_grad : cuda_op_propagates(op, 1));
}

static int scale_factor_store(struct cuda_op *op, struct factor *f, const double *sums, int n)
{
    struct cuda_engine *engine = op->engine;

    if (!scale_factor_wants(op, f))
        return 0;
    if (f->param)
        return cuda_check(
            kernel_sums_store(engine->stream, sums, n, f->param->grad, f->param->accumulate));
    if (cuda_check(kernel_sums_store(engine->stream, sums, n,
                                     cuda_output_data(engine, &f->bottom_grad), false)))
        return -1;
    return cuda_output_store(engine, &f->bottom_grad);
}

static int scale_backward(struct cuda_op *op, const struct run *run)
{
    struct scale *scale = (struct scale *)op;
    struct cuda_engine *engine = op->engine;
    double *sums = engine->work[WORK_SCRATCH].data;
    int n = scale->view.channels;

    (void)run;
    if (cuda_input_load(engine, &scale->dy))
        return -1;
    if ((scale_factor_wants(op, &scale->gain) || scale_factor_wants(op, &scale->bias)) &&
        cuda_check(kernel_sums(engine->stream, scale->type, SUMS_SCALE, &scale->view,
                               cuda_input_data(engine, &scale->in),
                               cuda_input_data(engine, &scale->dy), NULL, NULL, sums)))
        return -1;
    if (scale_factor_store(op, &scale->gain, sums, n) ||
        scale_factor_store(op, &scale->bias, sums + n, n))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_check(kernel_scale(
            engine->stream, scale->type, &scale->view, cuda_input_data(engine, &scale->dy),
            scale_factor_data(engine, &scale->gain), NULL, cuda_output_data(engine, &scale->out))))
        return -1;
    return cuda_output_store(engine, &scale->out);
}

static void scale_destroy(struct cuda_op *op)
{
    struct scale *scale = (struct scale *)op;

    cuda_input_destroy(&scale->in);
    cuda_input_destroy(&scale->gain.bottom);
    cuda_input_destroy(&scale->bias.bottom);
}

const struct cuda_kind cuda_scale = {
    .size = sizeof(struct scale),
    .create = scale_create,
    .forward = scale_forward,
    .backward = scale_backward,
    .destroy = scale_destroy,
};

struct prelu {
    struct cuda_op op;
    struct kernel_channels view; /* of the slopes' sums */
    struct kernel_channels all;  /* of the values */
    enum cuda_type type;
};

static int prelu_create(struct cuda_op *op)
{
    struct prelu *prelu = (struct prelu *)op;
    const struct tensor *x = &op->args.bottoms[0]->value;
    bool shared = op->args.u.prelu.shared;

    cuda_channels_view(x, 1, 1, &prelu->all);
    prelu->view = prelu->all;
    if (shared)
        prelu->view = (struct kernel_channels){1, 1, (int)shape_elems(&x->shape)};
    prelu->type = cuda_format_type(cuda_tensor_format(x));
    if (!cuda_op_in_place(op))
        cuda_top_set(op->args.tops[0], cuda_tensor_format(x));
    return cuda_work_reserve(op->engine, WORK_SCRATCH,
                             kernel_sums_scratch(&prelu->view) * sizeof(double));
}

static int prelu_run(struct prelu *prelu, const void *dy, void *to)
{
    struct cuda_op *op = &prelu->op;

    return cuda_check(kernel_prelu(op->engine->stream, prelu->type, &prelu->all,
                                   op->args.bottoms[0]->value.data, dy, op->args.params[0]->value,
                                   op->args.u.prelu.shared, to));
}

static int prelu_forward(struct cuda_op *op, const struct run *run)
{
    (void)run;
    return prelu_run((struct prelu *)op, NULL, op->args.tops[0]->value.data);
}

static int prelu_backward(struct cuda_op *op, const struct run *run)
{
    struct prelu *prelu = (struct prelu *)op;
    struct cuda_engine *engine = op->engine;
    struct param *slope = op->args.params[0];
    double *sums = engine->work[WORK_SCRATCH].data;
    const void *dy = op->args.tops[0]->grad.data;

    (void)run;
    if (slope->wants_grad &&
        (cuda_check(kernel_sums(engine->stream, prelu->type, SUMS_PRELU, &prelu->view,
                                op->args.bottoms[0]->value.data, dy, NULL, NULL, sums)) ||
         cuda_check(kernel_sums_store(engine->stream, sums, prelu->view.channels, slope->grad,
                                      slope->accumulate))))
        return -1;
    return cuda_op_propagates(op, 0) ? prelu_run(prelu, dy, op->args.bottoms[0]->grad.data) : 0;
}

const struct cuda_kind cuda_prelu = {
    .size = sizeof(struct prelu),
    .create = prelu_create,
    .forward = prelu_forward,
    .backward = prelu_backward,
};
