/* Reduction, argmax, and mean and variance normalisation: rows of plain memory, which the sums per
 * channel (channel.cu) see as channels of one sample. */
#include "cuda_internal.h"

#include "engine/op_size.h"

struct reduce {
    struct cuda_op op;
    struct cuda_pair plain;
    struct kernel_channels rows; /* 1 x rows x length */
};

static int reduce_create(struct cuda_op *op)
{
    struct reduce *reduce = (struct reduce *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    struct op_axes axes = op_axes_from(x, op->args.u.reduce.axis);

    reduce->rows = (struct kernel_channels){1, (int)axes.outer, (int)axes.length};
    cuda_top_set(op->args.tops[0], cuda_plain(op->engine));
    if (cuda_work_reserve(op->engine, WORK_SCRATCH,
                          kernel_sums_scratch(&reduce->rows) * sizeof(double)))
        return -1;
    return cuda_pair_create(op, 0, cuda_plain(op->engine), true, &reduce->plain);
}

/* What the sum, and so its derivative, is multiplied by. */
static double reduce_factor(const struct reduce *reduce)
{
    const struct reduce_args *a = &reduce->op.args.u.reduce;

    return a->operation == REDUCE_MEAN ? (double)a->coeff / (double)reduce->rows.inner
                                       : (double)a->coeff;
}

static int reduce_forward(struct cuda_op *op, const struct run *run)
{
    /* the square of the distance from nothing is the square */
    static const enum kernel_sums sums[] = {[REDUCE_SUM] = SUMS_X,
                                            [REDUCE_ASUM] = SUMS_ABS,
                                            [REDUCE_SUMSQ] = SUMS_VARIANCE,
                                            [REDUCE_MEAN] = SUMS_X};
    struct reduce *reduce = (struct reduce *)op;
    struct cuda_engine *engine = op->engine;
    double *scratch = engine->work[WORK_SCRATCH].data;

    (void)run;
    if (cuda_input_load(engine, &reduce->plain.in) ||
        cuda_check(kernel_sums(engine->stream, engine->type, sums[op->args.u.reduce.operation],
                               &reduce->rows, cuda_input_data(engine, &reduce->plain.in), NULL,
                               NULL, NULL, scratch)))
        return -1;
    return cuda_check(kernel_reduce_store(engine->stream, engine->type, scratch,
                                          reduce->rows.channels, reduce_factor(reduce),
                                          op->args.tops[0]->value.data));
}

static int reduce_backward(struct cuda_op *op, const struct run *run)
{
    static const enum kernel_slope slopes[] = {[REDUCE_SUM] = KERNEL_ONE,
                                               [REDUCE_ASUM] = KERNEL_SIGN,
                                               [REDUCE_SUMSQ] = KERNEL_TWICE,
                                               [REDUCE_MEAN] = KERNEL_ONE};
    struct reduce *reduce = (struct reduce *)op;
    struct cuda_engine *engine = op->engine;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_check(kernel_reduce_back(
            engine->stream, engine->type, slopes[op->args.u.reduce.operation],
            (float)reduce_factor(reduce), cuda_input_data(engine, &reduce->plain.in),
            op->args.tops[0]->grad.data, reduce->rows.channels, reduce->rows.inner,
            cuda_output_data(engine, &reduce->plain.out))))
        return -1;
    return cuda_output_store(engine, &reduce->plain.out);
}

static void reduce_destroy(struct cuda_op *op)
{
    cuda_pair_destroy(&((struct reduce *)op)->plain);
}

const struct cuda_kind cuda_reduce = {
    .size = sizeof(struct reduce),
    .create = reduce_create,
    .forward = reduce_forward,
    .backward = reduce_backward,
    .destroy = reduce_destroy,
};

struct argmax {
    struct cuda_op op;
    struct cuda_input in;
    struct kernel_argmax kernel;
};

static int argmax_create(struct cuda_op *op)
{
    struct argmax *argmax = (struct argmax *)op;
    const struct argmax_args *a = &op->args.u.argmax;
    struct op_axes axes = op_argmax_axes(&op->args);

    argmax->kernel = (struct kernel_argmax){.outer = (int)axes.outer,
                                            .length = (int)axes.length,
                                            .inner = (int)axes.inner,
                                            .top_k = a->top_k,
                                            .values = a->has_axis && a->out_max_val,
                                            .both = !a->has_axis && a->out_max_val};
    cuda_top_set(op->args.tops[0], NULL); /* places need more bits than bfloat16 has */
    return cuda_input_create(op->engine, &op->args.bottoms[0]->value, cuda_plain(op->engine),
                             WORK_TOP_GRAD, &argmax->in);
}

static int argmax_forward(struct cuda_op *op, const struct run *run)
{
    struct argmax *argmax = (struct argmax *)op;
    struct cuda_engine *engine = op->engine;

    (void)run;
    if (cuda_input_load(engine, &argmax->in))
        return -1;
    return cuda_check(kernel_argmax(engine->stream, engine->type, &argmax->kernel,
                                    cuda_input_data(engine, &argmax->in),
                                    op->args.tops[0]->value.data));
}

