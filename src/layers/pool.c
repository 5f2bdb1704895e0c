/* Pooling. The size of the top rounds up, unlike a convolution's, unless round_mode (or ceil_mode,
 * of some forks) says otherwise; with padding, a last window that would begin behind the padded
 * image's near edge is dropped. */
#include "layers/layers_internal.h"

#include "util/error.h"

#include <inttypes.h>
#include <stdlib.h>

static int pooling_read_kernel(const struct layer *layer, const Caffe__PoolingParameter *p,
                               struct pool_args *args)
{
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    const struct spatial_field kernel = {"kernel_size",
                                         "kernel_h",
                                         "kernel_w",
                                         p->has_kernel_size,
                                         &p->kernel_size,
                                         p->has_kernel_h,
                                         p->has_kernel_w,
                                         p->kernel_h,
                                         p->kernel_w,
                                         -1,
                                         1};

    if (!p->global_pooling)
        return layer_spatial_pair(&kernel, args->kernel);
    if (p->has_kernel_size || p->has_kernel_h || p->has_kernel_w)
        return error_set("global_pooling takes the whole plane (%" PRId64 " x %" PRId64
                         "): kernel_size, kernel_h, kernel_w must not be given",
                         bottom->dim[2], bottom->dim[3]);
    args->kernel[0] = (int)bottom->dim[2];
    args->kernel[1] = (int)bottom->dim[3];
    return 0;
}

static int pooling_read_geometry(const struct layer *layer, const Caffe__PoolingParameter *p,
                                 struct pool_args *args)
{
    const struct spatial_field stride = {"stride",
                                         "stride_h",
                                         "stride_w",
                                         p->has_stride,
                                         &p->stride,
                                         p->has_stride_h,
                                         p->has_stride_w,
                                         p->stride_h,
                                         p->stride_w,
                                         1,
                                         1};
    const struct spatial_field pad = {
        "pad",        "pad_h",  "pad_w",  p->has_pad, &p->pad, p->has_pad_h,
        p->has_pad_w, p->pad_h, p->pad_w, 0,          0};

    if (pooling_read_kernel(layer, p, args) || layer_spatial_pair(&stride, args->stride) ||
        layer_spatial_pair(&pad, args->pad))
        return -1;
    if (p->global_pooling &&
        (args->pad[0] || args->pad[1] || args->stride[0] != 1 || args->stride[1] != 1))
        return error_set(
            "global_pooling needs pad 0 and stride 1, found pad %d x %d, stride %d x %d",
            args->pad[0], args->pad[1], args->stride[0], args->stride[1]);
    for (int i = 0; i < 2; i++)
        if (args->pad[i] >= args->kernel[i])
            return error_set("pad %d x %d must be smaller than the kernel %d x %d", args->pad[0],
                             args->pad[1], args->kernel[0], args->kernel[1]);
    if (args->method == POOL_STOCHASTIC && (args->pad[0] || args->pad[1]))
        return error_set("pool: STOCHASTIC takes no padding, found pad %d x %d (nor does Caffe's); "
                         "a layer before it that pads, or pool: MAX or AVE, does",
                         args->pad[0], args->pad[1]);
    return 0;
}

static bool pooling_rounds_up(const Caffe__PoolingParameter *p)
{
    if (p->has_round_mode || !p->has_ceil_mode)
        return p->round_mode == CAFFE__POOLING_PARAMETER__ROUND_MODE__CEIL;
    return p->ceil_mode;
}

static int pooling_top_size(const struct pool_args *args, int i, int64_t in, bool up, int64_t *out)
{
    int64_t room = in + 2 * (int64_t)args->pad[i] - args->kernel[i];
    int64_t stride = args->stride[i];

    /* A kernel that only just overhangs still has one clipped window when rounding up. */
    if (room <= -stride || (room < 0 && !up))
        return error_set("kernel %d x %d is larger than the padded input: %s %d > %" PRId64
                         " + 2 * %d",
                         args->kernel[0], args->kernel[1], i ? "width" : "height", args->kernel[i],
                         in, args->pad[i]);
    *out = room < 0 ? 1 : (up ? room + stride - 1 : room) / stride + 1;
    if ((args->pad[0] || args->pad[1]) && (*out - 1) * stride >= in + args->pad[i])
        --*out;
    return 0;
}

static enum pool_method pooling_method(Caffe__PoolingParameter__PoolMethod pool)
{
    if (pool == CAFFE__POOLING_PARAMETER__POOL_METHOD__STOCHASTIC)
        return POOL_STOCHASTIC;
    return pool == CAFFE__POOLING_PARAMETER__POOL_METHOD__MAX ? POOL_MAX : POOL_AVE;
}

static int pooling_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__PoolingParameter *p = layer->param->pooling_param;
    struct pool_args *args;
    int64_t dim[4];

    (void)env;
    if (!p)
        return error_set("pooling_param is missing; it must give kernel_size or global_pooling");
    if (layer_expect_axes(layer, 0, 4, "N,C,H,W"))
        return -1;
    if (layer->ntops == 2 && p->pool != CAFFE__POOLING_PARAMETER__POOL_METHOD__MAX)
        return error_set("found 2 tops; only pool: MAX has a second one, the places of the maxima");
    layer->state = args = calloc(1, sizeof(*args));
    if (!args)
        return error_memory(sizeof(*args), "pooling");
    args->method = pooling_method(p->pool);
    if (pooling_read_geometry(layer, p, args))
        return -1;
    for (int i = 0; i < 4; i++)
        dim[i] = layer->bottoms[0]->value.shape.dim[i];
    if (pooling_top_size(args, 0, dim[2], pooling_rounds_up(p), &dim[2]) ||
        pooling_top_size(args, 1, dim[3], pooling_rounds_up(p), &dim[3]))
        return -1;
    for (int t = 0; t < layer->ntops; t++)
        if (shape_set(&layer->tops[t]->value.shape, 4, dim, layer->tops[t]->name))
            return -1;
    layer->flops =
        (double)shape_elems(&layer->tops[0]->value.shape) * args->kernel[0] * args->kernel[1];
    return 0;
}

static int pooling_arguments(const struct layer *layer, struct op_args *args)
{
    args->u.pool = *(const struct pool_args *)layer->state;
    return 0;
}

static void pooling_destroy(struct layer *layer)
{
    free(layer->state);
}

const struct layer_i layer_pooling = {
    .type = "Pooling",
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 2,
    .no_in_place = true,
    .no_gradient_from = 1u << 1,
    .setup = pooling_setup,
    .op = OP_POOL,
    .arguments = pooling_arguments,
    .destroy = pooling_destroy,
};
