/* Reduction, argmax, and mean and variance normalisation, on rows of plain memory. The sums per
 * channel (channel.cu) see the rows as channels of one sample. */
#include "cuda_internal.h"

#include "engine/op_size.h"

struct reduce {
    struct cuda_op op;
    struct kernel_channels rows; /* 1 x rows x length */
};

static int reduce_create(struct cuda_op *op)
{
    struct reduce *reduce = (struct reduce *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    struct op_axes axes = op_axes_from(x, op->args.u.reduce.axis);

    reduce->rows = (struct kernel_channels){1, (int)axes.outer, (int)axes.length};
    return cuda_work_reserve(op->engine, WORK_SCRATCH,
                             kernel_sums_scratch(&reduce->rows) * sizeof(double));
}

/* Returns the factor of the sum, and so of its derivative. */
static double reduce_factor(const struct reduce *reduce)
{
    const struct reduce_args *a = &reduce->op.args.u.reduce;

    return a->operation == REDUCE_MEAN ? (double)a->coeff / (double)reduce->rows.inner
                                       : (double)a->coeff;
}

static int reduce_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    /* without a mean, SUMS_VARIANCE sums squares */
    static const enum kernel_sums sums[] = {[REDUCE_SUM] = SUMS_X,
                                            [REDUCE_ASUM] = SUMS_ABS,
                                            [REDUCE_SUMSQ] = SUMS_VARIANCE,
                                            [REDUCE_MEAN] = SUMS_X};
    static const enum kernel_slope slopes[] = {[REDUCE_SUM] = KERNEL_ONE,
                                               [REDUCE_ASUM] = KERNEL_SIGN,
                                               [REDUCE_SUMSQ] = KERNEL_TWICE,
                                               [REDUCE_MEAN] = KERNEL_ONE};
    const struct reduce *reduce = (const struct reduce *)op;
    const struct kernel_channels *rows = &reduce->rows;
    struct cuda_engine *engine = op->engine;
    double *scratch = engine->work[WORK_SCRATCH].data;
    enum reduce_operation operation = op->args.u.reduce.operation;

    if (back)
        return cuda_check(kernel_reduce_back(engine->stream, engine->type, slopes[operation],
                                             (float)reduce_factor(reduce), cuda_op_x(op, 0), from,
                                             rows->channels, rows->inner, to));
    if (cuda_check(kernel_sums(engine->stream, engine->type, sums[operation], rows, from, NULL,
                               NULL, NULL, scratch)))
        return -1;
    return cuda_check(kernel_reduce_store(engine->stream, engine->type, scratch, rows->channels,
                                          reduce_factor(reduce), to));
}

const struct cuda_kind cuda_reduce = {
    .size = sizeof(struct reduce),
    .blobs = CUDA_PLAIN,
    .again = true,
    .create = reduce_create,
    .run = reduce_run,
};

static int argmax_create(struct cuda_op *op)
{
    cuda_top_set(op->args.tops[0], NULL); /* indices need more bits than bfloat16 has */
    return 0;
}

static int argmax_forward(struct cuda_op *op)
{
    const struct argmax_args *a = &op->args.u.argmax;
    const struct op_axes axes = op_argmax_axes(&op->args);
    const struct kernel_argmax kernel = {.outer = (int)axes.outer,
                                         .length = (int)axes.length,
                                         .inner = (int)axes.inner,
                                         .top_k = a->top_k,
                                         .values = a->has_axis && a->out_max_val,
                                         .both = !a->has_axis && a->out_max_val};

    return cuda_check(kernel_argmax(op->engine->stream, op->engine->type, &kernel, cuda_op_x(op, 0),
                                    cuda_op_y(op)));
}

const struct cuda_kind cuda_argmax = {
    .blobs = CUDA_PLAIN, .create = argmax_create, .forward = argmax_forward};

