/* Cases are small, but cross block sizes (8, 16 channels), windows that overhang, and odd strides.
 */
#include "tests/engine/engine_cases.h"

#include "util/error.h"
#include "util/rng.h"

#include <math.h>
#include <stdlib.h>

int case_draw(struct engine_case *c, int low, int high)
{
    struct rng rng = rng_make(c->seed, RNG_DUMMY, (uint32_t)c->rig.args.kind, 0);

    return low + (int)rng_below(&rng, c->draws++, (uint32_t)(high - low + 1));
}

static int64_t channels(struct engine_case *c)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32};

    return sizes[case_draw(c, 0, (int)(sizeof sizes / sizeof sizes[0]) - 1)];
}

static void image(struct engine_case *c, int64_t dims[4])
{
    dims[0] = case_draw(c, 1, 3);
    dims[1] = channels(c);
    dims[2] = case_draw(c, 1, 9);
    dims[3] = case_draw(c, 1, 9);
}

/* An image of one to three spatial axes, most often two; returns its number of axes. */
static int some_image(struct engine_case *c, int64_t dims[2 + OP_SPATIAL])
{
    int spatial = case_draw(c, 0, 3);

    image(c, dims);
    if (spatial != 3)
        return spatial == 1 ? 3 : 4;
    for (int i = 2; i < 5; i++)
        dims[i] = case_draw(c, 1, 5);
    return 5;
}

int case_lay_out(struct engine_case *c, int i)
{
    int naxes = c->rig.bottom[i].value.shape.naxes;

    if (naxes < 3 || naxes > 2 + OP_SPATIAL || case_draw(c, 0, 2) == 0)
        return 0;
    return rig_lay_out(&c->rig, i);
}

static int choose_conv(struct engine_case *c)
{
    struct conv_args *a = &c->rig.args.u.conv;
    int64_t in[2 + OP_SPATIAL], out[2 + OP_SPATIAL], weight[2 + OP_SPATIAL];
    int naxes = some_image(c, in), most = naxes == 5 ? 3 : 5;

    a->group = case_draw(c, 0, 2) == 0 ? case_draw(c, 1, 4) : 1;
    if (case_draw(c, 0, 6) == 0)
        a->group = (int)in[1]; /* depthwise */
    else if (a->group > 1)
        in[1] = a->group * case_draw(c, 1, 8);
    out[0] = in[0];
    out[1] = a->group * (a->group == 1 ? channels(c) : case_draw(c, 1, 8));
    weight[0] = out[1];
    weight[1] = in[1] / a->group;
    for (int i = 0; i < naxes - 2; i++) {
        weight[2 + i] = a->kernel[i] = case_draw(c, 1, most);
        a->stride[i] = case_draw(c, 1, 3);
        a->dilation[i] = case_draw(c, 0, 3) == 0 ? 2 : 1;
        a->pad[i] = case_draw(c, 0, 2);
        int extent = (a->kernel[i] - 1) * a->dilation[i] + 1;
        if (in[2 + i] + 2 * a->pad[i] < extent)
            in[2 + i] = extent;
        out[2 + i] = (in[2 + i] + 2 * a->pad[i] - extent) / a->stride[i] + 1;
    }
    a->bias = case_draw(c, 0, 2) > 0;
    /* coarse sums have other signs near 0 */
    c->rig.args.relu = a->bias && !c->coarse && engine_fuses(c->rig.engine, OP_CONV, OP_RELU) &&
                       case_draw(c, 0, 1);
    c->inexact |= c->rig.args.relu; /* its kink */
    rig_bottom(&c->rig, naxes, in);
    rig_top(&c->rig, naxes, out);
    rig_param(&c->rig, naxes, weight);
    if (a->bias)
        rig_param(&c->rig, 1, (int64_t[]){out[1]});
    return case_lay_out(c, 0);
}