const struct cuda_kind cuda_argmax = {
    .size = sizeof(struct argmax),
    .create = argmax_create,
    .forward = argmax_forward,
};

struct mvn {
    struct cuda_op op;
    struct cuda_pair plain;
    struct kernel_channels rows; /* 1 x groups x elements of one */
    void *mean, *inverse; /* per group, of the last forward; without variance, inverse stays 1 */
};

static int mvn_create(struct cuda_op *op)
{
    struct mvn *mvn = (struct mvn *)op;
    struct cuda_engine *engine = op->engine;
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    int64_t rows = op_mvn_groups(&op->args);
    double *one = NULL;

    mvn->rows = (struct kernel_channels){1, (int)rows, (int)((int64_t)shape_elems(x) / rows)};
    if (cuda_alloc((size_t)rows * sizeof(float), "means", &mvn->mean) ||
        cuda_alloc((size_t)rows * sizeof(float), "variances", &mvn->inverse) ||
        cuda_work_reserve(engine, WORK_SCRATCH, kernel_sums_scratch(&mvn->rows) * sizeof(double)))
        return -1;
    one = engine->work[WORK_SCRATCH].data;
    /* 1 / (sqrt(0) + 1) */
    if (cuda_check(cudaMemsetAsync(one, 0, (size_t)rows * sizeof(double), engine->stream)) ||
        cuda_check(kernel_mvn_inverse(engine->stream, one, (int)rows, 1, 1, mvn->inverse)))
        return -1;
    cuda_top_set(op->args.tops[0], cuda_plain(engine));
    return cuda_pair_create(op, 0, cuda_plain(engine), true, &mvn->plain);
}

static struct kernel_batch_norm mvn_elems(const struct mvn *mvn)
{
    return (struct kernel_batch_norm){.elems = (double)mvn->rows.inner};
}

static int mvn_forward(struct cuda_op *op, const struct run *run)
{
    struct mvn *mvn = (struct mvn *)op;
    struct cuda_engine *engine = op->engine;
    const struct kernel_batch_norm b = mvn_elems(mvn);
    const void *x = cuda_input_data(engine, &mvn->plain.in);
    double *sums = engine->work[WORK_SCRATCH].data;

    (void)run;
    if (cuda_input_load(engine, &mvn->plain.in) ||
        cuda_check(kernel_sums(engine->stream, engine->type, SUMS_X, &mvn->rows, x, NULL, NULL,
                               NULL, sums)) ||
        cuda_check(kernel_batch_mean(engine->stream, &b, sums, mvn->rows.channels, mvn->mean)))
        return -1;
    if (op->args.u.mvn.variance &&
        (cuda_check(kernel_sums(engine->stream, engine->type, SUMS_VARIANCE, &mvn->rows, x, NULL,
                                mvn->mean, NULL, sums)) ||
         cuda_check(kernel_mvn_inverse(engine->stream, sums, mvn->rows.channels, b.elems,
                                       op->args.u.mvn.eps, mvn->inverse))))
        return -1;
    return cuda_check(kernel_batch_apply(engine->stream, engine->type, &mvn->rows, x, mvn->mean,
                                         mvn->inverse, NULL, NULL, false,
                                         op->args.tops[0]->value.data));
}

/* Batch normalisation's, per group. Without variance the second sum is not made: it is 0. */
static int mvn_backward(struct cuda_op *op, const struct run *run)
{
    struct mvn *mvn = (struct mvn *)op;
    struct cuda_engine *engine = op->engine;
    const struct kernel_batch_norm b = mvn_elems(mvn);
    const void *x = cuda_input_data(engine, &mvn->plain.in), *dy = op->args.tops[0]->grad.data;
    double *sums = engine->work[WORK_SCRATCH].data;
    bool variance = op->args.u.mvn.variance;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_check(kernel_sums(engine->stream, engine->type, variance ? SUMS_BATCH_NORM : SUMS_X,
                               &mvn->rows, variance ? x : dy, variance ? dy : NULL, mvn->mean,
                               mvn->inverse, sums)) ||
        cuda_check(kernel_batch_back(engine->stream, engine->type, &mvn->rows, &b, x, dy, mvn->mean,
                                     mvn->inverse, NULL, NULL, false, sums,
                                     cuda_output_data(engine, &mvn->plain.out))))
        return -1;
    return cuda_output_store(engine, &mvn->plain.out);
}

static void mvn_destroy(struct cuda_op *op)
{
    struct mvn *mvn = (struct mvn *)op;

    cuda_pair_destroy(&mvn->plain);
    cuda_free(mvn->mean);
    cuda_free(mvn->inverse);
}

const struct cuda_kind cuda_mvn = {
    .size = sizeof(struct mvn),
    .create = mvn_create,
    .forward = mvn_forward,
    .backward = mvn_backward,
    .destroy = mvn_destroy,
};
