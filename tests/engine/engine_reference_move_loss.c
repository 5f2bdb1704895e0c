/* The definitions of the operators that move, weigh or reduce values, and of all losses but
 * softmax. A move is a list of what goes where: backward is the same list the other way. */
#include "tests/engine/engine_reference.h"

#include <float.h>
#include <math.h>

static const struct shape *bottom_shape(const struct reference *r, int i)
{
    return &r->args->bottoms[i]->value.shape;
}

static const struct shape *top_shape(const struct reference *r, int i)
{
    return &r->args->tops[i]->value.shape;
}

static int64_t elems(const struct shape *shape)
{
    return (int64_t)shape_elems(shape);
}

/* Element y of the first top has `share` of element x of the first bottom. */
static void move(struct reference *r, bool backward, int64_t y, int64_t x, double share)
{
    if (backward)
        r->bottom_grad[0][x] += share * r->top_grad[0][y];
    else
        r->top[0][y] += share * r->bottom[0][x];
}

/* Coordinates of element i, last axis first to change. */
static void place_of(const struct shape *shape, int64_t i, int64_t at[SHAPE_MAX_AXES])
{
    for (int d = shape->naxes - 1; d >= 0; d--) {
        at[d] = i % shape->dim[d];
        i /= shape->dim[d];
    }
}

static int64_t element_at(const struct shape *shape, const int64_t at[SHAPE_MAX_AXES])
{
    int64_t i = 0;

    for (int d = 0; d < shape->naxes; d++)
        i = i * shape->dim[d] + at[d];
    return i;
}

static void crop(struct reference *r, bool backward)
{
    int64_t at[SHAPE_MAX_AXES];

    for (int64_t i = 0; i < elems(top_shape(r, 0)); i++) {
        place_of(top_shape(r, 0), i, at);
        for (int d = 0; d < top_shape(r, 0)->naxes; d++)
            at[d] += r->args->u.crop.offset[d];
        move(r, backward, i, element_at(bottom_shape(r, 0), at), 1);
    }
}

static void tile(struct reference *r, bool backward)
{
    const struct shape *x = bottom_shape(r, 0);
    int64_t at[SHAPE_MAX_AXES];
    int axis = 0;

    shape_axis(x, r->args->u.tile.axis, &axis);
    for (int64_t i = 0; i < elems(top_shape(r, 0)); i++) {
        place_of(top_shape(r, 0), i, at);
        at[axis] %= x->dim[axis];
        move(r, backward, i, element_at(x, at), 1);
    }
}

static void slice(struct reference *r, bool backward)
{
    const struct shape *x = bottom_shape(r, 0);
    int64_t at[SHAPE_MAX_AXES], done = 0;
    int axis = 0;

    shape_axis(x, r->args->u.slice.axis, &axis);
    for (int t = 0; t < r->args->ntops; t++) {
        for (int64_t i = 0; i < elems(top_shape(r, t)); i++) {
            place_of(top_shape(r, t), i, at);
            at[axis] += done;
            int64_t from = element_at(x, at);
            if (backward)
                r->bottom_grad[0][from] = r->top_grad[t][i];
            else
                r->top[t][i] = r->bottom[0][from];
        }
        done += top_shape(r, t)->dim[axis];
    }
}

static void prelu(struct reference *r, bool backward)
{
    const struct shape *x = bottom_shape(r, 0);
    int64_t inner = (int64_t)shape_count(x, 2, x->naxes);

    for (int64_t i = 0; i < elems(x); i++) {
        int64_t c = r->args->u.prelu.shared ? 0 : i / inner % x->dim[1];
        double value = r->bottom[0][i], slope = r->param[0][c];
        if (!backward) {
            r->top[0][i] = value > 0 ? value : slope * value;
            continue;
        }
        r->bottom_grad[0][i] = r->top_grad[0][i] * (value > 0 ? 1 : slope);
        r->param_grad[0][c] += value > 0 ? 0 : r->top_grad[0][i] * value;
    }
}

