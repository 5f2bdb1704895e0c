/* Losses other than the softmax loss: a sum over places, and its derivative by each element. Sums
 * are made in double, first of threads, then of blocks, in one fixed order. */
#include "label.cuh"

#define LEAST_PROBABILITY 1e-20f

static DEVICE float hinge_margin(const struct kernel_loss &l, const struct kernel_loss_data &d,
                                 int i, bool *at_label, bool *counts)
{
    int label = label_of(&l.labels, d.t[i / l.length]);

    *at_label = i % l.length == label;
    *counts = label >= 0;
    return 1 + (*at_label ? -d.x[i] : d.x[i]);
}

static DEVICE bool sigmoid_ignored(const struct kernel_loss &l, float target)
{
    return l.has_ignore && truncf(target) == (float)l.ignore;
}

/* Returns true if `similar`, truncated to an integer, is not 0. */
static DEVICE bool contrastive_similar(float similar)
{
    return fabsf(similar) >= 1;
}

/* An element of INFOGAIN's scores: its place among the labels, class, label, and entry of the
 * matrix. */
struct infogain_at {
    int place, c, label, entry;
};

static DEVICE struct infogain_at infogain_place(const struct kernel_loss &l,
                                                const struct kernel_loss_data &d, int i)
{
    struct infogain_at a;

    a.c = i / l.labels.inner % l.labels.classes;
    a.place = i / (l.labels.inner * l.labels.classes) * l.labels.inner + i % l.labels.inner;
    a.label = label_of(&l.labels, d.t[a.place]);
    a.entry = a.label < 0 ? 0 : a.label * l.labels.classes + a.c;
    return a;
}

/* Returns place i's term of the sum; *counts: the place counts in the divisor. */
template <int KIND>
static DEVICE double loss_term(const struct kernel_loss &l, const struct kernel_loss_data &d, int i,
                               bool *counts)
{
    *counts = true;
    if (KIND == KERNEL_SIGMOID) {
        float x = d.x[i], positive = x >= 0 ? 1.0f : 0.0f;
        *counts = !sigmoid_ignored(l, d.t[i]);
        return *counts ? (double)(log1pf(expf(x - 2 * x * positive)) - x * (d.t[i] - positive))
                       : 0.0;
    }
    if (KIND == KERNEL_EUCLIDEAN) {
        double a = (double)d.x[i] - (double)d.t[i];
        return a * a;
    }
    if (KIND == KERNEL_HINGE) {
        bool at_label;
        float margin = hinge_margin(l, d, i, &at_label, counts);
        margin = margin < 0 || !*counts ? 0 : margin;
        return l.other ? (double)margin * (double)margin : (double)margin;
    }
    if (KIND == KERNEL_MULTINOMIAL) {
        int label = label_of(&l.labels, d.t[i]);
        float p = label < 0 ? 1 : d.x[i * l.length + label];
        return -log((double)(p < LEAST_PROBABILITY ? LEAST_PROBABILITY : p));
    }
    if (KIND == KERNEL_CONTRASTIVE) {
        double away = (double)l.margin - (l.other ? d.distance[i] : sqrt(d.distance[i]));
        away = away < 0 ? 0 : away;
        return contrastive_similar(d.third[i]) ? d.distance[i] : l.other ? away : away * away;
    }
    struct infogain_at a = infogain_place(l, d, i);
    float p = d.x[i];
    *counts = a.label >= 0 && a.c == 0;
    return a.label < 0 ? 0.0
                       : -(double)d.third[a.entry] *
                             log((double)(p < LEAST_PROBABILITY ? LEAST_PROBABILITY : p));
}

template <int KIND>
KERNEL void loss_part(struct kernel_loss l, struct kernel_loss_data d, int n, double *partial)
{
    double sum = 0, valid = 0;

    FOR_EACH(i, n)
    {
        bool counts;
        sum += loss_term<KIND>(l, d, (int)i, &counts);
        valid += counts ? 1 : 0;
    }
    sum = block_sum(sum);
    valid = block_sum(valid);
    if (threadIdx.x > 0)
        return;
    partial[2 * blockIdx.x] = sum;
    partial[2 * blockIdx.x + 1] = valid;
}

KERNEL void loss_total(struct kernel_loss l, bool labelled, const float *labels,
                       const double *partial, int parts, double *out_divisor, float *loss)
{
    int bad = labelled ? first_bad(&l.labels, labels) : 0;
    double sum = 0, valid = 0;

    for (int i = (int)threadIdx.x; i < parts; i += (int)blockDim.x) {
        sum += partial[2 * i];
        valid += partial[2 * i + 1];
    }
    sum = block_sum(sum);
    valid = block_sum(valid);
    if (threadIdx.x > 0)
        return;
    *out_divisor = l.divisor > 0 ? l.divisor : valid > 1 ? valid : 1;
    *loss = (float)(sum / *out_divisor);
    if (labelled)
        note_bad(&l.labels, labels, bad);
}

static size_t loss_scores(const struct kernel_loss *l)
{
    if (l->kind == KERNEL_INFOGAIN)
        return (size_t)l->labels.outer * (size_t)(l->labels.classes * l->labels.inner);
    return (size_t)l->rows * (size_t)l->length;
}

template <int KIND>
static void loss_launch(cudaStream_t stream, const struct kernel_loss *l,
                        const struct kernel_loss_data *d, double *scratch, float *loss)
{
    const int blocks = (KERNEL_LOSS_SCRATCH - 1) / 2;
    bool by_row = KIND == KERNEL_MULTINOMIAL || KIND == KERNEL_CONTRASTIVE;
    bool labelled = KIND == KERNEL_HINGE || KIND == KERNEL_MULTINOMIAL || KIND == KERNEL_INFOGAIN;
    int n = by_row ? l->rows : (int)loss_scores(l);

    LAUNCH(loss_part<KIND>, blocks, THREADS, stream, *l, *d, n, scratch + 1);
    LAUNCH(loss_total, 1, THREADS, stream, *l, labelled, d->t, (const double *)(scratch + 1),
           blocks, scratch, loss);
}

