/* Batch normalisation, with the affine map of a Scale layer and the ReLU behind it if there are:
 * one pass for the statistics, one that applies them; backward is one pass for the sums and one
 * for dx. */
#include "cuda_internal.h"

enum statistic { MEAN, VARIANCE, WEIGHT, GAMMA, BETA };

struct batch_norm {
    struct cuda_op op;
    struct kernel_channels view;
    struct kernel_batch_norm args;
    float *mean, *inverse; /* of the last forward; one piece of memory */
};

static int batch_norm_create(struct cuda_op *op)
{
    struct batch_norm *bn = (struct batch_norm *)op;
    const struct batch_norm_args *a = &op->args.u.batch_norm;
    const struct tensor *x = &op->args.bottoms[0]->value;
    size_t channels;
    void *memory = NULL;

    cuda_channels_view(x, x->shape.naxes > 1 ? 1 : 0, x->shape.naxes > 1 ? 1 : 0, &bn->view);
    channels = (size_t)bn->view.channels;
    bn->args =
        (struct kernel_batch_norm){.elems = (double)shape_elems(&x->shape) / (double)channels,
                                   .fraction = a->fraction,
                                   .eps = a->eps};
    if (!cuda_op_in_place(op))
        cuda_top_set(op->args.tops[0], cuda_tensor_format(x));
    if (cuda_work_reserve(op->engine, WORK_SCRATCH,
                          kernel_sums_scratch(&bn->view) * sizeof(double)) ||
        cuda_alloc(2 * channels * sizeof(float), "batch statistics", &memory))
        return -1;
    bn->mean = memory;
    bn->inverse = bn->mean + channels;
    return 0;
}

static int batch_norm_statistics(struct batch_norm *bn, enum cuda_type type, const void *x)
{
    struct cuda_op *op = &bn->op;
    struct cuda_engine *engine = op->engine;
    struct param **params = op->args.params;
    double *sums = engine->work[WORK_SCRATCH].data;
    int channels = bn->view.channels;

    if (op->args.u.batch_norm.global_stats)
        return cuda_check(kernel_batch_global(engine->stream, &bn->args, channels,
                                              params[MEAN]->value, params[VARIANCE]->value,
                                              params[WEIGHT]->value, bn->mean, bn->inverse));
    if (cuda_check(kernel_sums(engine->stream, type, SUMS_MOMENTS, &bn->view, x, NULL, NULL, NULL,
                               sums)) ||
        cuda_check(kernel_batch_statistics(engine->stream, &bn->args, sums, channels, bn->mean,
                                           bn->inverse, params[MEAN]->value,
                                           params[VARIANCE]->value, params[WEIGHT]->value)))
        return -1;
    for (int i = MEAN; i <= WEIGHT; i++)
        params[i]->version++;
    return 0;
}

static const float *batch_norm_param(const struct cuda_op *op, bool has, int i)
{
    return has ? op->args.params[i]->value : NULL;
}

static int batch_norm_forward(struct cuda_op *op, const struct run *run)
{
    struct batch_norm *bn = (struct batch_norm *)op;
    const struct batch_norm_args *a = &op->args.u.batch_norm;
    enum cuda_type type = cuda_format_type(cuda_tensor_format(&op->args.bottoms[0]->value));
    const void *x = op->args.bottoms[0]->value.data;

    (void)run;
    if (batch_norm_statistics(bn, type, x))
        return -1;
    return cuda_check(kernel_batch_apply(op->engine->stream, type, &bn->view, x, bn->mean,
                                         bn->inverse, batch_norm_param(op, a->scale, GAMMA),
                                         batch_norm_param(op, a->bias, BETA), a->relu,
                                         op->args.tops[0]->value.data));
}

static int batch_norm_store_sums(const struct cuda_op *op, bool has, int param, const double *sums,
                                 int channels)
{
    struct param *p = has ? op->args.params[param] : NULL;

    if (!p || !p->wants_grad)
        return 0;
    return cuda_check(
        kernel_sums_store(op->engine->stream, sums, channels, p->grad, p->accumulate));
}

static int batch_norm_backward(struct cuda_op *op, const struct run *run)
{
    struct batch_norm *bn = (struct batch_norm *)op;
    const struct batch_norm_args *a = &op->args.u.batch_norm;
    enum cuda_type type = cuda_format_type(cuda_tensor_format(&op->args.bottoms[0]->value));
    struct cuda_engine *engine = op->engine;
    const void *x = op->args.bottoms[0]->value.data, *dy = op->args.tops[0]->grad.data;
    double *sums = engine->work[WORK_SCRATCH].data;
    int channels = bn->view.channels;
    const float *gamma = batch_norm_param(op, a->scale, GAMMA);
    const float *beta = batch_norm_param(op, a->bias, BETA);

    (void)run;
    if ((a->scale || !a->global_stats) &&
        cuda_check(a->relu ? kernel_sums_behind_relu(engine->stream, type, &bn->view, x, dy,
                                                     bn->mean, bn->inverse, gamma, beta, sums)
                           : kernel_sums(engine->stream, type, SUMS_BATCH_NORM, &bn->view, x, dy,
                                         bn->mean, bn->inverse, sums)))
        return -1;
    if (batch_norm_store_sums(op, a->bias, BETA, sums, channels) ||
        batch_norm_store_sums(op, a->scale, GAMMA, sums + channels, channels))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_check(kernel_batch_back(
        engine->stream, type, &bn->view, &bn->args, x, dy, bn->mean, bn->inverse, gamma, beta,
        a->relu, a->global_stats ? NULL : sums, op->args.bottoms[0]->grad.data));
}

static void batch_norm_destroy(struct cuda_op *op)
{
    cuda_free(((struct batch_norm *)op)->mean);
}

const struct cuda_kind cuda_batch_norm = {
    .size = sizeof(struct batch_norm),
    .create = batch_norm_create,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward,
    .destroy = batch_norm_destroy,
};
