/* By which code a convolution goes, and in which formats: what oneDNN is asked for. */
#include "engine/cpu/conv.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <omp.h>
#include <string.h>

/* What oneDNN is asked for. */
struct question {
    md_t src, weights, bias, dst; /* weights: in any layout */
    md_t plain_weights;           /* as they travel */
    struct compat_window window;
};

static void question_destroy(struct question *q)
{
    md_destroy(q->src);
    md_destroy(q->weights);
    md_destroy(q->bias);
    md_destroy(q->dst);
    md_destroy(q->plain_weights);
}

void conv_plan_destroy(struct conv_plan *plan)
{
    for (int pass = 0; pass < CONV_PASSES; pass++)
        if (plan->desc[pass])
            dnnl_primitive_desc_destroy(plan->desc[pass]);
    md_destroy(plan->plain_weights);
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

bool conv_needs(const struct cpu_op *op, enum conv_pass pass)
{
    return pass == CONV_DATA      ? cpu_op_propagates(op, 0)
           : pass == CONV_WEIGHTS ? conv_learns(op)
                                  : true;
}

/* For activations of that tag, with a bottom and a top of those shapes; the bottom's padding is
 * `pads` or in it. */
static int question_make(const struct cpu_op *op, dnnl_format_tag_t tag, const struct shape *bottom,
                         const struct shape *top, bool pads, struct question *q)
{
    const struct conv_args *a = &op->args.u.conv;
    const struct op_windows w = op_conv_windows(a, bottom, top);
    int first = conv_first_axis(op), naxes;
    dnnl_dims_t dims = {0}, outputs = {top->dim[1]};

    for (int i = first; i < OP_SPATIAL; i++) {
        q->window.strides[i - first] = w.stride[i];
        q->window.dilates[i - first] = w.dilation[i] - 1;
        q->window.padding_l[i - first] = q->window.padding_r[i - first] = pads ? w.pad[i] : 0;
    }
    naxes = cpu_md_dims(bottom, dims);
    if (cpu_check(md_create_tag(&q->src, naxes, dims, tag)))
        return -1;
    naxes = cpu_md_dims(top, dims);
    if (cpu_check(md_create_tag(&q->dst, naxes, dims, tag)))
        return -1;
    naxes = conv_weight_dims(op, &w, dims);
    if (cpu_check(md_create_tag(&q->weights, naxes, dims, dnnl_format_tag_any)) ||
        cpu_check(md_create_tag(&q->plain_weights, naxes, dims,
                                naxes == 6   ? dnnl_abcdef
                                : naxes == 5 ? dnnl_abcde
                                             : dnnl_abcd)))
        return -1;
    return a->bias ? cpu_check(md_create_tag(&q->bias, 1, outputs, dnnl_a)) : 0;
}

static dnnl_status_t ask_forward(const struct cpu_op *op, const struct question *q,
                                 dnnl_primitive_desc_t *out)
{
    return compat_conv_forward(out, op->engine->engine,
                               op->args.train ? dnnl_forward_training : dnnl_forward_inference,
                               q->src, q->weights, q->bias, q->dst, &q->window, op->engine->attr);
}

/* Of `whole`, a slice's images. */
static struct shape slice_of(const struct shape *whole, int slices)
{
    struct shape slice = *whole;

    slice.dim[0] /= slices;
    return slice;
}

/* Of so many images that a thread's sum has some hundred products for each weight. */
static int choose_slices(const struct cpu_op *op)
{
    const struct shape *top = &op->args.tops[0]->value.shape;
    const int64_t enough = 256, images = top->dim[0],
                  pixels = (int64_t)shape_count(top, 2, top->naxes);
    int slices = op->engine->options.steady ? CONV_SLICES : 1;

    while (slices > 1 && (images % slices || images / slices * pixels < enough))
        slices /= 2;
    return slices;
}

/* oneDNN shares the sum over images and pixels by the threads that there are at creation. To be
 * steady they are one, and slices of the images have a primitive each. */
static int ask_weights(const struct cpu_op *op, dnnl_format_tag_t tag, struct conv_plan *plan)
{
    const struct shape bottom = slice_of(&op->args.bottoms[0]->value.shape, plan->slices);
    const struct shape top = slice_of(&op->args.tops[0]->value.shape, plan->slices);
    struct question q = {.src = NULL};
    dnnl_primitive_desc_t forward = NULL;
    int status;

    if (op->engine->options.steady)
        omp_set_num_threads(1);
    status = question_make(op, tag, &bottom, &top, true, &q) ||
             cpu_check(ask_forward(op, &q, &forward)) ||
             cpu_check(compat_conv_backward_weights(&plan->desc[CONV_WEIGHTS], op->engine->engine,
                                                    q.src, q.weights, q.bias, q.dst, &q.window,
                                                    forward, op->engine->attr));
    omp_set_num_threads(op->engine->threads);
    if (forward)
        dnnl_primitive_desc_destroy(forward);
    question_destroy(&q);
    return status ? -1 : 0;
}

/* One primitive for each pass that is needed. */
static int question_ask(const struct cpu_op *op, dnnl_format_tag_t tag, const struct question *q,
                        struct conv_plan *plan)
{
    dnnl_primitive_desc_t *desc = plan->desc;

    if (cpu_check(ask_forward(op, q, &desc[CONV_FORWARD])))
        return -1;
    if (conv_needs(op, CONV_DATA) && cpu_check(compat_conv_backward_data(
                                         &desc[CONV_DATA], op->engine->engine, q->src, q->weights,
                                         q->dst, &q->window, desc[CONV_FORWARD], op->engine->attr)))
        return -1;
    return conv_needs(op, CONV_WEIGHTS) ? ask_weights(op, tag, plan) : 0;
}

/* Finds the formats of both sides of a pass. */
static int conv_formats_find(const struct cpu_op *op, struct conv_plan *plan, enum conv_pass pass)
{
    static const int args[CONV_PASSES][2] = {
        {DNNL_ARG_SRC, DNNL_ARG_DST},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST},
    };
    struct conv_formats *formats = &plan->formats[pass];
    int slices = pass == CONV_WEIGHTS ? plan->slices : 1;
    const struct shape bottom = slice_of(&op->args.bottoms[0]->value.shape, slices);
    const struct shape top = slice_of(&op->args.tops[0]->value.shape, slices);

    if (!plan->desc[pass] ||
        (cpu_format_find(conv_desc_md(plan->desc[pass], args[pass][0]), &bottom, &formats->src) &&
         cpu_format_find(conv_desc_md(plan->desc[pass], args[pass][1]), &top, &formats->dst)))
        return 0;
    return error_set("oneDNN's convolution chose a format that is not known here");
}

