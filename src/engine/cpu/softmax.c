/* Softmax, softmax loss and accuracy, on plain memory seen as outer x classes x inner.
 *
 * Sums over samples are made in double and in one fixed order: the same bits at any thread count.
 */
#include "engine/cpu/cpu_internal.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

/* Scores as every operator here sees them. */
struct scores {
    int64_t outer, classes, inner;
    struct cpu_input plain;
};

static int softmax_scores_create(struct cpu_op *op, int axis, enum cpu_work_slot slot,
                                 struct scores *out)
{
    const struct tensor *bottom = &op->args.bottoms[0]->value;
    struct op_axes axes = op_axes_at(&bottom->shape, axis);

    out->outer = axes.outer;
    out->classes = axes.length;
    out->inner = axes.inner;
    return cpu_input_create(op->engine, bottom, NULL, slot, &out->plain);
}

#define TILE 64 /* positions whose maxima and sums are held at once */

static void softmax_tile(const float *x, int64_t classes, int64_t inner, int64_t n, float *p)
{
    float most[TILE], sum[TILE];

    for (int64_t i = 0; i < n; i++) {
        most[i] = x[i];
        sum[i] = 0;
    }
    for (int64_t c = 1; c < classes; c++)
        for (int64_t i = 0; i < n; i++)
            if (x[c * inner + i] > most[i])
                most[i] = x[c * inner + i];
    for (int64_t c = 0; c < classes; c++)
        for (int64_t i = 0; i < n; i++) {
            float e = expf(x[c * inner + i] - most[i]);
            p[c * inner + i] = e;
            sum[i] += e;
        }
    for (int64_t c = 0; c < classes; c++)
        for (int64_t i = 0; i < n; i++)
            p[c * inner + i] /= sum[i];
}

static void softmax_run(const struct scores *s, const float *x, float *p)
{
    int64_t size = s->classes * s->inner, tiles = (s->inner + TILE - 1) / TILE;

#pragma omp parallel for
    for (int64_t t = 0; t < s->outer * tiles; t++) {
        int64_t first = t % tiles * TILE, at = t / tiles * size + first;
        softmax_tile(x + at, s->classes, s->inner,
                     s->inner - first < TILE ? s->inner - first : TILE, p + at);
    }
}

struct softmax {
    struct cpu_op op;
    struct scores scores;
    struct cpu_output bottom_grad;
};

static int softmax_create(struct cpu_op *op)
{
    struct softmax *sm = (struct softmax *)op;
    struct blob *bottom = op->args.bottoms[0], *top = op->args.tops[0];

    cpu_top_set(top, NULL);
    if (softmax_scores_create(op, op->args.u.softmax.axis, WORK_TOP_GRAD, &sm->scores))
        return -1;
    if (!cpu_op_propagates(op, 0))
        return 0;
    return cpu_output_create(op->engine, &bottom->grad, NULL, WORK_BOTTOM_GRAD, &sm->bottom_grad);
}

static int softmax_forward(struct cpu_op *op, const struct run *run)
{
    struct softmax *sm = (struct softmax *)op;

    (void)run;
    if (cpu_input_load(op->engine, &sm->scores.plain))
        return -1;
    softmax_run(&sm->scores, cpu_input_data(op->engine, &sm->scores.plain),
                op->args.tops[0]->value.data);
    return 0;
}

/* dx = p (dy - sum of dy p over the classes) */
static int softmax_backward(struct cpu_op *op, const struct run *run)
{
    struct softmax *sm = (struct softmax *)op;
    const struct scores *s = &sm->scores;
    const float *p = op->args.tops[0]->value.data, *dy = op->args.tops[0]->grad.data;
    float *dx;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    dx = cpu_output_data(op->engine, &sm->bottom_grad);
#pragma omp parallel for collapse(2)
    for (int64_t o = 0; o < s->outer; o++) {
        for (int64_t i = 0; i < s->inner; i++) {
            int64_t at = o * s->classes * s->inner + i;
            float dot = 0;
            for (int64_t c = 0; c < s->classes; c++)
                dot += dy[at + c * s->inner] * p[at + c * s->inner];
            for (int64_t c = 0; c < s->classes; c++)
                dx[at + c * s->inner] = p[at + c * s->inner] * (dy[at + c * s->inner] - dot);
        }
    }
    return cpu_output_store(op->engine, &sm->bottom_grad);
}

static void softmax_destroy(struct cpu_op *op)
{
    struct softmax *sm = (struct softmax *)op;

    cpu_input_destroy(&sm->scores.plain);
    cpu_output_destroy(&sm->bottom_grad);
}

const struct cpu_kind cpu_softmax = {
    .size = sizeof(struct softmax),
    .create = softmax_create,
    .forward = softmax_forward,
    .backward = softmax_backward,
    .destroy = softmax_destroy,
};

