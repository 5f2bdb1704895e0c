/* Im2col (windows as columns), and deconvolution by columns.
 *
 * A deconvolution is a matrix product, whose columns are added into an image. Its backward takes
 * the columns of the top's gradient. All tensors are plain, and samples are computed one by one. */
#include "engine/cpu/cpu_internal.h"
#include "engine/op_size.h"

/* The windows in an image. */
struct window {
    int64_t channels, pixels, places; /* pixels and windows of one channel */
    int64_t taps;                     /* pixels of a window */
    struct op_windows at;
};

static struct window window_of(const struct conv_args *a, const struct shape *image,
                               const struct shape *places)
{
    return (struct window){.channels = image->dim[1],
                           .pixels = (int64_t)shape_count(image, 2, image->naxes),
                           .places = (int64_t)shape_count(places, 2, places->naxes),
                           .taps = op_window_places(a->kernel, image->naxes - 2),
                           .at = op_conv_windows(a, image, places)};
}

static int64_t columns_elems(const struct window *w)
{
    return w->channels * w->taps * w->places;
}

/* Returns the pixel on axis i under element `at` of the kernel, in window number `window`. */
static inline int64_t pixel_at(const struct op_windows *w, int i, int64_t window, int64_t at)
{
    return window * w->stride[i] - w->pad[i] + at * w->dilation[i];
}

/* Copies an image row's pixels under one tap to `row`; line NULL: zeros. add: adds row to line. */
static inline void column_line(const struct op_windows *w, float *line, float *row, int64_t tap,
                               bool add)
{
    for (int64_t j = 0; j < w->places[2]; j++) {
        int64_t at = pixel_at(w, 2, j, tap);
        bool here = line && at >= 0 && at < w->size[2];
        if (!add)
            row[j] = here ? line[at] : 0;
        else if (here)
            line[at] += row[j];
    }
}

/* Copies row r of the columns: one channel, one tap of the kernel. add: adds it to the image. */
static void column_row(const struct window *window, float *image, float *columns, int64_t r,
                       bool add)
{
    const struct op_windows *w = &window->at;
    int64_t kw = r % w->kernel[2], kh = r / w->kernel[2] % w->kernel[1];
    int64_t kd = r / w->kernel[2] / w->kernel[1] % w->kernel[0];
    float *plane = image + r / window->taps * window->pixels;
    float *row = columns + r * window->places;

    for (int64_t p = 0; p < w->places[0] * w->places[1]; p++, row += w->places[2]) {
        int64_t d = pixel_at(w, 0, p / w->places[1], kd), h = pixel_at(w, 1, p % w->places[1], kh);
        bool inside = d >= 0 && d < w->size[0] && h >= 0 && h < w->size[1];
        column_line(w, inside ? plane + (d * w->size[1] + h) * w->size[2] : NULL, row, kw, add);
    }
}

static void image_to_columns(const struct window *w, const float *image, float *columns)
{
    int64_t rows = w->channels * w->taps;

#pragma omp parallel for
    for (int64_t r = 0; r < rows; r++)
        column_row(w, (float *)(uintptr_t)image, columns, r, false);
}

/* Adds the columns to the image; one thread adds all rows of a channel. */
static void columns_to_image(const struct window *w, const float *columns, float *image)
{
#pragma omp parallel for
    for (int64_t c = 0; c < w->channels; c++)
        for (int64_t r = c * w->taps; r < (c + 1) * w->taps; r++)
            column_row(w, image, (float *)(uintptr_t)columns, r, true);
}

struct im2col {
    struct cpu_op op;
    struct window window;
};

static int im2col_create(struct cpu_op *op)
{
    ((struct im2col *)op)->window = window_of(&op->args.u.conv, &op->args.bottoms[0]->value.shape,
                                              &op->args.tops[0]->value.shape);
    return 0;
}

static int im2col_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct window *w = &((struct im2col *)op)->window;
    const struct shape *x = &op->args.bottoms[0]->value.shape;

    if (back)
        cpu_zero(to, shape_elems(x));
    for (int64_t n = 0; n < x->dim[0]; n++) {
        int64_t image = n * w->channels * w->pixels, columns = n * columns_elems(w);
        if (back)
            columns_to_image(w, from + columns, to + image);
        else
            image_to_columns(w, from + image, to + columns);
    }
    return 0;
}

const struct cpu_kind cpu_im2col = {
    .size = sizeof(struct im2col),
    .blobs = CPU_PLAIN,
    .create = im2col_create,
    .run = im2col_run,
};

struct deconv {
    struct cpu_op op;
    struct window window;                /* windows over the top */
    int64_t pixels, inputs, rows, group; /* bottom's pixels; a group's channels, rows; groups */
    float *columns;
};

