/* Chooses the code and the formats of a convolution, by asking oneDNN for primitives. */
#include "engine/cpu/conv.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <string.h>

/* Description of a convolution, by which oneDNN is asked for a primitive. */
struct question {
    md_t src, weights, bias, dst; /* weights: oneDNN chooses the layout */
    md_t plain_weights;           /* layout in which weights travel */
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

/* Returns the first axis of struct op_windows that oneDNN sees; all later axes follow. */
static int conv_first_axis(const struct cpu_op *op)
{
    return op->args.bottoms[0]->value.shape.naxes > 4 ? 0 : 1;
}

/* Writes the weights' sizes, (O, C/g, kernel...) or with groups (g, O/g, C/g, kernel...), which is
 * the same memory. Returns the number of axes. */
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

/* Returns false where oneDNN 2.6 makes wrong weight gradients from bfloat16, different from run to
 * run: (1) volumes, (2) groups whose channels do not fill tiles, (3) rows one pixel wide. Such
 * convolutions multiply rounded floats. */
bool conv_rounds(const struct cpu_op *op)
{
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    const int64_t tile = 16, groups = op->args.u.conv.group;
    bool fills = x->dim[1] / groups % tile == 0 && y->dim[1] / groups % tile == 0;

    return cpu_rounds(op->engine) && (groups == 1 || fills) && x->naxes == 4 && x->dim[3] > 1 &&
           y->dim[3] > 1;
}

/* Describes one pass to oneDNN: activations in format `tag`, a bottom and a top of these shapes.
 * pads: oneDNN pads the bottom; else its shape includes the padding. Gradients of parameters are
 * floats. */
static int question_make(const struct cpu_op *op, dnnl_format_tag_t tag, const struct shape *bottom,
                         const struct shape *top, bool pads, enum conv_pass pass,
                         struct question *q)
{
    const dnnl_data_type_t operand = conv_rounds(op) ? dnnl_bf16 : dnnl_f32;
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
    if (cpu_check(md_create_tag(&q->src, naxes, dims, operand, tag)))
        return -1;
    naxes = cpu_md_dims(top, dims);
    if (cpu_check(md_create_tag(&q->dst, naxes, dims, operand, tag)))
        return -1;
    naxes = conv_weight_dims(op, &w, dims);
    if (cpu_check(md_create_tag(&q->weights, naxes, dims, pass == CONV_WEIGHTS ? dnnl_f32 : operand,
                                dnnl_format_tag_any)) ||
        cpu_check(md_create_tag(&q->plain_weights, naxes, dims, dnnl_f32,
                                naxes == 6   ? dnnl_abcdef
                                : naxes == 5 ? dnnl_abcde
                                             : dnnl_abcd)))
        return -1;
    return a->bias ? cpu_check(md_create_tag(&q->bias, 1, outputs, dnnl_f32, dnnl_a)) : 0;
}

static dnnl_status_t ask_forward(const struct cpu_op *op, const struct question *q,
                                 dnnl_primitive_desc_t *out)
{
    return compat_conv_forward(out, op->engine->engine,
                               op->args.train ? dnnl_forward_training : dnnl_forward_inference,
                               q->src, q->weights, q->bias, q->dst, &q->window, op->engine->attr);
}

/* Returns the shape of one slice's images; with 0 slices, the whole shape. */
static struct shape slice_of(const struct shape *whole, int slices)
{
    struct shape slice = *whole;

    slice.dim[0] /= slices > 0 ? slices : 1;
    return slice;
}

/* Returns the number of slices of a pass; 0 without options.steady. For steady sums one thread
 * makes each sum, so that each slice of the images has its own primitive. The number must not
 * depend on the threads. A slice adds some hundred products to each weight's gradient. */
static int choose_slices(const struct cpu_op *op, enum conv_pass pass)
{
    const struct shape *top = &op->args.tops[0]->value.shape;
    const int64_t enough = 256, images = top->dim[0],
                  pixels = (int64_t)shape_count(top, 2, top->naxes);
    int slices = op->engine->options.steady ? CONV_SLICES : 0;

    if (pass == CONV_WEIGHTS)
        while (slices > 1 && (images % slices || images / slices * pixels < enough))
            slices /= 2;
    while (slices > 1 && images % slices)
        slices--;
    return slices;
}

/* oneDNN's code for a pass. */
struct answer {
    dnnl_primitive_desc_t desc;
    int slices; /* see struct conv_plan */
    struct conv_formats formats;
};

static int find_formats(enum conv_pass pass, const struct shape *bottom, const struct shape *top,
                        struct answer *answer)
{
    static const int args[CONV_PASSES][2] = {
        {DNNL_ARG_SRC, DNNL_ARG_DST},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST},
    };

