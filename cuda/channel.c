/* Tensors viewed as outer x channels x inner, for many operators, and the gradients of biases. */
#include "cuda_internal.h"

bool cuda_channels_view(const struct tensor *x, int axis, int naxes, struct kernel_channels *out)
{
    const struct cuda_format *format = cuda_tensor_format(x);
    const struct shape *shape = &x->shape;

    if (format && format->nhwc && axis == 1 && naxes == 1) {
        out->channels = (int)shape->dim[1];
        out->outer = (int)shape_elems(shape) / out->channels;
        out->inner = 1;
        return true;
    }
    out->outer = (int)shape_count(shape, 0, axis);
    out->channels = (int)shape_count(shape, axis, axis + naxes);
    out->inner = (int)shape_count(shape, axis + naxes, SHAPE_MAX_AXES);
    return !format || !format->nhwc;
}

int cuda_bias_reserve(struct cuda_engine *engine, int rows, int columns)
{
    struct kernel_channels view = {rows, columns, 1};

    return cuda_work_reserve(engine, WORK_SCRATCH, kernel_sums_scratch(&view) * sizeof(double));
}

static int bias_store(struct cuda_engine *engine, const double *sums, int columns,
                      struct param *bias)
{
    return cuda_check(
        kernel_sums_store(engine->stream, sums, columns, bias->grad, bias->accumulate));
}

int cuda_bias_gradient(struct cuda_engine *engine, enum cuda_type type, const void *dy, int rows,
                       int columns, struct param *bias)
{
    struct kernel_channels view = {rows, columns, 1};
    double *sums = engine->work[WORK_SCRATCH].data;

    if (cuda_check(kernel_sums(engine->stream, type, SUMS_X, &view, dy, NULL, NULL, NULL, sums)))
        return -1;
    return bias_store(engine, sums, columns, bias);
}

int cuda_bias_gradient_behind_relu(struct cuda_engine *engine, enum cuda_type type, const void *y,
                                   void *dy, int rows, int columns, struct param *bias)
{
    struct kernel_channels view = {rows, columns, 1};
    double *sums = engine->work[WORK_SCRATCH].data;

    if (cuda_check(kernel_sums_cut(engine->stream, type, &view, y, dy, sums)))
        return -1;
    return bias->wants_grad ? bias_store(engine, sums, columns, bias) : 0;
}
