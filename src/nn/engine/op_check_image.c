/* Checks of operators on images: convolution and pooling over one to three spatial axes; LRN and
 * resizing of (N, C, H, W). */
#include "engine/op_check_internal.h"
#include "engine/op_size.h"
#include "util/error.h"
#include "util/units.h"

#include <inttypes.h>

/* Checks that `places` has one element for each position of the windows over `image`. */
static int conv_check_windows(const struct conv_args *a, const struct shape *image,
                              const struct shape *places)
{
    for (int i = 0; i < image->naxes - 2; i++) {
        int64_t size = image->dim[2 + i], found = places->dim[2 + i], expected;
        if (a->kernel[i] < 1 || a->stride[i] < 1 || a->pad[i] < 0 || a->dilation[i] < 1)
            return error_set(
                "kernel %d, stride %d, pad %d, dilation %d: expected pad >= 0, the others >= 1",
                a->kernel[i], a->stride[i], a->pad[i], a->dilation[i]);
        expected = op_conv_places(a, i, size);
        if (expected == 0)
            return error_set("a kernel of %d, dilation %d, is larger than axis %d of %" PRId64
                             " with its padding of %d",
                             a->kernel[i], a->dilation[i], 2 + i, size, a->pad[i]);
        if (found != expected)
            return error_set("axis %d of size %" PRId64 " has %" PRId64
                             " window positions, not %" PRId64,
                             2 + i, size, expected, found);
    }
    return 0;
}

static int conv_check_params(const struct op_args *args)
{
    const struct conv_args *a = &args->u.conv;
    int64_t in = op_bottom_shape(args, 0)->dim[1], out = op_top_shape(args, 0)->dim[1];
    int64_t places = op_window_places(a->kernel, op_bottom_shape(args, 0)->naxes - 2);

    if (a->group < 1 || in % a->group || out % a->group)
        return error_set("group %d does not divide the %s of '%s' and the %s", a->group,
                         units_count(in, "channel").text, op_bottom_name(args, 0),
                         units_count(out, "output").text);
    if (args->relu && (args->kind != OP_CONV || !a->bias))
        return error_set("only a convolution with a bias can fuse a ReLU");
    return op_check_weight_and_bias(args, in * (out / a->group) * places, a->bias, out);
}

/* Checks shapes and parameters; a deconvolution's windows lie over its top. */
static int conv_check(const struct op_args *args)
{
    const struct shape *x = op_bottom_shape(args, 0), *y = op_top_shape(args, 0);
    bool turned = args->kind == OP_DECONV;

    if (op_check_spatial(args) || conv_check_windows(&args->u.conv, turned ? y : x, turned ? x : y))
        return -1;
    return conv_check_params(args);
}

const struct op_signature op_signature_conv = {{1, 1}, {1, 1}, {1, 2}, .check = conv_check};
const struct op_signature op_signature_deconv = {{1, 1}, {1, 1}, {1, 2}, .check = conv_check};

static int im2col_check(const struct op_args *args)
{
    const struct conv_args *a = &args->u.conv;
    const struct shape *x = op_bottom_shape(args, 0), *y = op_top_shape(args, 0);
    int64_t channels;

    if (op_check_spatial(args) || conv_check_windows(a, x, y))
        return -1;
    channels = x->dim[1] * op_window_places(a->kernel, x->naxes - 2);
    if (y->dim[1] != channels)
        return error_set("the top has %s, not %" PRId64
                         ": the bottom's channels times the kernel's elements",
                         units_count(y->dim[1], "channel").text, channels);
    return 0;
}

const struct op_signature op_signature_im2col = {
    {1, 1}, {1, 1}, .blind_backward = true, .check = im2col_check};

