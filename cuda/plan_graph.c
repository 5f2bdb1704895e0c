/* Convolutions as cuDNN's graphs: descriptors of tensors, windows and operations. All tensors are
 * NHWC, as cuDNN's tensor cores read them. */
#include "execution_plan.h"

int cuda_descriptor_make(struct cuda_engine *engine, cudnnBackendDescriptorType_t type,
                         cudnnBackendDescriptor_t *out)
{
    *out = NULL;
    return cudnn_check(engine, engine->libs.cudnnBackendCreateDescriptor_(type, out));
}

void cuda_descriptor_drop(struct cuda_engine *engine, cudnnBackendDescriptor_t *descriptor)
{
    if (*descriptor)
        engine->libs.cudnnBackendDestroyDescriptor_(*descriptor);
    *descriptor = NULL;
}

int cuda_descriptor_finalize(struct cuda_engine *engine, cudnnBackendDescriptor_t descriptor)
{
    return cudnn_check(engine, engine->libs.cudnnBackendFinalize_(descriptor));
}

int cuda_descriptor_set(struct cuda_engine *engine, cudnnBackendDescriptor_t descriptor,
                        cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        int64_t count, const void *values)
{
    return cudnn_check(
        engine, engine->libs.cudnnBackendSetAttribute_(descriptor, name, type, count, values));
}

int cuda_descriptor_set_longs(struct cuda_engine *engine, cudnnBackendDescriptor_t descriptor,
                              cudnnBackendAttributeName_t name, int64_t count,
                              const int64_t *values)
{
    return cuda_descriptor_set(engine, descriptor, name, CUDNN_TYPE_INT64, count, values);
}

