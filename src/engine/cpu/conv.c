/* Convolution by oneDNN, in the formats it likes best; channels last where those would pad much.
 *
 * Weights travel plain and are laid out for each primitive: in memory that all ops share where they
 * are others by the next pass; elsewhere the op keeps a copy and renews it when the parameter's
 * version says so. Our own Winograd keeps them at its points likewise. The weight gradient is made
 * in oneDNN's layout in memory that all ops share, and laid out plainly from there. */
#include "engine/cpu/conv.h"

#include "util/error.h"

#include <stdio.h>
#include <string.h>

/* The weights as one primitive wants them. */
struct weights {
    struct cpu_primitive reorder; /* empty where plain is what it wants */
    float *copy;                  /* NULL: laid out in WORK_PARAM for each pass */
    size_t bytes;                 /* of the copy */
    size_t plain, laid;           /* floats of one part, as they travel and in the copy */
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
    enum conv_way way[CONV_PASSES];
    struct winograd own[CONV_PASSES];
    struct weights points[CONV_PASSES];     /* of such passes: the weights as they take them */
    int parts[CONV_PASSES];                 /* several: the primitive runs for one group each */
    struct conv_part bottom_part, top_part; /* of such a pass */
    int slices[CONV_PASSES];                /* several: for some of the images each */
    size_t floats[2];                       /* of all bottoms and of all tops, where it does */
};

static const_md_t conv_plain_weights(const struct conv_descs *d, enum conv_pass pass)
{
    return d->parts[pass] > 1 ? d->part_weights : d->plain_weights;
}

/* Whether the weights are others in the next pass. */
static bool conv_weights_change(const struct conv *conv)
{
    return conv->op.args.train && conv->op.args.params[0]->wants_grad &&
           conv->op.engine->passes <= 1;
}

/* Memory for weights that stay as they are until the parameter changes. */
static int conv_weights_keep(struct conv *conv, size_t bytes, struct weights *out)
{
    void *copy;

    if (cpu_alloc(bytes, "a copy of weights", &copy))
        return -1;
    out->copy = copy;
    out->bytes = bytes;
    conv->op.engine->kept += bytes;
    return 0;
}

static int conv_weights_create(struct conv *conv, const struct conv_descs *d, enum conv_pass pass,
                               const_md_t wanted, struct weights *out)
{
    const_md_t plain = conv_plain_weights(d, pass);
    size_t parts = (size_t)d->parts[pass], bytes = dnnl_memory_desc_get_size(wanted);

    out->plain = out->laid = conv->weight_elems / parts;
    if (dnnl_memory_desc_equal(wanted, plain))
        return 0;
    if (conv_weights_change(conv) ? cpu_work_reserve(conv->op.engine, WORK_PARAM, parts * bytes)
                                  : conv_weights_keep(conv, parts * bytes, out))
        return -1;
    out->laid = bytes / sizeof(float);
    return cpu_reorder_create(conv->op.engine, plain, wanted, &out->reorder);
}

/* Whether the copy holds the weights as they are; from now on it does. */
static bool conv_weights_fresh(const struct conv *conv, struct weights *w)
{
    const struct param *param = conv->op.args.params[0];
    bool fresh = w->filled && w->version == param->version;

    w->filled = w->copy != NULL;
    w->version = param->version;
    return fresh;
}

static int conv_weights_get(struct conv *conv, struct weights *w, const float **out)
{
    const struct param *param = conv->op.args.params[0];
    float *to = w->copy ? w->copy : conv->op.engine->work[WORK_PARAM].data;

    *out = w->reorder.primitive ? to : param->value;
    if (!w->reorder.primitive || conv_weights_fresh(conv, w))
        return 0;
    for (size_t part = 0; part * w->plain < conv->weight_elems; part++)
        if (cpu_reorder_run(conv->op.engine, &w->reorder, param->value + part * w->plain,
                            to + part * w->laid))
            return -1;
    return 0;
}

