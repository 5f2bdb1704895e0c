/* What oneDNN is asked for, and in which formats. */
#include "engine/cpu/conv.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <string.h>

void conv_descs_destroy(struct conv_descs *d)
{
    const dnnl_primitive_desc_t descs[] = {d->forward, d->backward_data, d->backward_weights};

    for (int i = 0; i < 3; i++)
        if (descs[i])
            dnnl_primitive_desc_destroy(descs[i]);
    md_destroy(d->src);
    md_destroy(d->weights);
    md_destroy(d->bias);
    md_destroy(d->dst);
    md_destroy(d->plain_weights);
    md_destroy(d->part_weights);
}

/* The spatial axes that oneDNN is told of: the last ones of struct op_windows. */
static int conv_first_axis(const struct cpu_op *op)
{
    return op->args.bottoms[0]->value.shape.naxes > 4 ? 0 : 1;
}

/* (O, C/g, kernel...), or (g, O/g, C/g, kernel...): the same memory. Returns the number of axes. */
static int conv_weight_dims(const struct cpu_op *op, const struct op_windows *w, dnnl_dims_t dims)
{
    const struct conv_args *a = &op->args.u.conv;
    int64_t outputs = op->args.tops[0]->value.shape.dim[1];
    int64_t inputs = op->args.bottoms[0]->value.shape.dim[1];
    int n = 0;

    if (a->group > 1)
        dims[n++] = a->group;
    dims[n++] = outputs / a->group;
    dims[n++] = inputs / a->group;
    for (int i = conv_first_axis(op); i < OP_SPATIAL; i++)
        dims[n++] = w->kernel[i];
    return n;
}

static bool conv_learns(const struct cpu_op *op)
{
    for (int i = 0; i < op->args.nparams; i++)
        if (op->args.params[i]->wants_grad)
            return op->args.train;
    return false;
}

static int conv_mds_create(const struct cpu_op *op, dnnl_format_tag_t tag, struct conv_descs *d)
{
    const struct conv_args *a = &op->args.u.conv;
    const struct shape *bottom = &op->args.bottoms[0]->value.shape;
    const struct shape *top = &op->args.tops[0]->value.shape;
    const struct op_windows w = op_conv_windows(a, bottom, top);
    int first = conv_first_axis(op), naxes;
    dnnl_dims_t dims = {0}, outputs = {top->dim[1]};

    for (int i = first; i < OP_SPATIAL; i++) {
        d->window.strides[i - first] = w.stride[i];
        d->window.dilates[i - first] = w.dilation[i] - 1;
        d->window.padding_l[i - first] = d->window.padding_r[i - first] = w.pad[i];
    }
    naxes = cpu_md_dims(bottom, dims);
    if (cpu_check(md_create_tag(&d->src, naxes, dims, tag)))
        return -1;
    naxes = cpu_md_dims(top, dims);
    if (cpu_check(md_create_tag(&d->dst, naxes, dims, tag)))
        return -1;
    naxes = conv_weight_dims(op, &w, dims);
    if (cpu_check(md_create_tag(&d->weights, naxes, dims, dnnl_format_tag_any)) ||
        cpu_check(md_create_tag(&d->plain_weights, naxes, dims,
                                naxes == 6   ? dnnl_abcdef
                                : naxes == 5 ? dnnl_abcde
                                             : dnnl_abcd)))
        return -1;
    return a->bias ? cpu_check(md_create_tag(&d->bias, 1, outputs, dnnl_a)) : 0;
}

/* Finds the formats of both sides; false where one is none of ours. */
static bool conv_formats_find(const struct cpu_op *op, const_dnnl_primitive_desc_t desc,
                              dnnl_query_t src, dnnl_query_t dst,
                              const struct cpu_format **src_format,
                              const struct cpu_format **dst_format)
{
    return !desc ||
           (cpu_format_find(conv_desc_md(desc, src), &op->args.bottoms[0]->value.shape,
                            src_format) &&
            cpu_format_find(conv_desc_md(desc, dst), &op->args.tops[0]->value.shape, dst_format));
}

int conv_descs_create(const struct cpu_op *op, dnnl_format_tag_t tag, struct conv_descs *d)
{
    dnnl_engine_t engine = op->engine->engine;
    dnnl_primitive_attr_t attr = op->engine->attr;
    dnnl_prop_kind_t kind = op->args.train ? dnnl_forward_training : dnnl_forward_inference;

    *d = (struct conv_descs){.parts = {1, 1, 1}, .slices = {1, 1, 1}};
    if (conv_mds_create(op, tag, d) ||
        cpu_check(compat_conv_forward(&d->forward, engine, kind, dnnl_convolution_direct, d->src,
                                      d->weights, d->bias, d->dst, &d->window, attr)))
        return -1;
    if (cpu_op_propagates(op, 0) && cpu_check(compat_conv_backward_data(
                                        &d->backward_data, engine, dnnl_convolution_direct, d->src,
                                        d->weights, d->dst, &d->window, d->forward, attr)))
        return -1;
    if (conv_learns(op) && cpu_check(compat_conv_backward_weights(
                               &d->backward_weights, engine, dnnl_convolution_direct, d->src,
                               d->weights, d->bias, d->dst, &d->window, d->forward, attr)))
        return -1;
    if (!conv_formats_find(op, d->forward, dnnl_query_src_md, dnnl_query_dst_md, &d->src_format,
                           &d->dst_format) ||
        !conv_formats_find(op, d->backward_data, dnnl_query_diff_src_md, dnnl_query_diff_dst_md,
                           &d->data_src_format, &d->data_dst_format) ||
        !conv_formats_find(op, d->backward_weights, dnnl_query_src_md, dnnl_query_diff_dst_md,
                           &d->weights_src_format, &d->weights_dst_format))
        return error_set("oneDNN's convolution chose a format that is not known here");
    return 0;
}