int cuda_descriptor_set_descriptor(struct cuda_engine *engine, cudnnBackendDescriptor_t descriptor,
                                   cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    return cuda_descriptor_set(engine, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

/* Sizes of a tensor: n, c, and the spatial axes: height, width, and, if `depth`, also depth. */
struct plan_dims {
    int n, c, size[3];
    bool depth;
};

/* Describes a tensor of axes n, c, h, w that lies in memory as n, h, w, c. */
static int plan_make_tensor(struct cuda_engine *engine, int64_t uid, const struct plan_dims *dims,
                            cudnnDataType_t type, cudnnBackendDescriptor_t *out)
{
    const int first = dims->depth ? 0 : 1, naxes = 5 - first;
    const int64_t alignment = CUDA_ALIGNMENT;
    int64_t dim[5] = {dims->n, dims->c}, stride[5] = {0, 1}, step = dims->c;
    bool is_virtual = uid == UID_SUM || uid == UID_BIASED;

    for (int i = naxes - 1; i > 1; i--) {
        dim[i] = dims->size[first + i - 2];
        stride[i] = step;
        step *= dim[i];
    }
    stride[0] = step;

    if (cuda_descriptor_make(engine, CUDNN_BACKEND_TENSOR_DESCRIPTOR, out) ||
        cuda_descriptor_set(engine, *out, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
                            &type) ||
        cuda_descriptor_set_longs(engine, *out, CUDNN_ATTR_TENSOR_DIMENSIONS, naxes, dim) ||
        cuda_descriptor_set_longs(engine, *out, CUDNN_ATTR_TENSOR_STRIDES, naxes, stride) ||
        cuda_descriptor_set_longs(engine, *out, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &uid) ||
        cuda_descriptor_set_longs(engine, *out, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &alignment) ||
        cuda_descriptor_set(engine, *out, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
                            &is_virtual))
        return -1;
    return cuda_descriptor_finalize(engine, *out);
}

static int plan_make_convolution(struct cuda_engine *engine, const struct kernel_conv *c,
                                 cudnnBackendDescriptor_t *out)
{
    const int first = cuda_conv_has_depth(c) ? 0 : 1;
    const int64_t axes = 3 - first;
    int64_t pad[3], stride[3], dilation[3];
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;

    for (int i = 0; i < axes; i++) {
        pad[i] = c->pad[first + i];
        stride[i] = c->stride[first + i];
        dilation[i] = c->dilation[first + i];
    }
    if (cuda_descriptor_make(engine, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, out) ||
        cuda_descriptor_set(engine, *out, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
                            &compute) ||
        cuda_descriptor_set(engine, *out, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                            CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode) ||
        cuda_descriptor_set_longs(engine, *out, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &axes) ||
        cuda_descriptor_set_longs(engine, *out, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, axes, pad) ||
        cuda_descriptor_set_longs(engine, *out, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, axes, pad) ||
        cuda_descriptor_set_longs(engine, *out, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, axes,
                                  stride) ||
        cuda_descriptor_set_longs(engine, *out, CUDNN_ATTR_CONVOLUTION_DILATIONS, axes, dilation))
        return -1;
    return cuda_descriptor_finalize(engine, *out);
}

/* Names of the attributes, which differ by direction only. */
struct direction {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
};

static const struct direction directions[] = {
    [PLAN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [PLAN_BACK_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [PLAN_BACK_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static bool plan_adds(enum cuda_plan_kind kind)
{
    return kind == PLAN_FORWARD_BIAS || kind == PLAN_FORWARD_BIAS_RELU;
}

void cuda_plan_parts_drop(struct cuda_engine *engine, struct cuda_plan_parts *p)
{
    cuda_descriptor_drop(engine, &p->graph);
    cuda_descriptor_drop(engine, &p->rectification);
    cuda_descriptor_drop(engine, &p->relu);
    cuda_descriptor_drop(engine, &p->biased);
    cuda_descriptor_drop(engine, &p->addition);
    cuda_descriptor_drop(engine, &p->add);
    cuda_descriptor_drop(engine, &p->sum);
    cuda_descriptor_drop(engine, &p->bias);
    cuda_descriptor_drop(engine, &p->operation);
    cuda_descriptor_drop(engine, &p->conv);
    cuda_descriptor_drop(engine, &p->y);
    cuda_descriptor_drop(engine, &p->w);
    cuda_descriptor_drop(engine, &p->x);
}

static int plan_make_operation(struct cuda_engine *engine, enum cuda_plan_kind kind,
                               struct cuda_plan_parts *p)
{
    const struct direction *d = &directions[plan_adds(kind) ? PLAN_FORWARD : kind];
    /* Floats, the compute type: cuDNN takes doubles without an error, and reads half of each. */
    const float one = 1, zero = 0;

    if (cuda_descriptor_make(engine, d->type, &p->operation) ||
        cuda_descriptor_set_descriptor(engine, p->operation, d->conv, p->conv) ||
        cuda_descriptor_set_descriptor(engine, p->operation, d->x, p->x) ||
        cuda_descriptor_set_descriptor(engine, p->operation, d->w, p->w) ||
        cuda_descriptor_set_descriptor(engine, p->operation, d->y, p->sum ? p->sum : p->y) ||
        cuda_descriptor_set(engine, p->operation, d->alpha, CUDNN_TYPE_FLOAT, 1, &one) ||
        cuda_descriptor_set(engine, p->operation, d->beta, CUDNN_TYPE_FLOAT, 1, &zero))
        return -1;
    return cuda_descriptor_finalize(engine, p->operation);
}

/* Describes to = mode(from), or mode(from, with), element by element. *how: the mode. */
static int plan_make_pointwise(struct cuda_engine *engine, cudnnPointwiseMode_t mode,
                               cudnnBackendDescriptor_t from, cudnnBackendDescriptor_t with,
                               cudnnBackendDescriptor_t to, cudnnBackendDescriptor_t *how,
                               cudnnBackendDescriptor_t *operation)
{
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;

    if (cuda_descriptor_make(engine, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, how) ||
        cuda_descriptor_set(engine, *how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1,
                            &mode) ||
        cuda_descriptor_set(engine, *how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
                            &compute) ||
        cuda_descriptor_finalize(engine, *how) ||
        cuda_descriptor_make(engine, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, operation) ||
        cuda_descriptor_set_descriptor(engine, *operation,
                                       CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *how) ||
        cuda_descriptor_set_descriptor(engine, *operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                       from) ||
        (with && cuda_descriptor_set_descriptor(engine, *operation,
                                                CUDNN_ATTR_OPERATION_POINTWISE_BDESC, with)) ||
        cuda_descriptor_set_descriptor(engine, *operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
                                       to))
        return -1;
    return cuda_descriptor_finalize(engine, *operation);
}

/* Describes y = sum + bias, or max(sum + bias, 0). Neither the convolution's sum nor the biased sum
 * is stored. */
static int plan_make_addition(struct cuda_engine *engine, bool relu, const struct plan_dims *y,
                              struct cuda_plan_parts *p)
{
    if (relu && plan_make_tensor(engine, UID_BIASED, y, CUDNN_DATA_FLOAT, &p->biased))
        return -1;
    if (plan_make_pointwise(engine, CUDNN_POINTWISE_ADD, p->sum, p->bias, relu ? p->biased : p->y,
                            &p->add, &p->addition))
        return -1;
    return relu ? plan_make_pointwise(engine, CUDNN_POINTWISE_RELU_FWD, p->biased, NULL, p->y,
                                      &p->relu, &p->rectification)
                : 0;
}

static struct plan_dims plan_dims(const struct kernel_conv *conv, int n, int c, const int size[3])
{
    return (struct plan_dims){n, c, {size[0], size[1], size[2]}, cuda_conv_has_depth(conv)};
}

int cuda_plan_parts_make(struct cuda_engine *engine, enum cuda_plan_kind kind,
                         const struct kernel_conv *c, struct cuda_plan_parts *p)
{
    const struct plan_dims x = plan_dims(c, c->samples, c->channels, c->size),
                           w = plan_dims(c, c->outputs, c->channels / c->group, c->kernel),
                           y = plan_dims(c, c->samples, c->outputs, c->places),
                           bias = plan_dims(c, 1, c->outputs, (const int[3]){1, 1, 1});
    cudnnDataType_t type = engine->type == CUDA_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t operations[3];
    bool relu = kind == PLAN_FORWARD_BIAS_RELU;
    int count = relu ? 3 : plan_adds(kind) ? 2 : 1;

    if (plan_make_tensor(engine, UID_X, &x, type, &p->x) ||
        plan_make_tensor(engine, UID_W, &w, type, &p->w) ||
        plan_make_tensor(engine, UID_Y, &y, type, &p->y) ||
        plan_make_convolution(engine, c, &p->conv))
        return -1;
    if (count > 1 && (plan_make_tensor(engine, UID_BIAS, &bias, type, &p->bias) ||
                      plan_make_tensor(engine, UID_SUM, &y, CUDNN_DATA_FLOAT, &p->sum)))
        return -1;
    if (plan_make_operation(engine, kind, p) ||
        (count > 1 && plan_make_addition(engine, relu, &y, p)))
        return -1;
    operations[0] = p->operation;
    operations[1] = p->addition;
    operations[2] = p->rectification;
    if (cuda_descriptor_make(engine, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &p->graph) ||
        cuda_descriptor_set(engine, p->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, count, operations))
        return -1;
    return cuda_descriptor_finalize(engine, p->graph);
}

const char *cuda_plan_kind_name(enum cuda_plan_kind kind)
{
    static const char *const names[PLAN_KINDS] = {[PLAN_FORWARD] = "forward",
                                                  [PLAN_BACK_DATA] = "data",
                                                  [PLAN_BACK_WEIGHT] = "weight",
                                                  [PLAN_FORWARD_BIAS] = "forward with bias",
                                                  [PLAN_FORWARD_BIAS_RELU] =
                                                      "forward with bias and ReLU"};

    return names[kind];
}