/* What Winograd's algorithm takes: whole blocks of 8 or of 16 channels, stride 1. */
static int choose_winograd(struct engine_case *c)
{
    struct conv_args *a = &c->rig.args.u.conv;
    int block = case_draw(c, 0, 3) == 0 ? 8 : 16, kernel = case_draw(c, 0, 1) ? 3 : 5;
    int64_t in[4], out[4], weight[4];

    image(c, in);
    a->group = case_draw(c, 0, 2) == 0 ? 2 : 1;
    weight[1] = (int64_t)block * case_draw(c, 1, 2);
    in[1] = a->group * weight[1];
    out[0] = in[0];
    weight[0] = out[1] = (int64_t)a->group * block * case_draw(c, 1, 2);
    for (int i = 0; i < 2; i++) {
        weight[2 + i] = a->kernel[i] = kernel;
        a->stride[i] = a->dilation[i] = 1;
        a->pad[i] = case_draw(c, 0, 2);
        if (in[2 + i] + 2 * a->pad[i] < kernel)
            in[2 + i] = kernel;
        out[2 + i] = in[2 + i] + 2 * a->pad[i] - kernel + 1;
    }
    a->bias = case_draw(c, 0, 2) > 0;
    rig_bottom(&c->rig, 4, in);
    rig_top(&c->rig, 4, out);
    rig_param(&c->rig, 4, weight);
    if (a->bias)
        rig_param(&c->rig, 1, (int64_t[]){out[1]});
    return case_lay_out(c, 0);
}

static int choose_inner_product(struct engine_case *c)
{
    struct inner_product_args *a = &c->rig.args.u.inner_product;
    int64_t in[4], out = case_draw(c, 1, 20);

    image(c, in);
    a->axis = case_draw(c, 1, 2);
    a->bias = case_draw(c, 0, 2) > 0;
    a->transpose = case_draw(c, 0, 2) == 0;
    rig_bottom(&c->rig, 4, in);
    int64_t k = (int64_t)shape_count(&c->rig.bottom[0].value.shape, a->axis, 4);
    rig_top(&c->rig, a->axis + 1, (int64_t[]){in[0], a->axis == 1 ? out : in[1], out});
    rig_param(&c->rig, 2, a->transpose ? (int64_t[]){k, out} : (int64_t[]){out, k});
    if (a->bias)
        rig_param(&c->rig, 1, &out);
    return case_lay_out(c, 0);
}

static int choose_pool(struct engine_case *c)
{
    struct pool_args *a = &c->rig.args.u.pool;
    int64_t in[2 + OP_SPATIAL], out[2 + OP_SPATIAL];
    bool global = case_draw(c, 0, 5) == 0;
    int naxes = some_image(c, in);

    c->ties = case_draw(c, 0, 2) == 0;
    a->method = (enum pool_method)case_draw(c, POOL_MAX, POOL_STOCHASTIC);
    c->positive = a->method == POOL_STOCHASTIC && case_draw(c, 0, 3) > 0;
    if (a->method == POOL_STOCHASTIC) {
        c->rig.args.train = case_draw(c, 0, 3) > 0;
        c->rig.args.layer_index = case_draw(c, 0, 100);
    }
    out[0] = in[0];
    out[1] = in[1];
    for (int i = 0; i < naxes - 2; i++) {
        a->kernel[i] = global ? (int)in[2 + i] : case_draw(c, 1, 4);
        a->stride[i] = global ? 1 : case_draw(c, 1, 3);
        a->pad[i] = global || a->method == POOL_STOCHASTIC ? 0 : case_draw(c, 0, a->kernel[i] - 1);
        if (in[2 + i] + 2 * a->pad[i] < a->kernel[i])
            in[2 + i] = a->kernel[i];
        int64_t room = in[2 + i] + 2 * a->pad[i] - a->kernel[i];
        /* Caffe: upwards, less the window that would begin beyond the image */
        out[2 + i] = (room + a->stride[i] - 1) / a->stride[i] + 1;
        if (a->pad[i] && (out[2 + i] - 1) * a->stride[i] >= in[2 + i] + a->pad[i])
            out[2 + i]--;
    }
    rig_bottom(&c->rig, naxes, in);
    rig_top(&c->rig, naxes, out);
    if (a->method == POOL_MAX && case_draw(c, 0, 1))
        rig_top(&c->rig, naxes, out);
    return case_lay_out(c, 0);
}

