/* Windows as columns, plain; and convolution by its definition, NHWC with weights KRSC: slow, for
 * the rare shapes that the library has no kernel for under the asked precision, and the reference
 * for the others. */
#include "kernel.cuh"

/* A position of an NHWC tensor. */
struct conv_at {
    int c, w, h, sample;
};

static DEVICE struct conv_at conv_at_of(uint32_t i, int channels, int height, int width)
{
    struct conv_at a;

    a.c = (int)(i % (uint32_t)channels);
    i /= (uint32_t)channels;
    a.w = (int)(i % (uint32_t)width);
    i /= (uint32_t)width;
    a.h = (int)(i % (uint32_t)height);
    a.sample = (int)(i / (uint32_t)height);
    return a;
}

template <typename T> KERNEL void conv(struct kernel_conv v, const T *x, const T *w, T *y, size_t n)
{
    int ins = v.channels / v.group, outs = v.outputs / v.group;

    FOR_EACH(i, n)
    {
        struct conv_at a = conv_at_of(i, v.outputs, v.top_height, v.top_width);
        int first = a.c / outs * ins;
        float sum = 0;
        for (int r = 0; r < v.kernel[0]; r++)
            for (int s = 0; s < v.kernel[1]; s++) {
                int h = a.h * v.stride[0] - v.pad[0] + r * v.dilation[0];
                int col = a.w * v.stride[1] - v.pad[1] + s * v.dilation[1];
                if (h < 0 || h >= v.height || col < 0 || col >= v.width)
                    continue;
                const T *from =
                    x + ((a.sample * v.height + h) * v.width + col) * v.channels + first;
                const T *weight = w + ((a.c * v.kernel[0] + r) * v.kernel[1] + s) * ins;
                for (int c = 0; c < ins; c++)
                    sum += element(from[c]) * element(weight[c]);
            }
        element_set(&y[i], sum);
    }
}

cudaError_t kernel_conv(cudaStream_t stream, enum cuda_type type, const struct kernel_conv *c,
                        const void *x, const void *w, void *y)
{
    size_t n = (size_t)c->samples * (size_t)(c->outputs * c->top_height * c->top_width);

    WITH_TYPE(type, LAUNCH(conv<T>, grid_for(n), THREADS, stream, *c, (const T *)x, (const T *)w,
                           (T *)y, n));
    return cudaGetLastError();
}

template <typename T>
KERNEL void conv_back_data(struct kernel_conv v, const T *dy, const T *w, T *dx, size_t n)
{
    int ins = v.channels / v.group, outs = v.outputs / v.group;

    FOR_EACH(i, n)
    {
        struct conv_at a = conv_at_of(i, v.channels, v.height, v.width);
        int group = a.c / ins;
        float sum = 0;
        for (int r = 0; r < v.kernel[0]; r++)
            for (int s = 0; s < v.kernel[1]; s++) {
                int h = a.h + v.pad[0] - r * v.dilation[0],
                    col = a.w + v.pad[1] - s * v.dilation[1];
                if (h < 0 || col < 0 || h % v.stride[0] || col % v.stride[1])
                    continue;
                h /= v.stride[0];
                col /= v.stride[1];
                if (h >= v.top_height || col >= v.top_width)
                    continue;
                const T *from =
                    dy + ((a.sample * v.top_height + h) * v.top_width + col) * v.outputs;
                for (int k = group * outs; k < (group + 1) * outs; k++)
                    sum += element(from[k]) *
                           element(w[((k * v.kernel[0] + r) * v.kernel[1] + s) * ins + a.c % ins]);
            }
        element_set(&dx[i], sum);
    }
}

cudaError_t kernel_conv_back_data(cudaStream_t stream, enum cuda_type type,
                                  const struct kernel_conv *c, const void *dy, const void *w,
                                  void *dx)
{
    size_t n = (size_t)c->samples * (size_t)(c->channels * c->height * c->width);

    WITH_TYPE(type, LAUNCH(conv_back_data<T>, grid_for(n), THREADS, stream, *c, (const T *)dy,
                           (const T *)w, (T *)dx, n));
    return cudaGetLastError();
}

