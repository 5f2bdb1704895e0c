/* Checks of operators on elements, channels and rows: neurons, unary functions, scale, batch
 * normalisation, eltwise, inner product, reductions. */
#include "engine/op_check_internal.h"
#include "engine/op_size.h"
#include "util/error.h"
#include "util/units.h"

#include <inttypes.h>

static int relu_check(const struct op_args *args)
{
    float slope = args->u.relu.negative_slope;

    /* backward has only the output, whose sign is the input's unless the slope is negative */
    if (op_args_in_place(args) && args->train && slope < 0)
        return error_set("cannot be trained in place with the negative slope %g", (double)slope);
    return 0;
}

const struct op_signature op_signature_relu = {
    {1, 1}, {1, 1}, .in_place = OP_IN_PLACE, .like_bottom = true, .check = relu_check};

static int dropout_check(const struct op_args *args)
{
    float ratio = args->u.dropout.ratio;

    if (!(ratio >= 0 && ratio < 1))
        return error_set("the ratio %g is not in [0, 1)", (double)ratio);
    return 0;
}

const struct op_signature op_signature_dropout = {{1, 1},
                                                  {1, 1},
                                                  .in_place = OP_IN_PLACE,
                                                  .like_bottom = true,
                                                  .blind_backward = true,
                                                  .check = dropout_check};

static int unary_check(const struct op_args *args)
{
    const struct unary_args *a = &args->u.unary;

    if (op_check_choice("function", (int)a->function, UNARY_FUNCTIONS))
        return -1;
    if (op_args_in_place(args) && args->train && !op_unary_from_top(a))
        return error_set("function %d cannot be trained in place: its gradient needs the "
                         "input, which the output overwrites",
                         (int)a->function);
    if (a->function == UNARY_THRESHOLD && op_args_propagates(args, 0))
        return error_set("a threshold has no gradient");
    return 0;
}

const struct op_signature op_signature_unary = {
    {1, 1}, {1, 1}, .in_place = OP_IN_PLACE, .like_bottom = true, .check = unary_check};

static int prelu_check(const struct op_args *args)
{
    const struct shape *x = op_bottom_shape(args, 0);

    if (op_check_has_channels(args))
        return -1;
    return op_check_param_elems(args, 0, "slope", args->u.prelu.shared ? 1 : x->dim[1]);
}

const struct op_signature op_signature_prelu = {
    {1, 1}, {1, 1}, {1, 1}, .in_place = OP_UNTRAINED, .like_bottom = true, .check = prelu_check};

/* Checks gain and bias: the first may be bottom 1, the rest are parameters. */
static int scale_check(const struct op_args *args)
{
    const struct scale_args *a = &args->u.scale;
    const struct shape *x = op_bottom_shape(args, 0);

    if (!a->scale && !a->bias)
        return error_set("has neither a gain nor a bias");
    if ((args->nbottoms == 2) != a->from_bottom)
        return error_set("has %s, but from_bottom is %d",
                         units_count(args->nbottoms, "bottom").text, a->from_bottom);
    if (a->axis < 0 || a->naxes < 0 || a->axis > x->naxes - a->naxes)
        return error_set("a factor of %s from axis %d on does not fit a bottom of %d",
                         units_count(a->naxes, "axis").text, a->axis, x->naxes);
    if (op_check_param_count(args, a->scale + a->bias - a->from_bottom) ||
        (a->from_bottom &&
         op_check_bottom_elems(args, 1, op_scale_factors(args), "elements of a factor")))
        return -1;
    for (int i = 0; i < args->nparams; i++)
        if (op_check_param_elems(args, i, a->scale && !a->from_bottom && i == 0 ? "gain" : "bias",
                                 op_scale_factors(args)))
            return -1;
    return 0;
}

const struct op_signature op_signature_scale = {
    {1, 2}, {1, 1}, {0, 2}, .in_place = OP_UNTRAINED, .like_bottom = true, .check = scale_check};