static void reduce(struct reference *r, bool backward)
{
    const struct reduce_args *a = &r->args->u.reduce;
    int64_t length = elems(bottom_shape(r, 0)) / elems(top_shape(r, 0));
    double coeff = (double)a->coeff / (a->operation == REDUCE_MEAN ? (double)length : 1);

    for (int64_t i = 0; i < elems(bottom_shape(r, 0)); i++) {
        double x = r->bottom[0][i], value = x, slope = 1;
        if (a->operation == REDUCE_ASUM) {
            value = fabs(x);
            slope = (x > 0) - (x < 0);
        } else if (a->operation == REDUCE_SUMSQ) {
            value = x * x;
            slope = 2 * x;
        }
        if (backward)
            r->bottom_grad[0][i] = coeff * slope * r->top_grad[0][i / length];
        else
            r->top[0][i / length] += coeff * value;
    }
}

/* How many of the row's elements come before place i. */
static int64_t rank_of(const double *row, int64_t length, int64_t inner, int64_t i)
{
    int64_t before = 0;

    for (int64_t j = 0; j < length; j++)
        before += row[j * inner] > row[i * inner] || (row[j * inner] == row[i * inner] && j > i);
    return before;
}

static void argmax(struct reference *r, bool backward)
{
    const struct argmax_args *a = &r->args->u.argmax;
    const struct shape *x = bottom_shape(r, 0);
    int axis = 1;

    if (a->has_axis)
        shape_axis(x, a->axis, &axis);
    int64_t outer = (int64_t)shape_count(x, 0, axis);
    int64_t length = a->has_axis ? x->dim[axis] : (int64_t)shape_count(x, 1, x->naxes);
    int64_t inner = elems(x) / outer / length, k = a->top_k;
    bool both = !a->has_axis && a->out_max_val;

    for (int64_t p = 0; p < outer * inner && !backward; p++) {
        const double *row = r->bottom[0] + p / inner * length * inner + p % inner;
        for (int64_t i = 0; i < length; i++) {
            int64_t rank = rank_of(row, length, inner, i);
            int64_t to = ((both ? 2 : 1) * (p / inner) * k + rank) * inner + p % inner;
            if (rank >= k)
                continue;
            r->top[0][to] = a->has_axis && a->out_max_val ? row[i * inner] : (double)i;
            if (both)
                r->top[0][to + k] = row[i];
        }
    }
}