static int pool_check(const struct op_args *args)
{
    const struct pool_args *a = &args->u.pool;
    const struct shape *x = op_bottom_shape(args, 0), *y = op_top_shape(args, 0);

    if (op_check_spatial(args) ||
        op_check_choice("pooling method", (int)a->method, POOL_STOCHASTIC + 1) ||
        op_check_keeps_channels(args))
        return -1;
    for (int i = 0; i < x->naxes - 2; i++) {
        if (a->kernel[i] < 1 || a->stride[i] < 1 || a->pad[i] < 0 || a->pad[i] >= a->kernel[i])
            return error_set(
                "kernel %d, stride %d, pad %d: expected stride >= 1, 0 <= pad < kernel",
                a->kernel[i], a->stride[i], a->pad[i]);
        if (a->method == POOL_STOCHASTIC && a->pad[i])
            return error_set("STOCHASTIC takes no padding, not %d", a->pad[i]);
    }
    if (args->ntops == 2 && a->method != POOL_MAX)
        return error_set("only MAX has a second top");
    if (args->ntops == 2 && !shape_equal(y, op_top_shape(args, 1)))
        return error_set("the mask's shape is %s, not the first top's",
                         shape_text(op_top_shape(args, 1)).text);
    return 0;
}

const struct op_signature op_signature_pool = {
    {1, 1}, {1, 2}, .blind_backward = true, .check = pool_check};

static int lrn_check(const struct op_args *args)
{
    int size = args->u.lrn.local_size;

    if (op_check_images(args))
        return -1;
    if (size < 1 || size % 2 == 0)
        return error_set("local_size is %d; expected an odd number, at least 1", size);
    return 0;
}

const struct op_signature op_signature_lrn = {
    {1, 1}, {1, 1}, .like_bottom = true, .check = lrn_check};

static int interp_check(const struct op_args *args)
{
    const struct interp_args *a = &args->u.interp;
    const struct shape *x = op_bottom_shape(args, 0);
    int64_t cut = (int64_t)a->crop_begin + a->crop_end;

    if (op_check_images(args) || op_check_keeps_channels(args))
        return -1;
    if (a->crop_begin < 0 || a->crop_end < 0 || x->dim[2] <= cut || x->dim[3] <= cut)
        return error_set("cannot crop %d before and %d behind in a plane of %" PRId64 " x %" PRId64,
                         a->crop_begin, a->crop_end, x->dim[2], x->dim[3]);
    return 0;
}

const struct op_signature op_signature_interp = {
    {1, 1}, {1, 1}, .blind_backward = true, .check = interp_check};

static int upsample_check(const struct op_args *args)
{
    if (op_check_spatial(args) || op_check_keeps_channels(args))
        return -1;
    return shape_equal(op_bottom_shape(args, 0), op_bottom_shape(args, 1))
               ? 0
               : error_set("the mask '%s' is %s, but '%s' is %s; expected the second top of the "
                           "pooling that this layer undoes",
                           op_bottom_name(args, 1), shape_text(op_bottom_shape(args, 1)).text,
                           op_bottom_name(args, 0), shape_text(op_bottom_shape(args, 0)).text);
}

const struct op_signature op_signature_upsample = {
    {2, 2}, {1, 1}, .no_gradient_to = 1u << 1, .check = upsample_check};

/* Checks that no bin of a level lies in the padding alone, as the first or the last could. */
static int spp_check_level(const struct shape *x, int level)
{
    const struct op_windows w = op_spp_windows(x, level);

    for (int i = 1; i < OP_SPATIAL; i++)
        if (w.kernel[i] <= w.pad[i] || (w.places[i] - 1) * w.kernel[i] - w.pad[i] >= w.size[i])
            return error_set("axis %d of size %" PRId64 " is too small for %" PRId64 " bins", 1 + i,
                             w.size[i], w.places[i]);
    return 0;
}

static int spp_check(const struct op_args *args)
{
    const struct spp_args *a = &args->u.spp;
    const struct shape *x = op_bottom_shape(args, 0);

    if (op_check_choice("pooling method", (int)a->method, POOL_AVE + 1))
        return -1;
    if (x->naxes != 4)
        return error_set("needs a bottom of 4 axes (N, C, H, W); its shape is %s",
                         shape_text(x).text);
    if (a->levels < 1 || a->levels > 12)
        return error_set("takes 1 to 12 levels, not %d", a->levels);
    for (int l = 0; l < a->levels; l++)
        if (spp_check_level(x, l))
            return -1;
    return op_check_top_elems(args, 0, x->dim[0] * x->dim[1] * op_spp_places(a->levels));
}

const struct op_signature op_signature_spp = {
    {1, 1}, {1, 1}, .blind_backward = true, .check = spp_check};
