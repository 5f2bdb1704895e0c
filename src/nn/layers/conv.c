/* Convolution and its relatives, over one to three spatial axes.
 *
 * Convolution: top = floor((bottom + 2 pad - extent) / stride) + 1 per axis; the extent of a
 * dilated kernel is dilation * (kernel - 1) + 1. Several bottoms share the weights: one op and one
 * top per bottom; the ops add their weight gradients.
 * Deconvolution is the transpose: top = stride * (bottom - 1) + extent - 2 pad.
 * DepthwiseConvolution is a Convolution with one group per channel unless the file gives a group;
 * ConvolutionDepthwise always has one group and one output per channel. Im2col gives the windows
 * themselves. */
#include "layers/layers_internal.h"

#include "util/error.h"
#include "util/units.h"

#include <inttypes.h>

static int conv_read_geometry(const struct layer *layer, const Caffe__ConvolutionParameter *p,
                              struct conv_args *args)
{
    const struct blob *bottom = layer->bottoms[0];
    const struct {
        enum spatial_kind kind;
        int *out;
    } fields[] = {{SPATIAL_KERNEL, args->kernel},
                  {SPATIAL_STRIDE, args->stride},
                  {SPATIAL_PAD, args->pad},
                  {SPATIAL_DILATION, args->dilation}};

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        struct spatial_field field = spatial_of(&p->base, fields[i].kind);
        if (layer_spatial(&field, bottom, fields[i].out))
            return -1;
    }
    return 0;
}

/* Reads groups and outputs. The two depthwise types imply groups, ConvolutionDepthwise outputs
 * too. */
static int conv_read_channels(struct layer *layer, const Caffe__ConvolutionParameter *p,
                              int64_t *outputs)
{
    int64_t channels = layer->bottoms[0]->value.shape.dim[1];
    bool implied = layer->i == &layer_convolution_depthwise;

    if (implied && p->has_group && p->group != channels)
        return error_set("group is %" PRIu32 "; expected the bottom's number of channels, %" PRId64
                         ", or no group field",
                         p->group, channels);
    layer->u.conv.group = (int)p->group;
    *outputs = p->num_output;
    if (implied && p->has_num_output && p->num_output != channels)
        return error_set("num_output is %" PRIu32
                         "; expected the bottom's number of channels, %" PRId64
                         ", or no num_output",
                         p->num_output, channels);
    if (implied || (layer->i == &layer_depthwise_convolution && !p->has_group))
        layer->u.conv.group = (int)channels;
    if (implied)
        *outputs = channels;
    return 0;
}

static int conv_check_channels(const struct layer *layer, const Caffe__ConvolutionParameter *p)
{
    if (layer->i == &layer_convolution_depthwise)
        return 0;
    if (!p->has_num_output || p->num_output == 0 || p->num_output > INT32_MAX)
        return error_set("num_output is %s; expected at least 1",
                         p->has_num_output ? "out of range" : "missing");
    if (p->group == 0 || p->group > INT32_MAX)
        return error_set("group is %" PRIu32 "; expected at least 1", p->group);
    return 0;
}

static int conv_check_bottoms(const struct layer *layer)
{
    for (int b = 0; b < layer->nbottoms; b++)
        if (layer_expect_spatial(layer, b))
            return -1;
    return layer_expect_one_shape(layer);
}

static int conv_spatial_axes(const struct layer *layer)
{
    return layer->bottoms[0]->value.shape.naxes - 2;
}

static int64_t conv_extent(const struct conv_args *args, int i)
{
    return (int64_t)args->dilation[i] * (args->kernel[i] - 1) + 1;
}

static int64_t conv_along(const struct layer *layer, int i, int64_t in)
{
    const struct conv_args *args = &layer->u.conv;
    int64_t room = in + 2 * (int64_t)args->pad[i] - conv_extent(args, i);

    if (layer->i == &layer_deconvolution)
        return args->stride[i] * (in - 1) + conv_extent(args, i) - 2 * (int64_t)args->pad[i];
    return room < 0 ? 0 : room / args->stride[i] + 1;
}

static int conv_top_size(const struct layer *layer, const struct conv_args *args, int i, int64_t in,
                         int64_t *out)
{
    char kernel[SPATIAL_TEXT_BYTES], dilation[SPATIAL_TEXT_BYTES];
    int naxes = conv_spatial_axes(layer);

    *out = conv_along(layer, i, in);
    if (*out >= 1)
        return 0;
    if (layer->i == &layer_deconvolution)
        return error_set("pad %d leaves nothing of the top: %s %d * (%" PRId64 " - 1) + %" PRId64
                         " - 2 * %d",
                         args->pad[i], layer_spatial_name(naxes, i), args->stride[i], in,
                         conv_extent(args, i), args->pad[i]);
    return error_set("kernel %s (dilation %s) is larger than the padded input: %s %" PRId64
                     " > %" PRId64 " + 2 * %d" SPATIAL_TOO_SMALL,
                     layer_spatial_text(args->kernel, naxes, kernel),
                     layer_spatial_text(args->dilation, naxes, dilation),
                     layer_spatial_name(naxes, i), conv_extent(args, i), in, args->pad[i]);
}

