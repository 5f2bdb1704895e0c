/* Reduction, argmax, and mean and variance normalisation: operators over rows of plain memory. */
#include "engine/cpu/cpu_internal.h"

#include "engine/op_size.h"

#include <math.h>

static double reduce_row_sum(enum reduce_operation operation, const float *x, int64_t n)
{
    double sum = 0;

    switch (operation) {
    case REDUCE_SUM:
    case REDUCE_MEAN:
        for (int64_t i = 0; i < n; i++)
            sum += x[i];
        break;
    case REDUCE_ASUM:
        for (int64_t i = 0; i < n; i++)
            sum += fabs((double)x[i]);
        break;
    case REDUCE_SUMSQ:
        for (int64_t i = 0; i < n; i++)
            sum += (double)x[i] * x[i];
        break;
    }
    return operation == REDUCE_MEAN ? sum / (double)n : sum;
}

static void reduce_row_gradient(enum reduce_operation operation, const float *x, float dy,
                                float *dx, int64_t n)
{
    if (operation == REDUCE_MEAN)
        dy /= (float)n;
    for (int64_t i = 0; i < n; i++) {
        float slope = 1;
        if (operation == REDUCE_ASUM)
            slope = (float)((x[i] > 0) - (x[i] < 0));
        else if (operation == REDUCE_SUMSQ)
            slope = 2 * x[i];
        dx[i] = dy * slope;
    }
}

static int reduce_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct reduce_args *a = &op->args.u.reduce;
    const struct op_axes rows = op_axes_from(&op->args.bottoms[0]->value.shape, a->axis);
    const float *x = cpu_op_x(op, 0);

#pragma omp parallel for
    for (int64_t r = 0; r < rows.outer; r++) {
        const float *row = x + r * rows.length;
        if (back)
            reduce_row_gradient(a->operation, row, a->coeff * from[r], to + r * rows.length,
                                rows.length);
        else
            to[r] = (float)((double)a->coeff * reduce_row_sum(a->operation, row, rows.length));
    }
    return 0;
}

const struct cpu_kind cpu_reduce = {.blobs = CPU_PLAIN_AGAIN, .run = reduce_run};

struct argmax {
    struct cpu_op op;
    int32_t *best; /* room for top_k places */
};

static int argmax_create(struct cpu_op *op)
{
    struct argmax *argmax = (struct argmax *)op;

    argmax->best = cpu_op_alloc(op, (size_t)op->args.u.argmax.top_k * sizeof *argmax->best,
                                "the indices of maxima");
    return argmax->best ? 0 : -1;
}

/* Returns true if the value at place i, later in the row, ranks before the value at place j. */
static bool argmax_ahead(float at_i, float at_j)
{
    return at_i >= at_j || (isnan(at_j) && !isnan(at_i));
}

/* Finds the k best places of a row, best first. */
static void argmax_row_best(const float *x, int64_t n, int64_t stride, int k, int32_t *best)
{
    int kept = 0;

    for (int32_t i = 0; i < n; i++) {
        int at = kept;
        while (at > 0 && argmax_ahead(x[i * stride], x[best[at - 1] * stride])) {
            if (at < k)
                best[at] = best[at - 1];
            at--;
        }
        if (at < k)
            best[at] = i;
        if (kept < k)
            kept++;
    }
}

static int argmax_forward(struct cpu_op *op)
{
    struct argmax *argmax = (struct argmax *)op;
    const struct argmax_args *a = &op->args.u.argmax;
    const struct op_axes axes = op_argmax_axes(&op->args);
    const float *x = cpu_op_x(op, 0);
    float *to = cpu_op_y(op);

    for (int64_t o = 0; o < axes.outer; o++)
        for (int64_t i = 0; i < axes.inner; i++) {
            const float *row = x + o * axes.length * axes.inner + i;
            argmax_row_best(row, axes.length, axes.inner, a->top_k, argmax->best);
            for (int64_t k = 0; k < a->top_k; k++) {
                float place = (float)argmax->best[k];
                float value = row[argmax->best[k] * axes.inner];
                int64_t at = (o * a->top_k + k) * axes.inner + i;
                if (a->has_axis)
                    to[at] = a->out_max_val ? value : place;
                else if (!a->out_max_val)
                    to[at] = place;
                if (!a->has_axis && a->out_max_val) {
                    to[2 * o * a->top_k + k] = place;
                    to[(2 * o + 1) * a->top_k + k] = value;
                }
            }
        }
    return 0;
}

const struct cpu_kind cpu_argmax = {
    .size = sizeof(struct argmax),
    .blobs = CPU_PLAIN,
    .create = argmax_create,
    .forward = argmax_forward,
};

struct mvn {
    struct cpu_op op;
    int64_t rows, length;
    float *mean, *inverse; /* statistics of each row in the last forward; one piece of memory */
};

static int mvn_create(struct cpu_op *op)
{
    struct mvn *mvn = (struct mvn *)op;

    mvn->rows = op_mvn_groups(&op->args);
    mvn->length = (int64_t)shape_elems(&op->args.bottoms[0]->value.shape) / mvn->rows;
    mvn->mean = cpu_op_alloc(op, (size_t)(2 * mvn->rows) * sizeof(float), "means and variances");
    if (!mvn->mean)
        return -1;
    mvn->inverse = mvn->mean + mvn->rows;
    return 0;
}

static void mvn_row(const struct mvn *mvn, const float *x, float *y, int64_t r)
{
    const struct mvn_args *a = &mvn->op.args.u.mvn;
    double mean = reduce_row_sum(REDUCE_MEAN, x, mvn->length), square = 0;

    for (int64_t i = 0; i < mvn->length; i++)
        square += (x[i] - mean) * (x[i] - mean);
    mvn->mean[r] = (float)mean;
    mvn->inverse[r] =
        a->variance ? (float)(1 / (sqrt(square / (double)mvn->length) + (double)a->eps)) : 1;
    for (int64_t i = 0; i < mvn->length; i++)
        y[i] = (x[i] - mvn->mean[r]) * mvn->inverse[r];
}

static void mvn_row_gradient(const struct mvn *mvn, const float *x, const float *dy, float *dx,
                             int64_t r)
{
    float mean = mvn->mean[r], inverse = mvn->inverse[r];
    double sum = 0, product = 0;

    for (int64_t i = 0; i < mvn->length; i++) {
        sum += dy[i];
        product += (double)dy[i] * ((x[i] - mean) * inverse);
    }
    sum /= (double)mvn->length;
    product = mvn->op.args.u.mvn.variance ? product / (double)mvn->length : 0;
    for (int64_t i = 0; i < mvn->length; i++)
        dx[i] =
            (float)((dy[i] - sum - (double)((x[i] - mean) * inverse) * product) * (double)inverse);
}

static int mvn_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct mvn *mvn = (const struct mvn *)op;
    const float *x = cpu_op_x(op, 0);

#pragma omp parallel for
    for (int64_t r = 0; r < mvn->rows; r++) {
        int64_t at = r * mvn->length;
        if (back)
            mvn_row_gradient(mvn, x + at, from + at, to + at, r);
        else
            mvn_row(mvn, from + at, to + at, r);
    }
    return 0;
}

const struct cpu_kind cpu_mvn = {
    .size = sizeof(struct mvn),
    .blobs = CPU_PLAIN_AGAIN,
    .create = mvn_create,
    .run = mvn_run,
};
