/* Convolution by oneDNN in the formats that it prefers, or channels last where those formats would
 * pad much; or by our own Winograd (conv_winograd.c).
 *
 * Weights are stored plain and reordered for each oneDNN primitive. Where the weights change from
 * pass to pass, the copy is in scratch memory of all ops. Elsewhere the op keeps its own copy and
 * renews it when the parameter's version changes, also for Winograd's transformed weights. oneDNN
 * writes the weight gradient in its own layout to scratch memory; a reorder makes it plain. */
#include "engine/cpu/conv.h"

#include "util/error.h"

#include <stdio.h>
#include <string.h>

/* The weights in a pass's layout. */
struct weights {
    struct cpu_primitive reorder; /* reorder from plain; empty where oneDNN takes plain */
    float *copy;                  /* the op's copy; NULL: reordered into scratch at each pass */
    size_t bytes;                 /* bytes of copy */
    uint64_t version;
    bool filled;
};

/* Arguments of one pass: two inputs, one output, and the bias (or its gradient). */
enum { INPUT_A, INPUT_B, OUTPUT, BIAS, ARGS };

struct conv {
    struct cpu_op op;
    bool by_winograd;                      /* our own Winograd computes all passes */
    bool half;                             /* products take activations as bfloat16 */
    bool padded;                           /* see struct conv_plan */
    struct winograd winograd[CONV_PASSES]; /* plans, if by_winograd */
    struct cpu_primitive primitive[CONV_PASSES][CONV_SLICES]; /* oneDNN's primitives, one a slice */
    int slices[CONV_PASSES];                                  /* see struct conv_plan */
    size_t step[CONV_PASSES][ARGS];      /* bytes from a slice's argument to the next slice's */
    size_t diff_elems;                   /* floats of a weight gradient in oneDNN's layout */
    struct weights weights[CONV_PASSES]; /* used by CONV_FORWARD and CONV_DATA */
    struct cpu_primitive diff_weights;   /* reorder to plain; empty where oneDNN's is plain */
    struct cpu_view src, src_again;      /* bottom for forward; for backward, if made again */
    struct cpu_view dst, diff_dst_data, diff_dst_weights, diff_src;
    bool diff_dst_again;         /* diff_dst_data is not what diff_dst_weights has made */
    struct conv_product product; /* passes that are matrix products */
    size_t weight_elems, bias_elems;
};

/* ---- set-up ---- */

/* Returns true if the weights change between passes. */
static bool conv_weights_change(const struct conv *conv)
{
    return conv->op.args.train && conv->op.args.params[0]->wants_grad &&
           conv->op.engine->options.passes <= 1;
}

/* Allocates the op's copy of weights, which is renewed when the parameter changes. */
static int conv_weights_keep(struct conv *conv, size_t bytes, struct weights *out)
{
    out->copy = cpu_op_alloc(&conv->op, bytes, "a copy of weights");
    if (!out->copy)
        return -1;
    out->bytes = bytes;
    conv->op.engine->kept += bytes;
    return 0;
}

static int conv_weights_create(struct conv *conv, const struct conv_plan *plan, enum conv_pass pass)
{
    const_md_t wanted = conv_desc_md(plan->desc[pass], DNNL_ARG_WEIGHTS);
    size_t bytes = dnnl_memory_desc_get_size(wanted);

    if (dnnl_memory_desc_equal(wanted, plan->plain_weights))
        return 0;
    if (conv_weights_change(conv) ? cpu_work_reserve(conv->op.engine, WORK_PARAM, bytes)
                                  : conv_weights_keep(conv, bytes, &conv->weights[pass]))
        return -1;
    return cpu_reorder_create(conv->op.engine, &conv->op.owner, plan->plain_weights, wanted,
                              &conv->weights[pass].reorder);
}

static int conv_primitives(const struct conv *conv, enum conv_pass pass)
{
    return conv->slices[pass] > 0 ? conv->slices[pass] : 1;
}

