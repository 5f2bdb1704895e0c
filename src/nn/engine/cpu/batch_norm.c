/* Batch normalisation, with the affine map of a Scale layer and the ReLU behind it, if present.
 *
 * Forward reads x twice and writes y. Backward reads x and dy twice and writes dx over dy's memory.
 * For each channel y = (x - m) a + b and dx = dy a + (x - m) b + d, where m is the mean rounded to
 * float, and b and d make up for the rounding. Backward finds from x where a ReLU's output was 0,
 * and does not read y. */
#include "engine/cpu/channel.h"

#include <math.h>

enum statistic { MEAN, VARIANCE, WEIGHT, GAMMA, BETA };

struct batch_norm {
    struct cpu_op op;
    struct cpu_channels view;
    double *sums;          /* 4 per slot: last forward's mean and variance; backward's two sums */
    double *shared;        /* all ranks' sums, 2 per channel, and count; NULL: not shared */
    double count;          /* elements of a channel in the last forward; of all ranks, if shared */
    float *slots;          /* 6 per slot, one piece of memory: mean to kept */
    float *mean, *inverse; /* values of the last forward */
    float *a, *b, *d;
    float *kept; /* b of forward */
};

static size_t batch_norm_channels(const struct batch_norm *bn)
{
    return shape_elems(&bn->op.args.params[MEAN]->shape);
}

static int batch_norm_create(struct cpu_op *op)
{
    struct batch_norm *bn = (struct batch_norm *)op;
    const struct tensor *x = &op->args.bottoms[0]->value;
    int axis = x->shape.naxes < 2 ? 0 : 1; /* with one axis, all is one channel */

    cpu_channels_view(&x->shape, cpu_tensor_format(x), axis, axis, &bn->view);
    if (cpu_channels_reserve(op->engine, &bn->view))
        return -1;
    bn->sums = cpu_op_alloc(op, (size_t)bn->view.slots * 4 * sizeof *bn->sums, "batch statistics");
    bn->slots =
        cpu_op_alloc(op, (size_t)bn->view.slots * 6 * sizeof *bn->slots, "batch statistics");
    if (!bn->sums || !bn->slots)
        return -1;
    if (op->args.u.batch_norm.ranks &&
        OWN(&op->owner, bn->shared, 2 * batch_norm_channels(bn) + 1, "statistics of all ranks"))
        return -1;
    bn->mean = bn->slots;
    bn->inverse = bn->mean + bn->view.slots;
    bn->a = bn->inverse + bn->view.slots;
    bn->b = bn->a + bn->view.slots;
    bn->d = bn->b + bn->view.slots;
    bn->kept = bn->d + bn->view.slots;
    return 0;
}

/* Updates the running mean and variance with this batch's, which are in bn->sums. */
static void batch_norm_update(struct batch_norm *bn)
{
    const struct batch_norm_args *args = &bn->op.args.u.batch_norm;
    struct param **params = bn->op.args.params;
    double correction = bn->count > 1 ? bn->count / (bn->count - 1) : 1;
    const double *mean = bn->sums, *variance = bn->sums + bn->view.slots;

    params[WEIGHT]->value[0] = params[WEIGHT]->value[0] * args->fraction + 1;
    for (int64_t s = 0; s < bn->view.slots; s++) {
        int64_t c = cpu_channels_coefficient(&bn->view, s);
        if (c < 0)
            continue;
        params[MEAN]->value[c] = (float)((double)params[MEAN]->value[c] * args->fraction + mean[s]);
        params[VARIANCE]->value[c] =
            (float)((double)params[VARIANCE]->value[c] * args->fraction + correction * variance[s]);
    }
    for (int i = MEAN; i <= WEIGHT; i++)
        params[i]->version++;
}

/* Replaces two values of each channel, and the count unless NULL, by their sums over all ranks.
 * Ranks send values by channel, since slots depend on a processor's vectors. Collective. */
