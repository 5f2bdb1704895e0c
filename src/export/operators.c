/* How ONNX says what the operators of engine/ops.h compute: a function of few lines for each, and
 * the table of them. Where ONNX has the operator with other corners (windows of pooling that hang
 * over, several axes of an inner product), nodes around it make it the same. */
#include "export/export_internal.h"

#include "engine/op_size.h"
#include "util/error.h"

#include <inttypes.h>
#include <string.h>

#define NODE(e, type, ...) ONNX_NODE((e)->graph, type, __VA_ARGS__)

/* scale * x + shift */
static const char *affine(struct emission *e, const char *x, float scale, float shift)
{
    if (scale != 1)
        x = NODE(e, "Mul", x, onnx_scalar(e->graph, "scale", scale));
    if (shift != 0)
        x = NODE(e, "Add", x, onnx_scalar(e->graph, "shift", shift));
    return x;
}

/* The same elements in another shape, whose first axis is what the others leave: the batch. */
static const char *reshape(struct emission *e, const char *x, const struct shape *to)
{
    int64_t dim[SHAPE_MAX_AXES] = {0};

    memcpy(dim, to->dim, (size_t)to->naxes * sizeof *dim);
    dim[0] = -1;
    return NODE(e, "Reshape", x, onnx_ints_value(e->graph, "shape", to->naxes, dim));
}

/* The windows' attributes: both ends of an axis are padded by numbers of their own. */
static void windows(struct emission *e, const int *kernel, const int *stride, const int *begin,
                    const int *end)
{
    int64_t kernels[OP_SPATIAL], strides[OP_SPATIAL], pads[2 * OP_SPATIAL];
    int naxes = e->in->naxes - 2;

    for (int i = 0; i < naxes; i++) {
        kernels[i] = kernel[i];
        strides[i] = stride[i];
        pads[i] = begin[i];
        pads[naxes + i] = end[i];
    }
    onnx_ints(e->graph, "kernel_shape", naxes, kernels);
    onnx_ints(e->graph, "strides", naxes, strides);
    onnx_ints(e->graph, "pads", 2 * naxes, pads);
}

/* Convolution and its transpose keep weights in the same order here and there. */
static int emit_conv(struct emission *e)
{
    const struct conv_args *a = &e->args.u.conv;
    const char *type = e->args.kind == OP_DECONV ? "ConvTranspose" : "Conv";
    const char *weight = emission_param(e, 0, "weight");
    const char *bias = a->bias ? emission_param(e, 1, "bias") : NULL;
    int64_t dilations[OP_SPATIAL];

    for (int i = 0; i < OP_SPATIAL; i++)
        dilations[i] = a->dilation[i];
    for (int b = 0; b < e->args.nbottoms; b++) {
        const char *y = NODE(e, type, emission_value(e, e->args.bottoms[b]), weight, bias);

        windows(e, a->kernel, a->stride, a->pad, a->pad);
        onnx_ints(e->graph, "dilations", e->in->naxes - 2, dilations);
        onnx_int(e->graph, "group", a->group);
        emission_give(e, b, y);
    }
    return 0;
}

static int emit_inner_product(struct emission *e)
{
    const struct inner_product_args *a = &e->args.u.inner_product;
    const char *y = e->x;

    if (e->in->naxes != 2 || a->axis != 1) {
        y = NODE(e, "Flatten", y);
        onnx_int(e->graph, "axis", a->axis);
    }
    y = NODE(e, "Gemm", y, emission_param(e, 0, "weight"),
             a->bias ? emission_param(e, 1, "bias") : NULL);
    onnx_int(e->graph, "transB", !a->transpose);
    if (e->out->naxes != 2)
        y = reshape(e, y, e->out);
    return emission_give(e, 0, y);
}

/* What divides a window's sum by k^n: of windows that hang over the padded image Caffe counts the
 * part inside. */