static void mvn(struct reference *r, bool backward)
{
    const struct mvn_args *a = &r->args->u.mvn;
    const struct shape *x = bottom_shape(r, 0);
    int64_t n = (int64_t)shape_count(x, a->across ? 1 : 2, x->naxes);

    for (int64_t first = 0; first < elems(x); first += n) {
        const double *in = r->bottom[0] + first, *dy = r->top_grad[0] + first;
        double mean = 0, square = 0, dy_mean = 0, product = 0;
        for (int64_t i = 0; i < n; i++)
            mean += in[i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            square += (in[i] - mean) * (in[i] - mean) / (double)n;
        double q = a->variance ? sqrt(square) + (double)a->eps : 1;
        for (int64_t i = 0; i < n; i++) {
            dy_mean += dy[i] / (double)n;
            product += a->variance ? dy[i] * (in[i] - mean) / q / (double)n : 0;
        }
        for (int64_t i = 0; i < n; i++) {
            if (backward)
                r->bottom_grad[0][first + i] = (dy[i] - dy_mean - (in[i] - mean) / q * product) / q;
            else
                r->top[0][first + i] = (in[i] - mean) / q;
        }
    }
}

/* Calls for every pair of a place in the image and a place in the columns (channel, kernel,
 * window). */
static void windows(struct reference *r, const struct shape *image, const struct shape *places,
                    bool backward,
                    void (*visit)(struct reference *, bool, int64_t image, int64_t plane,
                                  int64_t kernel, int64_t place))
{
    const struct conv_args *a = &r->args->u.conv;

    for (int64_t p = 0; p < image->dim[0] * image->dim[1]; p++)
        for (int64_t k = 0; k < reference_taps(a, image); k++)
            for (int64_t i = 0; i < reference_pixels(places); i++) {
                int64_t pixel = reference_pixel(a, image, places, i, k);
                if (pixel >= 0)
                    visit(r, backward, p * reference_pixels(image) + pixel, p, k, i);
            }
}

static void column(struct reference *r, bool backward, int64_t image, int64_t plane, int64_t kernel,
                   int64_t place)
{
    const struct shape *y = top_shape(r, 0);
    int64_t places = reference_pixels(y), kernels = y->dim[1] / bottom_shape(r, 0)->dim[1];

    move(r, backward, (plane * kernels + kernel) * places + place, image, 1);
}

static void im2col(struct reference *r, bool backward)
{
    windows(r, bottom_shape(r, 0), top_shape(r, 0), backward, column);
}

/* One place of one channel of the top, and all channels of the bottom in its group. */
static void deconv_visit(struct reference *r, bool backward, int64_t image, int64_t plane,
                         int64_t kernel, int64_t place)
{
    const struct conv_args *a = &r->args->u.conv;
    const struct shape *x = bottom_shape(r, 0), *y = top_shape(r, 0);
    int64_t og = y->dim[1] / a->group, cg = x->dim[1] / a->group;
    int64_t sample = plane / y->dim[1], o = plane % y->dim[1], kernels = reference_taps(a, y);

    for (int64_t c = o / og * cg; c < (o / og + 1) * cg; c++) {
        int64_t from = (sample * x->dim[1] + c) * reference_pixels(x) + place;
        int64_t w = (c * og + o % og) * kernels + kernel;
        move(r, backward, image, from, r->param[0][w]);
        if (backward)
            r->param_grad[0][w] += r->bottom[0][from] * r->top_grad[0][image];
    }
}

static void deconv(struct reference *r, bool backward)
{
    const struct shape *y = top_shape(r, 0);

    for (int64_t i = 0; r->args->u.conv.bias && i < elems(y); i++) {
        int64_t o = i / reference_pixels(y) % y->dim[1];
        if (backward)
            r->param_grad[1][o] += r->top_grad[0][i];
        else
            r->top[0][i] = r->param[1][o];
    }
    windows(r, y, bottom_shape(r, 0), backward, deconv_visit);
}

static void embed(struct reference *r, bool backward)
{
    int64_t count = elems(bottom_shape(r, 0)), outputs = elems(top_shape(r, 0)) / count;

    for (int64_t i = 0; i < count * outputs; i++) {
        int64_t j = i % outputs, w = (int64_t)r->bottom[0][i / outputs] * outputs + j;
        if (!backward)
            r->top[0][i] = r->param[0][w] + (r->args->u.embed.bias ? r->param[1][j] : 0);
        else
            r->param_grad[0][w] += r->top_grad[0][i];
        if (backward && r->args->u.embed.bias)
            r->param_grad[1][j] += r->top_grad[0][i];
    }
}

static void parameter(struct reference *r, bool backward)
{
    for (int64_t i = 0; i < elems(top_shape(r, 0)); i++) {
        if (backward)
            r->param_grad[0][i] = r->top_grad[0][i];
        else
            r->top[0][i] = r->param[0][i];
    }
}

static void batch_reindex(struct reference *r, bool backward)
{
    int64_t length = elems(top_shape(r, 0)) / top_shape(r, 0)->dim[0];

    for (int64_t i = 0; i < elems(top_shape(r, 0)); i++)
        move(r, backward, i, (int64_t)r->bottom[1][i / length] * length + i % length, 1);
}

static void shuffle(struct reference *r, bool backward)
{
    const struct shape *x = bottom_shape(r, 0);
    int64_t inner = (int64_t)shape_count(x, 2, x->naxes), channels = x->dim[1];
    int64_t rows = r->args->u.shuffle.group, columns = channels / rows;

    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++)
                for (int64_t p = 0; p < inner; p++)
                    move(r, backward, (n * channels + j * rows + i) * inner + p,
                         (n * channels + i * columns + j) * inner + p, 1);
}

