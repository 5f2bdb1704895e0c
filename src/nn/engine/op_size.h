/* Sizes that follow from an operator's arguments and shapes, alike in every engine. The arguments
 * have passed op_check: axes are in range, counts divide. */
#ifndef POSEIDON_ENGINE_OP_SIZE_H
#define POSEIDON_ENGINE_OP_SIZE_H

#include "engine/engine.h"

/* The axis, counted from the beginning. */
static inline int op_axis(const struct shape *shape, int axis)
{
    return axis < 0 ? axis + shape->naxes : axis;
}

/* What a sum multiplies that bottom by. */
static inline float op_eltwise_coeff(const struct op_args *args, int i)
{
    return args->u.eltwise.coeff ? args->u.eltwise.coeff[i] : 1;
}

/* A shape as outer x length x inner elements. */
struct op_axes {
    int64_t outer, length, inner;
};

/* length is that axis alone; counted from the end when negative. */
struct op_axes op_axes_at(const struct shape *shape, int axis);
/* length is all axes from that one on, inner is 1; counted from the end when negative. */
struct op_axes op_axes_from(const struct shape *shape, int axis);

/* An inner product: rows x inputs by inputs x outputs. */
struct op_product {
    int64_t rows, inputs, outputs;
};
struct op_product op_inner_product_size(const struct op_args *args);

/* Windows of a convolution over `size` pixels of spatial axis i, or 0 where none fits. */
int64_t op_conv_places(const struct conv_args *a, int i, int64_t size);
/* Places of a window over the first `axes` spatial axes. */
int64_t op_window_places(const int kernel[OP_SPATIAL], int axes);

/* Windows over an image of one to three spatial axes, seen as over a volume: {depth, height,
 * width}, where an axis that the image has not is one long, and so is its window. */
struct op_windows {
    int64_t size[OP_SPATIAL], places[OP_SPATIAL]; /* of the image; of the windows in it */
    int kernel[OP_SPATIAL], stride[OP_SPATIAL], pad[OP_SPATIAL], dilation[OP_SPATIAL];
};
struct op_windows op_conv_windows(const struct conv_args *a, const struct shape *image,
                                  const struct shape *places);
struct op_windows op_pool_windows(const struct pool_args *a, const struct shape *image,
                                  const struct shape *places);
/* Of a level of a spatial pyramid: 2^level windows on each axis, apart from each other. */
struct op_windows op_spp_windows(const struct shape *image, int level);
/* The rows that maxima are taken of. */
struct op_axes op_argmax_axes(const struct op_args *args);
/* Groups of elements that are normalised together; each is elems / groups long. */
int64_t op_mvn_groups(const struct op_args *args);
/* Elements of each factor. */
int64_t op_scale_factors(const struct op_args *args);
/* Bins of all levels together. */
int64_t op_spp_places(int levels);
/* What a loss over `places` of `outer` samples is divided by; 0: by the places that count. */
double op_loss_divisor(enum loss_normalization normalization, int64_t places, int64_t outer);
/* Whether a top tells the function's derivative: it may then be trained in place. */
bool op_unary_from_top(const struct unary_args *args);
/* What the pass is (engine/engine.h). Products and windows are counted; of all other operators, one
 * operation for each number that is read or written. */
struct op_work op_work(const struct op_args *args, enum op_pass pass);

#endif