/* Class numbers given as floats, one per position (outer x inner). */
struct labels {
    const struct tensor *tensor;
    int64_t positions, inner, classes;
    bool has_ignore;
    int ignore;
};

static int softmax_labels_create(const struct cpu_op *op, const struct scores *s, bool has_ignore,
                                 int ignore, struct labels *out)
{
    const struct blob *blob = op->args.bottoms[1];

    *out = (struct labels){.tensor = &blob->value,
                           .positions = s->outer * s->inner,
                           .inner = s->inner,
                           .classes = s->classes,
                           .has_ignore = has_ignore,
                           .ignore = ignore};
    if (cpu_tensor_format(&blob->value))
        return error_set("the labels come in the format %s; plain ones are needed",
                         cpu_tensor_format(&blob->value)->name);
    return 0;
}

/* The class of position i; -1 if it is to be ignored. Fails where there is no such class. */
static int softmax_label_at(const struct labels *l, int64_t i, int64_t *out)
{
    float value = l->tensor->data[i];
    bool fits = value > -2147483648.0f && value < 2147483648.0f; /* false for NaN */

    if (fits && l->has_ignore && (int)value == l->ignore) {
        *out = -1;
        return 0;
    }
    if (!fits || (int)value < 0 || (int)value >= l->classes)
        return error_set("label %g of sample %" PRId64 " of the batch is outside 0..%" PRId64
                         " (the scores have %" PRId64 " classes)",
                         (double)value, i / l->inner, l->classes - 1, l->classes);
    *out = (int)value;
    return 0;
}

struct softmax_loss {
    struct cpu_op op;
    struct scores scores;
    struct labels labels;
    struct cpu_output bottom_grad;
    float *own;     /* probabilities, if there is no second top */
    double divisor; /* of the last forward */
};

static int softmax_loss_create(struct cpu_op *op)
{
    struct softmax_loss *sl = (struct softmax_loss *)op;
    const struct softmax_loss_args *a = &op->args.u.softmax_loss;
    struct blob *bottom = op->args.bottoms[0];
    void *own = NULL;

    for (int i = 0; i < op->args.ntops; i++)
        cpu_top_set(op->args.tops[i], NULL);
    if (softmax_scores_create(op, a->axis, WORK_TOP_GRAD, &sl->scores) ||
        softmax_labels_create(op, &sl->scores, a->has_ignore_label, a->ignore_label, &sl->labels))
        return -1;
    if (op->args.ntops == 1) {
        if (cpu_alloc(shape_elems(&bottom->value.shape) * sizeof *sl->own, "class probabilities",
                      &own))
            return -1;
        sl->own = own;
    }
    if (!cpu_op_propagates(op, 0))
        return 0;
    return cpu_output_create(op->engine, &bottom->grad, NULL, WORK_BOTTOM_GRAD, &sl->bottom_grad);
}

static float *softmax_loss_probabilities(const struct softmax_loss *sl)
{
    return sl->own ? sl->own : sl->op.args.tops[1]->value.data;
}

static double softmax_loss_divisor(const struct softmax_loss *sl, int64_t valid)
{
    double d = 1;

    switch (sl->op.args.u.softmax_loss.normalization) {
    case LOSS_FULL:
        d = (double)sl->labels.positions;
        break;
    case LOSS_VALID:
        d = (double)valid;
        break;
    case LOSS_BATCH_SIZE:
        d = (double)sl->scores.outer;
        break;
    case LOSS_NONE:
        break;
    }
    return d > 1 ? d : 1;
}

static int softmax_loss_forward(struct cpu_op *op, const struct run *run)
{
    struct softmax_loss *sl = (struct softmax_loss *)op;
    const struct scores *s = &sl->scores;
    float *p = softmax_loss_probabilities(sl);
    int64_t valid = 0, label;
    double loss = 0;

    (void)run;
    if (cpu_input_load(op->engine, &sl->scores.plain))
        return -1;
    softmax_run(s, cpu_input_data(op->engine, &sl->scores.plain), p);
    for (int64_t i = 0; i < sl->labels.positions; i++) {
        if (softmax_label_at(&sl->labels, i, &label))
            return -1;
        if (label < 0)
            continue;
        float q = p[(i / s->inner * s->classes + label) * s->inner + i % s->inner];
        loss -= log(q < FLT_MIN ? (double)FLT_MIN : (double)q); /* NaN stays NaN */
        valid++;
    }
    sl->divisor = softmax_loss_divisor(sl, valid);
    op->args.tops[0]->value.data[0] = (float)(loss / sl->divisor);
    return 0;
}

