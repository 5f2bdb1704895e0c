/* Interp and SPP: layers that change the size of planes. */
#include "layers/layers_internal.h"

#include "util/error.h"

#include <inttypes.h>

/* Returns the top's size along an axis. Caffe's forks give the size directly, by a shrink factor,
 * by a zoom factor, or by shrink, then zoom. pad_beg and pad_end are negative: they cut. */
static int64_t interp_size(const Caffe__InterpParameter *p, int64_t in, int32_t fixed)
{
    int64_t size = in + p->pad_beg + p->pad_end;

    if (fixed > 0)
        return fixed;
    if (p->has_shrink_factor)
        size = (size - 1) / p->shrink_factor + 1;
    if (p->has_zoom_factor)
        size += (size - 1) * (p->zoom_factor - 1);
    return size;
}

static int interp_check_param(const struct layer *layer, const Caffe__InterpParameter *p)
{
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    bool fixed = p && p->has_height && p->has_width;

    if (!p || (!fixed && !p->has_zoom_factor && !p->has_shrink_factor))
        return error_set("interp_param must give height and width, zoom_factor, or shrink_factor");
    if ((p->has_height || p->has_width) &&
        (!fixed || p->height < 1 || p->width < 1 || p->has_zoom_factor || p->has_shrink_factor))
        return error_set("interp_param height %d and width %d: expected at least 1 for both, "
                         "without zoom_factor and shrink_factor",
                         p->height, p->width);
    if (p->zoom_factor < 1 || p->shrink_factor < 1)
        return error_set("interp_param zoom_factor %d, shrink_factor %d: expected at least 1",
                         p->zoom_factor, p->shrink_factor);
    if (p->pad_beg > 0 || p->pad_end > 0)
        return error_set("interp_param pad_beg %d, pad_end %d: only cutting (0 or less) is "
                         "supported",
                         p->pad_beg, p->pad_end);
    for (int i = 2; i < 4; i++)
        if (bottom->dim[i] + p->pad_beg + p->pad_end < 1)
            return error_set("interp_param pad_beg %d and pad_end %d leave nothing of axis %d of "
                             "size %" PRId64,
                             p->pad_beg, p->pad_end, i, bottom->dim[i]);
    return 0;
}

static int interp_setup(struct layer *layer)
{
    const Caffe__InterpParameter *p = layer->param->interp_param;
    struct shape x = layer->bottoms[0]->value.shape;

    if (layer_expect_axes(layer, 0, 4, "N,C,H,W") || interp_check_param(layer, p))
        return -1;
    x.dim[2] = interp_size(p, x.dim[2], p->height);
    x.dim[3] = interp_size(p, x.dim[3], p->width);
    if (shape_set(&layer->tops[0]->value.shape, 4, x.dim, layer->tops[0]->name))
        return -1;
    layer->u.interp = (struct interp_args){-p->pad_beg, -p->pad_end};
    layer->flops = 8.0 * (double)shape_elems(&layer->tops[0]->value.shape);
    return 0;
}

const struct layer_i layer_interp = {
    .type = "Interp",
    .no_in_place = true,
    .setup = interp_setup,
    .op = OP_INTERP,
};

static int spp_setup(struct layer *layer)
{
    const Caffe__SPPParameter *p = layer->param->spp_param;
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    int64_t dim[2] = {0, 0};

    if (!p || p->pyramid_height == 0 || p->pyramid_height > 12)
        return error_set("spp_param pyramid_height is %s; expected 1 to 12",
                         p && p->has_pyramid_height ? "out of range" : "missing");
    if (p->pool == CAFFE__SPPPARAMETER__POOL_METHOD__STOCHASTIC)
        return error_set(
            "pool: STOCHASTIC is not supported in a pyramid, whose windows are padded; "
            "expected MAX or AVE");
    if (layer_expect_axes(layer, 0, 4, "N,C,H,W"))
        return -1;
    dim[0] = bottom->dim[0];
    for (int l = 0; l < (int)p->pyramid_height; l++)
        dim[1] += bottom->dim[1] << 2 * l;
    layer->u.spp =
        (struct spp_args){p->pool == CAFFE__SPPPARAMETER__POOL_METHOD__MAX ? POOL_MAX : POOL_AVE,
                          (int)p->pyramid_height};
    layer->flops = (double)p->pyramid_height * (double)shape_elems(bottom);
    return shape_set(&layer->tops[0]->value.shape, 2, dim, layer->tops[0]->name);
}

const struct layer_i layer_spp = {
    .type = "SPP",
    .no_in_place = true,
    .setup = spp_setup,
    .op = OP_SPP,
};