/* By oneDNN, for activations of that tag. Fails where it has no such convolution or an unknown
 * format comes out. To be destroyed in any case. */
static int conv_direct_plan(const struct cpu_op *op, dnnl_format_tag_t tag, struct conv_plan *out)
{
    const struct shape *bottom = &op->args.bottoms[0]->value.shape;
    struct question q = {.src = NULL};
    int status;

    *out = (struct conv_plan){.slices = choose_slices(op)};
    status = question_make(op, tag, bottom, &op->args.tops[0]->value.shape, true, &q) ||
             question_ask(op, tag, &q, out);
    out->plain_weights = q.plain_weights;
    q.plain_weights = NULL;
    question_destroy(&q);
    for (int pass = 0; pass < CONV_PASSES && !status; pass++)
        status = conv_formats_find(op, out, (enum conv_pass)pass);
    return status ? -1 : 0;
}

/* Whether it is oneDNN's generated code rather than a general fall-back. */
static bool desc_is_quick(const_dnnl_primitive_desc_t desc)
{
    const char *name = "";

    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           (strncmp(name, "jit", 3) == 0 || strncmp(name, "brg", 3) == 0);
}

static bool conv_plan_quick(const struct conv_plan *plan)
{
    for (int pass = 0; pass < CONV_PASSES; pass++)
        if (plan->desc[pass] && !desc_is_quick(plan->desc[pass]))
            return false;
    return true;
}

struct shape conv_padded_shape(const struct cpu_op *op)
{
    struct shape shape = op->args.bottoms[0]->value.shape;

    for (int i = 0; i < shape.naxes - 2; i++)
        shape.dim[2 + i] += 2 * op->args.u.conv.pad[i];
    return shape;
}

/* oneDNN has no code of its own for AVX2 where a window of 11x11 meets padding, and would hand on
 * plain tops: forward then takes a copy of the bottom that has its padding, if that is quick. */
static int conv_pad_forward(const struct cpu_op *op, struct conv_plan *plan)
{
    const struct shape shape = conv_padded_shape(op), *top = &op->args.tops[0]->value.shape;
    dnnl_primitive_desc_t *old = &plan->desc[CONV_FORWARD], desc = NULL;
    struct conv_formats formats;
    struct question q = {.src = NULL};
    int status = 0;

    if (desc_is_quick(*old) || shape.naxes != 4 ||
        shape_elems(&shape) == shape_elems(&op->args.bottoms[0]->value.shape))
        return 0;
    status = question_make(op, dnnl_format_tag_any, &shape, top, false, &q);
    if (!status && ask_forward(op, &q, &desc) == dnnl_success && desc_is_quick(desc) &&
        cpu_format_find(conv_desc_md(desc, DNNL_ARG_SRC), &shape, &formats.src) && !formats.src &&
        cpu_format_find(conv_desc_md(desc, DNNL_ARG_DST), top, &formats.dst)) {
        dnnl_primitive_desc_t slow = *old;
        *old = desc;
        desc = slow;
        plan->formats[CONV_FORWARD] = formats;
        plan->padded = true;
    }
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    question_destroy(&q);
    return status;
}

/* Whether the format stores channels that are not there: 20 channels in blocks of 8 cost as many
 * operations as 24. oneDNN's code for channels last does not pad. */
static bool format_pads(const struct cpu_format *format, const struct tensor *tensor)
{
    return format && format->block && tensor->shape.dim[1] % format->block != 0;
}

static bool conv_plan_pads(const struct cpu_op *op, const struct conv_plan *plan)
{
    for (int pass = 0; pass < CONV_PASSES; pass++)
        if (format_pads(plan->formats[pass].src, &op->args.bottoms[0]->value) ||
            format_pads(plan->formats[pass].dst, &op->args.tops[0]->value))
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

int conv_plan_create(const struct cpu_op *op, struct conv_plan *out)
{
    struct conv_plan last = {.own = false};
    bool volume = conv_first_axis(op) == 0;

    *out = (struct conv_plan){.own = false};
    if (conv_winograd_plan(op, out))
        return 0;
    if (conv_direct_plan(op, dnnl_format_tag_any, out)) {
        conv_plan_destroy(out);
        return conv_direct_plan(op, volume ? dnnl_abcde : dnnl_abcd, out);
    }
    if (!conv_plan_pads(op, out) || conv_strided_1x1(op))
        return conv_pad_forward(op, out);
    if (conv_direct_plan(op, volume ? dnnl_acdeb : dnnl_acdb, &last) == 0 &&
        conv_plan_quick(&last)) {
        struct conv_plan padded = *out;
        *out = last;
        last = padded;
    }
    conv_plan_destroy(&last);
    return 0;
}