/* (p - 1 at the label) * loss weight / divisor */
static int softmax_loss_backward(struct cpu_op *op, const struct run *run)
{
    struct softmax_loss *sl = (struct softmax_loss *)op;
    const struct scores *s = &sl->scores;
    const float *p = softmax_loss_probabilities(sl);
    float scale = (float)(op->args.tops[0]->grad.data[0] / sl->divisor);
    int64_t label;
    float *dx;

    (void)run;
    if (!cpu_op_propagates(op, 0))
        return 0;
    dx = cpu_output_data(op->engine, &sl->bottom_grad);
    cpu_axpby(dx, scale, p, 0, (size_t)(s->outer * s->classes * s->inner));
    for (int64_t i = 0; i < sl->labels.positions; i++) {
        int64_t at = i / s->inner * s->classes * s->inner + i % s->inner;
        if (softmax_label_at(&sl->labels, i, &label))
            return -1;
        if (label >= 0) {
            dx[at + label * s->inner] = scale * (p[at + label * s->inner] - 1);
            continue;
        }
        for (int64_t c = 0; c < s->classes; c++)
            dx[at + c * s->inner] = 0;
    }
    return cpu_output_store(op->engine, &sl->bottom_grad);
}

static void softmax_loss_destroy(struct cpu_op *op)
{
    struct softmax_loss *sl = (struct softmax_loss *)op;

    cpu_input_destroy(&sl->scores.plain);
    cpu_output_destroy(&sl->bottom_grad);
    cpu_free(sl->own);
}

const struct cpu_kind cpu_softmax_loss = {
    .size = sizeof(struct softmax_loss),
    .create = softmax_loss_create,
    .forward = softmax_loss_forward,
    .backward = softmax_loss_backward,
    .destroy = softmax_loss_destroy,
};

struct accuracy {
    struct cpu_op op;
    struct scores scores;
    struct labels labels;
    int64_t *right, *total; /* per class; in one piece of memory */
};

static int accuracy_create(struct cpu_op *op)
{
    struct accuracy *acc = (struct accuracy *)op;
    const struct accuracy_args *a = &op->args.u.accuracy;
    void *counts = NULL;

    for (int i = 0; i < op->args.ntops; i++)
        cpu_top_set(op->args.tops[i], NULL);
    if (softmax_scores_create(op, a->axis, WORK_TOP_GRAD, &acc->scores) ||
        softmax_labels_create(op, &acc->scores, a->has_ignore_label, a->ignore_label, &acc->labels))
        return -1;
    if (cpu_alloc(2 * (size_t)acc->scores.classes * sizeof *acc->right, "counts per class",
                  &counts))
        return -1;
    acc->right = counts;
    acc->total = acc->right + acc->scores.classes;
    return 0;
}

/* Ties count against; so does a NaN, on either side: a net that diverged is never right. */
static bool accuracy_predicted(const struct scores *s, const float *x, int64_t label, int top_k)
{
    float score = x[label * s->inner];
    int ahead = 0;

    if (isnan(score))
        return false;
    for (int64_t c = 0; c < s->classes && ahead < top_k; c++)
        ahead += c != label && !(x[c * s->inner] < score);
    return ahead < top_k;
}

static int accuracy_forward(struct cpu_op *op, const struct run *run)
{
    struct accuracy *acc = (struct accuracy *)op;
    const struct scores *s = &acc->scores;
    int64_t right = 0, valid = 0, label;
    const float *x;

    (void)run;
    if (cpu_input_load(op->engine, &acc->scores.plain))
        return -1;
    x = cpu_input_data(op->engine, &acc->scores.plain);
    for (int64_t c = 0; c < s->classes; c++)
        acc->right[c] = acc->total[c] = 0;
    for (int64_t i = 0; i < acc->labels.positions; i++) {
        const float *at = x + i / s->inner * s->classes * s->inner + i % s->inner;
        if (softmax_label_at(&acc->labels, i, &label))
            return -1;
        if (label < 0)
            continue;
        bool hit = accuracy_predicted(s, at, label, op->args.u.accuracy.top_k);
        right += hit;
        valid++;
        acc->right[label] += hit;
        acc->total[label]++;
    }
    op->args.tops[0]->value.data[0] = valid ? (float)((double)right / (double)valid) : 0;
    for (int64_t c = 0; op->args.ntops == 2 && c < s->classes; c++)
        op->args.tops[1]->value.data[c] =
            acc->total[c] ? (float)((double)acc->right[c] / (double)acc->total[c]) : 0;
    return 0;
}

static void accuracy_destroy(struct cpu_op *op)
{
    struct accuracy *acc = (struct accuracy *)op;

    cpu_input_destroy(&acc->scores.plain);
    cpu_free(acc->right);
}

const struct cpu_kind cpu_accuracy = {
    .size = sizeof(struct accuracy),
    .create = accuracy_create,
    .forward = accuracy_forward,
    .destroy = accuracy_destroy,
};