static int conv_set_top(struct layer *layer, int64_t outputs)
{
    const struct conv_args *args = &layer->u.conv;
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    bool transposed = layer->i == &layer_deconvolution;
    int64_t dim[2 + OP_SPATIAL] = {bottom->dim[0], outputs};
    double flops = 2.0 * layer->nbottoms * (double)outputs *
                   (double)(bottom->dim[1] / args->group) * (double)bottom->dim[0];

    /* each weight is used once per position in the smaller image, bottom or top */
    for (int i = 0; i < bottom->naxes - 2; i++) {
        if (conv_top_size(layer, args, i, bottom->dim[2 + i], &dim[2 + i]))
            return -1;
        flops *= args->kernel[i] * (double)(transposed ? bottom->dim[2 + i] : dim[2 + i]);
    }
    for (int t = 0; t < layer->ntops; t++)
        if (shape_set(&layer->tops[t]->value.shape, bottom->naxes, dim, layer->tops[t]->name))
            return -1;
    layer->flops = flops;
    return 0;
}

static int conv_declare_params(struct layer *layer, int64_t outputs,
                               const Caffe__ConvolutionParameter *p)
{
    bool transposed = layer->i == &layer_deconvolution;
    int64_t inputs = layer->bottoms[0]->value.shape.dim[1];
    int64_t weight[2 + OP_SPATIAL] = {transposed ? inputs : outputs,
                                      (transposed ? outputs : inputs) / layer->u.conv.group};
    int naxes = conv_spatial_axes(layer);

    for (int i = 0; i < naxes; i++)
        weight[2 + i] = layer->u.conv.kernel[i];
    return layer_declare_weights(layer, 2 + naxes, weight, p->weight_filler, p->bias_term, outputs,
                                 p->bias_filler);
}

/* Fails unless `axis` is 1, that of the channels. */
static int conv_check_axis(const struct layer *layer, const Caffe__ConvolutionParameter *p)
{
    int axis;

    if (layer_resolve_axis(layer, "axis", p->axis, &axis))
        return -1;
    if (axis == 1)
        return 0;
    return error_set("axis is %d; expected 1: one batch axis, then channels (a Reshape layer "
                     "before this layer joins axes of the batch)",
                     p->axis);
}

static int convolution_setup(struct layer *layer)
{
    const Caffe__ConvolutionParameter *p = layer->param->convolution_param;
    int64_t outputs = 0;

    if (!p)
        return error_set("convolution_param is missing; it must give num_output and kernel_size");
    if (layer->ntops != layer->nbottoms)
        return error_set("expected one top per bottom, found %s and %s",
                         units_count(layer->nbottoms, "bottom").text,
                         units_count(layer->ntops, "top").text);
    if (conv_check_bottoms(layer) || conv_check_axis(layer, p) ||
        conv_read_geometry(layer, p, &layer->u.conv) || conv_read_channels(layer, p, &outputs) ||
        conv_check_channels(layer, p))
        return -1;
    layer->u.conv.bias = p->bias_term;
    return error_status(conv_set_top(layer, outputs) || conv_declare_params(layer, outputs, p));
}

static bool convolution_takes_relu(const struct layer *layer)
{
    return layer->nbottoms == 1 && layer->u.conv.bias && layer->i != &layer_deconvolution;
}

#define CONVOLUTION(variable, name, kind)                                                          \
    const struct layer_i variable = {                                                              \
        .type = name,                                                                              \
        .bottoms = {1, OP_ANY},                                                                    \
        .tops = {1, OP_ANY},                                                                       \
        .no_in_place = true,                                                                       \
        .takes_relu = convolution_takes_relu,                                                      \
        .takes_relu_last = true,                                                                   \
        .setup = convolution_setup,                                                                \
        .op = kind,                                                                                \
        .op_per_bottom = true,                                                                     \
    }

CONVOLUTION(layer_convolution, "Convolution", OP_CONV);
CONVOLUTION(layer_deconvolution, "Deconvolution", OP_DECONV);
CONVOLUTION(layer_depthwise_convolution, "DepthwiseConvolution", OP_CONV);
CONVOLUTION(layer_convolution_depthwise, "ConvolutionDepthwise", OP_CONV);

static int im2col_setup(struct layer *layer)
{
    const Caffe__ConvolutionParameter *p = layer->param->convolution_param;
    int64_t outputs;
    double flops;

    if (!p)
        return error_set("convolution_param is missing; it must give kernel_size");
    if (conv_check_bottoms(layer) || conv_check_axis(layer, p))
        return -1;
    layer->u.conv.group = 1;
    if (conv_read_geometry(layer, p, &layer->u.conv))
        return -1;
    flops = layer->flops;
    outputs = layer->bottoms[0]->value.shape.dim[1];
    for (int i = 0; i < conv_spatial_axes(layer) && outputs <= INT32_MAX; i++)
        outputs *= layer->u.conv.kernel[i]; /* shape_set refuses larger products */
    if (conv_set_top(layer, outputs))
        return -1;
    layer->flops = flops;
    return 0;
}

const struct layer_i layer_im2col = {
    .type = "Im2col",
    .no_in_place = true,
    .setup = im2col_setup,
    .op = OP_IM2COL,
};
