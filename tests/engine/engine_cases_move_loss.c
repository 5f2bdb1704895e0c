/* Cases of the operators that move, weigh or reduce values, and of all losses but softmax. */
#include "tests/engine/engine_cases.h"

static void draw_dims(struct engine_case *c, int naxes, int most, int64_t *dims)
{
    for (int d = 0; d < naxes; d++)
        dims[d] = case_draw(c, 1, d == 0 ? 3 : most);
}

enum { MOST_AXES = 2 + OP_SPATIAL };

/* Sizes of so many axes or more. */
static int draw_some(struct engine_case *c, int least_axes, int64_t dims[MOST_AXES])
{
    int naxes = case_draw(c, least_axes, MOST_AXES);

    draw_dims(c, naxes, naxes > 4 ? 4 : 9, dims);
    return naxes;
}

/* A bottom of random shape, 5 axes or fewer, maybe laid out. */
static int some_bottom(struct engine_case *c, int least_axes, int64_t dims[MOST_AXES], int *naxes)
{
    *naxes = draw_some(c, least_axes, dims);
    rig_bottom(&c->rig, *naxes, dims);
    return case_lay_out(c, c->rig.args.nbottoms - 1);
}

static int choose_prelu(struct engine_case *c)
{
    int64_t dims[MOST_AXES], slopes;
    int naxes;

    if (some_bottom(c, 2, dims, &naxes))
        return -1;
    c->rig.args.u.prelu.shared = case_draw(c, 0, 2) == 0;
    slopes = c->rig.args.u.prelu.shared ? 1 : dims[1];
    rig_top(&c->rig, naxes, dims);
    rig_param(&c->rig, 1, &slopes);
    return 0;
}

static int choose_slice(struct engine_case *c)
{
    int64_t dims[MOST_AXES], total = 0, part[4];
    int naxes = draw_some(c, 1, dims), axis = case_draw(c, 0, naxes - 1), n = case_draw(c, 1, 4);

    for (int i = 0; i < n; i++)
        total += part[i] = case_draw(c, 1, 5);
    dims[axis] = total;
    rig_bottom(&c->rig, naxes, dims);
    for (int i = 0; i < n; i++) {
        dims[axis] = part[i];
        rig_top(&c->rig, naxes, dims);
    }
    c->rig.args.u.slice.axis = case_draw(c, 0, 1) ? axis : axis - naxes;
    return case_lay_out(c, 0);
}

static int choose_crop(struct engine_case *c)
{
    int64_t dims[MOST_AXES];
    int naxes;

    if (some_bottom(c, 1, dims, &naxes))
        return -1;
    for (int d = 0; d < naxes; d++) {
        int64_t whole = dims[d];
        dims[d] = case_draw(c, 1, (int)whole);
        c->rig.args.u.crop.offset[d] = case_draw(c, 0, (int)(whole - dims[d]));
    }
    rig_top(&c->rig, naxes, dims);
    return 0;
}

static int choose_tile(struct engine_case *c)
{
    struct tile_args *a = &c->rig.args.u.tile;
    int64_t dims[MOST_AXES];
    int naxes, axis;

    if (some_bottom(c, 1, dims, &naxes))
        return -1;
    axis = case_draw(c, 0, naxes - 1);
    a->axis = case_draw(c, 0, 1) ? axis : axis - naxes;
    a->tiles = case_draw(c, 1, 4);
    dims[axis] *= a->tiles;
    rig_top(&c->rig, naxes, dims);
    return 0;
}

static int choose_reduce(struct engine_case *c)
{
    struct reduce_args *a = &c->rig.args.u.reduce;
    int64_t dims[MOST_AXES];
    int naxes;

    if (some_bottom(c, 1, dims, &naxes))
        return -1;
    a->operation = (enum reduce_operation)case_draw(c, REDUCE_SUM, REDUCE_MEAN);
    a->axis = case_draw(c, 0, naxes);
    a->coeff = 0.5f * (float)case_draw(c, -3, 3);
    rig_top(&c->rig, a->axis, dims);
    return 0;
}

static int choose_argmax(struct engine_case *c)
{
    struct argmax_args *a = &c->rig.args.u.argmax;
    int64_t dims[MOST_AXES], length = 1;
    int naxes;

    if (some_bottom(c, 2, dims, &naxes))
        return -1;
    c->ties = case_draw(c, 0, 1);
    a->has_axis = case_draw(c, 0, 1);
    a->out_max_val = case_draw(c, 0, 1);
    a->axis = case_draw(c, 0, naxes - 1);
    for (int d = 1; d < naxes; d++)
        length *= dims[d];
    a->top_k = case_draw(c, 1, (int)(a->has_axis ? dims[a->axis] : length));
    if (a->has_axis)
        dims[a->axis] = a->top_k;
    else
        dims[1] = (a->out_max_val ? 2 : 1) * a->top_k;
    rig_top(&c->rig, a->has_axis ? naxes : 2, dims);
    return 0;
}