#define WITH_KIND(kind, ...)                                                                       \
    case kind: {                                                                                   \
        constexpr int KIND = kind;                                                                 \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }

/* Runs the statement with KIND = the loss. */
#define WITH_LOSS(kind_, ...)                                                                      \
    switch (kind_) {                                                                               \
        WITH_KIND(KERNEL_SIGMOID, __VA_ARGS__)                                                     \
        WITH_KIND(KERNEL_EUCLIDEAN, __VA_ARGS__)                                                   \
        WITH_KIND(KERNEL_HINGE, __VA_ARGS__)                                                       \
        WITH_KIND(KERNEL_MULTINOMIAL, __VA_ARGS__)                                                 \
        WITH_KIND(KERNEL_CONTRASTIVE, __VA_ARGS__)                                                 \
        WITH_KIND(KERNEL_INFOGAIN, __VA_ARGS__)                                                    \
    }

cudaError_t kernel_loss(cudaStream_t stream, const struct kernel_loss *l,
                        const struct kernel_loss_data *d, double *scratch, float *loss)
{
    WITH_LOSS(l->kind, (loss_launch<KIND>(stream, l, d, scratch, loss)))
    return cudaGetLastError();
}

/* Returns the sum's derivative by element i of the bottom, times scale, the gradient of the sum. */
template <int KIND>
static DEVICE float loss_slope(const struct kernel_loss &l, const struct kernel_loss_data &d, int i,
                               double scale)
{
    float s = (float)scale;

    if (KIND == KERNEL_SIGMOID)
        return sigmoid_ignored(l, d.t[i]) ? 0 : s * (1 / (1 + expf(-d.x[i])) - d.t[i]);
    if (KIND == KERNEL_EUCLIDEAN)
        return (float)(2 * scale) * (d.x[i] - d.t[i]);
    if (KIND == KERNEL_HINGE) {
        bool at_label, counts;
        float margin = hinge_margin(l, d, i, &at_label, &counts);
        float slope = (at_label ? -s : s) * (l.other ? 2 * margin : 1);
        return counts && margin > 0 ? slope : 0;
    }
    if (KIND == KERNEL_MULTINOMIAL) {
        float p = d.x[i];
        if (i % l.length != label_of(&l.labels, d.t[i / l.length]))
            return 0;
        return (float)(-scale / (double)(p < LEAST_PROBABILITY ? LEAST_PROBABILITY : p));
    }
    if (KIND == KERNEL_CONTRASTIVE) {
        double d2 = d.distance[i / l.length], away = (double)l.margin - (l.other ? d2 : sqrt(d2));
        double factor = away > 0 ? (l.other ? -1 : -away / (sqrt(d2) + 1e-4)) : 0;
        if (contrastive_similar(d.third[i / l.length]))
            factor = 1;
        return (float)(2 * scale * factor * ((double)d.x[i] - (double)d.t[i]));
    }
    struct infogain_at a = infogain_place(l, d, i);
    return a.label < 0 ? 0 : s * (d.x[i] * d.row_sums[a.label] - d.third[a.entry]);
}

template <int KIND>
KERNEL void loss_slopes(struct kernel_loss l, struct kernel_loss_data d, const float *weight,
                        const double *divisor, double sign, float *dx, size_t n)
{
    double scale = sign * (double)*weight / *divisor;

    FOR_EACH(i, n)
    dx[i] = loss_slope<KIND>(l, d, (int)i, scale);
}

cudaError_t kernel_loss_back(cudaStream_t stream, const struct kernel_loss *l,
                             const struct kernel_loss_data *d, const float *weight,
                             const double *divisor, float sign, float *dx)
{
    size_t n = loss_scores(l);

    WITH_LOSS(l->kind, LAUNCH(loss_slopes<KIND>, grid_for(n), THREADS, stream, *l, *d, weight,
                              divisor, (double)sign, dx, n))
    return cudaGetLastError();
}

KERNEL void contrastive_distances(const float *a, const float *b, int rows, int length,
                                  double *distance)
{
    for (int row = (int)blockIdx.x; row < rows; row += (int)gridDim.x) {
        double sum = 0;
        for (int i = (int)threadIdx.x; i < length; i += (int)blockDim.x) {
            double d = (double)a[row * length + i] - (double)b[row * length + i];
            sum += d * d;
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0)
            distance[row] = sum;
    }
}

cudaError_t kernel_distances(cudaStream_t stream, const float *a, const float *b, int rows,
                             int length, double *distance)
{
    LAUNCH(contrastive_distances, grid_rows(rows), THREADS, stream, a, b, rows, length, distance);
    return cudaGetLastError();
}

KERNEL void infogain_row_sums(const float *x, int rows, int length, float *sums)
{
    for (int row = (int)blockIdx.x; row < rows; row += (int)gridDim.x) {
        double sum = 0;
        for (int i = (int)threadIdx.x; i < length; i += (int)blockDim.x)
            sum += (double)x[row * length + i];
        sum = block_sum(sum);
        if (threadIdx.x == 0)
            sums[row] = (float)sum;
    }
}

cudaError_t kernel_row_sums(cudaStream_t stream, const float *x, int rows, int length, float *sums)
{
    LAUNCH(infogain_row_sums, grid_rows(rows), THREADS, stream, x, rows, length, sums);
    return cudaGetLastError();
}
