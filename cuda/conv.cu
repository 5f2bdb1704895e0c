/* Windows as columns, on plain tensors; and convolution by its definition: channels last, weights
 * (output, kernel..., channel). The convolution is slow. It serves the rare shapes for which cuDNN
 * has no kernel under the asked precision, and is the reference for cuDNN's kernels. */
#include "kernel.cuh"

/* A position in a tensor with channels last: channel, place on each axis, sample. */
struct conv_at {
    int c, at[3], sample;
};

static DEVICE struct conv_at conv_at_of(uint32_t i, int channels, const int size[3])
{
    struct conv_at a;

    a.c = (int)(i % (uint32_t)channels);
    i /= (uint32_t)channels;
    for (int axis = 2; axis >= 0; axis--) {
        a.at[axis] = (int)(i % (uint32_t)size[axis]);
        i /= (uint32_t)size[axis];
    }
    a.sample = (int)i;
    return a;
}

/* Loops over the elements of the kernel: q, r, s on the three axes; `tap` is their number. */
#define FOR_TAPS(v, tap)                                                                           \
    for (int tap = 0, q = 0; q < (v).kernel[0]; q++)                                               \
        for (int r = 0; r < (v).kernel[1]; r++)                                                    \
            for (int s = 0; s < (v).kernel[2]; s++, tap++)

/* Returns the pixel on an axis under element k of the kernel, in a window; may be padding. */
static DEVICE int conv_pixel_at(const struct kernel_conv &v, int axis, int window, int k)
{
    return window * v.stride[axis] - v.pad[axis] + k * v.dilation[axis];
}

/* Returns the pixel's number in its plane; -1: padding. */
static DEVICE int conv_pixel(const struct kernel_conv &v, const int at[3], int q, int r, int s)
{
    int d = conv_pixel_at(v, 0, at[0], q), h = conv_pixel_at(v, 1, at[1], r),
        w = conv_pixel_at(v, 2, at[2], s);

    if (d < 0 || d >= v.size[0] || h < 0 || h >= v.size[1] || w < 0 || w >= v.size[2])
        return -1;
    return (d * v.size[1] + h) * v.size[2] + w;
}

/* Returns the window on an axis whose element k lies over the pixel; -1: none. */
static DEVICE int conv_window_at(const struct kernel_conv &v, int axis, int pixel, int k)
{
    int begin = pixel + v.pad[axis] - k * v.dilation[axis];

    if (begin < 0 || begin % v.stride[axis] || begin / v.stride[axis] >= v.places[axis])
        return -1;
    return begin / v.stride[axis];
}

/* Returns the window's number in its plane; -1: none. */
static DEVICE int conv_window(const struct kernel_conv &v, const int at[3], int q, int r, int s)
{
    int d = conv_window_at(v, 0, at[0], q), h = conv_window_at(v, 1, at[1], r),
        w = conv_window_at(v, 2, at[2], s);

    return d < 0 || h < 0 || w < 0 ? -1 : (d * v.places[1] + h) * v.places[2] + w;
}

static DEVICE int product_of(const int size[3])
{
    return size[0] * size[1] * size[2];
}

template <typename T> KERNEL void conv(struct kernel_conv v, const T *x, const T *w, T *y, size_t n)
{
    int ins = v.channels / v.group, outs = v.outputs / v.group, taps = product_of(v.kernel);

    FOR_EACH(i, n)
    {
        struct conv_at a = conv_at_of(i, v.outputs, v.places);
        int first = a.c / outs * ins;
        float sum = 0;
        FOR_TAPS(v, tap)
        {
            int pixel = conv_pixel(v, a.at, q, r, s);
            if (pixel < 0)
                continue;
            const T *from = x + (a.sample * product_of(v.size) + pixel) * v.channels + first;
            const T *weight = w + (a.c * taps + tap) * ins;
            for (int c = 0; c < ins; c++)
                sum += element(from[c]) * element(weight[c]);
        }
        element_set(&y[i], sum);
    }
}

static size_t elems_of(int samples, int channels, const int size[3])
{
    return (size_t)samples * (size_t)(channels * size[0] * size[1] * size[2]);
}

cudaError_t kernel_conv(cudaStream_t stream, enum cuda_type type, const struct kernel_conv *c,
                        const void *x, const void *w, void *y)
{
    size_t n = elems_of(c->samples, c->outputs, c->places);

    WITH_TYPE(type, LAUNCH(conv<T>, grid_for(n), THREADS, stream, *c, (const T *)x, (const T *)w,
                           (T *)y, n));
    return cudaGetLastError();
}