static const char *whole_windows(struct emission *e, const char *y)
{
    const struct pool_args *a = &e->args.u.pool;
    struct shape shape = {.naxes = e->out->naxes, .dim = {1, 1}};
    float *factor;
    size_t n;

    memcpy(shape.dim + 2, e->out->dim + 2, OP_SPATIAL * sizeof *shape.dim);
    n = shape_elems(&shape);
    factor = onnx_alloc(e->graph, n, sizeof *factor);
    for (size_t place = 0; factor && place < n; place++) {
        size_t rest = place;
        factor[place] = 1;
        for (int i = e->in->naxes - 3; i >= 0; i--) {
            int64_t at = (int64_t)(rest % (size_t)shape.dim[2 + i]) * a->stride[i];
            int64_t inside = e->in->dim[2 + i] + 2 * (int64_t)a->pad[i] - at;
            rest /= (size_t)shape.dim[2 + i];
            if (inside < a->kernel[i])
                factor[place] *= (float)a->kernel[i] / (float)inside;
        }
    }
    return factor ? NODE(e, "Mul", y, onnx_floats(e->graph, "windows", &shape, factor)) : "";
}

/* Pads of the far ends such that rounding down gives the top's size. */
static int emit_pool(struct emission *e)
{
    const struct pool_args *a = &e->args.u.pool;
    int end[OP_SPATIAL];
    bool global = true, over = false;
    const char *y;

    if (a->method == POOL_STOCHASTIC || e->args.ntops > 1)
        return error_set("ONNX has no pooling that is %s", a->method == POOL_STOCHASTIC
                                                               ? "stochastic"
                                                               : "followed by the maxima's places "
                                                                 "in their planes, a second top");
    for (int i = 0; i < e->in->naxes - 2; i++) {
        int64_t last = (e->out->dim[2 + i] - 1) * a->stride[i] - a->pad[i], in = e->in->dim[2 + i];

        if (last >= in)
            return error_set("its last window begins behind the image, at %" PRId64 " of %" PRId64
                             " pixels, and ONNX has no empty windows (round_mode: FLOOR leaves it "
                             "out)",
                             last, in);
        end[i] = last + a->kernel[i] > in ? (int)(last + a->kernel[i] - in) : 0;
        over = over || end[i] > a->pad[i];
        global = global && a->kernel[i] == in && e->out->dim[2 + i] == 1 && !a->pad[i];
    }
    if (global)
        return emission_give(
            e, 0, NODE(e, a->method == POOL_MAX ? "GlobalMaxPool" : "GlobalAveragePool", e->x));
    y = NODE(e, a->method == POOL_MAX ? "MaxPool" : "AveragePool", e->x);
    windows(e, a->kernel, a->stride, a->pad, end);
    if (a->method == POOL_AVE)
        onnx_int(e->graph, "count_include_pad", 1);
    return emission_give(e, 0, a->method == POOL_AVE && over ? whole_windows(e, y) : y);
}

static int emit_relu(struct emission *e)
{
    float slope = e->args.u.relu.negative_slope;
    const char *y = NODE(e, slope == 0 ? "Relu" : "LeakyRelu", e->x);

    if (slope != 0)
        onnx_float(e->graph, "alpha", slope);
    return emission_give(e, 0, y);
}

/* x (1 + alpha mean(x^2))^-beta over n x n of one channel */
static int emit_lrn_within(struct emission *e)
{
    const struct lrn_args *a = &e->args.u.lrn;
    const int kernel[] = {a->local_size, a->local_size}, stride[] = {1, 1};
    const int pad[] = {a->local_size / 2, a->local_size / 2};
    const char *y = NODE(e, "AveragePool", NODE(e, "Mul", e->x, e->x));

    windows(e, kernel, stride, pad, pad);
    onnx_int(e->graph, "count_include_pad", 1);
    y = NODE(e, "Pow", affine(e, y, a->alpha, 1), onnx_scalar(e->graph, "beta", -a->beta));
    return emission_give(e, 0, NODE(e, "Mul", e->x, y));
}