/* Groups of several elements each: of one or two, the variance says nothing. */
static int choose_mvn(struct engine_case *c)
{
    struct mvn_args *a = &c->rig.args.u.mvn;
    int64_t dims[4];

    draw_dims(c, 4, 9, dims);
    dims[2] += 3;
    dims[3] += 3;
    a->variance = case_draw(c, 0, 2) > 0;
    a->across = case_draw(c, 0, 1);
    a->eps = case_draw(c, 0, 1) ? 1e-9f : 0.1f;
    c->inexact = a->variance && a->eps > 1e-8f; /* the gradient is Caffe's */
    rig_bottom(&c->rig, 4, dims);
    rig_top(&c->rig, 4, dims);
    return case_lay_out(c, 0);
}

/* Sizes with one to three spatial axes, most often two; returns the number of axes. */
static int draw_image(struct engine_case *c, int64_t dims[MOST_AXES])
{
    int spatial = case_draw(c, 0, 3), naxes = spatial == 0 ? 4 : 2 + spatial;

    draw_dims(c, naxes, naxes == 5 ? 3 : 6, dims);
    return naxes;
}

/* A window, and an image of `places` places for it on so many axes. */
static void draw_window(struct engine_case *c, int axes, const int64_t *places, int64_t *image)
{
    struct conv_args *a = &c->rig.args.u.conv;

    for (int i = 0; i < axes; i++) {
        a->kernel[i] = case_draw(c, 1, axes == 3 ? 3 : 4);
        a->stride[i] = case_draw(c, 1, 3);
        a->dilation[i] = case_draw(c, 0, 3) == 0 ? 2 : 1;
        a->pad[i] = case_draw(c, 0, 2);
        image[i] = a->stride[i] * (places[i] - 1) + a->dilation[i] * (a->kernel[i] - 1) + 1 -
                   2 * a->pad[i];
        if (image[i] < 1) {
            image[i] += 2 * a->pad[i];
            a->pad[i] = 0;
        }
    }
}

static int choose_im2col(struct engine_case *c)
{
    const struct conv_args *a = &c->rig.args.u.conv;
    int64_t out[MOST_AXES], in[MOST_AXES];
    int naxes = draw_image(c, out);

    in[0] = out[0];
    in[1] = out[1];
    draw_window(c, naxes - 2, out + 2, in + 2);
    for (int i = 0; i < naxes - 2; i++)
        out[1] *= a->kernel[i];
    rig_bottom(&c->rig, naxes, in);
    rig_top(&c->rig, naxes, out);
    return case_lay_out(c, 0);
}

static int choose_deconv(struct engine_case *c)
{
    struct conv_args *a = &c->rig.args.u.conv;
    int64_t in[MOST_AXES], out[MOST_AXES], weight[MOST_AXES];
    int naxes = draw_image(c, in);

    a->group = case_draw(c, 0, 2) == 0 ? case_draw(c, 1, 4) : 1;
    in[1] = a->group * case_draw(c, 1, a->group == 1 ? 17 : 5);
    out[0] = in[0];
    out[1] = a->group * case_draw(c, 1, a->group == 1 ? 17 : 5);
    draw_window(c, naxes - 2, in + 2, out + 2);
    weight[0] = in[1];
    weight[1] = out[1] / a->group;
    for (int i = 0; i < naxes - 2; i++)
        weight[2 + i] = a->kernel[i];
    a->bias = case_draw(c, 0, 2) > 0;
    rig_bottom(&c->rig, naxes, in);
    rig_top(&c->rig, naxes, out);
    rig_param(&c->rig, naxes, weight);
    if (a->bias)
        rig_param(&c->rig, 1, &out[1]);
    return case_lay_out(c, 0);
}

static int choose_embed(struct engine_case *c)
{
    int64_t dims[3];
    int naxes = case_draw(c, 1, 2);

    draw_dims(c, naxes, 9, dims);
    rig_bottom(&c->rig, naxes, dims);
    c->rig.propagate[0] = false;
    c->integers[0] = case_draw(c, 1, 9);
    dims[naxes] = case_draw(c, 1, 20);
    c->rig.args.u.embed.bias = case_draw(c, 0, 1);
    rig_top(&c->rig, naxes + 1, dims);
    rig_param(&c->rig, 2, (int64_t[]){c->integers[0], dims[naxes]});
    if (c->rig.args.u.embed.bias)
        rig_param(&c->rig, 1, &dims[naxes]);
    return 0;
}