/* One block per weight: its threads share out the positions of the top. */
template <typename T>
KERNEL void conv_back_weight(struct kernel_conv v, const T *dy, const T *x, float *dw, int weights)
{
    int ins = v.channels / v.group, outs = v.outputs / v.group;
    int positions = v.samples * v.top_height * v.top_width;

    for (int i = (int)blockIdx.x; i < weights; i += (int)gridDim.x) {
        struct conv_at a =
            conv_at_of((uint32_t)i, ins, v.kernel[0], v.kernel[1]); /* sample: the output k */
        float sum = 0;
        for (int p = (int)threadIdx.x; p < positions; p += (int)blockDim.x) {
            int pw = p % v.top_width, ph = p / v.top_width % v.top_height;
            int sample = p / (v.top_width * v.top_height);
            int h = ph * v.stride[0] - v.pad[0] + a.h * v.dilation[0];
            int col = pw * v.stride[1] - v.pad[1] + a.w * v.dilation[1];
            if (h < 0 || h >= v.height || col < 0 || col >= v.width)
                continue;
            sum += element(dy[p * v.outputs + a.sample]) *
                   element(x[((sample * v.height + h) * v.width + col) * v.channels +
                             a.sample / outs * ins + a.c]);
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0)
            dw[i] = sum;
    }
}

cudaError_t kernel_conv_back_weight(cudaStream_t stream, enum cuda_type type,
                                    const struct kernel_conv *c, const void *dy, const void *x,
                                    float *dw)
{
    int weights = c->outputs * (c->channels / c->group) * c->kernel[0] * c->kernel[1];

    WITH_TYPE(type, LAUNCH(conv_back_weight<T>, grid_rows(weights), THREADS, stream, *c,
                           (const T *)dy, (const T *)x, dw, weights));
    return cudaGetLastError();
}

template <typename T> KERNEL void columns_take(struct kernel_conv v, const T *x, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        int rest = (int)i / v.top_width, ow = (int)i % v.top_width, oh = rest % v.top_height;
        rest /= v.top_height;
        int s = rest % v.kernel[1], r = rest / v.kernel[1] % v.kernel[0];
        int plane = rest / (v.kernel[0] * v.kernel[1]); /* sample and channel */
        int h = oh * v.stride[0] - v.pad[0] + r * v.dilation[0];
        int w = ow * v.stride[1] - v.pad[1] + s * v.dilation[1];
        if (h >= 0 && h < v.height && w >= 0 && w < v.width)
            y[i] = x[(plane * v.height + h) * v.width + w];
        else
            element_set(&y[i], 0);
    }
}

template <typename T>
KERNEL void columns_add(struct kernel_conv v, const T *columns, T *image, size_t n)
{
    FOR_EACH(i, n)
    {
        int at_w = (int)i % v.width, at_h = (int)i / v.width % v.height,
            plane = (int)i / (v.width * v.height);
        float sum = 0;
        for (int r = 0; r < v.kernel[0]; r++)
            for (int s = 0; s < v.kernel[1]; s++) {
                int h = at_h + v.pad[0] - r * v.dilation[0],
                    w = at_w + v.pad[1] - s * v.dilation[1];
                if (h < 0 || w < 0 || h % v.stride[0] || w % v.stride[1])
                    continue;
                h /= v.stride[0];
                w /= v.stride[1];
                if (h < v.top_height && w < v.top_width)
                    sum += element(
                        columns[(((plane * v.kernel[0] + r) * v.kernel[1] + s) * v.top_height + h) *
                                    v.top_width +
                                w]);
            }
        element_set(&image[i], sum);
    }
}

cudaError_t kernel_columns(cudaStream_t stream, enum cuda_type type, const struct kernel_conv *c,
                           bool back, const void *x, void *y)
{
    size_t planes = (size_t)(c->samples * c->channels);
    size_t n = planes * (size_t)(c->height * c->width);

    if (back) {
        WITH_TYPE(type, LAUNCH(columns_add<T>, grid_for(n), THREADS, stream, *c, (const T *)x,
                               (T *)y, n));
        return cudaGetLastError();
    }
    n = planes * (size_t)(c->kernel[0] * c->kernel[1] * c->top_height * c->top_width);
    WITH_TYPE(type,
              LAUNCH(columns_take<T>, grid_for(n), THREADS, stream, *c, (const T *)x, (T *)y, n));
    return cudaGetLastError();
}
