/* Decides when our own Winograd (winograd.h) computes a convolution: all passes or none, by the
 * shape alone. So nothing is measured, and every processor decides alike, unless channels do not
 * fill blocks.
 *
 * Winograd was faster than all of oneDNN's code wherever it was tried on AVX2 and AVX-512, except
 * where tiles are few, mostly padding, or of few channels (tests/bench/RESULTS.md). Small
 * convolutions gain nothing. With --math=bf16 Winograd takes bfloat16 blobs as floats, but AMX,
 * where present, is faster at every shape. */
#include "engine/cpu/conv.h"

#include <limits.h>

static const size_t most_scratch = (size_t)1 << 30;

/* Least channels of a group on either side (else products are too thin), least tiles (else the
 * transform of weights takes longer than Winograd saves), and least operations of a pass. */
enum { LEAST_CHANNELS = 16, LEAST_TILES = 16 };
static const double least_flops = 64e6;

static bool fits_int(const struct shape *shape)
{
    for (int i = 0; i < shape->naxes; i++)
        if (shape->dim[i] > INT_MAX)
            return false;
    return true;
}

/* Returns the fastest block of channels on this processor: 16 where channels fill it, else 8. */
static int block_for(int64_t in, int64_t out)
{
    return cpu_is_wide() && in % 16 == 0 && out % 16 == 0 ? 16 : 8;
}

/* Plans all passes by our own Winograd; false if it cannot compute one of them. */
static bool plan_passes(const struct cpu_op *op, struct conv_plan *out)
{
    const struct conv_args *a = &op->args.u.conv;
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    int block = block_for(x->dim[1] / a->group, y->dim[1] / a->group);
    const bool half = op->engine->options.math == MATH_BF16;
    const struct cpu_format *format = cpu_format_blocked(block, half);
    const struct conv_formats formats = {format, format};

    for (int pass = 0; pass < CONV_PASSES; pass++) {
        bool data = pass == CONV_DATA;
        const struct shape *from = data ? y : x, *to = data ? x : y;
        const struct winograd_shape shape = {
            .images = (int)x->dim[0],
            .groups = a->group,
            .in = (int)from->dim[1] / a->group,
            .out = (int)to->dim[1] / a->group,
            .height = (int)from->dim[2],
            .width = (int)from->dim[3],
            .window = a->kernel[0],
            .pad = {data ? a->kernel[0] - 1 - a->pad[0] : a->pad[0],
                    data ? a->kernel[1] - 1 - a->pad[1] : a->pad[1]},
            .turned = data,
            .half = half,
            .weights = pass == CONV_WEIGHTS};

        if (!winograd_plan(&shape, block, most_scratch, &out->winograd[pass]))
            return false;
        out->formats[pass] = formats;
    }
    return true;
}

/* Returns true if Winograd pays. A tile computes 4 x 4 outputs for windows of 3, and 2 x 2 for
 * windows of 5: images smaller than 3 x 3 and 4 x 4 are mostly padding. */
static bool goes_by_rule(const struct cpu_op *op, const struct winograd *forward)
{
    const struct winograd_shape *s = &forward->shape;
    int least = s->window / 2 + 2;
    bool fill = s->in % 8 == 0 && s->out % 8 == 0; /* if not, AVX-512 is faster with blocks of 16 */
    double flops =
        2.0 * (double)shape_elems(&op->args.tops[0]->value.shape) * s->in * s->window * s->window;

    return (fill || !cpu_is_wide()) && s->in >= LEAST_CHANNELS && s->out >= LEAST_CHANNELS &&
           forward->tiles >= LEAST_TILES && forward->out_height >= least &&
           forward->out_width >= least && flops >= least_flops;
}

bool conv_winograd_plan(const struct cpu_op *op, struct conv_plan *out)
{
    const struct conv_args *a = &op->args.u.conv;
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;

    out->by_winograd = op->engine->options.convolution != CONVOLUTION_DIRECT &&
                       !(cpu_rounds(op->engine) && cpu_has_amx()) && x->naxes == 4 && fits_int(x) &&
                       fits_int(y) && a->kernel[0] == a->kernel[1] && a->stride[0] == 1 &&
                       a->stride[1] == 1 && a->dilation[0] == 1 && a->dilation[1] == 1 &&
                       plan_passes(op, out) &&
                       (op->engine->options.convolution == CONVOLUTION_WINOGRAD ||
                        goes_by_rule(op, &out->winograd[CONV_FORWARD]));
    return out->by_winograd;
}
