/* Sizes that operators derive from their arguments. */
#include "engine/op_size.h"

#include <assert.h>

struct op_axes op_axes_at(const struct shape *shape, int axis)
{
    int at = op_axis(shape, axis);

    assert(at >= 0 && at < shape->naxes);
    return (struct op_axes){.outer = (int64_t)shape_count(shape, 0, at),
                            .length = shape->dim[at],
                            .inner = (int64_t)shape_count(shape, at + 1, shape->naxes)};
}

struct op_axes op_axes_from(const struct shape *shape, int axis)
{
    int from = op_axis(shape, axis);

    assert(from >= 0);
    return (struct op_axes){.outer = (int64_t)shape_count(shape, 0, from),
                            .length = (int64_t)shape_count(shape, from, shape->naxes),
                            .inner = 1};
}

struct op_product op_inner_product_size(const struct op_args *args)
{
    struct op_axes x = op_axes_from(&args->bottoms[0]->value.shape, args->u.inner_product.axis);

    return (struct op_product){.rows = x.outer,
                               .inputs = x.length,
                               .outputs =
                                   (int64_t)shape_elems(&args->tops[0]->value.shape) / x.outer};
}

int64_t op_conv_places(const struct conv_args *a, int i, int64_t size)
{
    int64_t extent = a->dilation[i] * (int64_t)(a->kernel[i] - 1) + 1;
    int64_t room = size + 2 * (int64_t)a->pad[i] - extent;

    return room < 0 ? 0 : room / a->stride[i] + 1;
}

struct op_axes op_argmax_axes(const struct op_args *args)
{
    const struct argmax_args *a = &args->u.argmax;
    const struct shape *x = &args->bottoms[0]->value.shape;

    return a->has_axis ? op_axes_at(x, a->axis) : op_axes_from(x, 1);
}

int64_t op_mvn_groups(const struct op_args *args)
{
    const struct shape *x = &args->bottoms[0]->value.shape;

    return shape_dim(x, 0) * (args->u.mvn.across ? 1 : shape_dim(x, 1));
}

int64_t op_scale_factors(const struct op_args *args)
{
    const struct scale_args *a = &args->u.scale;

    return (int64_t)shape_count(&args->bottoms[0]->value.shape, a->axis, a->axis + a->naxes);
}

int64_t op_spp_places(int levels)
{
    int64_t places = 0;

    for (int l = 0; l < levels; l++)
        places += (int64_t)1 << 2 * l;
    return places;
}

bool op_unary_from_top(const struct unary_args *a)
{
    switch (a->function) {
    case UNARY_EXP:
    case UNARY_RELU6:
    case UNARY_SIGMOID:
    case UNARY_TANH:
        return true;
    case UNARY_ELU:
        return a->a >= 0;
    case UNARY_POWER:
        return a->c == 1;
    case UNARY_ABS:
    case UNARY_BNLL:
    case UNARY_CLIP:
    case UNARY_LOG:
    case UNARY_SWISH:
    case UNARY_THRESHOLD:
        break;
    }
    return false;
}