static int batch_norm_check(const struct op_args *args)
{
    static const char *const words[] = {"mean sum", "variance sum", "weight of both sums", "gain",
                                        "bias"};
    const struct batch_norm_args *a = &args->u.batch_norm;
    const struct shape *x = op_bottom_shape(args, 0);

    if (a->bias && !a->scale)
        return error_set("takes a bias only together with a gain");
    if (a->ranks && a->global_stats)
        return error_set("cannot add up statistics of all ranks: global_stats computes none");
    if (op_check_param_count(args, 3 + a->scale + a->bias))
        return -1;
    for (int i = 0; i < args->nparams; i++)
        if (op_check_param_elems(args, i, words[i], i == 2 || x->naxes < 2 ? 1 : x->dim[1]))
            return -1;
    return 0;
}

const struct op_signature op_signature_batch_norm = {{1, 1},
                                                     {1, 1},
                                                     {3, 5},
                                                     .in_place = OP_UNTRAINED,
                                                     .like_bottom = true,
                                                     .check = batch_norm_check};

static int eltwise_check(const struct op_args *args)
{
    const struct eltwise_args *a = &args->u.eltwise;

    if (op_check_choice("operation", (int)a->operation, ELTWISE_MAX + 1))
        return -1;
    for (int i = 0; i < args->nbottoms; i++)
        if (!shape_equal(op_bottom_shape(args, i), op_top_shape(args, 0)))
            return error_set("bottom %d and the top differ in shape", i);
    if (op_args_in_place(args) && a->operation != ELTWISE_SUM)
        return error_set("only SUM can work in place");
    if (a->coeff && a->operation != ELTWISE_SUM)
        return error_set("only SUM takes coefficients");
    if (args->relu && a->operation != ELTWISE_SUM)
        return error_set("only SUM takes a ReLU");
    return 0;
}

const struct op_signature op_signature_eltwise = {
    {1, OP_ANY}, {1, 1}, .in_place = OP_IN_PLACE, .check = eltwise_check};

static int inner_product_check(const struct op_args *args)
{
    const struct inner_product_args *a = &args->u.inner_product;
    size_t elems = shape_elems(op_top_shape(args, 0));
    struct op_product size;
    int axis;

    if (shape_axis(op_bottom_shape(args, 0), a->axis, &axis))
        return -1;
    size = op_inner_product_size(args);
    if (elems != (size_t)(size.rows * size.outputs))
        return error_set("the top's %zu elements are not a multiple of %" PRId64 " rows", elems,
                         size.rows);
    return op_check_weight_and_bias(args, size.inputs * size.outputs, a->bias, size.outputs);
}

const struct op_signature op_signature_inner_product = {
    {1, 1}, {1, 1}, {1, 2}, .check = inner_product_check};

static int reduce_check(const struct op_args *args)
{
    const struct reduce_args *a = &args->u.reduce;
    const struct shape *x = op_bottom_shape(args, 0);

    if (op_check_choice("operation", (int)a->operation, REDUCE_MEAN + 1))
        return -1;
    if (a->axis < 0 || a->axis > x->naxes)
        return error_set("axis %d is not in 0..%d", a->axis, x->naxes);
    return op_check_top_elems(args, 0, op_axes_from(x, a->axis).outer);
}

const struct op_signature op_signature_reduce = {{1, 1}, {1, 1}, .check = reduce_check};

static int argmax_check(const struct op_args *args)
{
    const struct argmax_args *a = &args->u.argmax;
    struct op_axes axes;
    int axis;

    if (a->has_axis && shape_axis(op_bottom_shape(args, 0), a->axis, &axis))
        return -1;
    axes = op_argmax_axes(args);
    if (op_check_top_k(a->top_k, axes.length, "values"))
        return -1;
    return op_check_top_elems(
        args, 0, axes.outer * axes.inner * a->top_k * (!a->has_axis && a->out_max_val ? 2 : 1));
}

const struct op_signature op_signature_argmax = {{1, 1}, {1, 1}, .check = argmax_check};

const struct op_signature op_signature_mvn = {{1, 1}, {1, 1}, .like_bottom = true};