static void conv_weights_destroy(const struct conv *conv, struct weights *w)
{
    cpu_primitive_destroy(&w->reorder);
    conv->op.engine->kept -= w->bytes;
    cpu_free(w->copy);
}

static int conv_own_create(struct conv *conv, enum conv_pass pass)
{
    const struct winograd *own = &conv->own[pass];
    bool keeps = pass != CONV_BACKWARD_WEIGHTS && !conv_weights_change(conv);

    if (keeps && conv_weights_keep(conv, winograd_points_bytes(own), &conv->points[pass]))
        return -1;
    return cpu_work_reserve(conv->op.engine, WORK_SCRATCHPAD, winograd_bytes(own, keeps));
}

static void conv_own_run(struct conv *conv, enum conv_pass pass, struct winograd_data data)
{
    data.scratch = conv->op.engine->work[WORK_SCRATCHPAD].data;
    data.points = conv->points[pass].copy;
    data.pointed = conv_weights_fresh(conv, &conv->points[pass]);
    winograd_run(&conv->own[pass], &data);
}

static int conv_forward_create(struct conv *conv, const struct conv_descs *d)
{
    struct cpu_engine *engine = conv->op.engine;
    struct blob *bottom = conv->op.args.bottoms[0], *top = conv->op.args.tops[0];
    const_md_t weights = conv_desc_md(d->forward, dnnl_query_weights_md);

    cpu_top_set(top, d->dst_format);
    if (cpu_input_create(engine, &bottom->value, d->src_format, WORK_OWN, &conv->src))
        return -1;
    if (conv->way[CONV_FORWARD] == CONV_OWN)
        return conv_own_create(conv, CONV_FORWARD);
    if (conv_weights_create(conv, d, CONV_FORWARD, weights, &conv->weights) ||
        cpu_primitive_create(engine, d->forward, &conv->forward) ||
        cpu_primitive_arg(engine, &conv->forward, DNNL_ARG_SRC,
                          conv_desc_md(d->forward, dnnl_query_src_md)) ||
        cpu_primitive_arg(engine, &conv->forward, DNNL_ARG_WEIGHTS, weights) ||
        cpu_primitive_arg(engine, &conv->forward, DNNL_ARG_DST,
                          conv_desc_md(d->forward, dnnl_query_dst_md)))
        return -1;
    return d->bias ? cpu_primitive_arg(
                         engine, &conv->forward, DNNL_ARG_BIAS,
                         dnnl_primitive_desc_query_md(d->forward, dnnl_query_weights_md, 1))
                   : 0;
}