template <typename T>
KERNEL void conv_back_data(struct kernel_conv v, const T *dy, const T *w, T *dx, size_t n)
{
    int ins = v.channels / v.group, outs = v.outputs / v.group, taps = product_of(v.kernel);

    FOR_EACH(i, n)
    {
        struct conv_at a = conv_at_of(i, v.channels, v.size);
        int group = a.c / ins;
        float sum = 0;
        FOR_TAPS(v, tap)
        {
            int window = conv_window(v, a.at, q, r, s);
            if (window < 0)
                continue;
            const T *from = dy + (a.sample * product_of(v.places) + window) * v.outputs;
            for (int k = group * outs; k < (group + 1) * outs; k++)
                sum += element(from[k]) * element(w[(k * taps + tap) * ins + a.c % ins]);
        }
        element_set(&dx[i], sum);
    }
}

cudaError_t kernel_conv_back_data(cudaStream_t stream, enum cuda_type type,
                                  const struct kernel_conv *c, const void *dy, const void *w,
                                  void *dx)
{
    size_t n = elems_of(c->samples, c->channels, c->size);

    WITH_TYPE(type, LAUNCH(conv_back_data<T>, grid_for(n), THREADS, stream, *c, (const T *)dy,
                           (const T *)w, (T *)dx, n));
    return cudaGetLastError();
}

/* Computes one weight's gradient per block; the threads share the positions of the top. */
template <typename T>
KERNEL void conv_back_weight(struct kernel_conv v, const T *dy, const T *x, float *dw, int weights)
{
    int ins = v.channels / v.group, outs = v.outputs / v.group;
    int positions = v.samples * product_of(v.places);

    for (int i = (int)blockIdx.x; i < weights; i += (int)gridDim.x) {
        struct conv_at a = conv_at_of((uint32_t)i, ins, v.kernel); /* a.sample: the output */
        float sum = 0;
        for (int p = (int)threadIdx.x; p < positions; p += (int)blockDim.x) {
            struct conv_at place = conv_at_of((uint32_t)p, 1, v.places);
            int pixel = conv_pixel(v, place.at, a.at[0], a.at[1], a.at[2]);
            if (pixel < 0)
                continue;
            sum += element(dy[p * v.outputs + a.sample]) *
                   element(x[(place.sample * product_of(v.size) + pixel) * v.channels +
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
    int weights = (int)elems_of(c->outputs, c->channels / c->group, c->kernel);

    WITH_TYPE(type, LAUNCH(conv_back_weight<T>, grid_rows(weights), THREADS, stream, *c,
                           (const T *)dy, (const T *)x, dw, weights));
    return cudaGetLastError();
}

template <typename T> KERNEL void columns_take(struct kernel_conv v, const T *x, T *y, size_t n)
{
    int places = product_of(v.places);

    FOR_EACH(i, n)
    {
        struct conv_at window = conv_at_of((uint32_t)i % (uint32_t)places, 1, v.places);
        struct conv_at tap = conv_at_of((uint32_t)i / (uint32_t)places, 1, v.kernel);
        int pixel = conv_pixel(v, window.at, tap.at[0], tap.at[1], tap.at[2]);
        if (pixel >= 0) /* tap.sample: sample and channel */
            y[i] = x[tap.sample * product_of(v.size) + pixel];
        else
            element_set(&y[i], 0);
    }
}

template <typename T>
KERNEL void columns_add(struct kernel_conv v, const T *columns, T *image, size_t n)
{
    int taps = product_of(v.kernel), places = product_of(v.places);

    FOR_EACH(i, n)
    {
        struct conv_at a = conv_at_of((uint32_t)i, 1, v.size); /* a.sample: sample and channel */
        float sum = 0;
        FOR_TAPS(v, tap)
        {
            int window = conv_window(v, a.at, q, r, s);
            if (window >= 0)
                sum += element(columns[(a.sample * taps + tap) * places + window]);
        }
        element_set(&image[i], sum);
    }
}

cudaError_t kernel_columns(cudaStream_t stream, enum cuda_type type, const struct kernel_conv *c,
                           bool back, const void *x, void *y)
{
    size_t n = elems_of(c->samples, c->channels, c->size);

    if (back) {
        WITH_TYPE(type, LAUNCH(columns_add<T>, grid_for(n), THREADS, stream, *c, (const T *)x,
                               (T *)y, n));
        return cudaGetLastError();
    }
    n = elems_of(c->samples, c->channels * c->kernel[0] * c->kernel[1] * c->kernel[2], c->places);
    WITH_TYPE(type,
              LAUNCH(columns_take<T>, grid_for(n), THREADS, stream, *c, (const T *)x, (T *)y, n));
    return cudaGetLastError();
}
