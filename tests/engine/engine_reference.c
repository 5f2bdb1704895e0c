/* The operators' definitions. Backward is written as the transpose of forward's loops where the
 * operator is linear, and from the derivative's formula elsewhere; differences check it. */
#include "tests/engine/engine_reference.h"

#include "util/rng.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const struct shape *bottom_shape(const struct reference *r, int i)
{
    return &r->args->bottoms[i]->value.shape;
}

static const struct shape *top_shape(const struct reference *r, int i)
{
    return &r->args->tops[i]->value.shape;
}

static int64_t at4(const struct shape *s, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return ((n * s->dim[1] + c) * s->dim[2] + h) * s->dim[3] + w;
}

int64_t reference_pixel(const struct conv_args *a, const struct shape *image,
                        const struct shape *places, int64_t place, int64_t tap)
{
    int64_t pixel = 0, step = 1;

    for (int i = image->naxes - 3; i >= 0; i--) {
        int64_t at = place % places->dim[2 + i] * a->stride[i] - a->pad[i] +
                     tap % a->kernel[i] * a->dilation[i];
        if (at < 0 || at >= image->dim[2 + i])
            return -1;
        pixel += at * step;
        step *= image->dim[2 + i];
        place /= places->dim[2 + i];
        tap /= a->kernel[i];
    }
    return pixel;
}

int64_t reference_pixels(const struct shape *shape)
{
    return (int64_t)shape_count(shape, 2, shape->naxes);
}

int64_t reference_taps(const struct conv_args *a, const struct shape *image)
{
    int64_t taps = 1;

    for (int i = 0; i < image->naxes - 2; i++)
        taps *= a->kernel[i];
    return taps;
}

/* Calls for every product that a convolution consists of. */
static void conv_visit(struct reference *r,
                       void (*visit)(struct reference *, int64_t x, int64_t k, int64_t y))
{
    const struct conv_args *a = &r->args->u.conv;
    const struct shape *x = bottom_shape(r, 0), *y = top_shape(r, 0);
    int64_t og = y->dim[1] / a->group, cg = x->dim[1] / a->group, taps = reference_taps(a, x);
    int64_t pixels = reference_pixels(x), places = reference_pixels(y);

    for (int64_t n = 0; n < y->dim[0]; n++)
        for (int64_t o = 0; o < y->dim[1]; o++)
            for (int64_t p = 0; p < places; p++)
                for (int64_t c = 0; c < cg; c++)
                    for (int64_t k = 0; k < taps; k++) {
                        int64_t pixel = reference_pixel(a, x, y, p, k);
                        if (pixel >= 0)
                            visit(r, (n * x->dim[1] + o / og * cg + c) * pixels + pixel,
                                  (o * cg + c) * taps + k, (n * y->dim[1] + o) * places + p);
                    }
}

static void conv_add(struct reference *r, int64_t x, int64_t k, int64_t y)
{
    r->top[0][y] += r->bottom[0][x] * r->param[0][k];
}

static double conv_dy(const struct reference *r, int64_t y)
{
    return r->args->relu && !(r->top[0][y] > 0) ? 0 : r->top_grad[0][y];
}

static void conv_add_back(struct reference *r, int64_t x, int64_t k, int64_t y)
{
    r->bottom_grad[0][x] += conv_dy(r, y) * r->param[0][k];
    r->param_grad[0][k] += conv_dy(r, y) * r->bottom[0][x];
}

static void conv_forward(struct reference *r)
{
    const struct shape *y = top_shape(r, 0);
    int64_t pixels = reference_pixels(y);

    for (size_t i = 0; i < shape_elems(y); i++)
        r->top[0][i] = r->args->u.conv.bias ? r->param[1][(int64_t)i / pixels % y->dim[1]] : 0;
    conv_visit(r, conv_add);
    for (size_t i = 0; r->args->relu && i < shape_elems(y); i++)
        r->top[0][i] = fmax(r->top[0][i], 0);
}

static void conv_backward(struct reference *r)
{
    const struct shape *y = top_shape(r, 0);
    conv_visit(r, conv_add_back);
    for (size_t i = 0; r->args->u.conv.bias && i < shape_elems(y); i++)
        r->param_grad[1][(int64_t)i / reference_pixels(y) % y->dim[1]] += conv_dy(r, (int64_t)i);
}

