/* Softmax, accuracy, and the losses over classes, on plain memory seen as outer x classes x inner.
 *
 * Sums over samples are made in double and in one fixed order: the same bits at any thread count.
 */
#include "engine/cpu/loss.h"

#include "engine/op_size.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define LEAST_PROBABILITY 1e-20

static struct scores scores_of(const struct cpu_op *op, int axis, bool has_ignore, int ignore)
{
    struct op_axes axes = op_axes_at(&op->args.bottoms[0]->value.shape, axis);

    return (struct scores){axes.outer, axes.length, axes.inner, has_ignore, ignore};
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

static int softmax_forward(struct cpu_op *op)
{
    const struct scores s = scores_of(op, op->args.u.softmax.axis, false, 0);

    softmax_run(&s, cpu_op_x(op, 0), cpu_op_y(op));
    return 0;
}

/* dx = p (dy - sum of dy p over the classes) */
static int softmax_gradient(struct cpu_op *op, int bottom, float *dx)
{
    const struct scores s = scores_of(op, op->args.u.softmax.axis, false, 0);
    const float *p = cpu_op_y(op), *dy = cpu_op_dy(op);

    (void)bottom;
#pragma omp parallel for
    for (int64_t i = 0; i < s.outer * s.inner; i++) {
        int64_t at = scores_at(&s, i);
        float dot = 0;
        for (int64_t c = 0; c < s.classes; c++)
            dot += dy[at + c * s.inner] * p[at + c * s.inner];
        for (int64_t c = 0; c < s.classes; c++)
            dx[at + c * s.inner] = p[at + c * s.inner] * (dy[at + c * s.inner] - dot);
    }
    return 0;
}

const struct cpu_kind cpu_softmax = {
    .blobs = CPU_PLAIN, .forward = softmax_forward, .gradient = softmax_gradient};

/* Both losses over classes. */
struct class_loss {
    struct loss loss;
    struct scores scores;
    float *own;      /* probabilities, if there is no second top; else NULL */
    float *row_sums; /* Infogain: of H */
};

/* The probabilities of the last forward. */
static float *class_loss_p(const struct class_loss *loss)
{
    return loss->own ? loss->own : loss->loss.op.args.tops[1]->value.data;
}

static int class_loss_create(struct cpu_op *op, const struct loss_args *a)
{
    struct class_loss *loss = (struct class_loss *)op;

    loss->scores = scores_of(op, a->axis, a->has_ignore_label, a->ignore_label);
    if (op->args.ntops == 2)
        return 0;
    loss->own = cpu_op_alloc(op, shape_elems(&op->args.bottoms[0]->value.shape) * sizeof(float),
                             "class probabilities");
    return loss->own ? 0 : -1;
}

static int softmax_loss_create(struct cpu_op *op)
{
    return class_loss_create(op, &op->args.u.softmax_loss);
}

/* -log p, NaN of NaN */
static double softmax_loss_term(float p)
{
    return -log(p < FLT_MIN ? (double)FLT_MIN : (double)p);
}

static int softmax_loss_forward(struct cpu_op *op)
{
    double smoothing = op->args.u.softmax_loss.smoothing;
    struct class_loss *loss = (struct class_loss *)op;
    const struct scores *s = &loss->scores;
    float *p = class_loss_p(loss);
    int64_t places = s->outer * s->inner, valid = 0, label;
    double sum = 0;

    softmax_run(s, cpu_op_x(op, 0), p);
    for (int64_t i = 0; i < places; i++) {
        if (scores_label(op, s, i, &label))
            return -1;
        if (label < 0)
            continue;
        const float *q = p + scores_at(s, i);
        sum += (1 - smoothing) * softmax_loss_term(q[label * s->inner]);
        for (int64_t c = 0; smoothing > 0 && c < s->classes; c++)
            sum += smoothing / (double)s->classes * softmax_loss_term(q[c * s->inner]);
        valid++;
    }
    return loss_set(&loss->loss, sum,
                    loss_divisor(op->args.u.softmax_loss.normalization, places, valid, s->outer));
}

/* (p - target) * loss weight / divisor */
static int softmax_loss_gradient(struct cpu_op *op, int bottom, float *dx)
{
    struct class_loss *loss = (struct class_loss *)op;
    const struct scores *s = &loss->scores;
    const float *p = class_loss_p(loss);
    float scale = (float)loss_scale(&loss->loss), smoothing = op->args.u.softmax_loss.smoothing;
    float off = smoothing / (float)s->classes, on = 1 - smoothing + off;
    int64_t label;

    (void)bottom;
    cpu_axpby(dx, scale, p, 0, (size_t)(s->outer * s->classes * s->inner));
    for (int64_t i = 0; i < s->outer * s->inner; i++) {
        int64_t at = scores_at(s, i);
        if (scores_label(op, s, i, &label))
            return -1;
        for (int64_t c = 0; (label < 0 || off > 0) && c < s->classes; c++)
            dx[at + c * s->inner] = label < 0 ? 0 : scale * (p[at + c * s->inner] - off);
        if (label >= 0)
            dx[at + label * s->inner] = scale * (p[at + label * s->inner] - on);
    }
    return 0;
}

const struct cpu_kind cpu_softmax_loss = {
    .size = sizeof(struct class_loss),
    .blobs = CPU_PLAIN,
    .plain = 2,
    .create = softmax_loss_create,
    .forward = softmax_loss_forward,
    .gradient = softmax_loss_gradient,
};

static int infogain_loss_create(struct cpu_op *op)
{
    struct class_loss *loss = (struct class_loss *)op;

    if (class_loss_create(op, &op->args.u.infogain_loss))
        return -1;
    loss->row_sums = cpu_op_alloc(op, (size_t)loss->scores.classes * sizeof(float),
                                  "sums of the infogain matrix");
    if (!loss->row_sums)
        return -1;
    return op->args.nbottoms == 3 ? cpu_op_take(op, 2, NULL, WORK_OWN) : 0;
}

static const float *infogain_h(const struct cpu_op *op)
{
    return op->args.nbottoms == 3 ? cpu_op_x(op, 2) : op->args.u.infogain_loss.matrix;
}

static int infogain_loss_forward(struct cpu_op *op)
{
    struct class_loss *loss = (struct class_loss *)op;
    const struct scores *s = &loss->scores;
    int64_t places = s->outer * s->inner, valid = 0, label;
    float *p = class_loss_p(loss);
    const float *h = infogain_h(op);
    double sum = 0;

    for (int64_t r = 0; r < s->classes; r++) {
        double row = 0;
        for (int64_t c = 0; c < s->classes; c++)
            row += h[r * s->classes + c];
        loss->row_sums[r] = (float)row;
    }
    softmax_run(s, cpu_op_x(op, 0), p);
    for (int64_t i = 0; i < places; i++) {
        int64_t at = scores_at(s, i);
        if (scores_label(op, s, i, &label))
            return -1;
        valid += label >= 0;
        for (int64_t c = 0; label >= 0 && c < s->classes; c++) {
            double q = p[at + c * s->inner];
            sum -= h[label * s->classes + c] * log(q < LEAST_PROBABILITY ? LEAST_PROBABILITY : q);
        }
    }
    return loss_set(&loss->loss, sum,
                    loss_divisor(op->args.u.infogain_loss.normalization, places, valid, s->outer));
}

static int infogain_loss_gradient(struct cpu_op *op, int bottom, float *dx)
{
    struct class_loss *loss = (struct class_loss *)op;
    const struct scores *s = &loss->scores;
    const float *h = infogain_h(op), *p = class_loss_p(loss);
    float scale = (float)loss_scale(&loss->loss);
    int64_t label;

    (void)bottom;
    for (int64_t i = 0; i < s->outer * s->inner; i++) {
        if (scores_label(op, s, i, &label))
            return -1;
        for (int64_t c = 0; c < s->classes; c++) {
            int64_t at = scores_at(s, i) + c * s->inner;
            dx[at] =
                label < 0 ? 0 : scale * (p[at] * loss->row_sums[label] - h[label * s->classes + c]);
        }
    }
    return 0;
}

const struct cpu_kind cpu_infogain_loss = {
    .size = sizeof(struct class_loss),
    .blobs = CPU_PLAIN,
    .plain = 2,
    .create = infogain_loss_create,
    .forward = infogain_loss_forward,
    .gradient = infogain_loss_gradient,
};

struct accuracy {
    struct cpu_op op;
    struct scores scores;
    int64_t *right, *total; /* per class; in one piece of memory */
};

static int accuracy_create(struct cpu_op *op)
{
    struct accuracy *acc = (struct accuracy *)op;
    const struct accuracy_args *a = &op->args.u.accuracy;

    acc->scores = scores_of(op, a->axis, a->has_ignore_label, a->ignore_label);
    acc->right =
        cpu_op_alloc(op, 2 * (size_t)acc->scores.classes * sizeof *acc->right, "counts per class");
    if (!acc->right)
        return -1;
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

static int accuracy_forward(struct cpu_op *op)
{
    struct accuracy *acc = (struct accuracy *)op;
    const struct scores *s = &acc->scores;
    int64_t right = 0, valid = 0, label;

    memset(acc->right, 0, 2 * (size_t)s->classes * sizeof *acc->right);
    for (int64_t i = 0; i < s->outer * s->inner; i++) {
        if (scores_label(op, s, i, &label))
            return -1;
        if (label < 0)
            continue;
        bool hit = accuracy_predicted(s, cpu_op_x(op, 0) + scores_at(s, i), label,
                                      op->args.u.accuracy.top_k);
        right += hit;
        valid++;
        acc->right[label] += hit;
        acc->total[label]++;
    }
    cpu_op_y(op)[0] = valid ? (float)((double)right / (double)valid) : 0;
    for (int64_t c = 0; op->args.ntops == 2 && c < s->classes; c++)
        op->args.tops[1]->value.data[c] =
            acc->total[c] ? (float)((double)acc->right[c] / (double)acc->total[c]) : 0;
    return 0;
}

const struct cpu_kind cpu_accuracy = {
    .size = sizeof(struct accuracy),
    .blobs = CPU_PLAIN,
    .plain = 2,
    .create = accuracy_create,
    .forward = accuracy_forward,
};
