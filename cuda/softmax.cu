/* Softmax, its loss, and accuracy, on plain floats seen as outer x classes x inner. A block takes
 * one position, and its threads share the classes. */
#include "label.cuh"

static DEVICE float softmax_block_max(float value)
{
    SHARED float part[THREADS];

    part[threadIdx.x] = value;
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        BARRIER();
        if (threadIdx.x < half && threadIdx.x + half < blockDim.x)
            part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
    }
    BARRIER();
    value = part[0];
    BARRIER();
    return value;
}

/* Returns the threads of a block for that many classes: a power of two, at most THREADS. */
static int softmax_threads(int classes)
{
    int threads = 32;

    while (threads < THREADS && threads < classes)
        threads *= 2;
    return threads;
}

KERNEL void softmax(const float *x, float *p, int classes, int inner, int positions)
{
    for (int i = blockIdx.x; i < positions; i += gridDim.x) {
        int at = i / inner * classes * inner + i % inner;
        float most = -INFINITY, sum = 0;
        for (int c = threadIdx.x; c < classes; c += blockDim.x)
            most = fmaxf(most, x[at + c * inner]);
        most = softmax_block_max(most);
        for (int c = threadIdx.x; c < classes; c += blockDim.x) {
            float e = expf(x[at + c * inner] - most);
            p[at + c * inner] = e;
            sum += e;
        }
        sum = block_sum(sum);
        for (int c = threadIdx.x; c < classes; c += blockDim.x)
            p[at + c * inner] /= sum;
    }
}

cudaError_t kernel_softmax(cudaStream_t stream, const float *x, float *p, int outer, int classes,
                           int inner)
{
    LAUNCH(softmax, grid_rows(outer * inner), softmax_threads(classes), stream, x, p, classes,
           inner, outer * inner);
    return cudaGetLastError();
}

/* dx = p (dy - sum of dy p over the classes) */
KERNEL void softmax_back(const float *p, const float *dy, float *dx, int classes, int inner,
                         int positions)
{
    for (int i = blockIdx.x; i < positions; i += gridDim.x) {
        int at = i / inner * classes * inner + i % inner;
        float dot = 0;
        for (int c = threadIdx.x; c < classes; c += blockDim.x)
            dot += dy[at + c * inner] * p[at + c * inner];
        dot = block_sum(dot);
        for (int c = threadIdx.x; c < classes; c += blockDim.x)
            dx[at + c * inner] = p[at + c * inner] * (dy[at + c * inner] - dot);
    }
}

cudaError_t kernel_softmax_back(cudaStream_t stream, const float *p, const float *dy, float *dx,
                                int outer, int classes, int inner)
{
    LAUNCH(softmax_back, grid_rows(outer * inner), softmax_threads(classes), stream, p, dy, dx,
           classes, inner, outer * inner);
    return cudaGetLastError();
}

/* Returns -log p, p at least FLT_MIN; NaN stays NaN. */
static DEVICE double softmax_loss_term(float p)
{
    return -log(p < FLT_MIN ? (double)FLT_MIN : (double)p) + 0.0;
}

/* Writes the loss of each place: NaN where a probability is NaN, -1 where the label is ignored (no
 * loss is negative). */
KERNEL void softmax_loss_terms(struct kernel_labels l, const float *p, const float *labels,
                               double *terms)
{
    FOR_EACH(i, l.outer * l.inner)
    {
        const float *q = p + i / l.inner * l.classes * l.inner + i % l.inner;
        int label = label_of(&l, labels[i]);
        double smoothing = l.smoothing, sum = -1;
        if (label >= 0)
            sum = (1 - smoothing) * softmax_loss_term(q[label * l.inner]);
        for (int c = 0; label >= 0 && smoothing > 0 && c < l.classes; c++)
            sum += smoothing / l.classes * softmax_loss_term(q[c * l.inner]);
        terms[i] = sum;
    }
}

KERNEL void softmax_loss_finish(struct kernel_labels l, const float *labels, double given,
                                const double *terms, double *out_divisor, float *loss)
{
    int n = l.outer * l.inner, bad = first_bad(&l, labels);
    double sum = 0, valid = 0;

    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (!(terms[i] < 0)) {
            sum += terms[i];
            valid += 1;
        }
    sum = block_sum(sum);
    valid = block_sum(valid);
    if (threadIdx.x > 0)
        return;
    *out_divisor = given > 0 ? given : valid > 1 ? valid : 1;
    *loss = (float)(sum / *out_divisor);
    note_bad(&l, labels, bad);
}

