/* Checks of operators that are the same on every device. */
#include "engine/op_check.h"

#include "util/error.h"

#include <inttypes.h>

static int count_check(const char *what, int found, int min, int max)
{
    if (found < min || (max && found > max))
        return error_set("takes %d to %d %ss, not %d", min, max, what, found);
    return 0;
}

static int empty_check(const char *what, struct blob **blobs, int n)
{
    char text[128];

    for (int i = 0; i < n; i++)
        if (shape_elems(&blobs[i]->value.shape) == 0)
            return error_set("%s '%s' has no elements: its shape is %s", what,
                             blobs[i]->name ? blobs[i]->name : "?",
                             shape_text(&blobs[i]->value.shape, text, sizeof text));
    return 0;
}

int op_check_blobs(const struct op_args *args, const struct op_limits *limits)
{
    if (count_check("bottom", args->nbottoms, limits->min_bottoms, limits->max_bottoms) ||
        count_check("top", args->ntops, limits->min_tops, limits->max_tops) ||
        count_check("parameter", args->nparams, 0, limits->params ? limits->params : INT32_MAX))
        return -1;
    if (empty_check("bottom", args->bottoms, args->nbottoms) ||
        empty_check("top", args->tops, args->ntops))
        return -1;
    for (int t = 0; t < args->ntops; t++)
        for (int b = 0; b < args->nbottoms; b++)
            if (args->tops[t] == args->bottoms[b] && !(limits->in_place && t == 0 && b == 0))
                return error_set("cannot work in place: top %d is bottom %d", t, b);
    return 0;
}

int op_check_pool(const struct op_args *args)
{
    const struct pool_args *a = &args->u.pool;
    const struct shape *bottom = &args->bottoms[0]->value.shape;
    const struct shape *top = &args->tops[0]->value.shape;
    char text[128];

    if (bottom->naxes != 4 || top->naxes != 4)
        return error_set("pooling needs blobs of 4 axes (N, C, H, W); the bottom's shape is %s",
                         shape_text(bottom, text, sizeof text));
    if (top->dim[0] != bottom->dim[0] || top->dim[1] != bottom->dim[1])
        return error_set("pooling keeps samples and channels; the top's shape is %s",
                         shape_text(top, text, sizeof text));
    for (int i = 0; i < 2; i++)
        if (a->kernel[i] < 1 || a->stride[i] < 1 || a->pad[i] < 0 || a->pad[i] >= a->kernel[i])
            return error_set("kernel %d, stride %d, pad %d is not a pooling window", a->kernel[i],
                             a->stride[i], a->pad[i]);
    if (args->ntops == 2 && a->method != POOL_MAX)
        return error_set("only MAX pooling has a second top");
    if (args->ntops == 2 && !shape_equal(top, &args->tops[1]->value.shape))
        return error_set("the mask's shape is %s, not the first top's",
                         shape_text(&args->tops[1]->value.shape, text, sizeof text));
    return 0;
}

int op_check_eltwise(const struct op_args *args)
{
    enum eltwise_operation operation = args->u.eltwise.operation;

    for (int i = 0; i < args->nbottoms; i++)
        if (!shape_equal(&args->bottoms[i]->value.shape, &args->tops[0]->value.shape))
            return error_set("eltwise: bottom %d and the top differ in shape", i);
    if (op_args_in_place(args) && operation != ELTWISE_SUM)
        return error_set("eltwise: only SUM can work in place");
    if (args->u.eltwise.coeff && operation != ELTWISE_SUM)
        return error_set("eltwise: only SUM takes coefficients");
    return 0;
}

int op_check_batch_norm(const struct op_args *args)
{
    const struct batch_norm_args *a = &args->u.batch_norm;
    const struct shape *x = &args->bottoms[0]->value.shape;
    int wanted = 3 + a->scale + a->bias;

    if (args->nparams != wanted)
        return error_set("batch normalization needs %d parameters, not %d", wanted, args->nparams);
    if (a->bias && !a->scale)
        return error_set("batch normalization has a bias only with a scale");
    if (!shape_equal(x, &args->tops[0]->value.shape))
        return error_set("batch normalization's top must have its bottom's shape");
    if (op_args_in_place(args) && args->train)
        return error_set("batch normalization cannot be trained in place");
    for (int i = 0; i < wanted; i++) { /* 2: the weight of both sums */
        int64_t expected = i == 2 ? 1 : x->naxes > 1 ? x->dim[1] : 1;
        if (shape_elems(&args->params[i]->shape) != (size_t)expected)
            return error_set("parameter %d of batch normalization has %zu elements, not %" PRId64,
                             i, shape_elems(&args->params[i]->shape), expected);
    }
    return 0;
}
