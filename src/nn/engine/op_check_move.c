/* Checks of operators that only move values: concat, slice, split, crop, tile, shuffle, rows by
 * number. */
#include "engine/op_check_internal.h"
#include "util/error.h"
#include "util/units.h"

#include <inttypes.h>

/* Checks that the pieces make up the whole along `axis`. what: "bottom" or "top", for messages. */
static int concat_check_pieces(const char *what, struct blob **pieces, int n,
                               const struct shape *whole, int axis)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++) {
        const struct shape *piece = &pieces[i]->value.shape;
        bool fits = piece->naxes == whole->naxes;
        for (int d = 0; fits && d < whole->naxes; d++)
            fits = d == axis || piece->dim[d] == whole->dim[d];
        if (!fits)
            return error_set("%s %d, '%s' of shape %s, does not fit %s: only the sizes of axis "
                             "%d may differ",
                             what, i, pieces[i]->name ? pieces[i]->name : "?",
                             shape_text(piece).text, shape_text(whole).text, axis);
        sum += piece->dim[axis];
    }
    if (sum != whole->dim[axis])
        return error_set("the %ss' axis %d adds up to %" PRId64 ", not %" PRId64, what, axis, sum,
                         whole->dim[axis]);
    return 0;
}

static int concat_check(const struct op_args *args)
{
    const struct shape *top = op_top_shape(args, 0);
    int axis;

    if (shape_axis(top, args->u.concat.axis, &axis))
        return -1;
    return concat_check_pieces("bottom", args->bottoms, args->nbottoms, top, axis);
}

const struct op_signature op_signature_concat = {
    {1, OP_ANY}, {1, 1}, .blind_backward = true, .check = concat_check};

static int slice_check(const struct op_args *args)
{
    const struct shape *bottom = op_bottom_shape(args, 0);
    int axis;

    if (shape_axis(bottom, args->u.slice.axis, &axis))
        return -1;
    return concat_check_pieces("top", args->tops, args->ntops, bottom, axis);
}

const struct op_signature op_signature_slice = {
    {1, 1}, {1, OP_ANY}, .blind_backward = true, .check = slice_check};

static int split_check(const struct op_args *args)
{
    for (int i = 0; i < args->ntops; i++)
        if (op_check_top_like_bottom(args, i))
            return -1;
    return 0;
}

const struct op_signature op_signature_split = {
    {1, 1}, {1, OP_ANY}, .blind_backward = true, .check = split_check};

static int flatten_check(const struct op_args *args)
{
    return op_check_top_elems(args, 0, (int64_t)shape_elems(op_bottom_shape(args, 0)));
}

const struct op_signature op_signature_flatten = {
    {1, 1}, {1, 1}, .blind_backward = true, .check = flatten_check};

static int crop_check(const struct op_args *args)
{
    const struct shape *x = op_bottom_shape(args, 0), *y = op_top_shape(args, 0);
    const int64_t *offset = args->u.crop.offset;

    if (x->naxes != y->naxes || x->naxes == 0)
        return error_set("the top has %s, the bottom %d", units_count(y->naxes, "axis").text,
                         x->naxes);
    for (int i = 0; i < x->naxes; i++)
        if (offset[i] < 0 || offset[i] > x->dim[i] - y->dim[i])
            return error_set("offset %" PRId64 " and size %" PRId64
                             " do not fit axis %d of '%s', which has %" PRId64,
                             offset[i], y->dim[i], i, op_bottom_name(args, 0), x->dim[i]);
    return 0;
}

const struct op_signature op_signature_crop = {
    {1, 2}, {1, 1}, .blind_backward = true, .check = crop_check};

static int tile_check(const struct op_args *args)
{
    const struct tile_args *a = &args->u.tile;
    int axis;

    if (shape_axis(op_bottom_shape(args, 0), a->axis, &axis))
        return -1;
    if (a->tiles < 1)
        return error_set("tiles must be at least 1, not %d", a->tiles);
    return op_check_top_elems(args, 0, (int64_t)shape_elems(op_bottom_shape(args, 0)) * a->tiles);
}

const struct op_signature op_signature_tile = {
    {1, 1}, {1, 1}, .blind_backward = true, .check = tile_check};

static int shuffle_check(const struct op_args *args)
{
    const struct shape *x = op_bottom_shape(args, 0);
    int group = args->u.shuffle.group;

    if (op_check_has_channels(args))
        return -1;
    if (group < 1 || x->dim[1] % group)
        return error_set("group %d does not divide the %s of '%s'", group,
                         units_count(x->dim[1], "channel").text, op_bottom_name(args, 0));
    return 0;
}

const struct op_signature op_signature_shuffle = {
    {1, 1}, {1, 1}, .like_bottom = true, .blind_backward = true, .check = shuffle_check};

static int batch_reindex_check(const struct op_args *args)
{
    const struct shape *x = op_bottom_shape(args, 0), *y = op_top_shape(args, 0);
    size_t indices = shape_elems(op_bottom_shape(args, 1));

    if (x->naxes != y->naxes || x->naxes < 1 ||
        shape_count(x, 1, x->naxes) != shape_count(y, 1, y->naxes) || indices != (size_t)y->dim[0])
        return error_set("%zu indices do not fit a top of %" PRId64 " rows of the bottom's size",
                         indices, shape_dim(y, 0));
    return 0;
}

const struct op_signature op_signature_batch_reindex = {{2, 2},
                                                        {1, 1},
                                                        .no_gradient_to = 1u << 1,
                                                        .blind_backward = true,
                                                        .check = batch_reindex_check};

static int embed_check(const struct op_args *args)
{
    const struct shape *weight;
    int64_t count = (int64_t)shape_elems(op_bottom_shape(args, 0));

    weight = &args->params[0]->shape;
    if (weight->naxes != 2)
        return error_set("the weight has %s, not 2", units_count(weight->naxes, "axis").text);
    if (op_check_top_elems(args, 0, count * weight->dim[1]))
        return -1;
    return op_check_weight_and_bias(args, (int64_t)shape_elems(weight), args->u.embed.bias,
                                    weight->dim[1]);
}

const struct op_signature op_signature_embed = {
    {1, 1}, {1, 1}, {1, 2}, .no_gradient_to = 1u, .check = embed_check};

const struct op_signature op_signature_silence = {.bottoms = {1, OP_ANY}, .blind_backward = true};

static int parameter_check(const struct op_args *args)
{
    return op_check_param_elems(args, 0, "parameter", (int64_t)shape_elems(op_top_shape(args, 0)));
}

const struct op_signature op_signature_parameter = {
    .tops = {1, 1}, .params = {1, 1}, .blind_backward = true, .check = parameter_check};