static int choose_like_bottom(struct engine_case *c)
{
    struct op_args *args = &c->rig.args;
    int64_t dims[2 + OP_SPATIAL];
    int naxes = some_image(c, dims);

    if (args->kind == OP_LRN && naxes != 4)
        image(c, dims);
    rig_bottom(&c->rig, args->kind == OP_LRN ? 4 : case_draw(c, 2, naxes), dims);
    if (args->kind == OP_RELU) {
        args->u.relu.negative_slope = case_draw(c, 0, 1) ? 0 : 0.1f * (float)case_draw(c, -2, 3);
        c->rig.in_place = args->u.relu.negative_slope >= 0 && case_draw(c, 0, 1);
    } else if (args->kind == OP_DROPOUT) {
        args->u.dropout.ratio = 0.1f * (float)case_draw(c, 0, 9);
        args->train = case_draw(c, 0, 3) > 0;
        args->layer_index = case_draw(c, 0, 100);
        c->rig.in_place = case_draw(c, 0, 1);
    } else if (args->kind == OP_SOFTMAX) {
        args->u.softmax.axis = case_draw(c, 0, c->rig.bottom[0].value.shape.naxes - 1);
    } else {
        args->u.lrn =
            (struct lrn_args){.local_size = case_draw(c, 0, 1) ? 5 : 2 * case_draw(c, 0, 4) + 1,
                              .alpha = 0.5f * (float)case_draw(c, 1, 4),
                              .beta = case_draw(c, 0, 1) ? 0.75f : 0.2f * (float)case_draw(c, 1, 5),
                              .k = (float)case_draw(c, 1, 2),
                              .within_channel = case_draw(c, 0, 1)};
    }
    rig_top(&c->rig, c->rig.bottom[0].value.shape.naxes, dims);
    return case_lay_out(c, 0);
}

static int choose_labelled(struct engine_case *c)
{
    struct op_args *args = &c->rig.args;
    int64_t dims[4], labels[2];
    int naxes = case_draw(c, 2, 4), ignore = case_draw(c, -1, 2);

    image(c, dims);
    dims[1] = case_draw(c, 3, 12);
    rig_bottom(&c->rig, naxes, dims);
    labels[0] = dims[0];
    labels[1] = (int64_t)shape_count(&c->rig.bottom[0].value.shape, 2, naxes);
    rig_bottom(&c->rig, labels[1] > 1 ? 2 : 1, labels);
    c->rig.propagate[1] = false;
    rig_top(&c->rig, 0, NULL);
    if (args->kind == OP_ACCURACY) {
        c->ties = true;
        args->u.accuracy = (struct accuracy_args){.top_k = case_draw(c, 1, 3),
                                                  .axis = 1,
                                                  .has_ignore_label = case_draw(c, 0, 1),
                                                  .ignore_label = ignore};
        if (case_draw(c, 0, 1))
            rig_top(&c->rig, 1, &dims[1]);
    } else {
        args->u.softmax_loss = (struct loss_args){
            .axis = case_draw(c, 0, 1) ? 1 : 1 - naxes,
            .smoothing = case_draw(c, 0, 1) ? 0.1f * (float)case_draw(c, 1, 9) : 0,
            .has_ignore_label = case_draw(c, 0, 1),
            .ignore_label = ignore,
            .normalization = (enum loss_normalization)case_draw(c, LOSS_FULL, LOSS_NONE)};
        if (case_draw(c, 0, 1))
            rig_top(&c->rig, naxes, dims);
    }
    return case_lay_out(c, 0);
}

static int choose_concat(struct engine_case *c)
{
    int64_t dims[2 + OP_SPATIAL];
    int naxes = some_image(c, dims), axis = case_draw(c, 0, naxes - 1), n = case_draw(c, 1, 4);
    bool whole_blocks = case_draw(c, 0, 1);

    if (whole_blocks)
        dims[1] = 8;
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        dims[axis] = axis == 1 && whole_blocks ? 8 * case_draw(c, 1, 3) : case_draw(c, 1, 9);
        total += dims[axis];
        rig_bottom(&c->rig, naxes, dims);
        if (case_lay_out(c, i))
            return -1;
        c->rig.propagate[i] = case_draw(c, 0, 3) > 0;
        c->relu[i] = case_draw(c, 0, 1);
    }
    if (engine_fuses(c->rig.engine, OP_CONCAT, OP_RELU) && case_draw(c, 0, 1))
        c->rig.args.u.concat.relu = c->relu;
    c->inexact = c->rig.args.u.concat.relu != NULL; /* their kinks */
    dims[axis] = total;
    c->rig.args.u.concat.axis = case_draw(c, 0, 1) ? axis : axis - naxes;
    rig_top(&c->rig, naxes, dims);
    return 0;
}