/* Share of source s in target i of one axis. */
static double interp_share(int64_t i, int64_t s, int64_t used, int64_t out)
{
    double from = out > 1 ? (double)i * (double)(used - 1) / (double)(out - 1) : 0;
    double away = fabs(from - (double)s);

    return away < 1 ? 1 - away : 0;
}

static void interp(struct reference *r, bool backward)
{
    const struct shape *x = bottom_shape(r, 0), *y = top_shape(r, 0);
    int64_t begin = r->args->u.interp.crop_begin, cut = begin + r->args->u.interp.crop_end;
    int64_t used[2] = {x->dim[2] - cut, x->dim[3] - cut};
    int64_t to[SHAPE_MAX_AXES];

    for (int64_t i = 0; i < elems(y); i++) {
        place_of(y, i, to);
        for (int64_t h = 0; h < used[0]; h++)
            for (int64_t w = 0; w < used[1]; w++) {
                const int64_t from[SHAPE_MAX_AXES] = {to[0], to[1], begin + h, begin + w};
                move(r, backward, i, element_at(x, from),
                     interp_share(to[2], h, used[0], y->dim[2]) *
                         interp_share(to[3], w, used[1], y->dim[3]));
            }
    }
}

/* The last value of a place counts. */
static void upsample(struct reference *r, bool backward)
{
    const struct shape *x = bottom_shape(r, 0), *y = top_shape(r, 0);
    int64_t small = (int64_t)shape_count(x, 2, x->naxes),
            large = (int64_t)shape_count(y, 2, y->naxes);

    for (int64_t i = 0; i < (backward ? 0 : elems(y)); i++)
        r->top[0][i] = 0;
    for (int64_t i = 0; i < elems(x); i++) {
        int64_t to = i / small * large + (int64_t)r->bottom[1][i];

        if (backward)
            r->bottom_grad[0][i] = r->top_grad[0][to];
        else
            r->top[0][to] = r->bottom[0][i];
    }
}

/* One bin: its corner may lie in the padding. */
static void spp_bin(struct reference *r, bool backward, const int64_t kernel[2],
                    const int64_t corner[2], const int64_t pad[2], int64_t plane, int64_t y)
{
    const struct shape *x = bottom_shape(r, 0);
    double most = -DBL_MAX, area = 1;
    int64_t best = 0;

    for (int d = 0; d < 2; d++)
        area *= (double)(corner[d] + kernel[d] < x->dim[2 + d] + pad[d]
                             ? kernel[d]
                             : x->dim[2 + d] + pad[d] - corner[d]);
    for (int64_t i = 0; i < kernel[0] * kernel[1]; i++) {
        int64_t h = corner[0] + i / kernel[1], w = corner[1] + i % kernel[1];
        int64_t at = (plane * x->dim[2] + h) * x->dim[3] + w;
        if (h < 0 || w < 0 || h >= x->dim[2] || w >= x->dim[3])
            continue;
        if (r->args->u.spp.method == POOL_AVE)
            move(r, backward, y, at, 1 / area);
        if (r->bottom[0][at] > most) {
            most = r->bottom[0][at];
            best = at;
        }
    }
    if (r->args->u.spp.method == POOL_MAX)
        move(r, backward, y, best, 1);
}

static void spp(struct reference *r, bool backward)
{
    const struct shape *x = bottom_shape(r, 0);
    int64_t y = 0;

    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int l = 0; l < r->args->u.spp.levels; l++) {
            int64_t bins = (int64_t)1 << l, kernel[2], pad[2];
            for (int d = 0; d < 2; d++) {
                kernel[d] = (x->dim[2 + d] + bins - 1) / bins;
                pad[d] = (kernel[d] * bins - x->dim[2 + d] + 1) / 2;
            }
            for (int64_t c = 0; c < x->dim[1]; c++)
                for (int64_t b = 0; b < bins * bins; b++) {
                    const int64_t corner[2] = {b / bins * kernel[0] - pad[0],
                                               b % bins * kernel[1] - pad[1]};
                    spp_bin(r, backward, kernel, corner, pad, n * x->dim[1] + c, y++);
                }
        }
}

