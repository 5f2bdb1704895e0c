/* Losses other than the softmax loss. Sums are made in double and in one fixed order. */
#include "engine/cpu/cpu_internal.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LEAST_PROBABILITY 1e-20

/* What all of them have. */
struct loss {
    struct cpu_op op;
    struct cpu_plain x[2];       /* the first two bottoms */
    int64_t rows, length, inner; /* of bottom 0: N x D, or outer x classes x inner */
    double divisor;              /* of the last forward */
    float *own;                  /* Infogain: probabilities if there is no second top; else NULL */
    float *matrix, *row_sums;    /* Infogain: H if it was given, and its rows' sums */
    struct cpu_input given;      /* Infogain: H if it is a bottom */
};

static int loss_create(struct cpu_op *op)
{
    struct loss *loss = (struct loss *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape;

    loss->rows = shape_dim(x, 0);
    loss->length = (int64_t)shape_elems(x) / loss->rows;
    loss->inner = 1;
    for (int i = 0; i < op->args.ntops; i++)
        cpu_top_set(op->args.tops[i], NULL);
    for (int i = 0; i < 2; i++)
        if (cpu_plain_create(op, i, true, &loss->x[i]))
            return -1;
    return 0;
}

static void loss_destroy(struct cpu_op *op)
{
    struct loss *loss = (struct loss *)op;

    for (int i = 0; i < 2; i++)
        cpu_plain_destroy(&loss->x[i]);
    cpu_input_destroy(&loss->given);
    cpu_free(loss->own);
    cpu_free(loss->matrix);
    cpu_free(loss->row_sums);
}

static int loss_load(struct loss *loss, const float *x[2])
{
    for (int i = 0; i < 2; i++) {
        if (cpu_input_load(loss->op.engine, &loss->x[i].in))
            return -1;
        x[i] = cpu_input_data(loss->op.engine, &loss->x[i].in);
    }
    return 0;
}

static const float *loss_bottom(const struct loss *loss, int i)
{
    return cpu_input_data(loss->op.engine, &loss->x[i].in);
}

static void loss_set(struct loss *loss, double sum)
{
    loss->op.args.tops[0]->value.data[0] = (float)(sum / loss->divisor);
}

/* The gradient of the loss by the sum that it divides. */
static double loss_scale(const struct loss *loss)
{
    return loss->op.args.tops[0]->grad.data[0] / loss->divisor;
}

static int loss_label(const float *labels, int64_t i, int64_t classes, int64_t *out)
{
    *out = 0;
    if (!(labels[i] > -1 && labels[i] < (float)classes))
        return error_set("label %g at place %" PRId64 " is outside 0..%" PRId64
                         " (the scores have %" PRId64 " classes)",
                         (double)labels[i], i, classes - 1, classes);
    *out = (int64_t)labels[i];
    return 0;
}

/* What the sum is divided by. */
static double loss_normalizer(enum loss_normalization normalization, int64_t places, int64_t valid,
                              int64_t outer)
{
    int64_t d = normalization == LOSS_FULL         ? places
                : normalization == LOSS_VALID      ? valid
                : normalization == LOSS_BATCH_SIZE ? outer
                                                   : 1;

    return d > 1 ? (double)d : 1;
}

static bool sigmoid_ignored(const struct sigmoid_loss_args *a, float target)
{
    return a->has_ignore_label && truncf(target) == (float)a->ignore_label;
}

static int sigmoid_loss_forward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    const struct sigmoid_loss_args *a = &op->args.u.sigmoid_loss;
    int64_t n = loss->rows * loss->length, valid = 0;
    const float *x[2];
    double sum = 0;

    (void)run;
    if (loss_load(loss, x))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        double s = x[0][i], t = x[1][i];
        if (sigmoid_ignored(a, x[1][i]))
            continue;
        valid++;
        sum -= s * (t - (s >= 0)) - log1p(exp(s - 2 * s * (s >= 0)));
    }
    loss->divisor = loss_normalizer(a->normalization, n, valid, loss->rows);
    loss_set(loss, sum);
    return 0;
}

static int sigmoid_loss_backward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    const struct sigmoid_loss_args *a = &op->args.u.sigmoid_loss;
    const float *x = loss_bottom(loss, 0), *t = loss_bottom(loss, 1);
    float scale = (float)loss_scale(loss), *dx;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    dx = cpu_output_data(op->engine, &loss->x[0].out);