static int choose_eltwise(struct engine_case *c)
{
    struct eltwise_args *a = &c->rig.args.u.eltwise;
    int n = case_draw(c, 1, 4);
    int64_t dims[2 + OP_SPATIAL];
    int naxes = some_image(c, dims);

    a->operation = (enum eltwise_operation)case_draw(c, ELTWISE_PROD, ELTWISE_MAX);
    c->ties = case_draw(c, 0, 2) == 0;
    for (int i = 0; i < n; i++) {
        rig_bottom(&c->rig, naxes, dims);
        if (case_lay_out(c, i))
            return -1;
        c->coeff[i] = 0.5f * (float)case_draw(c, -3, 3);
    }
    if (a->operation == ELTWISE_SUM && case_draw(c, 0, 1))
        a->coeff = c->coeff;
    c->rig.args.relu = a->operation == ELTWISE_SUM &&
                       engine_fuses(c->rig.engine, OP_ELTWISE, OP_RELU) && case_draw(c, 0, 1);
    c->inexact |= c->rig.args.relu; /* its kink */
    c->rig.in_place = a->operation == ELTWISE_SUM && case_draw(c, 0, 2) == 0;
    rig_top(&c->rig, naxes, dims);
    return 0;
}

static int choose_copy(struct engine_case *c)
{
    int64_t dims[2 + OP_SPATIAL];
    int naxes = some_image(c, dims), n = c->rig.args.kind == OP_SPLIT ? case_draw(c, 1, 4) : 1;

    rig_bottom(&c->rig, naxes, dims);
    for (int i = 0; i < n; i++) {
        if (c->rig.args.kind == OP_SPLIT)
            rig_top(&c->rig, naxes, dims);
        else
            rig_top(
                &c->rig, 2,
                (int64_t[]){dims[0], (int64_t)shape_count(&c->rig.bottom[0].value.shape, 1, 5)});
    }
    return case_lay_out(c, 0);
}

static double *values(struct engine_case *c, const struct shape *shape)
{
    size_t n = shape_elems(shape);
    double *out = calloc(n, sizeof *out);

    for (size_t i = 0; out && i < n; i++)
        out[i] = c->ties     ? (double)case_draw(c, -3, 3)
                 : c->coarse ? (double)case_draw(c, -64, 64) / 64
                             : (double)((float)case_draw(c, -1000000, 1000000) * 1e-6f);
    return out;
}

static void fill(struct engine_case *c)
{
    struct reference *r = &c->reference;
    const struct op_args *args = &c->rig.args;

    r->args = args;
    r->pass = c->rig.pass;
    for (int i = 0; i < args->nbottoms; i++) {
        r->bottom[i] = values(c, &c->rig.bottom[i].value.shape);
        r->bottom_grad[i] = values(c, &c->rig.bottom[i].value.shape);
    }
    for (int i = 0; i < args->ntops; i++) {
        r->top[i] = values(c, &c->rig.tops[i]->value.shape);
        r->top_grad[i] = values(c, &c->rig.tops[i]->value.shape);
    }
    for (int i = 0; i < args->nparams; i++) {
        r->param[i] = values(c, &c->rig.param[i].shape);
        r->param_grad[i] = values(c, &c->rig.param[i].shape);
    }
    for (int i = 0; i < args->nbottoms; i++)
        for (size_t e = 0; e < shape_elems(&c->rig.bottom[i].value.shape); e++) {
            if (c->integers[i])
                r->bottom[i][e] = case_draw(c, 0, c->integers[i] - 1);
            else if (i == 0 && c->positive)
                r->bottom[i][e] = 0.0625 + fabs(r->bottom[i][e]);
            else if (i == 0 && args->kind == OP_HINGE_LOSS)
                r->bottom[i][e] *= 2;
        }
    if (args->kind != OP_SOFTMAX_LOSS && args->kind != OP_ACCURACY)
        return;
    bool ignores = args->kind == OP_ACCURACY ? args->u.accuracy.has_ignore_label
                                             : args->u.softmax_loss.has_ignore_label;
    int ignored = args->kind == OP_ACCURACY ? args->u.accuracy.ignore_label
                                            : args->u.softmax_loss.ignore_label;
    for (size_t i = 0; i < shape_elems(&c->rig.bottom[1].value.shape); i++)
        r->bottom[1][i] = ignores && case_draw(c, 0, 3) == 0
                              ? ignored
                              : case_draw(c, 0, (int)c->rig.bottom[0].value.shape.dim[1] - 1);
}

static void start(struct engine_case *c, struct engine *engine, enum op_kind kind, uint64_t seed,
                  bool coarse)
{
    *c = (struct engine_case){.seed = seed, .coarse = coarse};
    rig_start(&c->rig, engine, kind);
    c->rig.args.bottoms = c->rig.bottoms;
    c->rig.args.tops = c->rig.tops;
    c->rig.args.params = c->rig.params;
}