static int emit_lrn(struct emission *e)
{
    const struct lrn_args *a = &e->args.u.lrn;
    const char *y;

    if (a->within_channel)
        return emit_lrn_within(e);
    y = NODE(e, "LRN", e->x);
    onnx_int(e->graph, "size", a->local_size);
    onnx_float(e->graph, "alpha", a->alpha);
    onnx_float(e->graph, "beta", a->beta);
    onnx_float(e->graph, "bias", a->k);
    return emission_give(e, 0, y);
}

/* A loss's probabilities are a second top where there is one. */
static int emit_softmax(struct emission *e)
{
    bool loss = e->args.kind == OP_SOFTMAX_LOSS;
    const char *y = NODE(e, "Softmax", e->x);

    onnx_int(e->graph, "axis", loss ? e->args.u.softmax_loss.axis : e->args.u.softmax.axis);
    return emission_give(e, loss ? e->args.ntops - 1 : 0, y);
}

static int emit_concat(struct emission *e)
{
    const char **inputs = onnx_alloc(e->graph, (size_t)e->args.nbottoms + 1, sizeof *inputs), *y;

    if (!inputs)
        return -1;
    for (int b = 0; b < e->args.nbottoms; b++)
        inputs[b] = emission_value(e, e->args.bottoms[b]);
    y = onnx_node(e->graph, "Concat", inputs);
    onnx_int(e->graph, "axis", e->args.u.concat.axis);
    return emission_give(e, 0, y);
}

static int emit_split(struct emission *e)
{
    for (int t = 0; t < e->args.ntops; t++)
        emission_alias(e, t, e->x);
    return 0;
}

static int emit_flatten(struct emission *e)
{
    return emission_give(e, 0, reshape(e, e->x, e->out));
}

static int emit_eltwise(struct emission *e)
{
    static const char *const types[] = {
        [ELTWISE_PROD] = "Mul", [ELTWISE_SUM] = "Add", [ELTWISE_MAX] = "Max"};
    const struct eltwise_args *a = &e->args.u.eltwise;
    const char *y = NULL;

    for (int b = 0; b < e->args.nbottoms; b++) {
        const char *x =
            affine(e, emission_value(e, e->args.bottoms[b]), op_eltwise_coeff(&e->args, b), 0);
        y = y ? NODE(e, types[a->operation], y, x) : x;
    }
    return emission_give(e, 0, y);
}

/* Means and variances are kept as sums; an absent Scale is one of 1 and 0. */
static int emit_batch_norm(struct emission *e)
{
    const struct batch_norm_args *a = &e->args.u.batch_norm;
    const struct shape *shape = &e->args.params[0]->shape;
    size_t channels = shape_elems(shape);
    float weight = *net_host_value(e->net, e->args.params[2]), *own[4];
    const char *gamma, *beta, *y;

    if (!a->global_stats)
        return error_set("it normalises by each batch's own statistics (use_global_stats: false)");
    if (e->in->naxes < 2)
        return error_set("its bottom has one axis, and ONNX wants channels on a second one");
    for (int i = 0; i < 4; i++)
        if (!(own[i] = onnx_alloc(e->graph, channels, sizeof **own)))
            return -1;
    for (size_t c = 0; c < channels; c++) {
        own[0][c] = 1;
        for (int i = 0; i < 2; i++)
            own[2 + i][c] = weight == 0 ? 0 : net_host_value(e->net, e->args.params[i])[c] / weight;
    }
    gamma = a->scale ? emission_param(e, 3, "gamma") : onnx_floats(e->graph, "one", shape, own[0]);
    beta = a->bias ? emission_param(e, 4, "beta") : onnx_floats(e->graph, "zero", shape, own[1]);
    y = NODE(e, "BatchNormalization", e->x, gamma, beta,
             onnx_floats(e->graph, "mean", shape, own[2]),
             onnx_floats(e->graph, "variance", shape, own[3]));
    onnx_float(e->graph, "epsilon", a->eps);
    return emission_give(e, 0, y);
}

