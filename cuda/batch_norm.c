/* Batch normalisation, with a following Scale layer's affine map and a following ReLU fused in.
 * Forward takes one pass for the statistics and one to apply them; backward takes one pass for the
 * sums and one for dx. */
#include "cuda_internal.h"

#include "util/error.h"

enum statistic { MEAN, VARIANCE, WEIGHT, GAMMA, BETA };

struct batch_norm {
    struct cuda_op op;
    struct kernel_channels view;
    struct kernel_batch_norm args;
    float *mean, *inverse; /* per channel, from the last forward; one allocation */
    /* Host memory: two sums per channel, then the elements, over all ranks; NULL: not shared. */
    double *shared;
};

static int batch_norm_create(struct cuda_op *op)
{
    struct batch_norm *bn = (struct batch_norm *)op;
    const struct batch_norm_args *a = &op->args.u.batch_norm;
    const struct tensor *x = &op->args.bottoms[0]->value;
    int axis = x->shape.naxes > 1 ? 1 : 0; /* with one axis, all is one channel */
    size_t channels;

    cuda_channels_view(x, axis, axis, &bn->view);
    channels = (size_t)bn->view.channels;
    bn->args =
        (struct kernel_batch_norm){.elems = (double)shape_elems(&x->shape) / (double)channels,
                                   .fraction = a->fraction,
                                   .eps = a->eps};
    bn->mean = cuda_op_alloc(op, 2 * channels * sizeof(float), "batch statistics");
    if (!bn->mean)
        return -1;
    bn->inverse = bn->mean + channels;
    if (a->ranks && OWN(&op->owner, bn->shared, 2 * channels + 1, "statistics of all ranks"))
        return -1;
    return cuda_work_reserve(op->engine, WORK_SCRATCH,
                             kernel_sums_scratch(&bn->view) * sizeof(double));
}

/* Replaces the two sums of each channel, and args.elems, by sums over all ranks (args.ranks). The
 * host waits for the GPU and the ranks. Collective; without ranks, does nothing. */
static int batch_norm_share(struct batch_norm *bn, double *sums)
{
    const struct op_ranks *ranks = bn->op.args.u.batch_norm.ranks;
    cudaStream_t stream = bn->op.engine->stream;
    size_t count = 2 * (size_t)bn->view.channels;

    if (!ranks)
        return 0;
    if (cuda_check(cudaMemcpyAsync(bn->shared, sums, count * sizeof *sums, cudaMemcpyDeviceToHost,
                                   stream)) ||
        cuda_check(cudaStreamSynchronize(stream)))
        return -1;
    bn->shared[count] = (double)bn->view.outer * (double)bn->view.inner; /* this rank's elements */
    if (ranks->sum(ranks->context, bn->shared, (int)count + 1))
        return -1;
    bn->args.elems = bn->shared[count];
    return cuda_check(
        cudaMemcpyAsync(sums, bn->shared, count * sizeof *sums, cudaMemcpyHostToDevice, stream));
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
        batch_norm_share(bn, sums) ||
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

static int batch_norm_forward(struct cuda_op *op)
{
    struct batch_norm *bn = (struct batch_norm *)op;
    const struct batch_norm_args *a = &op->args.u.batch_norm;
    enum cuda_type type = cuda_bottom_type(op);
    const void *x = cuda_op_x(op, 0);

    if (batch_norm_statistics(bn, type, x))
        return -1;
    return cuda_check(kernel_batch_apply(op->engine->stream, type, &bn->view, x, bn->mean,
                                         bn->inverse, batch_norm_param(op, a->scale, GAMMA),
                                         batch_norm_param(op, a->bias, BETA), op->args.relu,
                                         cuda_op_y(op)));
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

static int batch_norm_backward(struct cuda_op *op)
{
    const struct batch_norm *bn = (const struct batch_norm *)op;
    const struct batch_norm_args *a = &op->args.u.batch_norm;
    enum cuda_type type = cuda_bottom_type(op);
    cudaStream_t stream = op->engine->stream;
    const void *x = cuda_op_x(op, 0), *dy = cuda_op_dy(op);
    double *sums = op->engine->work[WORK_SCRATCH].data;
    int channels = bn->view.channels;

    if ((a->scale || !a->global_stats) &&
        cuda_check(op->args.relu
                       ? kernel_sums_behind_relu(stream, type, &bn->view, x, dy, bn->mean,
                                                 bn->inverse, batch_norm_param(op, a->scale, GAMMA),
                                                 batch_norm_param(op, a->bias, BETA), sums)
                       : kernel_sums(stream, type, SUMS_BATCH_NORM, &bn->view, x, dy, bn->mean,
                                     bn->inverse, sums)))
        return -1;
    return error_status(batch_norm_store_sums(op, a->bias, BETA, sums, channels) ||
                        batch_norm_store_sums(op, a->scale, GAMMA, sums + channels, channels));
}

static int batch_norm_gradient(struct cuda_op *op, int bottom, void *dx)
{
    struct batch_norm *bn = (struct batch_norm *)op;
    const struct batch_norm_args *a = &op->args.u.batch_norm;
    double *sums = op->engine->work[WORK_SCRATCH].data;

    (void)bottom;
    if (batch_norm_share(bn, sums))
        return -1;
    return cuda_check(kernel_batch_back(
        op->engine->stream, cuda_bottom_type(op), &bn->view, &bn->args, cuda_op_x(op, 0),
        cuda_op_dy(op), bn->mean, bn->inverse, batch_norm_param(op, a->scale, GAMMA),
        batch_norm_param(op, a->bias, BETA), op->args.relu, a->global_stats ? NULL : sums, dx));
}

const struct cuda_kind cuda_batch_norm = {
    .size = sizeof(struct batch_norm),
    .blobs = CUDA_AS_BOTTOM,
    .create = batch_norm_create,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward,
    .gradient = batch_norm_gradient,
};
