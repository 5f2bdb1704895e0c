/* Convolution by oneDNN, in the formats it likes best; channels last where those would pad much.
 *
 * Weights travel plain. The op keeps a copy in the layout of the forward primitive, and a second
 * one if backward wants another, and renews them when the parameter's version says so. The weight
 * gradient is made in oneDNN's layout in memory that all ops share, and laid out plainly from
 * there. */
#include "engine/cpu/cpu_internal.h"

#include "util/error.h"

#include <string.h>

/* The weights as one primitive wants them. */
struct weights {
    struct cpu_primitive reorder; /* empty where plain is what it wants */
    float *copy;
    uint64_t version;
    bool filled;
};

struct conv {
    struct cpu_op op;
    struct cpu_primitive forward, backward_data, backward_weights;
    struct cpu_input src, src_again; /* bottom for forward; for backward, where that differs */
    struct cpu_input diff_dst_data, diff_dst_weights;
    struct cpu_output diff_src;
    struct weights weights, weights_back;
    bool shares_weights;               /* backward reads the forward copy */
    struct cpu_primitive diff_weights; /* reorder to plain; empty where it is */
    size_t weight_elems, bias_elems;
};

/* What the three primitives are asked for, and what oneDNN makes of it. */
struct conv_descs {
    md_t src, weights, bias, dst; /* src, dst: of one tag; weights: any */
    md_t plain_weights;
    struct compat_window window;
    dnnl_primitive_desc_t forward, backward_data, backward_weights; /* NULL where not needed */
    /* formats that they chose */
    const struct cpu_format *src_format, *dst_format;           /* forward */
    const struct cpu_format *data_src_format, *data_dst_format; /* backward, data */
    const struct cpu_format *weights_src_format, *weights_dst_format;
};

static void conv_descs_destroy(struct conv_descs *d)
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
}

/* (O, C/g, kh, kw), or (g, O/g, C/g, kh, kw): the same memory. Returns the number of axes. */
static int conv_weight_dims(const struct cpu_op *op, dnnl_dims_t dims)
{
    const struct conv_args *a = &op->args.u.conv;
    int64_t outputs = op->args.tops[0]->value.shape.dim[1];
    int64_t inputs = op->args.bottoms[0]->value.shape.dim[1];
    int n = 0;

    if (a->group > 1)
        dims[n++] = a->group;
    dims[n++] = outputs / a->group;
    dims[n++] = inputs / a->group;
    dims[n++] = a->kernel[0];
    dims[n++] = a->kernel[1];
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
    dnnl_dims_t dims = {0}, outputs = {top->dim[1]};
    int naxes = conv_weight_dims(op, dims);

    for (int i = 0; i < 2; i++) {
        d->window.strides[i] = a->stride[i];
        d->window.dilates[i] = a->dilation[i] - 1;
        d->window.padding_l[i] = d->window.padding_r[i] = a->pad[i];
    }
    if (cpu_check(md_create_tag(&d->src, 4, bottom->dim, tag)) ||
        cpu_check(md_create_tag(&d->dst, 4, top->dim, tag)) ||
        cpu_check(md_create_tag(&d->weights, naxes, dims, dnnl_format_tag_any)) ||
        cpu_check(
            md_create_tag(&d->plain_weights, naxes, dims, naxes == 5 ? dnnl_abcde : dnnl_abcd)))
        return -1;
    return a->bias ? cpu_check(md_create_tag(&d->bias, 1, outputs, dnnl_a)) : 0;
}

