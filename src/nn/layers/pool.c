/* Pooling, over one to three spatial axes. The top's size rounds up, unlike a convolution's, unless
 * round_mode (or ceil_mode, of some forks) says otherwise. With padding, a last window that would
 * begin in the padding at the far end is dropped. Upsample, of SegNet's fork, undoes MAX pooling by
 * the mask, pooling's second top. */
#include "layers/layers_internal.h"

#include "util/error.h"

#include <inttypes.h>

static int pooling_spatial_axes(const struct layer *layer)
{
    return layer->bottoms[0]->value.shape.naxes - 2;
}

static int pooling_read_kernel(const struct layer *layer, const Caffe__PoolingParameter *p,
                               struct pool_args *args)
{
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    const struct spatial_field kernel = spatial_of(&p->base, SPATIAL_KERNEL);
    char whole[SPATIAL_TEXT_BYTES];

    if (!p->global_pooling)
        return layer_spatial(&kernel, layer->bottoms[0], args->kernel);
    for (int i = 0; i < bottom->naxes - 2; i++)
        args->kernel[i] = (int)bottom->dim[2 + i];
    if (p->n_kernel_size || p->has_kernel_h || p->has_kernel_w)
        return error_set(
            "global_pooling takes the whole plane (%s): remove kernel_size, kernel_h and kernel_w",
            layer_spatial_text(args->kernel, bottom->naxes - 2, whole));
    return 0;
}

/* Checks padding and stride against the method and global_pooling. */
static int pooling_check_geometry(const struct layer *layer, bool global,
                                  const struct pool_args *args)
{
    int naxes = pooling_spatial_axes(layer);
    char kernel[SPATIAL_TEXT_BYTES], stride[SPATIAL_TEXT_BYTES], pad[SPATIAL_TEXT_BYTES];
    bool padded = false, strided = false;

    layer_spatial_text(args->kernel, naxes, kernel);
    layer_spatial_text(args->stride, naxes, stride);
    layer_spatial_text(args->pad, naxes, pad);
    for (int i = 0; i < naxes; i++) {
        padded = padded || args->pad[i];
        strided = strided || args->stride[i] != 1;
    }
    if (global && (padded || strided))
        return error_set("global_pooling needs pad 0 and stride 1, found pad %s, stride %s", pad,
                         stride);
    for (int i = 0; i < naxes; i++)
        if (args->pad[i] >= args->kernel[i])
            return error_set("pad %s must be smaller than the kernel %s", pad, kernel);
    if (args->method == POOL_STOCHASTIC && padded)
        return error_set("pool: STOCHASTIC takes no padding (as in Caffe), found pad %s; pad in a "
                         "layer before, or use pool: MAX or AVE",
                         pad);
    return 0;
}

static int pooling_read_geometry(const struct layer *layer, const Caffe__PoolingParameter *p,
                                 struct pool_args *args)
{
    const struct blob *bottom = layer->bottoms[0];
    const struct spatial_field stride = spatial_of(&p->base, SPATIAL_STRIDE);
    const struct spatial_field pad = spatial_of(&p->base, SPATIAL_PAD);

    if (pooling_read_kernel(layer, p, args) || layer_spatial(&stride, bottom, args->stride) ||
        layer_spatial(&pad, bottom, args->pad))
        return -1;
    return pooling_check_geometry(layer, p->global_pooling, args);
}

static bool pooling_rounds_up(const Caffe__PoolingParameter *p)
{
    if (p->has_round_mode || !p->has_ceil_mode)
        return p->round_mode == CAFFE__POOLING_PARAMETER__ROUND_MODE__CEIL;
    return p->ceil_mode;
}

/* Returns the top's size along axis i. Rounding up allows a window that the input's end clips. */
static int64_t pooling_along(const struct layer *layer, int i, int64_t in)
{
    const struct pool_args *args = &layer->u.pool;
    const Caffe__PoolingParameter *p = layer->param->pooling_param;
    int64_t stride = args->stride[i], room = in + 2 * (int64_t)args->pad[i] - args->kernel[i], out;
    bool up = pooling_rounds_up(p), padded = false;

    if (p->global_pooling)
        return 1;
    if (room <= -stride || (room < 0 && !up))
        return 0;
    out = room < 0 ? 1 : (up ? room + stride - 1 : room) / stride + 1;
    for (int k = 0; k < pooling_spatial_axes(layer); k++)
        padded = padded || args->pad[k];
    return out - (padded && (out - 1) * stride >= in + args->pad[i]);
}

static int pooling_top_size(const struct layer *layer, int i, int64_t *out)
{
    const struct pool_args *args = &layer->u.pool;
    int64_t in = layer->bottoms[0]->value.shape.dim[2 + i];
    int naxes = pooling_spatial_axes(layer);
    char kernel[SPATIAL_TEXT_BYTES];

    *out = pooling_along(layer, i, in);
    if (*out >= 1)
        return 0;
    return error_set("kernel %s is larger than the padded input: %s %d > %" PRId64
                     " + 2 * %d" SPATIAL_TOO_SMALL,
                     layer_spatial_text(args->kernel, naxes, kernel), layer_spatial_name(naxes, i),
                     args->kernel[i], in, args->pad[i]);
}

