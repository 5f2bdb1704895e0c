/* Convolutions of bfloat16 with a window of one pixel and channels last, as matrix products of
 * pixels and channels on plain weights.
 *
 * Without a stride oneDNN's own convolution is as fast forward, and is used. With AMX it takes up
 * to 4 times as long for the bottom's gradient, and 1.2 to 9 times for the weights'. With a stride,
 * the pixels that windows read are gathered; their gradients are scattered. */
#include "engine/cpu/conv.h"

#include <string.h>

static bool is_last(const struct cpu_format *format)
{
    return format && format->block == 0;
}

static bool strides(const struct conv_args *a)
{
    return a->stride[0] > 1 || a->stride[1] > 1;
}

bool conv_product_fits(const struct cpu_op *op, const struct conv_plan *plan)
{
    const struct conv_args *a = &op->args.u.conv;
    bool fits = conv_rounds(op) && a->group == 1 && a->kernel[0] == 1 && a->kernel[1] == 1 &&
                a->pad[0] == 0 && a->pad[1] == 0;

    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++)
        if (conv_needs(op, pass))
            fits = fits && plan->slices[pass] == 0 && is_last(plan->formats[pass].src) &&
                   is_last(plan->formats[pass].dst);
    return fits;
}

bool conv_product_takes(const struct conv_plan *plan, const struct cpu_op *op, enum conv_pass pass)
{
    return plan->products && (pass != CONV_FORWARD || strides(&op->args.u.conv));
}

static size_t weights_of(const struct conv_product *p)
{
    return (size_t)(p->size.inputs * p->size.outputs);
}

int conv_product_create(struct cpu_op *op, enum conv_pass pass, struct conv_product *out)
{
    static const enum product_pass passes[CONV_PASSES] = {PRODUCT_FORWARD, PRODUCT_DATA,
                                                          PRODUCT_WEIGHTS};
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    const struct tensor *y = &op->args.tops[0]->value;
    struct cpu_engine *engine = op->engine;
    const bool gathers = strides(&op->args.u.conv);
    size_t pixels;

    out->op = op;
    out->size = (struct op_product){.rows = y->shape.dim[0] * y->shape.dim[2] * y->shape.dim[3],
                                    .inputs = x->dim[1],
                                    .outputs = y->shape.dim[1]};
    pixels = (size_t)(out->size.rows * out->size.inputs);
    if (cpu_round_reserve(engine, gathers ? pixels : 0, 0,
                          pass == CONV_WEIGHTS ? 0 : weights_of(out)))
        return -1;
    if (pass == CONV_WEIGHTS && op->args.u.conv.bias) {
        cpu_channels_view(&y->shape, cpu_tensor_format(y), 1, 1, &out->channels);
        out->sums = cpu_op_alloc(op, 2 * (size_t)out->channels.slots * sizeof *out->sums, "sums");
        if (!out->sums || cpu_channels_reserve(engine, &out->channels))
            return -1;
    }
    return product_create_rounded(
        engine, &op->owner,
        &(struct product_args){.pass = passes[pass],
                               .size = out->size,
                               .half = pass != CONV_WEIGHTS,
                               .bias = pass == CONV_FORWARD && op->args.u.conv.bias},
        &out->pass[pass]);
}

/* Returns the bottom's pixels that windows read. */
static const void *pixels_gather(const struct conv_product *p, const void *x)
{
    const struct conv_args *a = &p->op->args.u.conv;
    const struct shape *in = &p->op->args.bottoms[0]->value.shape,
                       *out = &p->op->args.tops[0]->value.shape;
    const int64_t rows = out->dim[0] * out->dim[2], channels = p->size.inputs;
    const uint16_t *from = x;
    void *memory = p->op->engine->work[WORK_ROUNDED_X].data;
    uint16_t *half = memory;

    if (!strides(a))
        return x;
#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++) {
        int64_t row = r / out->dim[2] * in->dim[2] + r % out->dim[2] * a->stride[0];

        for (int64_t i = 0; i < out->dim[3]; i++)
            memcpy(half + (r * out->dim[3] + i) * channels,
                   from + (row * in->dim[3] + i * a->stride[1]) * channels,
                   (size_t)channels * sizeof *half);
    }
    return half;
}

/* Scatters the gradients of the pixels that windows read, and writes 0 to all other pixels. */
static void pixels_spread(const struct conv_product *p, const uint16_t *from, uint16_t *dx)
{
    const struct conv_args *a = &p->op->args.u.conv;
    const struct shape *in = &p->op->args.bottoms[0]->value.shape,
                       *out = &p->op->args.tops[0]->value.shape;
    const int64_t channels = p->size.inputs, width = in->dim[3];
    const size_t pixel = (size_t)channels * sizeof *dx;

#pragma omp parallel for
    for (int64_t r = 0; r < in->dim[0] * in->dim[2]; r++) {
        int64_t row = r % in->dim[2] / a->stride[0];
        const uint16_t *line = from + (r / in->dim[2] * out->dim[2] + row) * out->dim[3] * channels;

        memset(dx + r * width * channels, 0, (size_t)width * pixel);
        for (int64_t i = 0;
             r % in->dim[2] % a->stride[0] == 0 && row < out->dim[2] && i < out->dim[3]; i++)
            memcpy(dx + (r * width + i * a->stride[1]) * channels, line + i * channels, pixel);
    }
}

static const void *weights_round(const struct conv_product *p)
{
    return cpu_round(p->op->engine, WORK_ROUNDED_W, p->op->args.params[0]->value, weights_of(p));
}

int conv_product_forward(struct conv_product *p, const void *x, const float *bias, void *y)
{
    return product_run_rounded(&p->pass[CONV_FORWARD], pixels_gather(p, x), weights_round(p), bias,
                               false, y);
}

int conv_product_data(struct conv_product *p, const void *dy, void *dx)
{
    bool apart = strides(&p->op->args.u.conv);
    void *to = apart ? p->op->engine->work[WORK_ROUNDED_X].data : dx;

    if (product_run_rounded(&p->pass[CONV_DATA], dy, weights_round(p), NULL, false, to))
        return -1;
    if (apart)
        pixels_spread(p, to, dx);
    return 0;
}

int conv_product_weights(struct conv_product *p, const void *x, const void *dy, float *weight,
                         float *bias)
{
    double *sums = p->sums;

    if (sums) {
        cpu_channels_sums(p->op->engine, &p->channels, CHANNEL_SUM_X,
                          &(struct cpu_channel_data){.x = dy}, sums, sums + p->channels.slots);
        for (int64_t o = 0; o < p->size.outputs; o++)
            bias[o] = (float)sums[o];
    }
    return p->op->args.params[0]->wants_grad
               ? product_run_rounded(&p->pass[CONV_WEIGHTS], dy, pixels_gather(p, x), NULL, false,
                                     weight)
               : 0;
}