static double divisor(enum loss_normalization normalization, int64_t places, int64_t valid,
                      int64_t outer)
{
    switch (normalization) {
    case LOSS_FULL:
        return (double)places;
    case LOSS_VALID:
        return valid > 0 ? (double)valid : 1;
    case LOSS_BATCH_SIZE:
        return (double)outer;
    case LOSS_NONE:
        break;
    }
    return 1;
}

static void sigmoid_loss(struct reference *r, bool backward)
{
    const struct loss_args *a = &r->args->u.sigmoid_loss;
    int64_t n = elems(bottom_shape(r, 0)), valid = 0;
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        double x = r->bottom[0][i], t = r->bottom[1][i], p = 1 / (1 + exp(-x));
        if (a->has_ignore_label && (int)t == a->ignore_label)
            continue;
        valid++;
        sum -= t * log(p) + (1 - t) * log(1 - p);
        if (backward)
            r->bottom_grad[0][i] = p - t;
    }
    double d = divisor(a->normalization, n, valid, bottom_shape(r, 0)->dim[0]);
    for (int64_t i = 0; backward && i < n; i++)
        r->bottom_grad[0][i] *= r->top_grad[0][0] / d;
    if (!backward)
        r->top[0][0] = sum / d;
}

static void euclidean_loss(struct reference *r, bool backward)
{
    double n = (double)bottom_shape(r, 0)->dim[0];

    for (int64_t i = 0; i < elems(bottom_shape(r, 0)); i++) {
        double away = r->bottom[0][i] - r->bottom[1][i];
        if (backward) {
            r->bottom_grad[0][i] = away / n * r->top_grad[0][0];
            r->bottom_grad[1][i] = -r->bottom_grad[0][i];
        } else {
            r->top[0][0] += away * away / 2 / n;
        }
    }
}

static void hinge_loss(struct reference *r, bool backward)
{
    bool l2 = r->args->u.hinge_loss.l2;
    int64_t rows = bottom_shape(r, 0)->dim[0], length = elems(bottom_shape(r, 0)) / rows;

    for (int64_t i = 0; i < rows * length; i++) {
        double sign = i % length == (int64_t)r->bottom[1][i / length] ? -1 : 1;
        double margin = fmax(0, 1 + sign * r->bottom[0][i]), slope = l2 ? 2 * margin : margin > 0;
        if (backward)
            r->bottom_grad[0][i] = sign * slope / (double)rows * r->top_grad[0][0];
        else
            r->top[0][0] += (l2 ? margin * margin : margin) / (double)rows;
    }
}

static void multinomial_loss(struct reference *r, bool backward)
{
    int64_t rows = bottom_shape(r, 0)->dim[0], length = elems(bottom_shape(r, 0)) / rows;

    for (int64_t n = 0; n < rows; n++) {
        int64_t at = n * length + (int64_t)r->bottom[1][n];
        if (backward)
            r->bottom_grad[0][at] = -1 / r->bottom[0][at] / (double)rows * r->top_grad[0][0];
        else
            r->top[0][0] -= log(r->bottom[0][at]) / (double)rows;
    }
}

static void contrastive_loss(struct reference *r, bool backward)
{
    const struct contrastive_loss_args *a = &r->args->u.contrastive_loss;
    int64_t rows = bottom_shape(r, 0)->dim[0], length = elems(bottom_shape(r, 0)) / rows;

    for (int64_t n = 0; n < rows; n++) {
        double d2 = 0, factor = 1;
        for (int64_t i = n * length; i < (n + 1) * length; i++)
            d2 += pow(r->bottom[0][i] - r->bottom[1][i], 2);
        double away = fmax(0, (double)a->margin - (a->legacy ? d2 : sqrt(d2))), term = d2;
        if (r->bottom[2][n] == 0) {
            term = a->legacy ? away : away * away;
            factor = a->legacy ? -(away > 0) : -away / (sqrt(d2) + 1e-4);
        }
        if (!backward)
            r->top[0][0] += term / 2 / (double)rows;
        for (int64_t i = n * length; backward && i < (n + 1) * length; i++) {
            double slope = factor * (r->bottom[0][i] - r->bottom[1][i]) / (double)rows;
            r->bottom_grad[0][i] = slope * r->top_grad[0][0];
            r->bottom_grad[1][i] = -r->bottom_grad[0][i];
        }
    }
}