static int batch_norm_share(struct batch_norm *bn, double *first, double *second, double *count)
{
    const struct op_ranks *ranks = bn->op.args.u.batch_norm.ranks;
    const size_t channels = batch_norm_channels(bn);
    double *shared = bn->shared;

    cpu_channels_gather(&bn->view, first, shared);
    cpu_channels_gather(&bn->view, second, shared + channels);
    if (count)
        shared[2 * channels] = *count;
    if (ranks->sum(ranks->context, shared, (int)(2 * channels) + (count ? 1 : 0)))
        return -1;
    for (int64_t s = 0; s < bn->view.slots; s++) {
        int64_t c = cpu_channels_coefficient(&bn->view, s);
        first[s] = c < 0 ? 0 : shared[c];
        second[s] = c < 0 ? 0 : shared[channels + (size_t)c];
    }
    if (count)
        *count = shared[2 * channels];
    return 0;
}

/* Replaces this rank's mean and variance by those of all ranks' batches. Collective. Ranks add up
 * distances from the running mean, which is the same on all ranks and near the batch's mean: so a
 * variance far below the square of the mean keeps its digits. */
static int batch_norm_share_moments(struct batch_norm *bn)
{
    struct param **params = bn->op.args.params;
    double weight = params[WEIGHT]->value[0], factor = weight == 0 ? 0 : 1 / weight;
    double *mean = bn->sums, *variance = bn->sums + bn->view.slots, count = bn->count;

    for (int64_t s = 0; s < bn->view.slots; s++) {
        int64_t c = cpu_channels_coefficient(&bn->view, s);
        double off = c < 0 ? 0 : mean[s] - factor * params[MEAN]->value[c];
        mean[s] = count * off;
        variance[s] = count * (variance[s] + off * off);
    }
    if (batch_norm_share(bn, mean, variance, &bn->count))
        return -1;
    for (int64_t s = 0; s < bn->view.slots; s++) {
        int64_t c = cpu_channels_coefficient(&bn->view, s);
        double off = mean[s] / bn->count, square = variance[s] / bn->count - off * off;
        mean[s] = c < 0 ? 0 : off + factor * params[MEAN]->value[c];
        variance[s] = square < 0 ? 0 : square; /* NaN stays */
    }
    return 0;
}

static void batch_norm_read(struct batch_norm *bn)
{
    struct param **params = bn->op.args.params;
    double weight = params[WEIGHT]->value[0], factor = weight == 0 ? 0 : 1 / weight;
    double *mean = bn->sums, *variance = bn->sums + bn->view.slots;

    for (int64_t s = 0; s < bn->view.slots; s++) {
        int64_t c = cpu_channels_coefficient(&bn->view, s);
        mean[s] = c < 0 ? 0 : factor * params[MEAN]->value[c];
        variance[s] = c < 0 ? 0 : factor * params[VARIANCE]->value[c];
    }
}

static float batch_norm_gamma(const struct batch_norm *bn, int64_t channel)
{
    return bn->op.args.u.batch_norm.scale ? bn->op.args.params[GAMMA]->value[channel] : 1;
}

static int batch_norm_forward(struct cpu_op *op)
{
    struct batch_norm *bn = (struct batch_norm *)op;
    const struct batch_norm_args *args = &op->args.u.batch_norm;
    const float *x = op->args.bottoms[0]->value.data;
    const double *mean = bn->sums, *variance = bn->sums + bn->view.slots;

    if (args->global_stats) {
        batch_norm_read(bn);
    } else {
        cpu_channels_moments(op->engine, &bn->view, x, bn->sums, bn->sums + bn->view.slots);
        bn->count = (double)bn->view.samples * (double)bn->view.pixels;
        if (args->ranks && batch_norm_share_moments(bn))
            return -1;
        batch_norm_update(bn);
    }
    for (int64_t s = 0; s < bn->view.slots; s++) {
        int64_t c = cpu_channels_coefficient(&bn->view, s);
        double inverse = 1 / sqrt(variance[s] + (double)args->eps);
        double a = c < 0 ? 0 : inverse * batch_norm_gamma(bn, c);
        bn->mean[s] = (float)mean[s];
        bn->inverse[s] = (float)inverse;
        bn->a[s] = (float)a;
        bn->kept[s] = (float)((c < 0 || !args->bias ? 0 : (double)op->args.params[BETA]->value[c]) -
                              (mean[s] - (double)bn->mean[s]) * a);
    }
    cpu_channels_map(&bn->view, CHANNEL_MAP_AFFINE,
                     &(struct cpu_channel_data){.x = x,
                                                .y = cpu_op_y(op),
                                                .shift = bn->mean,
                                                .a = bn->a,
                                                .b = bn->kept,
                                                .relu = op->args.relu});
    return 0;
}