/* Warns of an empty last window, which Caffe also makes if nothing is padded. */
static int pooling_warn_of_empty(const struct layer *layer, const struct layer_env *env)
{
    const struct pool_args *args = &layer->u.pool;
    const int64_t *in = layer->bottoms[0]->value.shape.dim + 2,
                  *out = layer->tops[0]->value.shape.dim + 2;

    for (int i = 0; i < pooling_spatial_axes(layer); i++) {
        int64_t last = (out[i] - 1) * args->stride[i] - args->pad[i];
        if (last >= in[i])
            return layer_notice(
                layer, env,
                "the last window of the %s is empty, as it begins at %" PRId64 " of %" PRId64
                " places: the top holds %s there; round_mode: FLOOR drops this window",
                layer_spatial_name(pooling_spatial_axes(layer), i), last, in[i],
                args->method == POOL_MAX ? "the least float, -3.4e38" : "0");
    }
    return 0;
}

static int pooling_setup(struct layer *layer, const struct layer_env *env)
{
    static const enum pool_method methods[] = {
        [CAFFE__POOLING_PARAMETER__POOL_METHOD__MAX] = POOL_MAX,
        [CAFFE__POOLING_PARAMETER__POOL_METHOD__AVE] = POOL_AVE,
        [CAFFE__POOLING_PARAMETER__POOL_METHOD__STOCHASTIC] = POOL_STOCHASTIC};
    const Caffe__PoolingParameter *p = layer->param->pooling_param;
    struct pool_args *args = &layer->u.pool;
    struct shape top;

    if (!p)
        return error_set("pooling_param is missing; it must give kernel_size or global_pooling");
    if (layer_expect_spatial(layer, 0))
        return -1;
    if (layer->ntops == 2 && p->pool != CAFFE__POOLING_PARAMETER__POOL_METHOD__MAX)
        return error_set("found 2 tops; only pool: MAX has a second top, the places of the maxima");
    args->method = methods[p->pool];
    if (pooling_read_geometry(layer, p, args))
        return -1;
    top = layer->bottoms[0]->value.shape;
    for (int i = 0; i < top.naxes - 2; i++)
        if (pooling_top_size(layer, i, &top.dim[2 + i]))
            return -1;
    for (int t = 0; t < layer->ntops; t++)
        if (shape_set(&layer->tops[t]->value.shape, top.naxes, top.dim, layer->tops[t]->name))
            return -1;
    layer->flops = (double)shape_elems(&top);
    for (int i = 0; i < top.naxes - 2; i++)
        layer->flops *= args->kernel[i];
    return pooling_warn_of_empty(layer, env);
}

const struct layer_i layer_pooling = {
    .type = "Pooling",
    .no_in_place = true,
    .no_gradient_from = 1u << 1,
    .setup_in = pooling_setup,
    .op = OP_POOL,
};

/* Returns the layer that makes the mask; NULL: no layer of the net. */
static const struct layer *mask_maker(const struct layer *layer)
{
    for (const struct layer *from = layer - layer->index; from < layer; from++)
        for (int t = 0; t < from->ntops; t++)
            if (from->tops[t] == layer->bottoms[1])
                return from;
    return NULL;
}

/* Fails if the mask comes from pooling over planes whose places the top does not have. */
static int upsample_check_mask(const struct layer *layer, const struct shape *top)
{
    const struct layer *pool = mask_maker(layer);
    const struct shape *plane;

    if (!pool || pool->i != &layer_pooling)
        return 0;
    plane = &pool->bottoms[0]->value.shape;
    if (plane->naxes == 4 && plane->dim[2] <= top->dim[2] && plane->dim[3] == top->dim[3])
        return 0;
    return error_set("the top would be %" PRId64 " x %" PRId64 " (height x width), but the mask is "
                     "of layer '%s', which pools planes of %s; expected upsample_h and upsample_w "
                     "to give their size",
                     top->dim[2], top->dim[3], pool->def->name, shape_text(plane).text);
}

static int upsample_setup(struct layer *layer)
{
    const Caffe__UpsampleParameter *p =
        LAYER_PARAM(layer, upsample_param, UpsampleParameter, UPSAMPLE_PARAMETER);
    struct shape top = layer->bottoms[0]->value.shape;

    if (layer_expect_axes(layer, 0, 4, "N,C,H,W"))
        return -1;
    if (p->has_upsample_h != p->has_upsample_w || p->has_scale_h != p->has_scale_w)
        return error_set("upsample_param needs upsample_h and upsample_w, or scale_h and scale_w, "
                         "or scale");
    top.dim[2] = p->has_upsample_h
                     ? p->upsample_h
                     : top.dim[2] * (p->has_scale_h ? p->scale_h : p->scale) - p->pad_out_h;
    top.dim[3] = p->has_upsample_w
                     ? p->upsample_w
                     : top.dim[3] * (p->has_scale_w ? p->scale_w : p->scale) - p->pad_out_w;
    if (layer_set_shape(layer, 0, 4, top.dim))
        return -1;
    /* op_check refuses masks of another shape */
    return shape_equal(&layer->bottoms[0]->value.shape, &layer->bottoms[1]->value.shape)
               ? upsample_check_mask(layer, &top)
               : 0;
}

const struct layer_i layer_upsample = {
    .type = "Upsample",
    .no_in_place = true,
    .setup = upsample_setup,
    .op = OP_UPSAMPLE,
};