#pragma omp parallel for
    for (int64_t i = 0; i < loss->rows * loss->length; i++)
        dx[i] = sigmoid_ignored(a, t[i]) ? 0 : scale * (1 / (1 + expf(-x[i])) - t[i]);
    return cpu_output_store(op->engine, &loss->x[0].out);
}

#define LOSS_KIND(variable, create_function, prefix)                                               \
    const struct cpu_kind variable = {                                                             \
        .size = sizeof(struct loss),                                                               \
        .create = create_function,                                                                 \
        .forward = prefix##_forward,                                                               \
        .backward = prefix##_backward,                                                             \
        .destroy = loss_destroy,                                                                   \
    }

LOSS_KIND(cpu_sigmoid_loss, loss_create, sigmoid_loss);

static int euclidean_loss_forward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    const float *x[2];
    double sum = 0;

    (void)run;
    if (loss_load(loss, x))
        return -1;
    for (int64_t i = 0; i < loss->rows * loss->length; i++) {
        double d = (double)x[0][i] - x[1][i];
        sum += d * d;
    }
    loss->divisor = 2 * (double)loss->rows;
    loss_set(loss, sum);
    return 0;
}

static int euclidean_loss_backward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    const float *a = loss_bottom(loss, 0), *b = loss_bottom(loss, 1);
    float scale = (float)(2 * loss_scale(loss));

    (void)run;
    for (int i = 0; i < 2; i++) {
        float sign = i == 0 ? scale : -scale, *dx;
        if (!cpu_op_propagates(op, i))
            continue;
        dx = cpu_output_data(op->engine, &loss->x[i].out);
#pragma omp parallel for
        for (int64_t e = 0; e < loss->rows * loss->length; e++)
            dx[e] = sign * (a[e] - b[e]);
        if (cpu_output_store(op->engine, &loss->x[i].out))
            return -1;
    }
    return 0;
}

LOSS_KIND(cpu_euclidean_loss, loss_create, euclidean_loss);

static int hinge_loss_forward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    const float *x[2];
    double sum = 0;
    int64_t label;

    (void)run;
    if (loss_load(loss, x))
        return -1;
    for (int64_t n = 0; n < loss->rows; n++) {
        if (loss_label(x[1], n, loss->length, &label))
            return -1;
        for (int64_t c = 0; c < loss->length; c++) {
            double s = x[0][n * loss->length + c], margin = 1 + (c == label ? -s : s);
            margin = margin < 0 ? 0 : margin;
            sum += op->args.u.hinge_loss.l2 ? margin * margin : margin;
        }
    }
    loss->divisor = (double)loss->rows;
    loss_set(loss, sum);
    return 0;
}

static int hinge_loss_backward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    const float *x = loss_bottom(loss, 0), *labels = loss_bottom(loss, 1);
    float scale = (float)loss_scale(loss), *dx;
    int64_t label;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    dx = cpu_output_data(op->engine, &loss->x[0].out);
    for (int64_t n = 0; n < loss->rows; n++) {
        if (loss_label(labels, n, loss->length, &label))
            return -1;
        for (int64_t c = 0; c < loss->length; c++) {
            int64_t at = n * loss->length + c;
            float sign = c == label ? -1 : 1, margin = 1 + sign * x[at];
            float slope = op->args.u.hinge_loss.l2 ? 2 * margin : 1;
            dx[at] = margin > 0 ? scale * sign * slope : 0;
        }
    }
    return cpu_output_store(op->engine, &loss->x[0].out);
}

LOSS_KIND(cpu_hinge_loss, loss_create, hinge_loss);

static int multinomial_loss_forward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    const float *x[2];
    double sum = 0;
    int64_t label;

    (void)run;
    if (loss_load(loss, x))
        return -1;
    for (int64_t n = 0; n < loss->rows; n++) {
        if (loss_label(x[1], n, loss->length, &label))
            return -1;
        double p = x[0][n * loss->length + label];
        sum -= log(p < LEAST_PROBABILITY ? LEAST_PROBABILITY : p);
    }
    loss->divisor = (double)loss->rows;
    loss_set(loss, sum);
    return 0;
}