static int deconv_create(struct cpu_op *op)
{
    struct deconv *deconv = (struct deconv *)op;
    const struct conv_args *a = &op->args.u.conv;
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;

    deconv->window = window_of(a, y, x);
    deconv->group = a->group;
    deconv->pixels = deconv->window.places;
    deconv->inputs = x->dim[1] / a->group;
    deconv->rows = y->dim[1] / a->group * deconv->window.taps;
    deconv->columns =
        cpu_op_alloc(op, (size_t)columns_elems(&deconv->window) * sizeof(float), "columns");
    return deconv->columns ? 0 : -1;
}

static void deconv_add_bias(const struct deconv *deconv, float *y)
{
    const struct window *w = &deconv->window;
    const float *bias = deconv->op.args.params[1]->value;

#pragma omp parallel for
    for (int64_t c = 0; c < w->channels; c++)
        for (int64_t i = 0; i < w->pixels; i++)
            y[c * w->pixels + i] += bias[c];
}

/* Computes, for each group, columns (rows x pixels) = W^T (rows x inputs) x (inputs x pixels). */
static int deconv_forward(struct cpu_op *op)
{
    struct deconv *d = (struct deconv *)op;
    const struct window *w = &d->window;
    int64_t image = w->channels * w->pixels, part = d->inputs * d->pixels;
    const float *weight = op->args.params[0]->value, *bottom = cpu_op_x(op, 0);

    for (int64_t n = 0; n < op->args.bottoms[0]->value.shape.dim[0]; n++) {
        const float *x = bottom + n * d->group * part;
        float *y = cpu_op_y(op) + n * image;
        for (int64_t g = 0; g < d->group; g++)
            if (cpu_gemm(op->engine, true, false, d->rows, d->pixels, d->inputs, 1,
                         weight + g * d->inputs * d->rows, d->rows, x + g * part, d->pixels, 0,
                         d->columns + g * d->rows * d->pixels, d->pixels))
                return -1;
        cpu_zero(y, (size_t)image);
        columns_to_image(w, d->columns, y);
        if (op->args.u.conv.bias)
            deconv_add_bias(d, y);
    }
    return 0;
}

static void deconv_bias_backward(const struct deconv *deconv)
{
    const struct window *w = &deconv->window;
    struct param *bias = deconv->op.args.params[1];
    const float *dy = deconv->op.args.tops[0]->grad.data;
    int64_t pixels = w->pixels;

#pragma omp parallel for
    for (int64_t c = 0; c < w->channels; c++) {
        double sum = bias->accumulate ? (double)bias->grad[c] : 0;
        for (int64_t n = 0; n < deconv->op.args.tops[0]->value.shape.dim[0]; n++)
            for (int64_t i = 0; i < pixels; i++)
                sum += dy[(n * w->channels + c) * pixels + i];
        bias->grad[c] = (float)sum;
    }
}

/* Computes, for each group, dx = W columns(dy) and dW += x columns(dy)^T. */
static int deconv_sample_backward(struct deconv *d, const float *value, const float *x, float *dx,
                                  bool add)
{
    struct param *weight = d->op.args.params[0];

    for (int64_t g = 0; g < d->group; g++) {
        const float *columns = d->columns + g * d->rows * d->pixels;
        int64_t w = g * d->inputs * d->rows, part = g * d->inputs * d->pixels;
        if (weight->wants_grad &&
            cpu_gemm(d->op.engine, false, true, d->inputs, d->rows, d->pixels, 1, x + part,
                     d->pixels, columns, d->pixels, add ? 1 : 0, weight->grad + w, d->rows))
            return -1;
        if (dx && cpu_gemm(d->op.engine, false, false, d->inputs, d->pixels, d->rows, 1, value + w,
                           d->rows, columns, d->pixels, 0, dx + part, d->pixels))
            return -1;
    }
    return 0;
}

static int deconv_backward(struct cpu_op *op)
{
    struct deconv *d = (struct deconv *)op;
    const struct window *w = &d->window;
    int64_t image = w->channels * w->pixels, part = d->group * d->inputs * d->pixels;
    bool propagates = cpu_op_propagates(op, 0), add = op->args.params[0]->accumulate;
    const float *x = cpu_op_x(op, 0), *dy = cpu_op_dy(op), *weight = op->args.params[0]->value;
    float *dx = propagates ? cpu_op_dx(op, 0) : NULL;

    if (op->args.u.conv.bias && op->args.params[1]->wants_grad)
        deconv_bias_backward(d);
    for (int64_t n = 0; n < op->args.bottoms[0]->value.shape.dim[0]; n++) {
        image_to_columns(w, dy + n * image, d->columns);
        if (deconv_sample_backward(d, weight, x + n * part, dx ? dx + n * part : NULL,
                                   add || n > 0))
            return -1;
    }
    return propagates ? cpu_view_move(op->engine, &op->out[0]) : 0;
}

const struct cpu_kind cpu_deconv = {
    .size = sizeof(struct deconv),
    .blobs = CPU_PLAIN_AGAIN,
    .create = deconv_create,
    .forward = deconv_forward,
    .backward = deconv_backward,
};
