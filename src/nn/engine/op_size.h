/* Sizes that follow from an operator's arguments and shapes, the same in every engine. The
 * arguments have passed op_check: axes are in range, counts divide. */
#ifndef POSEIDON_ENGINE_OP_SIZE_H
#define POSEIDON_ENGINE_OP_SIZE_H

#include "engine/engine.h"

/* Returns the axis counted from the beginning; a negative `axis` counts from the end. */
static inline int op_axis(const struct shape *shape, int axis)
{
    return axis < 0 ? axis + shape->naxes : axis;
}

/* Returns the coefficient of bottom i in a sum. */
static inline float op_eltwise_coeff(const struct op_args *args, int i)
{
    return args->u.eltwise.coeff ? args->u.eltwise.coeff[i] : 1;
}

/* A shape as outer x length x inner elements. */
struct op_axes {
    int64_t outer, length, inner;
};

/* Splits a shape at an axis: length is that axis alone. A negative axis counts from the end. */
struct op_axes op_axes_at(const struct shape *shape, int axis);
/* Splits a shape: length is all axes from `axis` on (negative: from the end), inner is 1. */
struct op_axes op_axes_from(const struct shape *shape, int axis);

/* Size of an inner product: rows x inputs by inputs x outputs. */
struct op_product {
    int64_t rows, inputs, outputs;
};
struct op_product op_inner_product_size(const struct op_args *args);

/* Returns the windows of a convolution along spatial axis i of `size` pixels; 0 if none fits. */
int64_t op_conv_places(const struct conv_args *a, int i, int64_t size);
/* Returns the elements of a window over the first `axes` spatial axes. */
int64_t op_window_places(const int kernel[OP_SPATIAL], int axes);

/* Windows over an image of one to three spatial axes, seen as a volume: {depth, height, width}. An
 * axis that the image lacks has size 1, and so has the window there. */
struct op_windows {
    int64_t size[OP_SPATIAL], places[OP_SPATIAL]; /* size of the image; number of windows */
    int kernel[OP_SPATIAL], stride[OP_SPATIAL], pad[OP_SPATIAL], dilation[OP_SPATIAL];
};
struct op_windows op_conv_windows(const struct conv_args *a, const struct shape *image,
                                  const struct shape *places);
struct op_windows op_pool_windows(const struct pool_args *a, const struct shape *image,
                                  const struct shape *places);
/* Returns the windows of a level of a spatial pyramid: 2^level on each axis, side by side. */
struct op_windows op_spp_windows(const struct shape *image, int level);
/* Returns the axes along which argmax takes its maxima. */
struct op_axes op_argmax_axes(const struct op_args *args);
/* Returns the number of groups that are normalised together, each of elems / groups elements. */
int64_t op_mvn_groups(const struct op_args *args);
/* Returns the elements of each factor of a scale operator. */
int64_t op_scale_factors(const struct op_args *args);
/* Returns the number of bins of all levels together. */
int64_t op_spp_places(int levels);
/* Returns a loss's divisor for `places` places of `outer` samples; 0: the places not ignored. */
double op_loss_divisor(enum loss_normalization normalization, int64_t places, int64_t outer);
/* Returns true if a top alone gives the function's derivative: it may then be trained in place. */
bool op_unary_from_top(const struct unary_args *args);
/* Returns the work of a pass. Flops are those of products and windows; all other operators count
 * one operation for each number read or written. */
struct op_work op_work(const struct op_args *args, enum op_pass pass);

#endif