/* A parameter, or bottom 1, that is the same along all axes but naxes from `axis` on. */
static const char *along(struct emission *e, int axis, int naxes, int param, const char *name)
{
    struct shape shape = {.naxes = e->in->naxes - axis};

    for (int i = 0; i < shape.naxes; i++)
        shape.dim[i] = i < naxes ? e->in->dim[axis + i] : 1;
    if (param < 0)
        return reshape(e, emission_value(e, e->args.bottoms[1]), &shape);
    return onnx_floats(e->graph, name, &shape, net_host_value(e->net, e->args.params[param]));
}

static int emit_scale(struct emission *e)
{
    const struct scale_args *a = &e->args.u.scale;
    int param = a->from_bottom ? -1 : 0;
    const char *y = e->x;

    if (a->scale)
        y = NODE(e, "Mul", y, along(e, a->axis, a->naxes, param++, "scale"));
    if (a->bias)
        y = NODE(e, "Add", y, along(e, a->axis, a->naxes, param, "bias"));
    return emission_give(e, 0, y);
}

static int emit_prelu(struct emission *e)
{
    int naxes = e->args.u.prelu.shared ? 0 : 1;

    return emission_give(e, 0, NODE(e, "PRelu", e->x, along(e, 1, naxes, 0, "slope")));
}

static const char *limit(struct emission *e, float least, float most)
{
    return NODE(e, "Clip", e->x, onnx_scalar(e->graph, "least", least),
                onnx_scalar(e->graph, "most", most));
}

