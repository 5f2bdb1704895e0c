/* Local response normalisation, NHWC: y = x s^-beta, s = k + scale * sum of squares in the window.
 *
 * s is recomputed where needed rather than stored. Backward sums ratio = dy x s^(-beta-1). Across
 * up to five channels, which nearly all nets use, a thread takes four channels and keeps their
 * neighbours in registers. Otherwise a thread takes one channel, and backward leaves the ratios in
 * memory between two kernels. */
#include "kernel.cuh"

struct lrn_place {
    int c, w, h, sample;
};

static DEVICE struct lrn_place lrn_place_of(const struct kernel_lrn *l, int i)
{
    struct lrn_place p;

    p.c = i % l->channels;
    p.w = i / l->channels % l->width;
    p.h = i / (l->channels * l->width) % l->height;
    p.sample = i / (l->channels * l->width * l->height);
    return p;
}

/* Returns the sum over the window around place p of x squared, with `square`, or of x. */
template <typename T>
static DEVICE float lrn_window_sum(const struct kernel_lrn *l, struct lrn_place p, const T *x,
                                   bool square)
{
    float sum = 0;

    if (!l->within) {
        const T *row = x + ((p.sample * l->height + p.h) * l->width + p.w) * l->channels;
        int begin = p.c > l->half ? p.c - l->half : 0;
        int end = p.c + l->half + 1 < l->channels ? p.c + l->half + 1 : l->channels;
        for (int c = begin; c < end; c++) {
            float v = element(row[c]);
            sum += square ? v * v : v;
        }
        return sum;
    }
    int h0 = p.h > l->half ? p.h - l->half : 0, w0 = p.w > l->half ? p.w - l->half : 0;
    int h1 = p.h + l->half + 1 < l->height ? p.h + l->half + 1 : l->height;
    int w1 = p.w + l->half + 1 < l->width ? p.w + l->half + 1 : l->width;
    for (int h = h0; h < h1; h++)
        for (int w = w0; w < w1; w++) {
            float v = element(x[((p.sample * l->height + h) * l->width + w) * l->channels + p.c]);
            sum += square ? v * v : v;
        }
    return sum;
}

/* Returns s^-beta; without powf for beta 0.75, which nearly all nets use. */
static DEVICE float lrn_power(float s, float beta)
{
    if (beta == 0.75f) {
        float root = sqrtf(s);
        return 1 / (root * sqrtf(root));
    }
    return powf(s, -beta);
}

/* ---- across channels, four a thread ---- */

enum { NEAR = 3 * LANES, REACH = 2 }; /* a thread's channels and neighbours; largest half */

/* Reads channels c - LANES to c + 2 LANES - 1 of a row; 0 beyond the row's ends. */
template <typename T>
static DEVICE void lrn_near(const T *row, int c, int channels, float near[NEAR])
{
    UNROLL
    for (int k = 0; k < NEAR; k += LANES) {
        int from = c - LANES + k;
        if (from >= 0 && from < channels)
            lanes_get<LANES>(row + from, near + k);
        else
            near[k] = near[k + 1] = near[k + 2] = near[k + 3] = 0;
    }
}

/* Returns the sum of v[at - half] to v[at + half]. */
static DEVICE float lrn_near_sum(const float v[NEAR], int at, int half)
{
    float sum = 0;

    UNROLL
    for (int d = -REACH; d <= REACH; d++)
        if (d >= -half && d <= half)
            sum += v[at + d];
    return sum;
}

/* Reads x as lrn_near does, and squares x. */
template <typename T>
static DEVICE void lrn_near_squares(const T *row, int c, int channels, float x[NEAR],
                                    float squares[NEAR])
{
    lrn_near(row, c, channels, x);
    UNROLL
    for (int k = 0; k < NEAR; k++)
        squares[k] = x[k] * x[k];
}

template <typename T> KERNEL void lrn_across(struct kernel_lrn l, const T *x, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        int first = (int)i * LANES, c = first % l.channels;
        float in[NEAR], squares[NEAR], out[LANES];
        lrn_near_squares(x + (first - c), c, l.channels, in, squares);
        UNROLL
        for (int k = 0; k < LANES; k++) {
            float s = l.k + l.scale * lrn_near_sum(squares, LANES + k, l.half);
            out[k] = in[LANES + k] * lrn_power(s, l.beta);
        }
        lanes_set<LANES>(y + first, out);
    }
}