static double infogain_h(const struct reference *r, int64_t classes, int64_t label, int64_t c)
{
    const float *given = r->args->u.infogain_loss.matrix;

    return given ? (double)given[label * classes + c] : r->bottom[2][label * classes + c];
}

static void infogain_loss(struct reference *r, bool backward)
{
    const struct loss_args *a = &r->args->u.infogain_loss;
    const struct shape *x = bottom_shape(r, 0);
    int axis = 0;

    shape_axis(x, a->axis, &axis);
    int64_t outer = (int64_t)shape_count(x, 0, axis), k = x->dim[axis];
    int64_t inner = elems(x) / outer / k, valid = 0;
    for (int64_t i = 0; i < outer * inner; i++)
        valid += !(a->has_ignore_label && (int)r->bottom[1][i] == a->ignore_label);
    double d = divisor(a->normalization, outer * inner, valid, outer);
    for (int64_t i = 0; i < outer * inner; i++) {
        int64_t first = i / inner * k * inner + i % inner, label = (int64_t)r->bottom[1][i];
        bool ignored = a->has_ignore_label && label == a->ignore_label;
        double sum = 0, row = 0;
        for (int64_t c = 0; c < k; c++) {
            sum += exp(r->bottom[0][first + c * inner]);
            row += ignored ? 0 : infogain_h(r, k, label, c);
        }
        for (int64_t c = 0; c < k; c++) {
            int64_t at = first + c * inner;
            double p = exp(r->bottom[0][at]) / sum, h = ignored ? 0 : infogain_h(r, k, label, c);
            if (backward)
                r->bottom_grad[0][at] = ignored ? 0 : (p * row - h) / d * r->top_grad[0][0];
            else
                r->top[0][0] -= h * log(p) / d;
            if (!backward && r->args->ntops == 2)
                r->top[1][at] = p;
        }
    }
}

static void nothing(struct reference *r, bool backward)
{
    (void)r;
    (void)backward;
}

bool reference_run_move_loss(struct reference *r, bool backward)
{
    static void (*const run[OP_KINDS])(struct reference *, bool) = {
        [OP_PRELU] = prelu,
        [OP_SLICE] = slice,
        [OP_CROP] = crop,
        [OP_TILE] = tile,
        [OP_REDUCE] = reduce,
        [OP_ARGMAX] = argmax,
        [OP_MVN] = mvn,
        [OP_IM2COL] = im2col,
        [OP_DECONV] = deconv,
        [OP_EMBED] = embed,
        [OP_SILENCE] = nothing,
        [OP_PARAMETER] = parameter,
        [OP_BATCH_REINDEX] = batch_reindex,
        [OP_SHUFFLE] = shuffle,
        [OP_INTERP] = interp,
        [OP_SPP] = spp,
        [OP_UPSAMPLE] = upsample,
        [OP_SIGMOID_LOSS] = sigmoid_loss,
        [OP_EUCLIDEAN_LOSS] = euclidean_loss,
        [OP_HINGE_LOSS] = hinge_loss,
        [OP_CONTRASTIVE_LOSS] = contrastive_loss,
        [OP_INFOGAIN_LOSS] = infogain_loss,
        [OP_MULTINOMIAL_LOSS] = multinomial_loss,
    };
    enum op_kind kind = r->args->kind;

    if (!run[kind])
        return false;
    for (int64_t i = 0; !backward && r->args->ntops > 0 && i < elems(top_shape(r, 0)); i++)
        r->top[0][i] = 0;
    run[kind](r, backward);
    return true;
}