static int conv_data_create(struct conv *conv, const struct conv_descs *d)
{
    struct cpu_engine *engine = conv->op.engine;
    struct blob *bottom = conv->op.args.bottoms[0], *top = conv->op.args.tops[0];
    struct cpu_primitive *primitive = &conv->backward_data;
    const_md_t weights = conv_desc_md(d->backward_data, dnnl_query_weights_md);

    if (cpu_input_create(engine, &top->grad, d->data_dst_format, WORK_TOP_GRAD,
                         &conv->diff_dst_data) ||
        cpu_output_create(engine, &bottom->grad, d->data_src_format, WORK_BOTTOM_GRAD,
                          &conv->diff_src))
        return -1;
    if (conv->way[CONV_BACKWARD_DATA] == CONV_OWN)
        return conv_own_create(conv, CONV_BACKWARD_DATA);
    conv->shares_weights =
        conv->way[CONV_FORWARD] != CONV_OWN && !conv_weights_change(conv) &&
        dnnl_memory_desc_equal(weights, conv_desc_md(d->forward, dnnl_query_weights_md));
    if (!conv->shares_weights &&
        conv_weights_create(conv, d, CONV_BACKWARD_DATA, weights, &conv->weights_back))
        return -1;
    if (cpu_primitive_create(engine, d->backward_data, primitive) ||
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
    const_md_t plain_weights = conv_plain_weights(d, CONV_BACKWARD_WEIGHTS);
    size_t bytes = dnnl_memory_desc_get_size(weights);
    size_t plain = (conv->weight_elems + conv->bias_elems) * sizeof(float);

    /* the plain gradients of weight and bias, one behind the other, when they are to be added */
    if (cpu_work_reserve(engine, WORK_PARAM, plain))
        return -1;
    if (conv->way[CONV_BACKWARD_WEIGHTS] == CONV_OWN)
        return conv_own_create(conv, CONV_BACKWARD_WEIGHTS);
    if (!dnnl_memory_desc_equal(weights, plain_weights) &&
        cpu_reorder_create(engine, weights, plain_weights, &conv->diff_weights))
        return -1;
    if (cpu_work_reserve(engine, WORK_WEIGHT_GRAD, bytes) ||
        cpu_primitive_create(engine, desc, &conv->backward_weights) ||
        cpu_primitive_arg(engine, &conv->backward_weights, DNNL_ARG_SRC,
                          conv_desc_md(desc, dnnl_query_src_md)) ||
        cpu_primitive_arg(engine, &conv->backward_weights, DNNL_ARG_DIFF_DST,
                          conv_desc_md(desc, dnnl_query_diff_dst_md)) ||
        cpu_primitive_arg(engine, &conv->backward_weights, DNNL_ARG_DIFF_WEIGHTS, weights))
        return -1;
    return d->bias ? cpu_primitive_arg(
                         engine, &conv->backward_weights, DNNL_ARG_DIFF_BIAS,
                         dnnl_primitive_desc_query_md(desc, dnnl_query_diff_weights_md, 1))
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

/* Room for one group's bottoms and tops, where a pass goes group by group. */
static int conv_parts_create(struct conv *conv, const struct conv_descs *d)
{
    const struct op_args *args = &conv->op.args;
    size_t images = (size_t)args->bottoms[0]->value.shape.dim[0];

    memcpy(conv->parts, d->parts, sizeof conv->parts);
    memcpy(conv->slices, d->slices, sizeof conv->slices);
    conv->floats[0] =
        cpu_format_bytes(&args->bottoms[0]->value.shape, d->src_format) / sizeof(float);
    conv->floats[1] = cpu_format_bytes(&args->tops[0]->value.shape, d->src_format) / sizeof(float);
    if (!d->part_weights)
        return 0;
    conv->bottom_part = conv_part_of(&args->bottoms[0]->value.shape, args->u.conv.group);
    conv->top_part = conv_part_of(&args->tops[0]->value.shape, args->u.conv.group);
    return cpu_work_reserve(conv->op.engine, WORK_PART,
                            images * (conv->bottom_part.floats + conv->top_part.floats) *
                                sizeof(float));
}

static int conv_create(struct cpu_op *op)
{
    struct conv *conv = (struct conv *)op;
    struct conv_descs d = {0};
    int status = -1;

    conv->weight_elems = shape_elems(&op->args.params[0]->shape);
    conv->bias_elems = op->args.u.conv.bias ? shape_elems(&op->args.params[1]->shape) : 0;
    if (conv_descs_choose(op, &d))
        goto done;
    memcpy(conv->way, d.way, sizeof conv->way);
    memcpy(conv->own, d.own, sizeof conv->own);
    if (conv_parts_create(conv, &d) || conv_forward_create(conv, &d) ||
        (d.backward_data && conv_data_create(conv, &d)) ||
        (d.backward_weights && conv_backward_weights_create(conv, &d)))
        goto done;
    status = 0;
done:
    conv_descs_destroy(&d);
    return status;
}

/* Where a part of bottoms or of tops lies while a pass computes with it; else the slice of `whole`.
 */
static float *conv_part_at(const struct conv *conv, enum conv_pass pass, int run, bool top,
                           float *whole)
{
    const struct conv_part *bottom = &conv->bottom_part;

    if (conv->parts[pass] == 1)
        return whole + (size_t)run * conv->floats[top] / (size_t)conv->slices[pass];
    return conv->op.engine->work[WORK_PART].data +
           (top ? (size_t)bottom->images * bottom->floats : 0);
}

/* The same of what is read, brought there. */
static const float *conv_part_in(const struct conv *conv, enum conv_pass pass, int run, bool top,
                                 const float *whole)
{
    float *at = conv_part_at(conv, pass, run, top, (float *)(uintptr_t)whole);

    if (conv->parts[pass] > 1)
        conv_part_load(top ? &conv->top_part : &conv->bottom_part, conv->parts[pass], run, whole,
                       at);
    return at;
}

static void conv_part_out(const struct conv *conv, enum conv_pass pass, int run, bool top,
                          float *whole)
{
    if (conv->parts[pass] > 1)
        conv_part_store(top ? &conv->top_part : &conv->bottom_part, conv->parts[pass], run,
                        conv_part_at(conv, pass, run, top, whole), whole);
}

/* Which part of the weights a run takes: slices of images take all. */
static size_t conv_run_part(const struct conv *conv, enum conv_pass pass, int run)
{
    return conv->parts[pass] > 1 ? (size_t)run : 0;
}

static int conv_forward_run(struct conv *conv, int run, const float *weights, const float *bias)
{
    struct cpu_engine *engine = conv->op.engine;
    float *y = conv->op.args.tops[0]->value.data;
    const float *x =
        conv_part_in(conv, CONV_FORWARD, run, false, cpu_input_data(engine, &conv->src));

    if (cpu_primitive_run(engine, &conv->forward,
                          (const void *const[]){
                              x, weights, conv_part_at(conv, CONV_FORWARD, run, true, y), bias}))
        return -1;
    conv_part_out(conv, CONV_FORWARD, run, true, y);
    return 0;
}

/* The fused ReLU on a top, or on its gradient, in place. */
static void conv_relu(const struct blob *top, bool backward)
{
    const size_t piece = 4096, n = cpu_tensor_stored(&top->value);
    float *y = top->value.data, *dy = top->grad.data;

#pragma omp parallel for if (n > 4 * piece)
    for (size_t i = 0; i < n; i += piece) {
        size_t some = n - i < piece ? n - i : piece;
        if (backward)
            cpu_relu_back_piece(y + i, dy + i, 0, dy + i, some);
        else
            cpu_relu_piece(y + i, 0, y + i, some);
    }
}

static int conv_forward(struct cpu_op *op)
{
    struct conv *conv = (struct conv *)op;
    const float *weights, *bias = conv->bias_elems ? op->args.params[1]->value : NULL;
    struct blob *top = op->args.tops[0];
    int parts = conv->parts[CONV_FORWARD];

    if (cpu_input_load(op->engine, &conv->src))
        return -1;
    if (conv->way[CONV_FORWARD] == CONV_OWN) {
        conv_own_run(conv, CONV_FORWARD,
                     (struct winograd_data){.x = cpu_input_data(op->engine, &conv->src),
                                            .weights = op->args.params[0]->value,
                                            .bias = bias,
                                            .y = top->value.data,
                                            .relu = op->args.u.conv.relu});
        return 0;
    }
    if (conv_weights_get(conv, &conv->weights, &weights))
        return -1;
    for (int i = 0; i < parts * conv->slices[CONV_FORWARD]; i++) {
        size_t part = conv_run_part(conv, CONV_FORWARD, i);

        if (conv_forward_run(conv, i, weights + part * conv->weights.laid,
                             bias ? bias + part * (conv->bias_elems / (size_t)parts) : NULL))
            return -1;
    }
    if (op->args.u.conv.relu)
        conv_relu(top, false);
    return 0;
}

/* Adds what lies in the work memory to a gradient. */
static void conv_grad_add(struct param *param, const float *from, size_t n)
{
    cpu_axpby(param->grad, 1, from, 1, n);
}

static const struct cpu_input *conv_weights_src(const struct conv *conv)
{
    return conv->src_again.tensor ? &conv->src_again : &conv->src;
}

/* The gradients of a part's weights and biases, plain, at weight and bias. */
static int conv_weights_run(struct conv *conv, int run, float *weight, float *bias)
{
    const enum conv_pass pass = CONV_BACKWARD_WEIGHTS;
    struct cpu_engine *engine = conv->op.engine;
    float *blocked = conv->diff_weights.primitive ? engine->work[WORK_WEIGHT_GRAD].data : NULL;
    const float *x =
        conv_part_in(conv, pass, run, false, cpu_input_data(engine, conv_weights_src(conv)));
    const float *dy =
        conv_part_in(conv, pass, run, true, cpu_input_data(engine, &conv->diff_dst_weights));

    if (cpu_primitive_run(engine, &conv->backward_weights,
                          (const void *const[]){x, dy, blocked ? blocked : weight, bias}))
        return -1;
    if (!blocked || !conv->op.args.params[0]->wants_grad)
        return 0;
    return cpu_reorder_run(engine, &conv->diff_weights, blocked, weight);
}

static void conv_weights_own(struct conv *conv, float *weight, float *bias)
{
    const struct cpu_engine *engine = conv->op.engine;
    struct param *const *params = conv->op.args.params;

    conv_own_run(
        conv, CONV_BACKWARD_WEIGHTS,
        (struct winograd_data){.x = cpu_input_data(engine, conv_weights_src(conv)),
                               .dy = cpu_input_data(engine, &conv->diff_dst_weights),
                               .dweights = params[0]->wants_grad ? weight : NULL,
                               .dbias = conv->bias_elems && params[1]->wants_grad ? bias : NULL});
}

/* The gradients of a slice of images, all parts: those of slices behind the first are added. */
static int conv_weights_slice(struct conv *conv, int slice)
{
    struct cpu_op *op = &conv->op;
    struct cpu_engine *engine = op->engine;
    struct param *weight = op->args.params[0];
    struct param *bias = conv->bias_elems ? op->args.params[1] : NULL;
    float *plain = engine->work[WORK_PARAM].data;
    bool weight_direct = weight->wants_grad && !weight->accumulate && slice == 0;
    bool bias_direct = bias && bias->wants_grad && !bias->accumulate && slice == 0;
    float *weight_to = weight_direct ? weight->grad : plain;
    float *bias_to = bias_direct ? bias->grad : plain + conv->weight_elems;
    size_t parts = (size_t)conv->parts[CONV_BACKWARD_WEIGHTS];

    if (conv->way[CONV_BACKWARD_WEIGHTS] == CONV_OWN)
        conv_weights_own(conv, weight_to, bias_to);
    else
        for (size_t i = 0; i < parts; i++)
            if (conv_weights_run(conv, parts > 1 ? (int)i : slice,
                                 weight_to + i * (conv->weight_elems / parts),
                                 bias_to + i * (conv->bias_elems / parts)))
                return -1;
    if (weight->wants_grad && !weight_direct)
        conv_grad_add(weight, weight_to, conv->weight_elems);
    if (bias && bias->wants_grad && !bias_direct)
        conv_grad_add(bias, bias_to, conv->bias_elems);
    return 0;
}

static int conv_weights_backward(struct conv *conv)
{
    struct cpu_engine *engine = conv->op.engine;

    if (cpu_input_load(engine, &conv->diff_dst_weights) ||
        (conv->src_again.tensor && cpu_input_load(engine, &conv->src_again)))
        return -1;
    for (int slice = 0; slice < conv->slices[CONV_BACKWARD_WEIGHTS]; slice++)
        if (conv_weights_slice(conv, slice))
            return -1;
    return 0;
}

static int conv_data_run(struct conv *conv, int run, const float *weights)
{
    const enum conv_pass pass = CONV_BACKWARD_DATA;
    struct cpu_engine *engine = conv->op.engine;
    float *dx = cpu_output_data(engine, &conv->diff_src);
    const float *dy =
        conv_part_in(conv, pass, run, true, cpu_input_data(engine, &conv->diff_dst_data));

    if (cpu_primitive_run(
            engine, &conv->backward_data,
            (const void *const[]){dy, weights, conv_part_at(conv, pass, run, false, dx)}))
        return -1;
    conv_part_out(conv, pass, run, false, dx);
    return 0;
}

static int conv_data_backward(struct conv *conv)
{
    struct cpu_engine *engine = conv->op.engine;
    struct weights *w = conv->shares_weights ? &conv->weights : &conv->weights_back;
    const float *weights;

    if (cpu_input_load(engine, &conv->diff_dst_data))
        return -1;
    if (conv->way[CONV_BACKWARD_DATA] == CONV_OWN) {
        conv_own_run(conv, CONV_BACKWARD_DATA,
                     (struct winograd_data){.x = cpu_input_data(engine, &conv->diff_dst_data),
                                            .weights = conv->op.args.params[0]->value,
                                            .y = cpu_output_data(engine, &conv->diff_src)});
        return cpu_output_store(engine, &conv->diff_src);
    }
    if (conv_weights_get(conv, w, &weights))
        return -1;
    for (int i = 0; i < conv->parts[CONV_BACKWARD_DATA] * conv->slices[CONV_BACKWARD_DATA]; i++)
        if (conv_data_run(conv, i, weights + conv_run_part(conv, CONV_BACKWARD_DATA, i) * w->laid))
            return -1;
    return cpu_output_store(engine, &conv->diff_src);
}

static int conv_backward(struct cpu_op *op)
{
    struct conv *conv = (struct conv *)op;

    struct blob *top = op->args.tops[0];
    bool learns = conv->diff_dst_weights.tensor,
         propagates = conv->diff_dst_data.tensor && cpu_op_propagates(op, 0);

    if (op->args.u.conv.relu && (learns || propagates))
        conv_relu(top, true);
    /* parameters first: their gradients can then travel while the rest is computed */
    if (learns && conv_weights_backward(conv))
        return -1;
    return propagates ? conv_data_backward(conv) : 0;
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
    conv_weights_destroy(conv, &conv->weights);
    conv_weights_destroy(conv, &conv->weights_back);
    for (int pass = 0; pass < CONV_PASSES; pass++)
        conv_weights_destroy(conv, &conv->points[pass]);
}

/* Appends " NAME forward data weights", as far as passes go that way, to words of `used` bytes. */
static int conv_describe_way(const struct conv *conv, enum conv_way way, const char *name, int used,
                             char words[ENGINE_OP_WORDS])
{
    static const char *const passes[] = {" forward", " data", " weights"};
    int start = used;

    for (int i = 0; i < CONV_PASSES; i++)
        if (conv->way[i] == way)
            used += snprintf(words + used, (size_t)(ENGINE_OP_WORDS - used), "%s%s%s",
                             used == start && used > 0 ? ", " : "", used == start ? name : "",
                             passes[i]);
    return used;
}

static void conv_describe(const struct cpu_op *op, char words[ENGINE_OP_WORDS])
{
    const struct conv *conv = (const struct conv *)op;
    int used = conv_describe_way(conv, CONV_OWN, "own Winograd", 0, words);

    conv_describe_way(conv, CONV_WINOGRAD, "Winograd", used, words);
}

const struct cpu_kind cpu_conv = {
    .size = sizeof(struct conv),
    .create = conv_create,
    .forward = conv_forward,
    .backward = conv_backward,
    .destroy = conv_destroy,
    .describe = conv_describe,
};