static int choose_silence(struct engine_case *c)
{
    int64_t dims[MOST_AXES];
    int naxes, n = case_draw(c, 1, 4);

    for (int i = 0; i < n; i++)
        if (some_bottom(c, 1, dims, &naxes))
            return -1;
    return 0;
}

static int choose_parameter(struct engine_case *c)
{
    int64_t dims[4];
    int naxes = case_draw(c, 1, 4);

    draw_dims(c, naxes, 9, dims);
    rig_top(&c->rig, naxes, dims);
    rig_param(&c->rig, naxes, dims);
    return 0;
}

static int choose_batch_reindex(struct engine_case *c)
{
    int64_t dims[MOST_AXES], count = case_draw(c, 1, 6);
    int naxes;

    if (some_bottom(c, 1, dims, &naxes))
        return -1;
    rig_bottom(&c->rig, 1, &count);
    c->rig.propagate[1] = false;
    c->integers[1] = (int)dims[0];
    dims[0] = count;
    rig_top(&c->rig, naxes, dims);
    return 0;
}

static int choose_shuffle(struct engine_case *c)
{
    int64_t dims[MOST_AXES];
    int naxes = draw_some(c, 2, dims), group = case_draw(c, 1, 4);

    dims[1] = group * case_draw(c, 1, 6);
    c->rig.args.u.shuffle.group = group;
    rig_bottom(&c->rig, naxes, dims);
    rig_top(&c->rig, naxes, dims);
    return case_lay_out(c, 0);
}

static int choose_interp(struct engine_case *c)
{
    struct interp_args *a = &c->rig.args.u.interp;
    int64_t dims[4];

    draw_dims(c, 4, 7, dims);
    a->crop_begin = case_draw(c, 0, 2);
    a->crop_end = case_draw(c, 0, 2);
    dims[2] += a->crop_begin + a->crop_end;
    dims[3] += a->crop_begin + a->crop_end;
    rig_bottom(&c->rig, 4, dims);
    dims[2] = case_draw(c, 1, 12);
    dims[3] = case_draw(c, 1, 12);
    rig_top(&c->rig, 4, dims);
    return case_lay_out(c, 0);
}

static int choose_upsample(struct engine_case *c)
{
    int64_t dims[5];
    int naxes = case_draw(c, 3, 5);

    draw_dims(c, naxes, 7, dims);
    rig_bottom(&c->rig, naxes, dims);
    rig_bottom(&c->rig, naxes, dims);
    c->rig.propagate[1] = false;
    c->integers[1] = 1;
    c->inexact = shape_count(&c->rig.bottom[0].value.shape, 2, naxes) > 1; /* places may repeat */
    for (int i = 2; i < naxes; i++)
        c->integers[1] *=
            (int)(dims[i] = case_draw(c, 1, naxes > 4 ? 6 : 9)); /* bfloat16 holds them */
    rig_top(&c->rig, naxes, dims);
    return case_lay_out(c, 0) || case_lay_out(c, 1) ? -1 : 0;
}

static int choose_spp(struct engine_case *c)
{
    static const int64_t sizes[] = {4, 6, 7, 8, 9}; /* 5 would leave a bin of 4 empty */
    int64_t dims[4], places = 0;

    draw_dims(c, 2, 9, dims);
    dims[2] = sizes[case_draw(c, 0, 4)];
    dims[3] = sizes[case_draw(c, 0, 4)];
    c->ties = case_draw(c, 0, 2) == 0;
    c->rig.args.u.spp = (struct spp_args){.method = case_draw(c, 0, 1) ? POOL_MAX : POOL_AVE,
                                          .levels = case_draw(c, 1, 3)};
    for (int l = 0; l < c->rig.args.u.spp.levels; l++)
        places += 1 << 2 * l;
    rig_bottom(&c->rig, 4, dims);
    rig_top(&c->rig, 2, (int64_t[]){dims[0], dims[1] * places});
    return case_lay_out(c, 0);
}

static enum loss_normalization draw_normalization(struct engine_case *c)
{
    return (enum loss_normalization)case_draw(c, LOSS_FULL, LOSS_NONE);
}