int case_choose_winograd(struct engine_case *c, struct engine *engine, enum op_kind kind,
                         uint64_t seed, bool coarse)
{
    start(c, engine, kind, seed, coarse);
    if (choose_winograd(c))
        return -1;
    fill(c);
    return 0;
}

int case_choose(struct engine_case *c, struct engine *engine, enum op_kind kind, uint64_t seed,
                bool coarse)
{
    static int (*const choose[OP_KINDS])(struct engine_case *) = {
        [OP_CONV] = choose_conv,           [OP_INNER_PRODUCT] = choose_inner_product,
        [OP_POOL] = choose_pool,           [OP_RELU] = choose_like_bottom,
        [OP_LRN] = choose_like_bottom,     [OP_DROPOUT] = choose_like_bottom,
        [OP_SOFTMAX] = choose_like_bottom, [OP_SOFTMAX_LOSS] = choose_labelled,
        [OP_ACCURACY] = choose_labelled,   [OP_CONCAT] = choose_concat,
        [OP_SPLIT] = choose_copy,          [OP_FLATTEN] = choose_copy,
        [OP_ELTWISE] = choose_eltwise,
    };

    int (*chosen)(struct engine_case *);

    start(c, engine, kind, seed, coarse);
    chosen = choose[kind] ? choose[kind] : case_chooser_move_loss(kind);
    if (!chosen)
        return error_set("there are no cases of %s", op_kind_name(kind));
    if (chosen(c))
        return -1;
    fill(c);
    return 0;
}

static int write_values(struct engine_case *c, struct tensor *tensor, int param,
                        const struct shape *shape, const double *from)
{
    size_t n = shape_elems(shape);
    float *as_float = malloc(n * sizeof *as_float);
    int status;

    if (!as_float)
        return error_memory(n * sizeof *as_float, "a test's values");
    for (size_t i = 0; i < n; i++)
        as_float[i] = (float)from[i];
    status =
        tensor ? rig_write(&c->rig, tensor, as_float) : rig_param_write(&c->rig, param, as_float);
    free(as_float);
    return status;
}

int case_create(struct engine_case *c)
{
    return rig_create(&c->rig);
}

int case_write(struct engine_case *c)
{
    struct rig *rig = &c->rig;

    for (int i = 0; i < rig->args.nbottoms; i++)
        if (write_values(c, &rig->bottom[i].value, 0, &rig->bottom[i].value.shape,
                         c->reference.bottom[i]))
            return -1;
    for (int i = 0; i < rig->args.nparams; i++)
        if (write_values(c, NULL, i, &rig->param[i].shape, c->reference.param[i]))
            return -1;
    return 0;
}

int case_write_top_grads(struct engine_case *c)
{
    struct rig *rig = &c->rig;

    for (int i = 0; i < rig->args.ntops; i++)
        if (write_values(c, &rig->tops[i]->grad, 0, &rig->tops[i]->value.shape,
                         c->reference.top_grad[i]))
            return -1;
    return 0;
}

void case_finish(struct engine_case *c)
{
    struct reference *r = &c->reference;

    for (int i = 0; i < 8; i++) {
        free(r->bottom[i]);
        free(r->bottom_grad[i]);
        free(r->top[i]);
        free(r->top_grad[i]);
    }
    for (int i = 0; i < 2; i++) {
        free(r->param[i]);
        free(r->param_grad[i]);
    }
    rig_finish(&c->rig);
}

void case_print(const struct engine_case *c, FILE *out)
{
    const struct op_args *args = &c->rig.args;

    fprintf(out, "%s, seed %llu, %s%s%s\n", op_kind_name(args->kind), (unsigned long long)c->seed,
            args->train ? "TRAIN" : "TEST", c->rig.in_place ? ", in place" : "",
            c->ties ? ", ties" : "");
    for (int i = 0; i < args->nbottoms; i++)
        fprintf(out, "  bottom %s%s\n", shape_text(&args->bottoms[i]->value.shape).text,
                args->bottoms[i]->value.layout ? " laid out" : "");
    for (int i = 0; i < args->ntops; i++)
        fprintf(out, "  top    %s\n", shape_text(&args->tops[i]->value.shape).text);
    for (int i = 0; i < args->nparams; i++)
        fprintf(out, "  param  %s\n", shape_text(&args->params[i]->shape).text);
}