static int conv_diff_weights_create(struct conv *conv, const struct conv_plan *plan)
{
    const_md_t diff = conv_desc_md(plan->desc[CONV_WEIGHTS], DNNL_ARG_DIFF_WEIGHTS);
    bool plain = dnnl_memory_desc_equal(diff, plan->plain_weights);

    if ((!plain || conv->slices[CONV_WEIGHTS] > 1) &&
        cpu_work_reserve(conv->op.engine, WORK_WEIGHT_GRAD,
                         (size_t)conv_primitives(conv, CONV_WEIGHTS) *
                             conv->step[CONV_WEIGHTS][OUTPUT]))
        return -1;
    return plain ? 0
                 : cpu_reorder_create(conv->op.engine, &conv->op.owner, diff, plan->plain_weights,
                                      &conv->diff_weights);
}

static const int pass_args[CONV_PASSES][ARGS] = {
    {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS},
    {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
    {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS},
};

/* Returns true if the pass has argument i. */
static bool conv_takes(const struct conv *conv, enum conv_pass pass, int i)
{
    return pass_args[pass][i] != 0 && (i != BIAS || conv->op.args.u.conv.bias);
}

static int conv_primitive_create(struct conv *conv, const struct conv_plan *plan,
                                 enum conv_pass pass, int slice)
{
    struct cpu_engine *engine = conv->op.engine;
    struct cpu_primitive *primitive = &conv->primitive[pass][slice];

    if (cpu_primitive_create(engine, &conv->op.owner, plan->desc[pass], primitive))
        return -1;
    for (int i = 0; i < ARGS; i++)
        if (conv_takes(conv, pass, i) &&
            cpu_primitive_arg(engine, primitive, pass_args[pass][i],
                              conv_desc_md(plan->desc[pass], pass_args[pass][i])))
            return -1;
    return 0;
}

/* Creates a pass's primitives. Slices run side by side, each with its own temporary memory. oneDNN
 * caches primitives by the number of threads at creation: slices' primitives need one thread. */
static int conv_primitives_create(struct conv *conv, const struct conv_plan *plan,
                                  enum conv_pass pass)
{
    int slices = conv->slices[pass], status = 0;

    cpu_threads(conv->op.engine, slices > 0);
    for (int s = 0; s < conv_primitives(conv, pass) && !status; s++)
        status = conv_primitive_create(conv, plan, pass, s) ||
                 (slices > 0 && cpu_primitive_place(conv->op.engine, &conv->primitive[pass][s], s));
    cpu_threads(conv->op.engine, false);
    return status ? -1 : 0;
}

static int conv_winograd_create(struct conv *conv, enum conv_pass pass)
{
    const struct winograd *plan = &conv->winograd[pass];
    bool keeps = pass != CONV_WEIGHTS && !conv_weights_change(conv);

    if (keeps && conv_weights_keep(conv, winograd_points_bytes(plan), &conv->weights[pass]))
        return -1;
    return cpu_work_reserve(conv->op.engine, WORK_SCRATCHPAD, winograd_bytes(plan, keeps));
}

/* Sets the steps between slices. Slices share parameters; a slice's gradients are contiguous. */
static void conv_steps_find(struct conv *conv, const struct conv_plan *plan, enum conv_pass pass)
{
    size_t *step = conv->step[pass];

    for (int i = 0; i < BIAS; i++)
        step[i] =
            pass_args[pass][i] == DNNL_ARG_WEIGHTS
                ? 0
                : dnnl_memory_desc_get_size(conv_desc_md(plan->desc[pass], pass_args[pass][i]));
    if (pass != CONV_WEIGHTS)
        return;
    conv->diff_elems = step[OUTPUT] / sizeof(float);
    step[OUTPUT] += conv->bias_elems * sizeof(float);
    step[BIAS] = step[OUTPUT];
}

/* Returns true if products take the bottom, whose elements are bfloat16, as floats. */
static bool conv_expands(const struct conv *conv)
{
    return !conv->half && cpu_tensor_half(&conv->op.args.bottoms[0]->value);
}

/* Creates the code of one pass, and its weights. */
static int conv_pass_create(struct conv *conv, const struct conv_plan *plan, enum conv_pass pass)
{
    if (conv_product_takes(plan, &conv->op, pass))
        return conv_product_create(&conv->op, pass, &conv->product);
    if (conv->by_winograd)
        return conv_winograd_create(conv, pass);
    conv_steps_find(conv, plan, pass);
    return error_status((pass == CONV_WEIGHTS ? conv_diff_weights_create(conv, plan)
                                              : conv_weights_create(conv, plan, pass)) ||
                        conv_primitives_create(conv, plan, pass));
}

static int conv_forward_create(struct conv *conv, const struct conv_plan *plan)
{
    const struct op_args *args = &conv->op.args;
    const struct conv_formats *formats = &plan->formats[CONV_FORWARD];
    const struct shape padded = conv_padded_shape(&conv->op);
    const bool halves = conv->op.engine->options.math == MATH_BF16;

    cpu_top_set(args->tops[0], halves ? cpu_format_halves(formats->dst) : formats->dst);
    if (cpu_view_create(&conv->op, &args->bottoms[0]->value, formats->src, false,
                        conv_expands(conv) ? WORK_TOP_GRAD : WORK_OWN, &conv->src) ||
        cpu_view_create(&conv->op, &args->tops[0]->value, formats->dst, true, WORK_BOTTOM_GRAD,
                        &conv->dst))
        return -1;
    if (plan->padded &&
        cpu_work_reserve(conv->op.engine, WORK_ROUNDED_X, shape_elems(&padded) * sizeof(float)))
        return -1;
    return conv_pass_create(conv, plan, CONV_FORWARD);
}

static int conv_data_create(struct conv *conv, const struct conv_plan *plan)
{
    const struct op_args *args = &conv->op.args;
    const struct conv_formats *formats = &plan->formats[CONV_DATA];

    if (!conv_needs(&conv->op, CONV_DATA))
        return 0;
    if (cpu_view_create(&conv->op, &args->tops[0]->grad, formats->dst, false, WORK_TOP_GRAD,
                        &conv->diff_dst_data) ||
        cpu_view_create(&conv->op, &args->bottoms[0]->grad, formats->src, true, WORK_BOTTOM_GRAD,
                        &conv->diff_src))
        return -1;
    return conv_pass_create(conv, plan, CONV_DATA);
}

static int conv_weights_pass_create(struct conv *conv, const struct conv_plan *plan)
{
    const struct op_args *args = &conv->op.args;
    const struct conv_formats *formats = &plan->formats[CONV_WEIGHTS];

    if (!conv_needs(&conv->op, CONV_WEIGHTS))
        return 0;
    if ((conv_expands(conv) || formats->src != plan->formats[CONV_FORWARD].src) &&
        cpu_view_create(&conv->op, &args->bottoms[0]->value, formats->src, false, WORK_BOTTOM_GRAD,
                        &conv->src_again))
        return -1;
    conv->diff_dst_again = formats->dst != plan->formats[CONV_DATA].dst;
    /* room for the plain gradients of weight and bias, contiguous, before they are added */
    if (cpu_view_create(&conv->op, &args->tops[0]->grad, formats->dst, false, WORK_TOP_GRAD,
                        &conv->diff_dst_weights) ||
        cpu_work_reserve(conv->op.engine, WORK_PARAM,
                         (conv->weight_elems + conv->bias_elems) * sizeof(float)))
        return -1;
    return conv_pass_create(conv, plan, CONV_WEIGHTS);
}

static int conv_create(struct cpu_op *op)
{
    struct conv *conv = (struct conv *)op;
    struct conv_plan plan;
    int status = conv_plan_create(op, &plan);

    conv->weight_elems = shape_elems(&op->args.params[0]->shape);
    conv->bias_elems = op->args.u.conv.bias ? shape_elems(&op->args.params[1]->shape) : 0;
    conv->by_winograd = plan.by_winograd;
    conv->half = cpu_format_half(plan.formats[CONV_FORWARD].src);
    conv->diff_dst_again = true;
    conv->padded = plan.padded;
    memcpy(conv->slices, plan.slices, sizeof conv->slices);
    memcpy(conv->winograd, plan.winograd, sizeof conv->winograd);
    if (!status)
        status = conv_forward_create(conv, &plan) || conv_data_create(conv, &plan) ||
                 conv_weights_pass_create(conv, &plan);
    conv_plan_destroy(&plan);
    return status ? -1 : 0;
}

/* ---- passes ---- */

/* Returns true if the copy holds the current weights, and marks the copy as current. */
static bool conv_weights_fresh(const struct conv *conv, struct weights *w)
{
    const struct param *param = conv->op.args.params[0];
    bool fresh = w->filled && w->version == param->version;

    w->filled = w->copy != NULL;
    w->version = param->version;
    return fresh;
}

/* Gets the weights in the layout and type of the pass's primitive. The reorder makes bfloat16. */
static int conv_weights_get(struct conv *conv, enum conv_pass pass, const float **out)
{
    struct cpu_engine *engine = conv->op.engine;
    struct weights *w = &conv->weights[pass];
    const float *from = conv->op.args.params[0]->value;
    float *to = w->copy ? w->copy : engine->work[WORK_PARAM].data;

    if (w->reorder.primitive && conv_weights_fresh(conv, w)) {
        *out = to;
        return 0;
    }
    *out = w->reorder.primitive ? to : from;
    return w->reorder.primitive ? cpu_reorder_run(engine, &w->reorder, from, to) : 0;
}

/* Returns true if the pass is a matrix product. */
static bool conv_multiplies(const struct conv *conv, enum conv_pass pass)
{
    return conv->product.pass[pass].matmul.primitive != NULL;
}

static void conv_winograd_run(struct conv *conv, enum conv_pass pass, struct winograd_data data)
{
    data.scratch = conv->op.engine->work[WORK_SCRATCHPAD].data;
    data.points = conv->weights[pass].copy;
    data.pointed = conv_weights_fresh(conv, &conv->weights[pass]);
    data.weights = conv->op.args.params[0]->value;
    winograd_run(&conv->winograd[pass], &data);
}

/* Returns a copy of the plain bottom with its padding, in WORK_ROUNDED_X. */
static const float *conv_pad(const struct conv *conv, const float *x)
{
    const struct shape *in = &conv->op.args.bottoms[0]->value.shape,
                       out = conv_padded_shape(&conv->op);
    const int *pad = conv->op.args.u.conv.pad;
    float *padded = conv->op.engine->work[WORK_ROUNDED_X].data;
    int64_t planes = in->dim[0] * in->dim[1], rows = in->dim[2], width = in->dim[3];

#pragma omp parallel for
    for (int64_t plane = 0; plane < planes; plane++) {
        float *to = padded + plane * out.dim[2] * out.dim[3];

        memset(to, 0, (size_t)(out.dim[2] * out.dim[3]) * sizeof *to);
        for (int64_t row = 0; row < rows; row++)
            memcpy(to + (row + pad[0]) * out.dim[3] + pad[1], x + (plane * rows + row) * width,
                   (size_t)width * sizeof *to);
    }
    return padded;
}

/* Runs a pass by oneDNN; data: the first slice's arguments. Inside the parallel region oneDNN
 * computes a slice's matrix products on the calling thread alone. */
static int conv_pass_run(struct conv *conv, enum conv_pass pass, const float *const data[ARGS])
{
    struct cpu_engine *engine = conv->op.engine;
    const size_t *step = conv->step[pass];
    int failed = 0;

    if (conv->slices[pass] == 0)
        return cpu_primitive_run(engine, &conv->primitive[pass][0],
                                 (const void *const[]){data[0], data[1], data[2], data[3]});
#pragma omp parallel for reduction(| : failed)
    for (int s = 0; s < conv->slices[pass]; s++) {
        const void *slice_data[ARGS];

        for (int i = 0; i < ARGS; i++)
            slice_data[i] = data[i] ? (const char *)data[i] + (size_t)s * step[i] : NULL;
        failed |= cpu_primitive_run(engine, &conv->primitive[pass][s], slice_data);
    }
    return failed ? error_set("oneDNN: a pass over some of the images failed") : 0;
}

static int conv_forward_run(struct conv *conv, const float *x, const float *bias, float *y)
{
    const float *weights;

    if (conv_multiplies(conv, CONV_FORWARD))
        return conv_product_forward(&conv->product, x, bias, y);
    if (conv->padded)
        x = conv_pad(conv, x);
    if (conv->by_winograd) {
        conv_winograd_run(
            conv, CONV_FORWARD,
            (struct winograd_data){.x = x, .bias = bias, .y = y, .relu = conv->op.args.relu});
        return 0;
    }
    return error_status(
        conv_weights_get(conv, CONV_FORWARD, &weights) ||
        conv_pass_run(conv, CONV_FORWARD, (const float *const[ARGS]){x, weights, y, bias}));
}

static int conv_forward(struct cpu_op *op)
{
    struct conv *conv = (struct conv *)op;
    const float *bias = conv->bias_elems ? op->args.params[1]->value : NULL;
    struct blob *top = op->args.tops[0];

    if (cpu_view_move(op->engine, &conv->src) ||
        conv_forward_run(conv, cpu_view_data(op->engine, &conv->src), bias,
                         cpu_view_data(op->engine, &conv->dst)) ||
        cpu_view_move(op->engine, &conv->dst))
        return -1;
    if (op->args.relu && !conv->by_winograd)
        cpu_relu_run(cpu_tensor_half(&top->value), top->value.data, 0, top->value.data,
                     cpu_tensor_stored(&top->value));
    return 0;
}

/* Adds up the slices' gradients in the memory of the first slice. */
static void conv_slices_add(const struct conv *conv, float *diff)
{
    const size_t elems = conv->step[CONV_WEIGHTS][OUTPUT] / sizeof *diff;
    const int slices = conv->slices[CONV_WEIGHTS];

#pragma omp parallel for
    for (size_t i = 0; i < elems; i += CPU_PIECE)
        for (int step = 1; step < slices; step *= 2)
            for (int s = 0; s < slices; s += 2 * step)
                cpu_axpby_piece(diff + (size_t)s * elems + i, 1,
                                diff + (size_t)(s + step) * elems + i, 1, cpu_piece(elems, i));
}

/* Computes the gradients of weights and biases, plain, into weight and bias. */
static int conv_weights_run(struct conv *conv, float *weight, float *bias)
{
    struct cpu_engine *engine = conv->op.engine;
    const struct cpu_view *src = conv->src_again.tensor ? &conv->src_again : &conv->src;
    struct param *const *params = conv->op.args.params;
    const float *x = cpu_view_data(engine, src);
    const float *dy = cpu_view_data(engine, &conv->diff_dst_weights);
    float *diff = conv->diff_weights.primitive ? engine->work[WORK_WEIGHT_GRAD].data : weight;
    float *diff_bias = bias;
    bool several = conv->slices[CONV_WEIGHTS] > 1;

    if (conv_multiplies(conv, CONV_WEIGHTS))
        return conv_product_weights(&conv->product, x, dy, weight, bias);
    if (conv->by_winograd) {
        conv_winograd_run(conv, CONV_WEIGHTS,
                          (struct winograd_data){
                              .x = x,
                              .dy = dy,
                              .dweights = params[0]->wants_grad ? weight : NULL,
                              .dbias = conv->bias_elems && params[1]->wants_grad ? bias : NULL});
        return 0;
    }
    if (several) {
        diff = engine->work[WORK_WEIGHT_GRAD].data;
        diff_bias = diff + conv->diff_elems;
    }
    if (conv_pass_run(conv, CONV_WEIGHTS, (const float *const[ARGS]){x, dy, diff, diff_bias}))
        return -1;
    if (several) {
        conv_slices_add(conv, diff);
        memcpy(bias, diff_bias, conv->bias_elems * sizeof *bias);
    }
    if (diff == weight || !params[0]->wants_grad)
        return 0;
    if (conv->diff_weights.primitive)
        return cpu_reorder_run(engine, &conv->diff_weights, diff, weight);
    memcpy(weight, diff, conv->weight_elems * sizeof *weight);
    return 0;
}

static int conv_weights_backward(struct conv *conv)
{
    struct cpu_engine *engine = conv->op.engine;
    struct param *weight = conv->op.args.params[0];
    struct param *bias = conv->bias_elems ? conv->op.args.params[1] : NULL;
    float *plain = engine->work[WORK_PARAM].data;
    bool weight_direct = weight->wants_grad && !weight->accumulate;
    bool bias_direct = bias && bias->wants_grad && !bias->accumulate;
    float *weight_to = weight_direct ? weight->grad : plain;
    float *bias_to = bias_direct ? bias->grad : plain + conv->weight_elems;

    if (cpu_view_move(engine, &conv->diff_dst_weights) ||
        (conv->src_again.tensor && cpu_view_move(engine, &conv->src_again)) ||
        conv_weights_run(conv, weight_to, bias_to))
        return -1;
    if (weight->wants_grad && !weight_direct)
        cpu_axpby(weight->grad, 1, weight_to, 1, conv->weight_elems);
    if (bias && bias->wants_grad && !bias_direct)
        cpu_axpby(bias->grad, 1, bias_to, 1, conv->bias_elems);
    return 0;
}

static int conv_data_run(struct conv *conv, float *dx)
{
    const float *dy = cpu_view_data(conv->op.engine, &conv->diff_dst_data), *weights;

    if (conv_multiplies(conv, CONV_DATA))
        return conv_product_data(&conv->product, dy, dx);
    if (conv->by_winograd) {
        conv_winograd_run(conv, CONV_DATA, (struct winograd_data){.x = dy, .y = dx});
        return 0;
    }
    return error_status(
        conv_weights_get(conv, CONV_DATA, &weights) ||
        conv_pass_run(conv, CONV_DATA, (const float *const[ARGS]){dy, weights, dx}));
}

static int conv_data_backward(struct conv *conv)
{
    struct cpu_engine *engine = conv->op.engine;

    return error_status((conv->diff_dst_again && cpu_view_move(engine, &conv->diff_dst_data)) ||
                        conv_data_run(conv, cpu_view_data(engine, &conv->diff_src)) ||
                        cpu_view_move(engine, &conv->diff_src));
}

static int conv_backward(struct cpu_op *op)
{
    struct conv *conv = (struct conv *)op;
    const struct blob *top = op->args.tops[0];
    bool learns = conv->diff_dst_weights.tensor,
         propagates = conv->diff_dst_data.tensor && cpu_op_propagates(op, 0);

    if (op->args.relu && (learns || propagates))
        cpu_relu_back_run(cpu_tensor_half(&top->value), top->value.data, top->grad.data, 0,
                          top->grad.data, cpu_tensor_stored(&top->value));
    /* parameters first: their gradients travel while the bottom's is computed */
    if (learns && conv_weights_backward(conv))
        return -1;
    return propagates ? conv_data_backward(conv) : 0;
}

static void conv_destroy(struct cpu_op *op)
{
    struct conv *conv = (struct conv *)op;

    for (int pass = 0; pass < CONV_PASSES; pass++)
        op->engine->kept -= conv->weights[pass].bytes;
}

static void conv_describe(const struct cpu_op *op, char words[ENGINE_OP_WORDS])
{
    if (((const struct conv *)op)->by_winograd)
        snprintf(words, ENGINE_OP_WORDS, "Winograd");
    else if (op->engine->options.math == MATH_BF16)
        snprintf(words, ENGINE_OP_WORDS,
                 ((const struct conv *)op)->half ? "bf16" : "bf16, multiplied as floats");
}

const struct cpu_kind cpu_conv = {
    .size = sizeof(struct conv),
    .create = conv_create,
    .forward = conv_forward,
    .backward = conv_backward,
    .destroy = conv_destroy,
    .describe = conv_describe,
};