static int multinomial_loss_backward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    const float *x = loss_bottom(loss, 0), *labels = loss_bottom(loss, 1);
    int64_t label;
    float *dx;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    dx = cpu_output_data(op->engine, &loss->x[0].out);
    cpu_zero(dx, (size_t)(loss->rows * loss->length));
    for (int64_t n = 0; n < loss->rows; n++) {
        if (loss_label(labels, n, loss->length, &label))
            return -1;
        double p = x[n * loss->length + label];
        dx[n * loss->length + label] =
            (float)(-loss_scale(loss) / (p < LEAST_PROBABILITY ? LEAST_PROBABILITY : p));
    }
    return cpu_output_store(op->engine, &loss->x[0].out);
}

LOSS_KIND(cpu_multinomial_loss, loss_create, multinomial_loss);

static int contrastive_loss_create(struct cpu_op *op)
{
    const struct cpu_format *format = cpu_tensor_format(&op->args.bottoms[2]->value);

    if (format)
        return error_set("the similarities come in the format %s; plain ones are needed",
                         format->name);
    return loss_create(op);
}

/* Cut to an integer, not 0. */
static bool contrastive_similar(float similar)
{
    return fabsf(similar) >= 1;
}

static double contrastive_distance2(const struct loss *loss, const float *a, const float *b)
{
    double sum = 0;

    for (int64_t i = 0; i < loss->length; i++)
        sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sum;
}

static int contrastive_loss_forward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    const struct contrastive_loss_args *args = &op->args.u.contrastive_loss;
    const float *similar = op->args.bottoms[2]->value.data, *x[2];
    double sum = 0;

    (void)run;
    if (loss_load(loss, x))
        return -1;
    for (int64_t n = 0; n < loss->rows; n++) {
        double d2 = contrastive_distance2(loss, x[0] + n * loss->length, x[1] + n * loss->length);
        double away = (double)args->margin - (args->legacy ? d2 : sqrt(d2));
        away = away < 0 ? 0 : away;
        sum += contrastive_similar(similar[n]) ? d2 : args->legacy ? away : away * away;
    }
    loss->divisor = 2 * (double)loss->rows;
    loss_set(loss, sum);
    return 0;
}

/* What (a - b) is multiplied by. */
static double contrastive_factor(const struct loss *loss, const float *a, const float *b,
                                 float similar)
{
    const struct contrastive_loss_args *args = &loss->op.args.u.contrastive_loss;
    double d2 = contrastive_distance2(loss, a, b), d = sqrt(d2);

    if (contrastive_similar(similar))
        return 1;
    if (args->legacy)
        return (double)args->margin > d2 ? -1 : 0;
    return (double)args->margin > d ? -((double)args->margin - d) / (d + 1e-4) : 0;
}

static int contrastive_loss_backward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    const float *similar = op->args.bottoms[2]->value.data;
    const float *x[2] = {loss_bottom(loss, 0), loss_bottom(loss, 1)};

    (void)run;
    for (int i = 0; i < 2; i++) {
        double scale = 2 * loss_scale(loss) * (i == 0 ? 1 : -1);
        float *dx;
        if (!cpu_op_propagates(op, i))
            continue;
        dx = cpu_output_data(op->engine, &loss->x[i].out);
        for (int64_t n = 0; n < loss->rows; n++) {
            const float *a = x[0] + n * loss->length, *b = x[1] + n * loss->length;
            double factor = scale * contrastive_factor(loss, a, b, similar[n]);
            for (int64_t e = 0; e < loss->length; e++)
                dx[n * loss->length + e] = (float)(factor * ((double)a[e] - b[e]));
        }
        if (cpu_output_store(op->engine, &loss->x[i].out))
            return -1;
    }
    return 0;
}

LOSS_KIND(cpu_contrastive_loss, contrastive_loss_create, contrastive_loss);

static int infogain_matrix(struct loss *loss)
{
    struct cpu_op *op = &loss->op;
    size_t n = (size_t)(loss->length * loss->length);
    void *memory = NULL;

    if (cpu_alloc((size_t)loss->length * sizeof(float), "sums of the infogain matrix", &memory))
        return -1;
    loss->row_sums = memory;
    if (op->args.nbottoms == 3)
        return cpu_input_create(op->engine, &op->args.bottoms[2]->value, NULL, WORK_OWN,
                                &loss->given);
    if (cpu_alloc(n * sizeof(float), "the infogain matrix", &memory))
        return -1;
    loss->matrix = memory;
    memcpy(loss->matrix, op->args.u.infogain_loss.matrix, n * sizeof(float));
    op->args.u.infogain_loss.matrix = NULL; /* was lent for this call only */
    return 0;
}