struct mvn {
    struct cuda_op op;
    struct kernel_channels rows; /* 1 x groups x elements of a group */
    void *mean, *inverse; /* per group, from the last forward; without variance, inverse stays 1 */
};

static int mvn_create(struct cuda_op *op)
{
    struct mvn *mvn = (struct mvn *)op;
    struct cuda_engine *engine = op->engine;
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    int64_t rows = op_mvn_groups(&op->args);
    double *one = NULL;

    mvn->rows = (struct kernel_channels){1, (int)rows, (int)((int64_t)shape_elems(x) / rows)};
    mvn->mean = cuda_op_alloc(op, (size_t)rows * sizeof(float), "means");
    mvn->inverse = cuda_op_alloc(op, (size_t)rows * sizeof(float), "variances");
    if (!mvn->mean || !mvn->inverse ||
        cuda_work_reserve(engine, WORK_SCRATCH, kernel_sums_scratch(&mvn->rows) * sizeof(double)))
        return -1;
    one = engine->work[WORK_SCRATCH].data;
    /* inverse = 1 / (sqrt(0) + 1) = 1 */
    if (cuda_check(cudaMemsetAsync(one, 0, (size_t)rows * sizeof(double), engine->stream)))
        return -1;
    return cuda_check(kernel_mvn_inverse(engine->stream, one, (int)rows, 1, 1, mvn->inverse));
}

static int mvn_forward(const struct mvn *mvn, const void *x, void *y)
{
    const struct mvn_args *a = &mvn->op.args.u.mvn;
    struct cuda_engine *engine = mvn->op.engine;
    const struct kernel_batch_norm b = {.elems = (double)mvn->rows.inner};
    double *sums = engine->work[WORK_SCRATCH].data;

    if (cuda_check(kernel_sums(engine->stream, engine->type, SUMS_X, &mvn->rows, x, NULL, NULL,
                               NULL, sums)) ||
        cuda_check(kernel_batch_mean(engine->stream, &b, sums, mvn->rows.channels, mvn->mean)))
        return -1;
    if (a->variance && (cuda_check(kernel_sums(engine->stream, engine->type, SUMS_VARIANCE,
                                               &mvn->rows, x, NULL, mvn->mean, NULL, sums)) ||
                        cuda_check(kernel_mvn_inverse(engine->stream, sums, mvn->rows.channels,
                                                      b.elems, a->eps, mvn->inverse))))
        return -1;
    return cuda_check(kernel_batch_apply(engine->stream, engine->type, &mvn->rows, x, mvn->mean,
                                         mvn->inverse, NULL, NULL, false, y));
}

/* Computes dx as batch normalisation does, per group. Without variance the second sum is 0. */
static int mvn_backward(const struct mvn *mvn, const void *x, const void *dy, void *dx)
{
    struct cuda_engine *engine = mvn->op.engine;
    const struct kernel_batch_norm b = {.elems = (double)mvn->rows.inner};
    double *sums = engine->work[WORK_SCRATCH].data;
    bool variance = mvn->op.args.u.mvn.variance;

    if (cuda_check(kernel_sums(engine->stream, engine->type, variance ? SUMS_BATCH_NORM : SUMS_X,
                               &mvn->rows, variance ? x : dy, variance ? dy : NULL, mvn->mean,
                               mvn->inverse, sums)))
        return -1;
    return cuda_check(kernel_batch_back(engine->stream, engine->type, &mvn->rows, &b, x, dy,
                                        mvn->mean, mvn->inverse, NULL, NULL, false, sums, dx));
}

static int mvn_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    const struct mvn *mvn = (const struct mvn *)op;

    return back ? mvn_backward(mvn, cuda_op_x(op, 0), from, to) : mvn_forward(mvn, from, to);
}

const struct cuda_kind cuda_mvn = {
    .size = sizeof(struct mvn),
    .blobs = CUDA_PLAIN,
    .again = true,
    .create = mvn_create,
    .run = mvn_run,
};
