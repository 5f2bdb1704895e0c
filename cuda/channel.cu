/* One number per channel: sums over everything else.
 *
 * Sums go in two steps: every stripe of positions gives one partial sum per channel, then the
 * stripes are added in order. Within a block, threads next to each other take channels next to each
 * other where these lie so (inner = 1), and positions otherwise. Floats are added in short runs,
 * the runs in double. */
#include "kernel.cuh"

#define SUMS_STRIPES 512
#define SUMS_RUN     32
#define MOMENTS_RUN  16

static int channel_positions(const struct kernel_channels *v)
{
    return v->outer * v->inner;
}

/* Channels that a block takes side by side; the rest of its threads share their positions. */
static int channel_wide(const struct kernel_channels *v)
{
    int wide = 1;

    while (v->inner == 1 && wide < THREADS && wide < v->channels)
        wide *= 2;
    return wide;
}

static int channel_stripes(const struct kernel_channels *v)
{
    int wide = channel_wide(v), groups = (v->channels + wide - 1) / wide;
    int most = (channel_positions(v) + THREADS / wide - 1) / (THREADS / wide);
    int stripes = (SUMS_STRIPES + groups - 1) / groups;

    return stripes < 1 ? 1 : stripes > most ? most : stripes;
}

size_t kernel_sums_scratch(const struct kernel_channels *v)
{
    return (size_t)(channel_stripes(v) + 1) * 2 * (size_t)v->channels;
}

struct pair {
    double first, second;
};

static DEVICE int channel_at(const struct kernel_channels *v, int position, int c)
{
    return v->inner == 1 ? position * v->channels + c
                         : (position / v->inner * v->channels + c) * v->inner + position % v->inner;
}

/* Of x and x^2. Each number is read once: a run of them is held while its mean is taken away, and
 * that mean's part is added in double, where the difference of the sums loses nothing. A run's
 * first number is taken away from all before, so that runs of one number have no variance. */
template <typename T>
static DEVICE struct pair channel_moments(const struct kernel_channels *v, const T *x, int c,
                                          int begin, int end, int step)
{
    struct pair sum = {0, 0};

    for (int from = begin; from < end; from += MOMENTS_RUN * step) {
        int n = (end - from + step - 1) / step;
        float run[MOMENTS_RUN], first = 0, second = 0;
        n = n < MOMENTS_RUN ? n : MOMENTS_RUN;
        UNROLL
        for (int k = 0; k < MOMENTS_RUN; k++)
            run[k] = k < n ? element(x[channel_at(v, from + k * step, c)]) : 0;
        UNROLL
        for (int k = 0; k < MOMENTS_RUN; k++)
            first += k < n ? run[k] - run[0] : 0;
        float mean = first / (float)n;
        UNROLL
        for (int k = 0; k < MOMENTS_RUN; k++)
            second += k < n ? (run[k] - run[0] - mean) * (run[k] - run[0] - mean) : 0;
        double all = n * (double)run[0] + (double)first;
        sum.first += all;
        sum.second += (double)second + all * all / n;
    }
    return sum;
}

template <int WHAT, typename T>
static DEVICE struct pair channel_stripe_sum(const struct kernel_channels *v, const T *x,
                                             const T *dy, float mean, float inverse, float gamma,
                                             float beta, int c, int begin, int end, int step)
{
    struct pair sum = {0, 0};

    for (int from = begin; from < end; from += SUMS_RUN * step) {
        float first = 0, second = 0;
        int until = from + SUMS_RUN * step < end ? from + SUMS_RUN * step : end;
        for (int p = from; p < until; p += step) {
            int at = channel_at(v, p, c);
            float a = element(x[at]), d = WHAT >= SUMS_BATCH_NORM ? element(dy[at]) : 0;
            if (WHAT == SUMS_CUT) {
                d = a > 0 ? d : 0 * d;
                element_set((T *)(uintptr_t)&dy[at],
                            d); /* kernel_sums_cut was given it to change */
                first += d;
            }
            if (WHAT == SUMS_X)
                first += a;
            if (WHAT == SUMS_VARIANCE)
                first += (a - mean) * (a - mean);
            if (WHAT == SUMS_ABS)
                first += fabsf(a);
            if (WHAT == SUMS_BEHIND_RELU && !(normed(a, mean, inverse, gamma, beta) > 0))
                d = 0 * d;
            if (WHAT == SUMS_BATCH_NORM || WHAT == SUMS_BEHIND_RELU) {
                first += d;
                second += d * ((a - mean) * inverse);
            }
            if (WHAT == SUMS_SCALE) {
                first += d * a;
                second += d;
            }
            if (WHAT == SUMS_PRELU)
                first += a > 0 ? 0 : d * a;
        }
        sum.first += (double)first;
        sum.second += (double)second;
    }
    return sum;
}

/* Adds what the lanes of each channel have; lane 0's threads know the result. */
static DEVICE struct pair channel_lanes_sum(struct pair sum, int wide)
{
    SHARED double first[THREADS], second[THREADS];

    first[threadIdx.x] = sum.first;
    second[threadIdx.x] = sum.second;
    BARRIER();
    for (unsigned t = threadIdx.x + (unsigned)wide; threadIdx.x < (unsigned)wide && t < blockDim.x;
         t += (unsigned)wide) {
        sum.first += first[t];
        sum.second += second[t];
    }
    BARRIER();
    return sum;
}