    if (cpu_format_find(conv_desc_md(answer->desc, args[pass][0]), bottom, &answer->formats.src) &&
        cpu_format_find(conv_desc_md(answer->desc, args[pass][1]), top, &answer->formats.dst))
        return 0;
    return error_set("oneDNN chose an unknown memory format for a convolution");
}

/* Asks oneDNN for the primitive of one slice, for one thread; with 0 slices, of all images, for all
 * threads. images: the bottom's shape. tag and pads: as in question_make. Destroy *out in any
 * case. */
static int ask(const struct cpu_op *op, dnnl_format_tag_t tag, const struct shape *images,
               bool pads, enum conv_pass pass, int slices, struct answer *out)
{
    const struct shape bottom = slice_of(images, slices);
    const struct shape top = slice_of(&op->args.tops[0]->value.shape, slices);
    struct cpu_engine *engine = op->engine;
    struct question q = {.src = NULL}, hint = {.src = NULL};
    dnnl_primitive_desc_t forward = NULL;
    int status;

    *out = (struct answer){.slices = slices};
    cpu_threads(engine, slices > 0);
    status =
        question_make(op, tag, &bottom, &top, pads, pass, &q) ||
        question_make(op, tag, &bottom, &top, pads, CONV_FORWARD, &hint) ||
        cpu_check(ask_forward(op, &hint, &forward)) ||
        (pass == CONV_DATA &&
         cpu_check(compat_conv_backward_data(&out->desc, engine->engine, q.src, q.weights, q.dst,
                                             &q.window, forward, engine->attr))) ||
        (pass == CONV_WEIGHTS &&
         cpu_check(compat_conv_backward_weights(&out->desc, engine->engine, q.src, q.weights,
                                                q.bias, q.dst, &q.window, forward, engine->attr)));
    cpu_threads(engine, false);
    if (pass == CONV_FORWARD)
        out->desc = forward;
    else if (forward)
        dnnl_primitive_desc_destroy(forward);
    question_destroy(&q);
    question_destroy(&hint);
    return status || find_formats(pass, &bottom, &top, out) ? -1 : 0;
}

static void answer_destroy(struct answer *answer)
{
    if (answer->desc)
        dnnl_primitive_desc_destroy(answer->desc);
}

static const char *desc_name(const_dnnl_primitive_desc_t desc)
{
    const char *name = "";

    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success
               ? name
               : "";
}

/* Returns true if the code is generated by oneDNN, not a general fall-back. */
static bool desc_is_quick(const_dnnl_primitive_desc_t desc)
{
    return strncmp(desc_name(desc), "jit", 3) == 0 || strncmp(desc_name(desc), "brg", 3) == 0;
}

/* Returns true if the code's sums do not depend on the number of threads. Generated windows
 * ("jit:") add an output up in one order, a block of channels at a time. All other code ("gemm",
 * "brg", "jit_1x1") is matrix products, whose inner sum is cut by the number of threads. */
static bool sums_in_one_order(const_dnnl_primitive_desc_t desc)
{
    return strncmp(desc_name(desc), "jit:", 4) == 0 || strncmp(desc_name(desc), "jit_dw:", 7) == 0;
}

/* Returns true if a and b have the same code and the same formats. */
static bool is_same_code(const struct answer *a, const struct answer *b)
{
    return strcmp(desc_name(a->desc), desc_name(b->desc)) == 0 &&
           a->formats.src == b->formats.src && a->formats.dst == b->formats.dst;
}

/* Asks for a pass in choose_slices' slices, or in 1 or 0 if oneDNN's code sums in one order. */
static int ask_pass(const struct cpu_op *op, dnnl_format_tag_t tag, const struct shape *images,
                    bool pads, enum conv_pass pass, struct answer *out)
{
    int slices = choose_slices(op, pass);
    struct answer single, all;
    bool whole;

    if (slices == 0 || pass == CONV_WEIGHTS)
        return ask(op, tag, images, pads, pass, slices, out);
    if (ask(op, tag, images, pads, pass, 1, &single) == 0 && sums_in_one_order(single.desc)) {
        *out = single;
        whole = ask(op, tag, images, pads, pass, 0, &all) == 0 && is_same_code(&single, &all);
        if (whole)
            *out = all;
        answer_destroy(whole ? &single : &all);
        return 0;
    }
    answer_destroy(&single);
    return ask(op, tag, images, pads, pass, slices, out);
}