template <typename T>
KERNEL void lrn_across_back(struct kernel_lrn l, const T *x, const T *dy, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        int first = (int)i * LANES, c = first % l.channels;
        float in[NEAR], squares[NEAR], d[NEAR], ratio[NEAR], out[LANES];
        lrn_near_squares(x + (first - c), c, l.channels, in, squares);
        lrn_near(dy + (first - c), c, l.channels, d);
        UNROLL
        for (int k = LANES - REACH; k < 2 * LANES + REACH; k++) {
            float s = l.k + l.scale * lrn_near_sum(squares, k, l.half);
            float p = lrn_power(s, l.beta);
            bool inside = (uint32_t)(c + k - LANES) < (uint32_t)l.channels; /* avoids 0 / 0 */
            ratio[k] = inside ? d[k] * in[k] * p / s : 0;
            if (k >= LANES && k < 2 * LANES)
                out[k - LANES] = d[k] * p;
        }
        UNROLL
        for (int k = 0; k < LANES; k++)
            out[k] -= 2 * l.scale * l.beta * in[LANES + k] * lrn_near_sum(ratio, LANES + k, l.half);
        lanes_set<LANES>(dx + first, out);
    }
}

static bool lrn_lanes_fit(const struct kernel_lrn *l, const void *a, const void *b, const void *c)
{
    return !l->within && l->half <= REACH && lanes_fit(l->channels, a, b, c);
}

/* ---- any window, one channel a thread ---- */

template <typename T> KERNEL void lrn(struct kernel_lrn l, const T *x, T *y, size_t n)
{
    FOR_EACH(i, n)
    {
        float s = l.k + l.scale * lrn_window_sum(&l, lrn_place_of(&l, i), x, true);
        element_set(&y[i], element(x[i]) * lrn_power(s, l.beta));
    }
}

cudaError_t kernel_lrn(cudaStream_t stream, enum cuda_type type, const struct kernel_lrn *l,
                       const void *x, void *y)
{
    size_t n = (size_t)(l->samples * l->channels * l->height * l->width);

    if (x != y && lrn_lanes_fit(l, x, y, NULL))
        WITH_TYPE(type, LAUNCH(lrn_across<T>, grid_for(n / LANES), THREADS, stream, *l,
                               (const T *)x, (T *)y, n / LANES));
    else
        WITH_TYPE(type, LAUNCH(lrn<T>, grid_for(n), THREADS, stream, *l, (const T *)x, (T *)y, n));
    return cudaGetLastError();
}

template <typename T>
KERNEL void lrn_ratio(struct kernel_lrn l, const T *x, const T *dy, float *ratio, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        float s = l.k + l.scale * lrn_window_sum(&l, lrn_place_of(&l, i), x, true);
        float p = lrn_power(s, l.beta), d = element(dy[i]);
        ratio[i] = d * element(x[i]) * p / s;
        element_set(&dx[i], d * p);
    }
}

/* dx = dy s^-beta - 2 scale beta x * sum over the window of ratio */
template <typename T>
KERNEL void lrn_back(struct kernel_lrn l, const T *x, const float *ratio, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        float sum = lrn_window_sum(&l, lrn_place_of(&l, i), ratio, false);
        element_set(&dx[i], element(dx[i]) - 2 * l.scale * l.beta * element(x[i]) * sum);
    }
}

cudaError_t kernel_lrn_back(cudaStream_t stream, enum cuda_type type, const struct kernel_lrn *l,
                            const void *x, const void *dy, float *ratio, void *dx)
{
    size_t n = (size_t)(l->samples * l->channels * l->height * l->width);

    if (dx != dy && lrn_lanes_fit(l, x, dy, dx)) {
        WITH_TYPE(type, LAUNCH(lrn_across_back<T>, grid_for(n / LANES), THREADS, stream, *l,
                               (const T *)x, (const T *)dy, (T *)dx, n / LANES));
        return cudaGetLastError();
    }
    WITH_TYPE(type, {
        LAUNCH(lrn_ratio<T>, grid_for(n), THREADS, stream, *l, (const T *)x, (const T *)dy, ratio,
               (T *)dx, n);
        LAUNCH(lrn_back<T>, grid_for(n), THREADS, stream, *l, (const T *)x, (const float *)ratio,
               (T *)dx, n);
    });
    return cudaGetLastError();
}