static void inner_product(struct reference *r, bool backward)
{
    const struct inner_product_args *a = &r->args->u.inner_product;
    int axis = 0;

    shape_axis(bottom_shape(r, 0), a->axis, &axis);
    int64_t rows = (int64_t)shape_count(bottom_shape(r, 0), 0, axis);
    int64_t k = (int64_t)shape_elems(bottom_shape(r, 0)) / rows;
    int64_t o = (int64_t)shape_elems(top_shape(r, 0)) / rows;
    for (int64_t n = 0; n < rows; n++)
        for (int64_t i = 0; i < o; i++) {
            int64_t y = n * o + i;
            if (!backward)
                r->top[0][y] = a->bias ? r->param[1][i] : 0;
            else if (a->bias)
                r->param_grad[1][i] += r->top_grad[0][y];
            for (int64_t j = 0; j < k; j++) {
                int64_t w = a->transpose ? j * o + i : i * k + j, x = n * k + j;
                if (!backward) {
                    r->top[0][y] += r->bottom[0][x] * r->param[0][w];
                    continue;
                }
                r->bottom_grad[0][x] += r->top_grad[0][y] * r->param[0][w];
                r->param_grad[0][w] += r->top_grad[0][y] * r->bottom[0][x];
            }
        }
}

enum { MOST_TAPS = 9 * 9 * 9 };

/* One window: its pixels' places in their plane, in reading order. */
struct pool_window {
    int64_t plane; /* where it begins in the bottom */
    int64_t n, pixel[MOST_TAPS];
    int64_t area; /* of the window within the padded image */
};

static void pool_max_at(struct reference *r, bool backward, const struct pool_window *win,
                        int64_t y)
{
    double best = -FLT_MAX;
    int64_t where = -1;

    for (int64_t i = 0; i < win->n; i++)
        if (r->bottom[0][win->plane + win->pixel[i]] > best) {
            where = win->pixel[i];
            best = r->bottom[0][win->plane + where];
        }
    if (!backward) {
        r->top[0][y] = best;
        if (r->args->ntops == 2)
            r->top[1][y] = (double)where;
    } else if (where >= 0) {
        r->bottom_grad[0][win->plane + where] += r->top_grad[0][y];
    }
}

static void pool_ave_at(struct reference *r, bool backward, const struct pool_window *win,
                        int64_t y)
{
    if (!backward)
        r->top[0][y] = 0;
    for (int64_t i = 0; i < win->n; i++) {
        int64_t x = win->plane + win->pixel[i];
        if (backward)
            r->bottom_grad[0][x] += r->top_grad[0][y] / (double)win->area;
        else
            r->top[0][y] += r->bottom[0][x] / (double)win->area;
    }
}