static int choose_pair_loss(struct engine_case *c)
{
    struct op_args *args = &c->rig.args;
    int64_t dims[MOST_AXES];
    int naxes;

    if (some_bottom(c, 1, dims, &naxes))
        return -1;
    rig_bottom(&c->rig, naxes, dims);
    if (case_lay_out(c, 1))
        return -1;
    if (args->kind == OP_SIGMOID_LOSS) {
        c->rig.propagate[1] = false;
        args->u.sigmoid_loss = (struct loss_args){.has_ignore_label = case_draw(c, 0, 1),
                                                  .ignore_label = case_draw(c, -1, 1),
                                                  .normalization = draw_normalization(c)};
        c->integers[1] = args->u.sigmoid_loss.has_ignore_label ? 2 : 0;
    } else if (args->kind == OP_CONTRASTIVE_LOSS) {
        args->u.contrastive_loss.margin = 0.5f * (float)case_draw(c, 1, 8);
        args->u.contrastive_loss.legacy = case_draw(c, 0, 1);
        /* 1e-4 in the gradient is not in the loss */
        c->inexact = !args->u.contrastive_loss.legacy;
        rig_bottom(&c->rig, 1, dims);
        c->rig.propagate[2] = false;
        c->integers[2] = 2;
    }
    rig_top(&c->rig, 0, NULL);
    return 0;
}

static int choose_rows_loss(struct engine_case *c)
{
    int64_t dims[MOST_AXES], length = 1;
    int naxes;

    if (some_bottom(c, 2, dims, &naxes))
        return -1;
    for (int d = 1; d < naxes; d++)
        length *= dims[d];
    rig_bottom(&c->rig, 1, dims);
    c->rig.propagate[1] = false;
    c->integers[1] = (int)length;
    c->positive = c->rig.args.kind == OP_MULTINOMIAL_LOSS;
    if (c->rig.args.kind == OP_HINGE_LOSS)
        c->rig.args.u.hinge_loss.l2 = case_draw(c, 0, 1);
    rig_top(&c->rig, 0, NULL);
    return 0;
}

static int choose_infogain_loss(struct engine_case *c)
{
    struct loss_args *a = &c->rig.args.u.infogain_loss;
    int64_t dims[MOST_AXES], labels[2];
    int naxes;

    if (some_bottom(c, 2, dims, &naxes))
        return -1;
    *a = (struct loss_args){.axis = case_draw(c, 0, 1) ? 1 : 1 - naxes,
                            .has_ignore_label = case_draw(c, 0, 1),
                            .ignore_label = case_draw(c, 0, 2),
                            .normalization = draw_normalization(c)};
    labels[0] = dims[0];
    labels[1] = (int64_t)shape_count(&c->rig.bottom[0].value.shape, 2, naxes);
    rig_bottom(&c->rig, 2, labels);
    c->rig.propagate[1] = false;
    c->integers[1] = (int)dims[1];
    if (case_draw(c, 0, 1)) {
        rig_bottom(&c->rig, 2, (int64_t[]){dims[1], dims[1]});
        c->rig.propagate[2] = false;
    } else {
        for (int64_t i = 0; i < dims[1] * dims[1]; i++)
            c->matrix[i] = 0.25f * (float)case_draw(c, -4, 4);
        a->matrix = c->matrix;
    }
    rig_top(&c->rig, 0, NULL);
    if (case_draw(c, 0, 1))
        rig_top(&c->rig, naxes, dims);
    return 0;
}

int (*case_chooser_move_loss(enum op_kind kind))(struct engine_case *)
{
    static int (*const choose[OP_KINDS])(struct engine_case *) = {
        [OP_PRELU] = choose_prelu,
        [OP_SLICE] = choose_slice,
        [OP_CROP] = choose_crop,
        [OP_TILE] = choose_tile,
        [OP_REDUCE] = choose_reduce,
        [OP_ARGMAX] = choose_argmax,
        [OP_MVN] = choose_mvn,
        [OP_IM2COL] = choose_im2col,
        [OP_DECONV] = choose_deconv,
        [OP_EMBED] = choose_embed,
        [OP_SILENCE] = choose_silence,
        [OP_PARAMETER] = choose_parameter,
        [OP_BATCH_REINDEX] = choose_batch_reindex,
        [OP_SHUFFLE] = choose_shuffle,
        [OP_INTERP] = choose_interp,
        [OP_SPP] = choose_spp,
        [OP_UPSAMPLE] = choose_upsample,
        [OP_SIGMOID_LOSS] = choose_pair_loss,
        [OP_EUCLIDEAN_LOSS] = choose_pair_loss,
        [OP_HINGE_LOSS] = choose_rows_loss,
        [OP_CONTRASTIVE_LOSS] = choose_pair_loss,
        [OP_INFOGAIN_LOSS] = choose_infogain_loss,
        [OP_MULTINOMIAL_LOSS] = choose_rows_loss,
    };

    return choose[kind];
}