static void batch_norm_affine_gradient(struct batch_norm *bn, const double *sum,
                                       const double *product)
{
    struct param **params = bn->op.args.params;
    const struct batch_norm_args *args = &bn->op.args.u.batch_norm;

    for (int64_t s = 0; s < bn->view.slots; s++) {
        int64_t c = cpu_channels_coefficient(&bn->view, s);
        if (c < 0)
            continue;
        if (args->scale && params[GAMMA]->wants_grad)
            cpu_channels_learn(params[GAMMA], c, product[s] * bn->inverse[s]);
        if (args->bias && params[BETA]->wants_grad)
            cpu_channels_learn(params[BETA], c, sum[s]);
    }
}

static bool batch_norm_affine_learns(const struct cpu_op *op)
{
    for (int i = GAMMA; i < op->args.nparams; i++)
        if (op->args.params[i]->wants_grad)
            return true;
    return false;
}

/* Returns the data of both passes: x, the top's gradient, and forward's coefficients. */
static struct cpu_channel_data batch_norm_data(const struct batch_norm *bn)
{
    return (struct cpu_channel_data){.x = bn->op.args.bottoms[0]->value.data,
                                     .dy = cpu_op_dy(&bn->op),
                                     .shift = bn->mean,
                                     .a = bn->a,
                                     .keep = bn->kept,
                                     .relu = bn->op.args.relu};
}

static int batch_norm_backward(struct cpu_op *op)
{
    struct batch_norm *bn = (struct batch_norm *)op;
    const struct cpu_channel_data data = batch_norm_data(bn);
    double *sum = bn->sums + 2 * bn->view.slots, *product = bn->sums + 3 * bn->view.slots;

    if (op->args.u.batch_norm.global_stats && !batch_norm_affine_learns(op))
        return 0;
    cpu_channels_sums(op->engine, &bn->view, CHANNEL_SUM_GRADIENT, &data, sum, product);
    for (int64_t s = 0; s < bn->view.slots; s++)
        product[s] -= (bn->sums[s] - (double)bn->mean[s]) * sum[s];
    batch_norm_affine_gradient(bn, sum, product);
    return 0;
}

static int batch_norm_gradient(struct cpu_op *op, int bottom, float *dx)
{
    struct batch_norm *bn = (struct batch_norm *)op;
    struct cpu_channel_data data = batch_norm_data(bn);
    double *sum = bn->sums + 2 * bn->view.slots, *product = bn->sums + 3 * bn->view.slots;
    bool fixed = op->args.u.batch_norm.global_stats;
    double count = bn->count;

    (void)bottom;
    if (op->args.u.batch_norm.ranks && batch_norm_share(bn, sum, product, NULL))
        return -1;
    for (int64_t s = 0; s < bn->view.slots; s++) {
        double inverse = bn->inverse[s];
        double b = fixed ? 0 : -bn->a[s] * inverse * inverse * product[s] / count;
        bn->b[s] = (float)b;
        double rounding = bn->sums[s] - (double)bn->mean[s];
        bn->d[s] = (float)(fixed ? 0 : -bn->a[s] * sum[s] / count - b * rounding);
    }
    data.y = dx;
    data.b = bn->b;
    data.d = bn->d;
    cpu_channels_map(&bn->view, CHANNEL_MAP_COMBINE, &data);
    return 0;
}

const struct cpu_kind cpu_batch_norm = {
    .size = sizeof(struct batch_norm),
    .blobs = CPU_OVER_GRADIENT,
    .halves = true,
    .create = batch_norm_create,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward,
    .gradient = batch_norm_gradient,
};