/* What the sums of floats decide is decided by floats here, too. */
static void pool_stochastic_at(struct reference *r, bool backward, const struct pool_window *win,
                               int64_t y)
{
    const struct shape *top = top_shape(r, 0);
    int64_t sample_elems = (int64_t)shape_elems(top) / top->dim[0], picked = -1;
    struct rng rng = rng_make(r->pass.seed, RNG_POOL, (uint32_t)r->args->layer_index,
                              r->pass.first_sample + (uint64_t)(y / sample_elems));
    float u = rng_uniform(&rng, (uint64_t)(y % sample_elems)), sum = 0, running = 0;
    double squares = 0;

    for (int64_t i = 0; i < win->n; i++) {
        double value = r->bottom[0][win->plane + win->pixel[i]];
        sum += (float)value;
        squares += value * value;
    }
    if (!r->args->train) {
        r->top[0][y] = sum > 0 ? squares / (double)sum : 0;
        return;
    }
    for (int64_t i = 0; i < win->n; i++) {
        picked = win->plane + win->pixel[i];
        running += (float)r->bottom[0][picked];
        if (running >= u * sum)
            break;
    }
    if (!backward)
        r->top[0][y] = picked < 0 ? 0 : r->bottom[0][picked];
    else if (picked >= 0)
        r->bottom_grad[0][picked] += r->top_grad[0][y];
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The window at that place of the top's plane. */
static void pool_window_fill(const struct conv_args *a, const struct shape *x,
                             const struct shape *y, int64_t place, struct pool_window *win)
{
    win->n = 0;
    win->area = 1;
    for (int64_t k = 0; k < reference_taps(a, x); k++) {
        int64_t pixel = reference_pixel(a, x, y, place, k);
        if (pixel >= 0)
            win->pixel[win->n++] = pixel;
    }
    for (int i = x->naxes - 3; i >= 0; place /= y->dim[2 + i], i--) {
        int64_t begin = place % y->dim[2 + i] * a->stride[i] - a->pad[i];
        win->area *= least(begin + a->kernel[i], x->dim[2 + i] + a->pad[i]) - begin;
    }
}

static void pool(struct reference *r, bool backward)
{
    const struct pool_args *a = &r->args->u.pool;
    const struct shape *x = bottom_shape(r, 0), *y = top_shape(r, 0);
    struct conv_args window = {.dilation = {1, 1, 1}};
    int64_t places = reference_pixels(y);

    memcpy(window.kernel, a->kernel, sizeof a->kernel);
    memcpy(window.stride, a->stride, sizeof a->stride);
    memcpy(window.pad, a->pad, sizeof a->pad);
    for (int64_t to = 0; to < x->dim[0] * x->dim[1] * places; to++) {
        struct pool_window win = {.plane = to / places * reference_pixels(x)};

        pool_window_fill(&window, x, y, to % places, &win);
        if (a->method == POOL_MAX)
            pool_max_at(r, backward, &win, to);
        else if (a->method == POOL_STOCHASTIC)
            pool_stochastic_at(r, backward, &win, to);
        else
            pool_ave_at(r, backward, &win, to);
    }
}

static void relu(struct reference *r, bool backward)
{
    double slope = r->args->u.relu.negative_slope;

    for (size_t i = 0; i < shape_elems(bottom_shape(r, 0)); i++) {
        double factor = r->bottom[0][i] > 0 ? 1 : slope;
        if (backward)
            r->bottom_grad[0][i] = factor * r->top_grad[0][i];
        else
            r->top[0][i] = factor * r->bottom[0][i];
    }
}

/* s = k + alpha/count * sum of squares around (n, c, h, w) */
static double lrn_scale(const struct reference *r, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const struct lrn_args *a = &r->args->u.lrn;
    const struct shape *x = bottom_shape(r, 0);
    int64_t half = a->local_size / 2, size = a->local_size;
    double sum = 0;

    if (!a->within_channel) {
        for (int64_t i = c - half; i <= c + half; i++)
            if (i >= 0 && i < x->dim[1])
                sum += pow(r->bottom[0][at4(x, n, i, h, w)], 2);
        return a->k + a->alpha / (double)size * sum;
    }
    for (int64_t i = h - half; i <= h + half; i++)
        for (int64_t j = w - half; j <= w + half; j++)
            if (i >= 0 && j >= 0 && i < x->dim[2] && j < x->dim[3])
                sum += pow(r->bottom[0][at4(x, n, c, i, j)], 2);
    return 1 + a->alpha / (double)(size * size) * sum;
}

/* What the top gradient at (n, c, h, w) does to the bottom gradients of its window. */
static void lrn_backward_at(struct reference *r, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const struct lrn_args *a = &r->args->u.lrn;
    const struct shape *x = bottom_shape(r, 0);
    int64_t half = a->local_size / 2, size = a->local_size, here = at4(x, n, c, h, w);
    double s = lrn_scale(r, n, c, h, w), dy = r->top_grad[0][here];
    double count = a->within_channel ? (double)(size * size) : (double)size;
    double common =
        -2 * a->alpha / count * a->beta * dy * r->bottom[0][here] * pow(s, -a->beta - 1);

    r->bottom_grad[0][here] += dy * pow(s, -a->beta);
    if (!a->within_channel) {
        for (int64_t i = c - half; i <= c + half; i++)
            if (i >= 0 && i < x->dim[1])
                r->bottom_grad[0][at4(x, n, i, h, w)] += common * r->bottom[0][at4(x, n, i, h, w)];
        return;
    }
    for (int64_t i = h - half; i <= h + half; i++)
        for (int64_t j = w - half; j <= w + half; j++)
            if (i >= 0 && j >= 0 && i < x->dim[2] && j < x->dim[3])
                r->bottom_grad[0][at4(x, n, c, i, j)] += common * r->bottom[0][at4(x, n, c, i, j)];
}

static void lrn(struct reference *r, bool backward)
{
    const struct shape *x = bottom_shape(r, 0);

    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t c = 0; c < x->dim[1]; c++)
            for (int64_t h = 0; h < x->dim[2]; h++)
                for (int64_t w = 0; w < x->dim[3]; w++) {
                    int64_t i = at4(x, n, c, h, w);
                    if (backward)
                        lrn_backward_at(r, n, c, h, w);
                    else
                        r->top[0][i] =
                            r->bottom[0][i] * pow(lrn_scale(r, n, c, h, w), -r->args->u.lrn.beta);
                }
}