/* Whether all primitives are oneDNN's generated code rather than its general fall-backs. */
static bool conv_descs_quick(const struct conv_descs *d)
{
    const dnnl_primitive_desc_t descs[] = {d->forward, d->backward_data, d->backward_weights};

    for (int i = 0; i < 3; i++) {
        const char *name = "jit";
        if (descs[i] &&
            dnnl_primitive_desc_query(descs[i], dnnl_query_impl_info_str, 0, &name) != dnnl_success)
            return false;
        if (strncmp(name, "jit", 3) != 0 && strncmp(name, "brg", 3) != 0)
            return false;
    }
    return true;
}

/* Whether the formats store channels that are not there: 20 channels in blocks of 8 cost as many
 * operations as 24. oneDNN's code for channels last does not pad. */
static bool conv_descs_pad(const struct cpu_op *op, const struct conv_descs *d)
{
    const struct cpu_format *formats[] = {d->src_format, d->data_src_format, d->weights_src_format,
                                          d->dst_format, d->data_dst_format, d->weights_dst_format};
    int64_t channels[] = {op->args.bottoms[0]->value.shape.dim[1],
                          op->args.tops[0]->value.shape.dim[1]};

    for (int i = 0; i < 6; i++)
        if (formats[i] && formats[i]->block && channels[i / 3] % formats[i]->block)
            return true;
    return false;
}

/* oneDNN 2.6's backward pass of weights has a race there, between threads that gather the pixels
 * that a stride leaves: seen as wrong values, once in a hundred runs, with channels last only. */
static bool conv_strided_1x1(const struct cpu_op *op)
{
    const struct conv_args *a = &op->args.u.conv;
    int spatial = op->args.bottoms[0]->value.shape.naxes - 2;

    return op_window_places(a->kernel, spatial) == 1 && op_window_places(a->stride, spatial) > 1;
}

/* The best formats for the direct algorithm. */
static int conv_direct_choose(const struct cpu_op *op, struct conv_descs *d)
{
    struct conv_descs last = {0};
    bool volume = conv_first_axis(op) == 0;

    if (conv_descs_create(op, dnnl_format_tag_any, d)) {
        conv_descs_destroy(d);
        return conv_descs_create(op, volume ? dnnl_abcde : dnnl_abcd, d);
    }
    if (!conv_descs_pad(op, d) || conv_strided_1x1(op))
        return 0;
    if (conv_descs_create(op, volume ? dnnl_acdeb : dnnl_acdb, &last) == 0 &&
        conv_descs_quick(&last)) {
        struct conv_descs padded = *d;
        *d = last;
        last = padded;
    }
    conv_descs_destroy(&last);
    return 0;
}

/* Blocks of 8 channels for our own Winograd, where oneDNN has none of its code for some pass and
 * would take plain activations: Arm, x86 without AVX2. false: not all passes go that way. */
static bool conv_blocks_choose(const struct cpu_op *op, struct conv_descs *d)
{
    const_dnnl_primitive_desc_t passes[CONV_PASSES];

    if (op->args.bottoms[0]->value.shape.naxes != 4 || conv_descs_create(op, dnnl_aBcd8b, d))
        return false;
    d->for_own = true;
    if (conv_descs_pad(op, d) || conv_winograd_choose(op, d))
        return false;
    passes[CONV_FORWARD] = d->forward;
    passes[CONV_BACKWARD_DATA] = d->backward_data;
    passes[CONV_BACKWARD_WEIGHTS] = d->backward_weights;
    for (int i = 0; i < CONV_PASSES; i++)
        if (passes[i] && d->way[i] != CONV_OWN)
            return false;
    return true;
}

int conv_descs_choose(const struct cpu_op *op, struct conv_descs *d)
{
    struct conv_descs blocks = {0};

    if (conv_direct_choose(op, d))
        return -1;
    if (!conv_descs_quick(d) && conv_blocks_choose(op, &blocks)) {
        conv_descs_destroy(d);
        *d = blocks;
        return 0;
    }
    conv_descs_destroy(&blocks);
    return conv_winograd_choose(op, d);
}
