/* Losses over elements and rows; softmax.c has the losses over classes. Sums are made in double in
 * one fixed order. */
#include "engine/cpu/loss.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>

#define LEAST_PROBABILITY 1e-20

int scores_label(const struct cpu_op *op, const struct scores *s, int64_t i, int64_t *out)
{
    float value = cpu_op_x(op, 1)[i];
    bool whole = value == floorf(value); /* false for NaN */
    bool fits = whole && value >= -2147483648.0f && value < 2147483648.0f;

    *out = -1;
    if (fits && s->has_ignore && (int)value == s->ignore)
        return 0;
    if (!fits || value < 0 || (int)value >= s->classes)
        return error_set("label %g of sample %" PRId64 " of the batch is %s 0..%" PRId64
                         " (the scores have %" PRId64 " classes)",
                         (double)value, i / s->inner, whole ? "outside" : "not a whole number in",
                         s->classes - 1, s->classes);
    *out = (int)value;
    return 0;
}

int loss_set(struct loss *loss, double sum, double divisor)
{
    loss->divisor = divisor;
    cpu_op_y(&loss->op)[0] = (float)(sum / divisor);
    return 0;
}

double loss_scale(const struct loss *loss)
{
    return cpu_op_dy(&loss->op)[0] / loss->divisor;
}

double loss_divisor(enum loss_normalization normalization, int64_t places, int64_t valid,
                    int64_t outer)
{
    double d = op_loss_divisor(normalization, places, outer);

    d = d > 0 ? d : (double)valid;
    return d > 1 ? d : 1;
}

/* Returns bottom 0 as rows, one for each sample. */
static struct scores loss_rows(const struct cpu_op *op)
{
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    int64_t rows = shape_dim(x, 0);

    return (struct scores){.outer = rows, .classes = (int64_t)shape_elems(x) / rows, .inner = 1};
}

static int64_t loss_elems(const struct cpu_op *op)
{
    return (int64_t)shape_elems(&op->args.bottoms[0]->value.shape);
}

#define LOSS_KIND(name, bottoms)                                                                   \
    const struct cpu_kind cpu_##name = {                                                           \
        .size = sizeof(struct loss),                                                               \
        .blobs = CPU_PLAIN_AGAIN,                                                                  \
        .plain = bottoms,                                                                          \
        .forward = name##_forward,                                                                 \
        .gradient = name##_gradient,                                                               \
    }

static bool sigmoid_ignored(const struct loss_args *a, float target)
{
    return a->has_ignore_label && truncf(target) == (float)a->ignore_label;
}

static int sigmoid_loss_forward(struct cpu_op *op)
{
    const struct loss_args *a = &op->args.u.sigmoid_loss;
    const float *x = cpu_op_x(op, 0), *targets = cpu_op_x(op, 1);
    int64_t n = loss_elems(op), valid = 0;
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        double s = x[i], t = targets[i];
        if (sigmoid_ignored(a, targets[i]))
            continue;
        valid++;
        sum -= s * (t - (s >= 0)) - log1p(exp(s - 2 * s * (s >= 0)));
    }
    return loss_set((struct loss *)op, sum,
                    loss_divisor(a->normalization, n, valid, loss_rows(op).outer));
}

static int sigmoid_loss_gradient(struct cpu_op *op, int bottom, float *dx)
{
    const struct loss_args *a = &op->args.u.sigmoid_loss;
    const float *x = cpu_op_x(op, bottom), *t = cpu_op_x(op, 1);
    float scale = (float)loss_scale((struct loss *)op);

#pragma omp parallel for
    for (int64_t i = 0; i < loss_elems(op); i++)
        dx[i] = sigmoid_ignored(a, t[i]) ? 0 : scale * (1 / (1 + expf(-x[i])) - t[i]);
    return 0;
}

LOSS_KIND(sigmoid_loss, 2);

static int euclidean_loss_forward(struct cpu_op *op)
{
    const float *a = cpu_op_x(op, 0), *b = cpu_op_x(op, 1);
    double sum = 0;

    for (int64_t i = 0; i < loss_elems(op); i++) {
        double d = (double)a[i] - b[i];
        sum += d * d;
    }
    return loss_set((struct loss *)op, sum, 2 * (double)loss_rows(op).outer);
}

static int euclidean_loss_gradient(struct cpu_op *op, int bottom, float *dx)
{
    const float *a = cpu_op_x(op, 0), *b = cpu_op_x(op, 1);
    float scale = (float)(2 * loss_scale((struct loss *)op)), sign = bottom == 0 ? scale : -scale;

#pragma omp parallel for
    for (int64_t i = 0; i < loss_elems(op); i++)
        dx[i] = sign * (a[i] - b[i]);
    return 0;
}

LOSS_KIND(euclidean_loss, 2);