static void dropout(struct reference *r, bool backward)
{
    const struct shape *x = bottom_shape(r, 0);
    size_t size = shape_elems(x) / (size_t)x->dim[0];
    float ratio = r->args->u.dropout.ratio;

    for (size_t i = 0; i < shape_elems(x); i++) {
        struct rng rng = rng_make(r->pass.seed, RNG_DROPOUT, (uint32_t)r->args->layer_index,
                                  r->pass.first_sample + i / size);
        bool keep = !r->args->train || rng_uniform(&rng, i % size) >= ratio;
        double factor = !r->args->train ? 1 : keep ? 1 / (1 - (double)ratio) : 0;
        if (backward)
            r->bottom_grad[0][i] = factor * r->top_grad[0][i];
        else
            r->top[0][i] = factor * r->bottom[0][i];
    }
}

struct classes {
    int64_t outer, n, inner;
};

static struct classes classes_of(const struct reference *r, int axis)
{
    const struct shape *x = bottom_shape(r, 0);
    int at = 0;

    shape_axis(x, axis, &at);
    return (struct classes){(int64_t)shape_count(x, 0, at), x->dim[at],
                            (int64_t)shape_count(x, at + 1, x->naxes)};
}

/* Probability of class c where the scores' first class lies at x. */
static double probability(const double *x, const struct classes *k, int64_t c)
{
    double most = -INFINITY, sum = 0;

    for (int64_t i = 0; i < k->n; i++)
        most = fmax(most, x[i * k->inner]);
    for (int64_t i = 0; i < k->n; i++)
        sum += exp(x[i * k->inner] - most);
    return exp(x[c * k->inner] - most) / sum;
}

static void softmax(struct reference *r, bool backward)
{
    struct classes k = classes_of(r, r->args->u.softmax.axis);

    for (int64_t p = 0; p < k.outer * k.inner; p++) {
        int64_t first = p / k.inner * k.n * k.inner + p % k.inner;
        double dot = 0;
        for (int64_t c = 0; backward && c < k.n; c++)
            dot += r->top_grad[0][first + c * k.inner] * probability(r->bottom[0] + first, &k, c);
        for (int64_t c = 0; c < k.n; c++) {
            int64_t i = first + c * k.inner;
            double q = probability(r->bottom[0] + first, &k, c);
            if (backward)
                r->bottom_grad[0][i] = q * (r->top_grad[0][i] - dot);
            else
                r->top[0][i] = q;
        }
    }
}

static double loss_divisor(const struct reference *r, const struct classes *k)
{
    const struct loss_args *a = &r->args->u.softmax_loss;
    int64_t valid = 0;

    for (int64_t p = 0; p < k->outer * k->inner; p++)
        valid += !(a->has_ignore_label && (int)r->bottom[1][p] == a->ignore_label);
    switch (a->normalization) {
    case LOSS_FULL:
        return (double)(k->outer * k->inner);
    case LOSS_VALID:
        return valid > 0 ? (double)valid : 1;
    case LOSS_BATCH_SIZE:
        return (double)k->outer;
    case LOSS_NONE:
        break;
    }
    return 1;
}

static void softmax_loss(struct reference *r, bool backward)
{
    const struct loss_args *a = &r->args->u.softmax_loss;
    struct classes k = classes_of(r, a->axis);
    double d = loss_divisor(r, &k), loss = 0, e = a->smoothing;

    for (int64_t p = 0; p < k.outer * k.inner; p++) {
        int64_t first = p / k.inner * k.n * k.inner + p % k.inner;
        int label = (int)r->bottom[1][p];
        bool ignored = a->has_ignore_label && label == a->ignore_label;
        for (int64_t c = 0; c < k.n; c++) {
            double q = probability(r->bottom[0] + first, &k, c);
            double target = (1 - e) * (c == label) + e / (double)k.n;
            if (!backward && r->args->ntops == 2)
                r->top[1][first + c * k.inner] = q;
            if (backward)
                r->bottom_grad[0][first + c * k.inner] =
                    ignored ? 0 : (q - target) * r->top_grad[0][0] / d;
            if (!ignored)
                loss -= target * log(fmax(q, FLT_MIN));
        }
    }
    if (!backward)
        r->top[0][0] = loss / d;
}

static void accuracy(struct reference *r)
{
    const struct accuracy_args *a = &r->args->u.accuracy;
    struct classes k = classes_of(r, a->axis);
    double right = 0, valid = 0;

    for (int64_t c = 0; c < k.n; c++) {
        double class_right = 0, class_total = 0;
        for (int64_t p = 0; p < k.outer * k.inner; p++) {
            const double *x = r->bottom[0] + p / k.inner * k.n * k.inner + p % k.inner;
            int ahead = 0;
            if ((int)r->bottom[1][p] != c || (a->has_ignore_label && c == a->ignore_label))
                continue;
            for (int64_t i = 0; i < k.n; i++)
                ahead += i != c && x[i * k.inner] >= x[c * k.inner];
            class_right += ahead < a->top_k;
            class_total++;
        }
        right += class_right;
        valid += class_total;
        if (r->args->ntops == 2)
            r->top[1][c] = class_total > 0 ? class_right / class_total : 0;
    }
    r->top[0][0] = valid > 0 ? right / valid : 0;
}