static void plan_take(struct conv_plan *plan, enum conv_pass pass, const struct answer *answer)
{
    plan->desc[pass] = answer->desc;
    plan->slices[pass] = answer->slices;
    plan->formats[pass] = answer->formats;
}

/* Plans all passes by oneDNN for activations in format `tag`. Fails where oneDNN has no such
 * convolution or chooses an unknown format. Destroy *out in any case. */
static int conv_direct_plan(const struct cpu_op *op, dnnl_format_tag_t tag, struct conv_plan *out)
{
    const struct shape *bottom = &op->args.bottoms[0]->value.shape;
    struct question q = {.src = NULL};
    struct answer answer;
    int status;

    *out = (struct conv_plan){.by_winograd = false};
    status = question_make(op, tag, bottom, &op->args.tops[0]->value.shape, true, CONV_FORWARD, &q);
    out->plain_weights = q.plain_weights;
    q.plain_weights = NULL;
    question_destroy(&q);
    for (enum conv_pass pass = 0; pass < CONV_PASSES && !status; pass++)
        if (conv_needs(op, pass)) {
            status = ask_pass(op, tag, bottom, true, pass, &answer);
            plan_take(out, pass, &answer);
        }
    return status ? -1 : 0;
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

/* Lets forward take a padded copy of the bottom, if oneDNN has fast code for it. For AVX2 oneDNN
 * has no generated code for windows of 11x11 with padding, and its fall-back makes plain tops. */
static void conv_pad_forward(const struct cpu_op *op, struct conv_plan *plan)
{
    const struct shape shape = conv_padded_shape(op);
    struct answer answer;

    if (desc_is_quick(plan->desc[CONV_FORWARD]) || shape.naxes != 4 || conv_rounds(op) ||
        shape_elems(&shape) == shape_elems(&op->args.bottoms[0]->value.shape))
        return;
    if (ask_pass(op, dnnl_format_tag_any, &shape, false, CONV_FORWARD, &answer) == 0 &&
        desc_is_quick(answer.desc) && !answer.formats.src) {
        dnnl_primitive_desc_t slow = plan->desc[CONV_FORWARD];
        plan_take(plan, CONV_FORWARD, &answer);
        plan->padded = true;
        answer.desc = slow;
    }
    answer_destroy(&answer);
}

/* Returns true if the format pads the channels: 20 channels in blocks of 8 cost as much as 24.
 * oneDNN's code for channels last does not pad. */
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

/* Returns true for strided windows of one pixel. oneDNN 2.6's weight gradient of such windows has a
 * race between threads that gather pixels: wrong values once in 100 runs, with channels last
 * only. */
static bool conv_strided_1x1(const struct cpu_op *op)
{
    const struct conv_args *a = &op->args.u.conv;
    int spatial = op->args.bottoms[0]->value.shape.naxes - 2;

    return op_window_places(a->kernel, spatial) == 1 && op_window_places(a->stride, spatial) > 1;
}

int conv_plan_create(const struct cpu_op *op, struct conv_plan *out)
{
    struct conv_plan last = {.by_winograd = false};
    bool volume = conv_first_axis(op) == 0;

    *out = (struct conv_plan){.by_winograd = false};
    if (conv_winograd_plan(op, out))
        return 0;
    if (conv_direct_plan(op, dnnl_format_tag_any, out)) {
        conv_plan_destroy(out);
        return conv_direct_plan(op, volume ? dnnl_abcde : dnnl_abcd, out);
    }
    out->products = conv_product_fits(op, out);
    if (!conv_plan_pads(op, out) || conv_strided_1x1(op)) {
        conv_pad_forward(op, out);
        return 0;
    }
    if (conv_direct_plan(op, volume ? dnnl_acdeb : dnnl_acdb, &last) == 0 &&
        conv_plan_quick(&last)) {
        struct conv_plan padded = *out;
        *out = last;
        last = padded;
    }
    conv_plan_destroy(&last);
    return 0;
}