cudaError_t kernel_softmax_loss(cudaStream_t stream, const struct kernel_labels *l, const float *p,
                                const float *labels, double given, double *terms, double *divisor,
                                float *loss)
{
    LAUNCH(softmax_loss_terms, grid_for(l->outer * l->inner), THREADS, stream, *l, p, labels,
           terms);
    LAUNCH(softmax_loss_finish, 1, THREADS, stream, *l, labels, given, (const double *)terms,
           divisor, loss);
    return cudaGetLastError();
}

/* dx = (p - target) * loss weight / divisor */
KERNEL void softmax_loss_back(struct kernel_labels l, const float *p, const float *labels,
                              const float *weight, const double *divisor, float *dx)
{
    float scale = (float)(*weight / *divisor);
    float off = l.smoothing / (float)l.classes, on = 1 - l.smoothing + off;

    FOR_EACH(i, l.outer * l.classes * l.inner)
    {
        int inner = i % l.inner, c = i / l.inner % l.classes, outer = i / (l.inner * l.classes);
        int label = label_of(&l, labels[outer * l.inner + inner]);
        dx[i] = label < 0 ? 0 : scale * (p[i] - (c == label ? on : off));
    }
}

cudaError_t kernel_softmax_loss_back(cudaStream_t stream, const struct kernel_labels *l,
                                     const float *p, const float *labels, const float *weight,
                                     const double *divisor, float *dx)
{
    LAUNCH(softmax_loss_back, grid_for(l->outer * l->classes * l->inner), THREADS, stream, *l, p,
           labels, weight, divisor, dx);
    return cudaGetLastError();
}

/* hits: 2 c + hit for a label of class c; -1: ignored. Equal scores and NaN count against a hit. */
KERNEL void accuracy_hits(struct kernel_labels l, int top_k, const float *x, const float *labels,
                          int32_t *hits)
{
    for (int i = blockIdx.x; i < l.outer * l.inner; i += gridDim.x) {
        const float *at = x + i / l.inner * l.classes * l.inner + i % l.inner;
        int label = label_of(&l, labels[i]), ahead = 0;
        float score = label < 0 ? 0 : at[label * l.inner];
        for (int c = threadIdx.x; label >= 0 && c < l.classes; c += blockDim.x)
            ahead += c != label && !(at[c * l.inner] < score);
        ahead = block_sum(ahead);
        if (threadIdx.x == 0)
            hits[i] = label < 0 ? -1 : 2 * label + (score == score && ahead < top_k ? 1 : 0);
    }
}

/* Writes accuracies: block 0 of all classes together, block c + 1 of class c. */
KERNEL void accuracy_count(struct kernel_labels l, const float *labels, const int32_t *hits,
                           float *accuracy, float *per_class, int counts)
{
    for (int job = blockIdx.x; job < counts; job += gridDim.x) {
        int n = l.outer * l.inner, bad = job == 0 ? first_bad(&l, labels) : 0;
        double right = 0, total = 0;
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            if (hits[i] >= 0 && (job == 0 || hits[i] / 2 == job - 1)) {
                total += 1;
                right += hits[i] % 2;
            }
        right = block_sum(right);
        total = block_sum(total);
        if (threadIdx.x > 0)
            continue;
        *(job ? per_class + job - 1 : accuracy) = total > 0 ? (float)(right / total) : 0;
        if (job == 0)
            note_bad(&l, labels, bad);
    }
}

cudaError_t kernel_accuracy(cudaStream_t stream, const struct kernel_labels *l, int top_k,
                            const float *x, const float *labels, int32_t *hits, float *accuracy,
                            float *per_class)
{
    int counts = per_class ? l->classes + 1 : 1;

    LAUNCH(accuracy_hits, grid_rows(l->outer * l->inner), softmax_threads(l->classes), stream, *l,
           top_k, x, labels, hits);
    LAUNCH(accuracy_count, grid_rows(counts), THREADS, stream, *l, labels, (const int32_t *)hits,
           accuracy, per_class, counts);
    return cudaGetLastError();
}