static int infogain_loss_create(struct cpu_op *op)
{
    struct loss *loss = (struct loss *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    struct op_axes axes = op_axes_at(x, op->args.u.infogain_loss.axis);
    void *memory = NULL;

    if (loss_create(op))
        return -1;
    loss->rows = axes.outer;
    loss->length = axes.length;
    loss->inner = axes.inner;
    if (infogain_matrix(loss))
        return -1;
    if (op->args.ntops == 2)
        return 0;
    if (cpu_alloc(shape_elems(x) * sizeof(float), "class probabilities", &memory))
        return -1;
    loss->own = memory;
    return 0;
}

static void infogain_softmax(const float *x, float *p, int64_t classes, int64_t inner)
{
    double most = x[0], sum = 0;

    for (int64_t c = 1; c < classes; c++)
        most = x[c * inner] > most ? x[c * inner] : most;
    for (int64_t c = 0; c < classes; c++)
        sum += exp(x[c * inner] - most);
    for (int64_t c = 0; c < classes; c++)
        p[c * inner] = (float)(exp(x[c * inner] - most) / sum);
}

static const float *infogain_h(const struct loss *loss)
{
    return loss->matrix ? loss->matrix : cpu_input_data(loss->op.engine, &loss->given);
}

static float *infogain_p(const struct loss *loss)
{
    return loss->own ? loss->own : loss->op.args.tops[1]->value.data;
}

/* The label of a place; -1 where it is to be ignored. */
static int infogain_label(const struct loss *loss, const float *labels, int64_t i, int64_t *out)
{
    const struct infogain_loss_args *a = &loss->op.args.u.infogain_loss;

    *out = -1;
    if (a->has_ignore_label && labels[i] == (float)a->ignore_label)
        return 0;
    return loss_label(labels, i, loss->length, out);
}

static int infogain_loss_forward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    int64_t places = loss->rows * loss->inner, valid = 0, label;
    float *p = infogain_p(loss);
    const float *x[2], *h;
    double sum = 0;

    (void)run;
    if (loss_load(loss, x) || (!loss->matrix && cpu_input_load(op->engine, &loss->given)))
        return -1;
    h = infogain_h(loss);
    for (int64_t r = 0; r < loss->length; r++) {
        double row = 0;
        for (int64_t c = 0; c < loss->length; c++)
            row += h[r * loss->length + c];
        loss->row_sums[r] = (float)row;
    }
    for (int64_t i = 0; i < places; i++) {
        int64_t at = i / loss->inner * loss->length * loss->inner + i % loss->inner;
        infogain_softmax(x[0] + at, p + at, loss->length, loss->inner);
        if (infogain_label(loss, x[1], i, &label))
            return -1;
        valid += label >= 0;
        for (int64_t c = 0; label >= 0 && c < loss->length; c++) {
            double q = p[at + c * loss->inner];
            sum -= h[label * loss->length + c] * log(q < LEAST_PROBABILITY ? LEAST_PROBABILITY : q);
        }
    }
    loss->divisor =
        loss_normalizer(op->args.u.infogain_loss.normalization, places, valid, loss->rows);
    loss_set(loss, sum);
    return 0;
}

static int infogain_loss_backward(struct cpu_op *op, const struct run *run)
{
    struct loss *loss = (struct loss *)op;
    const float *labels = loss_bottom(loss, 1), *h = infogain_h(loss), *p = infogain_p(loss);
    float scale = (float)loss_scale(loss), *dx;
    int64_t label;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    dx = cpu_output_data(op->engine, &loss->x[0].out);
    for (int64_t i = 0; i < loss->rows * loss->inner; i++) {
        int64_t first = i / loss->inner * loss->length * loss->inner + i % loss->inner;
        if (infogain_label(loss, labels, i, &label))
            return -1;
        for (int64_t c = 0; c < loss->length; c++) {
            int64_t at = first + c * loss->inner;
            dx[at] = label < 0
                         ? 0
                         : scale * (p[at] * loss->row_sums[label] - h[label * loss->length + c]);
        }
    }
    return cpu_output_store(op->engine, &loss->x[0].out);
}

LOSS_KIND(cpu_infogain_loss, infogain_loss_create, infogain_loss);
