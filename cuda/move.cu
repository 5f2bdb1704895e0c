/* Moves values: windows, tiles, rows by row number, channels. Backward gathers what it adds, so
 * each element is written once. */
#include "label.cuh"

template <typename T> KERNEL void window_take(struct kernel_window w, const T *x, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        int rest = (int)i, at = 0, stride = 1;
        for (int d = w.naxes - 1; d >= 0; d--) {
            at += (rest % w.small[d] + w.offset[d]) * stride;
            rest /= w.small[d];
            stride *= w.large[d];
        }
        y[i] = x[at];
    }
}

template <typename T> KERNEL void window_give(struct kernel_window w, const T *x, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        int rest = (int)i, at = 0, stride = 1;
        bool inside = true;
        for (int d = w.naxes - 1; d >= 0; d--) {
            int here = rest % w.large[d] - w.offset[d];
            inside = inside && here >= 0 && here < w.small[d];
            at += here * stride;
            rest /= w.large[d];
            stride *= w.small[d];
        }
        if (inside)
            y[i] = x[at];
        else
            element_set(&y[i], 0);
    }
}

cudaError_t kernel_window(cudaStream_t stream, enum cuda_type type, const struct kernel_window *w,
                          bool back, const void *x, void *y)
{
    size_t n = 1;

    for (int d = 0; d < w->naxes; d++)
        n *= (size_t)(back ? w->large[d] : w->small[d]);
    if (back)
        WITH_TYPE(type, LAUNCH(window_give<T>, grid_for(n), THREADS, stream, *w, (const T *)x,
                               (T *)y, n));
    else
        WITH_TYPE(type, LAUNCH(window_take<T>, grid_for(n), THREADS, stream, *w, (const T *)x,
                               (T *)y, n));
    return cudaGetLastError();
}

template <typename T> KERNEL void tile_take(int length, int tiles, const T *x, T *y, size_t n)
{
    FOR_EACH(i, n)
    y[i] = x[i / (uint32_t)(length * tiles) * (uint32_t)length + i % (uint32_t)length];
}

cudaError_t kernel_tile(cudaStream_t stream, enum cuda_type type, int outer, int length, int tiles,
                        const void *x, void *y)
{
    size_t n = (size_t)outer * (size_t)(length * tiles);

    WITH_TYPE(type, LAUNCH(tile_take<T>, grid_for(n), THREADS, stream, length, tiles, (const T *)x,
                           (T *)y, n));
    return cudaGetLastError();
}

template <typename T> KERNEL void tile_add(int length, int tiles, const T *dy, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        const T *from = dy + (int)i / length * length * tiles + (int)i % length;
        float sum = 0;
        for (int t = 0; t < tiles; t++)
            sum += element(from[t * length]);
        element_set(&dx[i], sum);
    }
}

cudaError_t kernel_tile_back(cudaStream_t stream, enum cuda_type type, int outer, int length,
                             int tiles, const void *dy, void *dx)
{
    size_t n = (size_t)outer * (size_t)length;

    WITH_TYPE(type, LAUNCH(tile_add<T>, grid_for(n), THREADS, stream, length, tiles, (const T *)dy,
                           (T *)dx, n));
    return cudaGetLastError();
}

template <typename X, typename Y>
KERNEL void rows_take(struct kernel_labels l, const float *index, int length, const X *x,
                      const float *bias, Y *y, size_t n)
{
    FOR_EACH(i, n)
    {
        int j = (int)i % length, row = label_of(&l, index[(int)i / length]);
        float value = row < 0 ? 0 : element(x[row * length + j]);
        element_set(&y[i], bias ? value + bias[j] : value);
    }
}

KERNEL void rows_check(struct kernel_labels l, const float *index)
{
    int bad = first_bad(&l, index);

    if (threadIdx.x == 0)
        note_bad(&l, index, bad);
}

template <typename X, typename Y>
static void rows_take_launch(cudaStream_t stream, const struct kernel_labels *l, const float *index,
                             int length, const void *x, const float *bias, void *y)
{
    size_t n = (size_t)l->outer * (size_t)length;

    LAUNCH(rows_check, 1, THREADS, stream, *l, index);
    LAUNCH((rows_take<X, Y>), grid_for(n), THREADS, stream, *l, index, length, (const X *)x, bias,
           (Y *)y, n);
}

/* Calls `call` with X and Y = the two element types. */
#define WITH_TYPES(x_type, y_type, call)                                                           \
    do {                                                                                           \
        if ((x_type) == CUDA_F32) {                                                                \
            typedef float X;                                                                       \
            WITH_TYPE(y_type, typedef T Y; call);                                                  \
        } else {                                                                                   \
            typedef struct bf16 X;                                                                 \
            WITH_TYPE(y_type, typedef T Y; call);                                                  \
        }                                                                                          \
    } while (0)

cudaError_t kernel_take_rows(cudaStream_t stream, const struct kernel_labels *l, const float *index,
                             int length, enum cuda_type x_type, const void *x, const float *bias,
                             enum cuda_type y_type, void *y)
{
    WITH_TYPES(x_type, y_type, (rows_take_launch<X, Y>(stream, l, index, length, x, bias, y)));
    return cudaGetLastError();
}