template <int WHAT, typename T>
KERNEL void sums_partial(struct kernel_channels v, const T *x, const T *dy, const float *mean,
                         const float *inverse, const float *gamma, const float *beta, int most,
                         int stripes, double *partial)
{
    int wide = most < (int)blockDim.x ? most : (int)blockDim.x, lanes = (int)blockDim.x / wide;
    int groups = (v.channels + wide - 1) / wide, positions = v.outer * v.inner;
    int lane = (int)threadIdx.x / wide;

    for (int job = (int)blockIdx.x; job < stripes * groups; job += (int)gridDim.x) {
        int stripe = job / groups, c = job % groups * wide + (int)threadIdx.x % wide;
        int begin = (int)((int64_t)stripe * positions / stripes);
        int end = (int)((int64_t)(stripe + 1) * positions / stripes);
        struct pair sum = {0, 0};
        if (c < v.channels)
            sum = WHAT == SUMS_MOMENTS
                      ? channel_moments(&v, x, c, begin + lane, end, lanes)
                      : channel_stripe_sum<WHAT, T>(
                            &v, x, dy, mean ? mean[c] : 0, inverse ? inverse[c] : 0,
                            gamma ? gamma[c] : 1, beta ? beta[c] : 0, c, begin + lane, end, lanes);
        sum = channel_lanes_sum(sum, wide);
        if (lane > 0 || c >= v.channels)
            continue;
        partial[(stripe * 2 + 0) * v.channels + c] = sum.first;
        partial[(stripe * 2 + 1) * v.channels + c] = sum.second;
    }
}

KERNEL void sums_finish(const double *partial, int channels, int stripes, double *sums)
{
    FOR_EACH(i, 2 * channels)
    {
        double sum = 0;
        for (int s = 0; s < stripes; s++)
            sum += partial[s * 2 * channels + (int)i];
        sums[i] = sum;
    }
}

template <int WHAT, typename T>
static void sums_launch(cudaStream_t stream, const struct kernel_channels *v, const void *x,
                        const void *dy, const float *mean, const float *inverse, const float *gamma,
                        const float *beta, double *scratch)
{
    int stripes = channel_stripes(v), wide = channel_wide(v),
        groups = (v->channels + wide - 1) / wide;
    double *partial = scratch + 2 * v->channels;

    LAUNCH((sums_partial<WHAT, T>), grid_rows(stripes * groups), THREADS, stream, *v, (const T *)x,
           (const T *)dy, mean, inverse, gamma, beta, wide, stripes, partial);
    LAUNCH(sums_finish, grid_for((size_t)v->channels * 2), THREADS, stream, (const double *)partial,
           v->channels, stripes, scratch);
}

cudaError_t kernel_sums(cudaStream_t stream, enum cuda_type type, enum kernel_sums what,
                        const struct kernel_channels *v, const void *x, const void *dy,
                        const float *mean, const float *inverse, double *scratch)
{
    switch (what) {
    case SUMS_X:
        WITH_TYPE(type,
                  (sums_launch<SUMS_X, T>(stream, v, x, dy, mean, inverse, NULL, NULL, scratch)));
        break;
    case SUMS_MOMENTS:
        WITH_TYPE(type, (sums_launch<SUMS_MOMENTS, T>(stream, v, x, dy, mean, inverse, NULL, NULL,
                                                      scratch)));
        break;
    case SUMS_VARIANCE:
        WITH_TYPE(type, (sums_launch<SUMS_VARIANCE, T>(stream, v, x, dy, mean, inverse, NULL, NULL,
                                                       scratch)));
        break;
    case SUMS_ABS:
        WITH_TYPE(type,
                  (sums_launch<SUMS_ABS, T>(stream, v, x, dy, mean, inverse, NULL, NULL, scratch)));
        break;
    case SUMS_BATCH_NORM:
        WITH_TYPE(type, (sums_launch<SUMS_BATCH_NORM, T>(stream, v, x, dy, mean, inverse, NULL,
                                                         NULL, scratch)));
        break;
    case SUMS_SCALE:
        WITH_TYPE(type, (sums_launch<SUMS_SCALE, T>(stream, v, x, dy, mean, inverse, NULL, NULL,
                                                    scratch)));
        break;
    case SUMS_PRELU:
        WITH_TYPE(type, (sums_launch<SUMS_PRELU, T>(stream, v, x, dy, mean, inverse, NULL, NULL,
                                                    scratch)));
        break;
    case SUMS_BEHIND_RELU:
    case SUMS_CUT:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

cudaError_t kernel_sums_behind_relu(cudaStream_t stream, enum cuda_type type,
                                    const struct kernel_channels *v, const void *x, const void *dy,
                                    const float *mean, const float *inverse, const float *gamma,
                                    const float *beta, double *scratch)
{
    WITH_TYPE(type, (sums_launch<SUMS_BEHIND_RELU, T>(stream, v, x, dy, mean, inverse, gamma, beta,
                                                      scratch)));
    return cudaGetLastError();
}

cudaError_t kernel_sums_cut(cudaStream_t stream, enum cuda_type type,
                            const struct kernel_channels *v, const void *y, void *dy,
                            double *scratch)
{
    WITH_TYPE(type, (sums_launch<SUMS_CUT, T>(stream, v, y, dy, NULL, NULL, NULL, NULL, scratch)));
    return cudaGetLastError();
}

KERNEL void sums_store(const double *sums, int channels, float *out, bool add)
{
    FOR_EACH(c, channels)
    out[c] = (float)(add ? out[c] + sums[c] : sums[c]);
}

cudaError_t kernel_sums_store(cudaStream_t stream, const double *sums, int channels, float *out,
                              bool add)
{
    LAUNCH(sums_store, grid_for((size_t)channels), THREADS, stream, sums, channels, out, add);
    return cudaGetLastError();
}