static int hinge_loss_forward(struct cpu_op *op)
{
    const struct scores rows = loss_rows(op);
    const float *x = cpu_op_x(op, 0);
    double sum = 0;
    int64_t label;

    for (int64_t n = 0; n < rows.outer; n++) {
        if (scores_label(op, &rows, n, &label))
            return -1;
        for (int64_t c = 0; c < rows.classes; c++) {
            double s = x[n * rows.classes + c], margin = 1 + (c == label ? -s : s);
            margin = margin < 0 ? 0 : margin;
            sum += op->args.u.hinge_loss.l2 ? margin * margin : margin;
        }
    }
    return loss_set((struct loss *)op, sum, (double)rows.outer);
}

static int hinge_loss_gradient(struct cpu_op *op, int bottom, float *dx)
{
    const struct scores rows = loss_rows(op);
    const float *x = cpu_op_x(op, bottom);
    float scale = (float)loss_scale((struct loss *)op);
    int64_t label;

    for (int64_t n = 0; n < rows.outer; n++) {
        if (scores_label(op, &rows, n, &label))
            return -1;
        for (int64_t c = 0; c < rows.classes; c++) {
            int64_t at = n * rows.classes + c;
            float sign = c == label ? -1 : 1, margin = 1 + sign * x[at];
            float slope = op->args.u.hinge_loss.l2 ? 2 * margin : 1;
            dx[at] = margin > 0 ? scale * sign * slope : 0;
        }
    }
    return 0;
}

LOSS_KIND(hinge_loss, 2);

static int multinomial_loss_forward(struct cpu_op *op)
{
    const struct scores rows = loss_rows(op);
    double sum = 0;
    int64_t label;

    for (int64_t n = 0; n < rows.outer; n++) {
        if (scores_label(op, &rows, n, &label))
            return -1;
        double p = cpu_op_x(op, 0)[n * rows.classes + label];
        sum -= log(p < LEAST_PROBABILITY ? LEAST_PROBABILITY : p);
    }
    return loss_set((struct loss *)op, sum, (double)rows.outer);
}

static int multinomial_loss_gradient(struct cpu_op *op, int bottom, float *dx)
{
    const struct scores rows = loss_rows(op);
    double scale = loss_scale((struct loss *)op);
    int64_t label;

    cpu_zero(dx, (size_t)loss_elems(op));
    for (int64_t n = 0; n < rows.outer; n++) {
        if (scores_label(op, &rows, n, &label))
            return -1;
        double p = cpu_op_x(op, bottom)[n * rows.classes + label];
        dx[n * rows.classes + label] =
            (float)(-scale / (p < LEAST_PROBABILITY ? LEAST_PROBABILITY : p));
    }
    return 0;
}

LOSS_KIND(multinomial_loss, 2);

/* Returns true if `similar`, truncated to an integer, is not 0. */
static bool contrastive_similar(float similar)
{
    return fabsf(similar) >= 1;
}

static double contrastive_distance2(int64_t length, const float *a, const float *b)
{
    double sum = 0;

    for (int64_t i = 0; i < length; i++)
        sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sum;
}

static int contrastive_loss_forward(struct cpu_op *op)
{
    const struct contrastive_loss_args *args = &op->args.u.contrastive_loss;
    const struct scores rows = loss_rows(op);
    const float *a = cpu_op_x(op, 0), *b = cpu_op_x(op, 1), *similar = cpu_op_x(op, 2);
    double sum = 0;

    for (int64_t n = 0; n < rows.outer; n++) {
        double d2 = contrastive_distance2(rows.classes, a + n * rows.classes, b + n * rows.classes);
        double away = (double)args->margin - (args->legacy ? d2 : sqrt(d2));
        away = away < 0 ? 0 : away;
        sum += contrastive_similar(similar[n]) ? d2 : args->legacy ? away : away * away;
    }
    return loss_set((struct loss *)op, sum, 2 * (double)rows.outer);
}

/* Returns the factor of (a - b) in the gradient. */
static double contrastive_factor(const struct contrastive_loss_args *args, double d2, float similar)
{
    double d = sqrt(d2);

    if (contrastive_similar(similar))
        return 1;
    if (args->legacy)
        return (double)args->margin > d2 ? -1 : 0;
    return (double)args->margin > d ? -((double)args->margin - d) / (d + 1e-4) : 0;
}

static int contrastive_loss_gradient(struct cpu_op *op, int bottom, float *dx)
{
    const struct contrastive_loss_args *args = &op->args.u.contrastive_loss;
    const struct scores rows = loss_rows(op);
    const float *a = cpu_op_x(op, 0), *b = cpu_op_x(op, 1), *similar = cpu_op_x(op, 2);
    double scale = 2 * loss_scale((struct loss *)op) * (bottom == 0 ? 1 : -1);

    for (int64_t n = 0; n < rows.outer; n++, a += rows.classes, b += rows.classes) {
        double d2 = contrastive_distance2(rows.classes, a, b);
        double factor = scale * contrastive_factor(args, d2, similar[n]);
        for (int64_t e = 0; e < rows.classes; e++)
            dx[n * rows.classes + e] = (float)(factor * ((double)a[e] - b[e]));
    }
    return 0;
}

LOSS_KIND(contrastive_loss, 3);