static int emit_unary(struct emission *e)
{
    static const char *const types[] = {[UNARY_ABS] = "Abs",
                                        [UNARY_BNLL] = "Softplus",
                                        [UNARY_SIGMOID] = "Sigmoid",
                                        [UNARY_TANH] = "Tanh",
                                        [UNARY_THRESHOLD] = NULL};
    const struct unary_args *a = &e->args.u.unary;
    const char *y;

    switch (a->function) {
    case UNARY_CLIP:
        y = limit(e, a->a, a->b);
        break;
    case UNARY_RELU6:
        y = limit(e, 0, 6);
        break;
    case UNARY_ELU:
        y = NODE(e, "Elu", e->x);
        onnx_float(e->graph, "alpha", a->a);
        break;
    case UNARY_EXP:
        y = NODE(e, "Exp", affine(e, e->x, a->a, a->b));
        break;
    case UNARY_LOG:
        y = affine(e, NODE(e, "Log", affine(e, e->x, a->a, a->b)), a->c, 0);
        break;
    case UNARY_POWER:
        y = affine(e, e->x, a->a, a->b);
        y = a->c == 1 ? y : NODE(e, "Pow", y, onnx_scalar(e->graph, "power", a->c));
        break;
    case UNARY_SWISH:
        y = NODE(e, "Mul", e->x, NODE(e, "Sigmoid", affine(e, e->x, a->a, 0)));
        break;
    case UNARY_THRESHOLD:
        y = NODE(e, "Cast", NODE(e, "Greater", e->x, onnx_scalar(e->graph, "threshold", a->a)));
        onnx_int(e->graph, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
        break;
    default:
        y = NODE(e, types[a->function], e->x);
    }
    return emission_give(e, 0, y);
}

static int emit_slice(struct emission *e)
{
    const char **outputs = onnx_alloc(e->graph, (size_t)e->args.ntops + 1, sizeof *outputs);
    int64_t *size = onnx_alloc(e->graph, (size_t)e->args.ntops, sizeof *size);
    const char *sizes;
    int axis = e->args.u.slice.axis;

    if (!outputs || !size)
        return -1;
    for (int t = 0; t < e->args.ntops; t++) {
        size[t] = e->args.tops[t]->value.shape.dim[axis];
        outputs[t] = emission_top_name(e, t);
    }
    sizes = onnx_ints_value(e->graph, "sizes", e->args.ntops, size);
    onnx_node_to(e->graph, "Split", (const char *const[]){e->x, sizes, NULL}, outputs);
    onnx_int(e->graph, "axis", axis);
    for (int t = 0; t < e->args.ntops; t++)
        emission_alias(e, t, outputs[t]);
    return 0;
}

static int emit_crop(struct emission *e)
{
    int64_t axes[SHAPE_MAX_AXES], begin[SHAPE_MAX_AXES], end[SHAPE_MAX_AXES];
    int n = 0;

    for (int i = 0; i < e->in->naxes; i++)
        if (e->in->dim[i] != e->out->dim[i]) {
            axes[n] = i;
            begin[n] = e->args.u.crop.offset[i];
            end[n++] = e->args.u.crop.offset[i] + e->out->dim[i];
        }
    if (n == 0)
        return emission_give(e, 0, e->x);
    return emission_give(e, 0,
                         NODE(e, "Slice", e->x, onnx_ints_value(e->graph, "begin", n, begin),
                              onnx_ints_value(e->graph, "end", n, end),
                              onnx_ints_value(e->graph, "axes", n, axes)));
}

static int emit_tile(struct emission *e)
{
    int64_t times[SHAPE_MAX_AXES];
    int axis;

    for (int i = 0; i < e->in->naxes; i++)
        times[i] = 1;
    if (shape_axis(e->in, e->args.u.tile.axis, &axis))
        return -1;
    times[axis] = e->args.u.tile.tiles;
    return emission_give(
        e, 0, NODE(e, "Tile", e->x, onnx_ints_value(e->graph, "times", e->in->naxes, times)));
}

/* (group, C / group, ...) transposed, in a shape of one axis for all that follows */
static int emit_shuffle(struct emission *e)
{
    int64_t group = e->args.u.shuffle.group;
    struct shape split = {.naxes = 4, .dim = {e->in->dim[0], group, e->in->dim[1] / group}};
    const int64_t order[] = {0, 2, 1, 3};
    const char *y;

    split.dim[3] = (int64_t)shape_count(e->in, 2, e->in->naxes);
    y = NODE(e, "Transpose", reshape(e, e->x, &split));
    onnx_ints(e->graph, "perm", 4, order);
    return emission_give(e, 0, reshape(e, y, e->out));
}

static int emit_parameter(struct emission *e)
{
    return emission_give(e, 0, emission_param(e, 0, "value"));
}

/* Operators of one node without attributes; "": what a loss compares becomes an output. */
static const char *const nodes[OP_KINDS] = {
    [OP_DROPOUT] = "Dropout", [OP_SIGMOID_LOSS] = "Sigmoid", [OP_ACCURACY] = "",
    [OP_EUCLIDEAN_LOSS] = "", [OP_HINGE_LOSS] = "",          [OP_CONTRASTIVE_LOSS] = "",
    [OP_INFOGAIN_LOSS] = "",  [OP_MULTINOMIAL_LOSS] = "",
};

/* Operators that are in neither table, ONNX cannot say, or nobody has asked for. */
static int (*const emitters[OP_KINDS])(struct emission *e) = {
    [OP_CONV] = emit_conv,
    [OP_DECONV] = emit_conv,
    [OP_INNER_PRODUCT] = emit_inner_product,
    [OP_POOL] = emit_pool,
    [OP_RELU] = emit_relu,
    [OP_LRN] = emit_lrn,
    [OP_SOFTMAX] = emit_softmax,
    [OP_SOFTMAX_LOSS] = emit_softmax,
    [OP_CONCAT] = emit_concat,
    [OP_SPLIT] = emit_split,
    [OP_FLATTEN] = emit_flatten,
    [OP_ELTWISE] = emit_eltwise,
    [OP_BATCH_NORM] = emit_batch_norm,
    [OP_SCALE] = emit_scale,
    [OP_PRELU] = emit_prelu,
    [OP_UNARY] = emit_unary,
    [OP_SLICE] = emit_slice,
    [OP_CROP] = emit_crop,
    [OP_TILE] = emit_tile,
    [OP_SHUFFLE] = emit_shuffle,
    [OP_PARAMETER] = emit_parameter,
};

int operator_emit(struct emission *e)
{
    const char *type = nodes[e->args.kind];

    if (type)
        return *type ? emission_give(e, 0, NODE(e, type, e->x)) : 0;
    if (emitters[e->args.kind])
        return emitters[e->args.kind](e);
    return error_set("poseidon has no ONNX form for it; a net that ends before it can be exported");
}