static const_md_t conv_desc_md(const_dnnl_primitive_desc_t desc, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(desc, what, 0);
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

/* Asks for activations of that tag. Fails where oneDNN has no such convolution or an unknown format
 * comes out. d must be destroyed in any case. */
static int conv_descs_create(const struct cpu_op *op, dnnl_format_tag_t tag, struct conv_descs *d)
{
    dnnl_engine_t engine = op->engine->engine;
    dnnl_primitive_attr_t attr = op->engine->attr;
    dnnl_prop_kind_t kind = op->args.train ? dnnl_forward_training : dnnl_forward_inference;

    *d = (struct conv_descs){0};
    if (conv_mds_create(op, tag, d) ||
        cpu_check(compat_conv_forward(&d->forward, engine, kind, d->src, d->weights, d->bias,
                                      d->dst, &d->window, attr)))
        return -1;
    if (cpu_op_propagates(op, 0) &&
        cpu_check(compat_conv_backward_data(&d->backward_data, engine, d->src, d->weights, d->dst,
                                            &d->window, d->forward, attr)))
        return -1;
    if (conv_learns(op) &&
        cpu_check(compat_conv_backward_weights(&d->backward_weights, engine, d->src, d->weights,
                                               d->bias, d->dst, &d->window, d->forward, attr)))
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
static bool conv_strided_1x1(const struct conv_args *a)
{
    return a->kernel[0] * a->kernel[1] == 1 && (a->stride[0] > 1 || a->stride[1] > 1);
}

/* The best of what oneDNN offers. */
static int conv_descs_choose(const struct cpu_op *op, struct conv_descs *d)
{
    struct conv_descs last = {0};

    if (conv_descs_create(op, dnnl_format_tag_any, d)) {
        conv_descs_destroy(d);
        return conv_descs_create(op, dnnl_abcd, d);
    }
    if (!conv_descs_pad(op, d) || conv_strided_1x1(&op->args.u.conv))
        return 0;
    if (conv_descs_create(op, dnnl_acdb, &last) == 0 && conv_descs_quick(&last)) {
        struct conv_descs padded = *d;
        *d = last;
        last = padded;
    }
    conv_descs_destroy(&last);
    return 0;
}

static int conv_weights_create(struct conv *conv, const struct conv_descs *d, const_md_t wanted,
                               struct weights *out)
{
    void *copy = NULL;

    if (dnnl_memory_desc_equal(wanted, d->plain_weights))
        return 0;
    if (cpu_alloc(dnnl_memory_desc_get_size(wanted), "a copy of weights", &copy))
        return -1;
    out->copy = copy;
    return cpu_reorder_create(conv->op.engine, d->plain_weights, wanted, &out->reorder);
}

static int conv_weights_get(struct conv *conv, struct weights *w, const float **out)
{
    const struct param *param = conv->op.args.params[0];

    *out = w->copy ? w->copy : param->value;
    if (!w->copy || (w->filled && w->version == param->version))
        return 0;
    if (cpu_reorder_run(conv->op.engine, &w->reorder, param->value, w->copy))
        return -1;
    w->filled = true;
    w->version = param->version;
    return 0;
}

static void conv_weights_destroy(struct weights *w)
{
    cpu_primitive_destroy(&w->reorder);
    cpu_free(w->copy);
}

static int conv_forward_create(struct conv *conv, const struct conv_descs *d)
{
    struct cpu_engine *engine = conv->op.engine;
    struct blob *bottom = conv->op.args.bottoms[0], *top = conv->op.args.tops[0];
    const_md_t weights = conv_desc_md(d->forward, dnnl_query_weights_md);

    cpu_top_set(top, d->dst_format);
    if (cpu_input_create(engine, &bottom->value, d->src_format, WORK_OWN, &conv->src) ||
        conv_weights_create(conv, d, weights, &conv->weights) ||
        cpu_primitive_create(engine, d->forward, &conv->forward) ||
        cpu_primitive_arg(engine, &conv->forward, DNNL_ARG_SRC,
                          conv_desc_md(d->forward, dnnl_query_src_md)) ||
        cpu_primitive_arg(engine, &conv->forward, DNNL_ARG_WEIGHTS, weights) ||
        cpu_primitive_arg(engine, &conv->forward, DNNL_ARG_DST,
                          conv_desc_md(d->forward, dnnl_query_dst_md)))
        return -1;
    return d->bias ? cpu_primitive_arg(engine, &conv->forward, DNNL_ARG_BIAS, d->bias) : 0;
}

static int conv_data_create(struct conv *conv, const struct conv_descs *d)
{
    struct cpu_engine *engine = conv->op.engine;
    struct blob *bottom = conv->op.args.bottoms[0], *top = conv->op.args.tops[0];
    struct cpu_primitive *primitive = &conv->backward_data;
    const_md_t weights = conv_desc_md(d->backward_data, dnnl_query_weights_md);

    conv->shares_weights =
        dnnl_memory_desc_equal(weights, conv_desc_md(d->forward, dnnl_query_weights_md));
    if (!conv->shares_weights && conv_weights_create(conv, d, weights, &conv->weights_back))
        return -1;
    if (cpu_input_create(engine, &top->grad, d->data_dst_format, WORK_TOP_GRAD,
                         &conv->diff_dst_data) ||
        cpu_output_create(engine, &bottom->grad, d->data_src_format, WORK_BOTTOM_GRAD,
                          &conv->diff_src) ||
        cpu_primitive_create(engine, d->backward_data, primitive) ||
        cpu_primitive_arg(engine, primitive, DNNL_ARG_DIFF_DST,
                          conv_desc_md(d->backward_data, dnnl_query_diff_dst_md)) ||
        cpu_primitive_arg(engine, primitive, DNNL_ARG_WEIGHTS, weights))
        return -1;
    return cpu_primitive_arg(engine, primitive, DNNL_ARG_DIFF_SRC,
                             conv_desc_md(d->backward_data, dnnl_query_diff_src_md));
}

static int conv_backward_weights_args(struct conv *conv, const struct conv_descs *d)
{
    struct cpu_engine *engine = conv->op.engine;
    const_dnnl_primitive_desc_t desc = d->backward_weights;
    const_md_t weights = conv_desc_md(desc, dnnl_query_diff_weights_md);
    size_t bytes = dnnl_memory_desc_get_size(weights);
    size_t plain = (conv->weight_elems + conv->bias_elems) * sizeof(float);

    if (!dnnl_memory_desc_equal(weights, d->plain_weights) &&
        cpu_reorder_create(engine, weights, d->plain_weights, &conv->diff_weights))
        return -1;
    /* the plain gradients of weight and bias, one behind the other, when they are to be added */
    if (cpu_work_reserve(engine, WORK_WEIGHT_GRAD, bytes) ||
        cpu_work_reserve(engine, WORK_PARAM_GRAD, plain) ||
        cpu_primitive_create(engine, desc, &conv->backward_weights) ||
        cpu_primitive_arg(engine, &conv->backward_weights, DNNL_ARG_SRC,
                          conv_desc_md(desc, dnnl_query_src_md)) ||
        cpu_primitive_arg(engine, &conv->backward_weights, DNNL_ARG_DIFF_DST,
                          conv_desc_md(desc, dnnl_query_diff_dst_md)) ||
        cpu_primitive_arg(engine, &conv->backward_weights, DNNL_ARG_DIFF_WEIGHTS, weights))
        return -1;
    return d->bias ? cpu_primitive_arg(engine, &conv->backward_weights, DNNL_ARG_DIFF_BIAS, d->bias)
                   : 0;
}

static int conv_backward_weights_create(struct conv *conv, const struct conv_descs *d)
{
    struct cpu_engine *engine = conv->op.engine;
    struct blob *bottom = conv->op.args.bottoms[0], *top = conv->op.args.tops[0];

    if (d->weights_src_format != d->src_format &&
        cpu_input_create(engine, &bottom->value, d->weights_src_format, WORK_BOTTOM_GRAD,
                         &conv->src_again))
        return -1;
    if (cpu_input_create(engine, &top->grad, d->weights_dst_format, WORK_TOP_GRAD,
                         &conv->diff_dst_weights))
        return -1;
    return conv_backward_weights_args(conv, d);
}

static int conv_create(struct cpu_op *op)
{
    struct conv *conv = (struct conv *)op;
    struct conv_descs d = {0};
    int status = -1;

    conv->weight_elems = shape_elems(&op->args.params[0]->shape);
    conv->bias_elems = op->args.u.conv.bias ? shape_elems(&op->args.params[1]->shape) : 0;
    if (conv_descs_choose(op, &d) || conv_forward_create(conv, &d) ||
        (d.backward_data && conv_data_create(conv, &d)) ||
        (d.backward_weights && conv_backward_weights_create(conv, &d)))
        goto done;
    status = 0;
done:
    conv_descs_destroy(&d);
    return status;
}

static int conv_forward(struct cpu_op *op, const struct run *run)
{
    struct conv *conv = (struct conv *)op;
    const float *weights, *bias = conv->bias_elems ? op->args.params[1]->value : NULL;

    (void)run;
    if (cpu_input_load(op->engine, &conv->src) || conv_weights_get(conv, &conv->weights, &weights))
        return -1;
    return cpu_primitive_run(op->engine, &conv->forward,
                             (const void *const[]){cpu_input_data(op->engine, &conv->src), weights,
                                                   op->args.tops[0]->value.data, bias});
}

/* Adds what lies in the work memory to a gradient. */
static void conv_grad_add(struct param *param, const float *from, size_t n)
{
    cpu_axpby(param->grad, 1, from, 1, n);
}

static int conv_weights_backward(struct conv *conv)
{
    struct cpu_op *op = &conv->op;
    struct cpu_engine *engine = op->engine;
    struct param *weight = op->args.params[0];
    struct param *bias = conv->bias_elems ? op->args.params[1] : NULL;
    float *blocked = engine->work[WORK_WEIGHT_GRAD].data;
    float *plain = engine->work[WORK_PARAM_GRAD].data;
    bool weight_direct = weight->wants_grad && !weight->accumulate;
    bool bias_direct = bias && bias->wants_grad && !bias->accumulate;
    float *weight_to = weight_direct ? weight->grad : plain;
    float *bias_to = bias_direct ? bias->grad : plain + conv->weight_elems;
    bool relaid = conv->diff_weights.primitive != NULL;
    struct cpu_input *src = conv->src_again.tensor ? &conv->src_again : &conv->src;

    if (cpu_input_load(engine, &conv->diff_dst_weights) ||
        (src == &conv->src_again && cpu_input_load(engine, src)) ||
        cpu_primitive_run(engine, &conv->backward_weights,
                          (const void *const[]){cpu_input_data(engine, src),
                                                cpu_input_data(engine, &conv->diff_dst_weights),
                                                relaid ? blocked : weight_to, bias_to}))
        return -1;
    if (weight->wants_grad && relaid &&
        cpu_reorder_run(engine, &conv->diff_weights, blocked, weight_to))
        return -1;
    if (weight->wants_grad && !weight_direct)
        conv_grad_add(weight, weight_to, conv->weight_elems);
    if (bias && bias->wants_grad && !bias_direct)
        conv_grad_add(bias, bias_to, conv->bias_elems);
    return 0;
}

static int conv_data_backward(struct conv *conv)
{
    struct cpu_engine *engine = conv->op.engine;
    const float *weights;

    if (cpu_input_load(engine, &conv->diff_dst_data) ||
        conv_weights_get(conv, conv->shares_weights ? &conv->weights : &conv->weights_back,
                         &weights) ||
        cpu_primitive_run(engine, &conv->backward_data,
                          (const void *const[]){cpu_input_data(engine, &conv->diff_dst_data),
                                                weights, cpu_output_data(engine, &conv->diff_src)}))
        return -1;
    return cpu_output_store(engine, &conv->diff_src);
}

static int conv_backward(struct cpu_op *op, const struct run *run)
{
    struct conv *conv = (struct conv *)op;

    (void)run;
    /* parameters first: their gradients can then travel while the rest is computed */
    if (conv->backward_weights.primitive && conv_weights_backward(conv))
        return -1;
    if (conv->backward_data.primitive && cpu_op_propagates(op, 0))
        return conv_data_backward(conv);
    return 0;
}

static void conv_destroy(struct cpu_op *op)
{
    struct conv *conv = (struct conv *)op;

    cpu_primitive_destroy(&conv->forward);
    cpu_primitive_destroy(&conv->backward_data);
    cpu_primitive_destroy(&conv->backward_weights);
    cpu_primitive_destroy(&conv->diff_weights);
    cpu_input_destroy(&conv->src);
    cpu_input_destroy(&conv->src_again);
    cpu_input_destroy(&conv->diff_dst_data);
    cpu_input_destroy(&conv->diff_dst_weights);
    cpu_output_destroy(&conv->diff_src);
    conv_weights_destroy(&conv->weights);
    conv_weights_destroy(&conv->weights_back);
}

const struct cpu_kind cpu_conv = {
    .size = sizeof(struct conv),
    .create = conv_create,
    .forward = conv_forward,
    .backward = conv_backward,
    .destroy = conv_destroy,
};