static void concat(struct reference *r, bool backward)
{
    const bool *relu = r->args->u.concat.relu;
    int axis = 0;
    double *top = backward ? r->top_grad[0] : r->top[0];

    shape_axis(top_shape(r, 0), r->args->u.concat.axis, &axis);
    size_t outer = shape_count(top_shape(r, 0), 0, axis);
    size_t total = shape_elems(top_shape(r, 0)) / outer, done = 0;
    for (int i = 0; i < r->args->nbottoms; i++) {
        size_t length = shape_elems(bottom_shape(r, i)) / outer;
        for (size_t o = 0; o < outer; o++)
            for (size_t e = 0; e < length; e++) {
                double x = r->bottom[i][o * length + e], *y = &top[o * total + done + e];
                if (backward)
                    r->bottom_grad[i][o * length + e] = relu && relu[i] && !(x > 0) ? 0 : *y;
                else
                    *y = relu && relu[i] && x < 0 ? 0 : x;
            }
        done += length;
    }
}

static void eltwise(struct reference *r, bool backward)
{
    const struct eltwise_args *a = &r->args->u.eltwise;

    for (size_t e = 0; e < shape_elems(top_shape(r, 0)); e++) {
        double sum = 0, product = 1;
        int winner = 0;
        for (int i = 0; i < r->args->nbottoms; i++) {
            double x = r->bottom[i][e], best = r->bottom[winner][e];
            sum += (a->coeff ? (double)a->coeff[i] : 1) * x;
            product *= x;
            if (i == 1 ? x >= best : x > best)
                winner = i;
        }
        if (!backward) {
            r->top[0][e] = a->operation == ELTWISE_SUM    ? (r->args->relu && sum < 0 ? 0 : sum)
                           : a->operation == ELTWISE_PROD ? product
                                                          : r->bottom[winner][e];
            continue;
        }
        for (int i = 0; i < r->args->nbottoms; i++) {
            double factor = 1;
            if (a->operation == ELTWISE_SUM)
                factor = r->args->relu && !(sum > 0) ? 0 : a->coeff ? (double)a->coeff[i] : 1;
            else if (a->operation == ELTWISE_MAX)
                factor = i == winner;
            for (int j = 0; a->operation == ELTWISE_PROD && j < r->args->nbottoms; j++)
                factor *= j == i ? 1 : r->bottom[j][e];
            r->bottom_grad[i][e] = factor * r->top_grad[0][e];
        }
    }
}

static void copy(struct reference *r, bool backward)
{
    for (int t = 0; t < r->args->ntops; t++)
        for (size_t e = 0; e < shape_elems(bottom_shape(r, 0)); e++) {
            if (backward)
                r->bottom_grad[0][e] += r->top_grad[t][e];
            else
                r->top[t][e] = r->bottom[0][e];
        }
}

static void reference_run(struct reference *r, bool backward)
{
    switch (r->args->kind) {
    case OP_CONV:
        (backward ? conv_backward : conv_forward)(r);
        break;
    case OP_INNER_PRODUCT:
        inner_product(r, backward);
        break;
    case OP_POOL:
        pool(r, backward);
        break;
    case OP_RELU:
        relu(r, backward);
        break;
    case OP_LRN:
        lrn(r, backward);
        break;
    case OP_DROPOUT:
        dropout(r, backward);
        break;
    case OP_SOFTMAX:
        softmax(r, backward);
        break;
    case OP_SOFTMAX_LOSS:
        softmax_loss(r, backward);
        break;
    case OP_ACCURACY:
        if (!backward)
            accuracy(r);
        break;
    case OP_CONCAT:
        concat(r, backward);
        break;
    case OP_SPLIT:
    case OP_FLATTEN:
        copy(r, backward);
        break;
    case OP_ELTWISE:
        eltwise(r, backward);
        break;
    default:
        reference_run_move_loss(r, backward);
        break;
    }
}

void reference_forward(struct reference *r)
{
    reference_run(r, false);
}

void reference_backward(struct reference *r)
{
    for (int i = 0; i < r->args->nbottoms; i++)
        memset(r->bottom_grad[i], 0, shape_elems(bottom_shape(r, i)) * sizeof(double));
    for (int i = 0; i < r->args->nparams; i++)
        memset(r->param_grad[i], 0, shape_elems(&r->args->params[i]->shape) * sizeof(double));
    reference_run(r, true);
}