template <typename X, typename Y>
KERNEL void rows_add(struct kernel_labels l, const float *index, int length, const X *dy, Y *dx,
                     bool add, size_t n)
{
    FOR_EACH(i, n)
    {
        int j = (int)i % length, row = (int)i / length;
        double sum = add ? (double)element(dx[i]) : 0;
        for (int p = 0; p < l.outer; p++)
            if (label_of(&l, index[p]) == row)
                sum += (double)element(dy[p * length + j]);
        element_set(&dx[i], (float)sum);
    }
}

template <typename X, typename Y>
static void rows_add_launch(cudaStream_t stream, const struct kernel_labels *l, const float *index,
                            int length, const void *dy, void *dx, bool add)
{
    size_t n = (size_t)l->classes * (size_t)length;

    LAUNCH((rows_add<X, Y>), grid_for(n), THREADS, stream, *l, index, length, (const X *)dy,
           (Y *)dx, add, n);
}

cudaError_t kernel_take_rows_back(cudaStream_t stream, const struct kernel_labels *l,
                                  const float *index, int length, enum cuda_type dy_type,
                                  const void *dy, enum cuda_type dx_type, void *dx, bool add)
{
    WITH_TYPES(dy_type, dx_type, (rows_add_launch<X, Y>(stream, l, index, length, dy, dx, add)));
    return cudaGetLastError();
}

template <typename T>
KERNEL void shuffle(struct kernel_channels v, int rows, const T *x, T *y, size_t n)
{
    int columns = v.channels / rows;

    FOR_EACH(i, n)
    {
        int p = (int)i % v.inner, c = (int)i / v.inner % v.channels,
            outer = (int)i / (v.inner * v.channels);
        y[i] = x[(outer * v.channels + c % rows * columns + c / rows) * v.inner + p];
    }
}

cudaError_t kernel_shuffle(cudaStream_t stream, enum cuda_type type,
                           const struct kernel_channels *v, int rows, const void *x, void *y)
{
    size_t n = (size_t)v->outer * (size_t)(v->channels * v->inner);

    WITH_TYPE(type,
              LAUNCH(shuffle<T>, grid_for(n), THREADS, stream, *v, rows, (const T *)x, (T *)y, n));
    return cudaGetLastError();
}

/* Returns the element of y that element i of x goes to; -1: none. */
static DEVICE int upsample_to(const struct kernel_upsample &u, const float *place, uint32_t i)
{
    int c = (int)(i % (uint32_t)u.channels), at = label_of(&u.labels, place[i]);
    int sample = (int)(i / (uint32_t)u.channels / (uint32_t)u.pixels);

    return at < 0 ? -1 : (sample * u.labels.classes + at) * u.channels + c;
}

/* Finds for each element of y the last pixel of x that goes there, as 1 + its number. Notes
 * any of several wrong places, since the message names no position. */
KERNEL void upsample_last(struct kernel_upsample u, const float *place, int32_t *last, size_t n)
{
    FOR_EACH(i, n)
    {
        int to = upsample_to(u, place, i);
        if (label_of(&u.labels, place[i]) == LABEL_BAD)
            note_bad(&u.labels, place, (int)i + 1);
        if (to >= 0)
            RAISE(&last[to], 1 + (int32_t)(i / (uint32_t)u.channels % (uint32_t)u.pixels));
    }
}

template <typename T>
KERNEL void upsample(struct kernel_upsample u, const T *x, const int32_t *last, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        int c = (int)i % u.channels, sample = (int)i / u.channels / u.labels.classes;
        int from = (sample * u.pixels + last[i] - 1) * u.channels + c;
        element_set(&y[i], last[i] ? element(x[from]) : 0);
    }
}

cudaError_t kernel_upsample(cudaStream_t stream, enum cuda_type type,
                            const struct kernel_upsample *u, const float *place, const void *x,
                            int32_t *last, void *y)
{
    size_t from = (size_t)u->labels.outer;
    size_t n = (size_t)(u->samples * u->channels) * (size_t)u->labels.classes;

    LAUNCH(upsample_last, grid_for(from), THREADS, stream, *u, place, last, from);
    WITH_TYPE(type,
              LAUNCH(upsample<T>, grid_for(n), THREADS, stream, *u, (const T *)x, last, (T *)y, n));
    return cudaGetLastError();
}

template <typename T>
KERNEL void upsample_back(struct kernel_upsample u, const float *place, const T *dy, T *dx,
                          size_t n)
{
    FOR_EACH(i, n)
    {
        int to = upsample_to(u, place, i);
        element_set(&dx[i], to < 0 ? 0 : element(dy[to]));
    }
}

cudaError_t kernel_upsample_back(cudaStream_t stream, enum cuda_type type,
                                 const struct kernel_upsample *u, const float *place,
                                 const void *dy, void *dx)
{
    size_t n = (size_t)u->labels.outer;

    WITH_TYPE(type, LAUNCH(upsample_back<T>, grid_for(n), THREADS, stream, *u, place, (const T *)dy,
                           (T *)dx, n));
    return cudaGetLastError();
}
