/* Sums per channel, over all other axes.
 *
 * First, every stripe of positions gives one partial sum per channel; then the stripes are added in
 * a fixed order. With inner = 1, neighbouring threads of a block take neighbouring channels, LANES
 * each where possible, otherwise positions. Short runs are added in float, and the runs in
 * double. */
#include "kernel.cuh"

#define SUMS_BLOCKS   512
#define SUMS_RUN      32
#define MOMENTS_RUN   16
#define SUMS_TOGETHER 4 /* channels whose stripes a block adds */

/* Positions that a thread loads before it uses the first, to hide the memory's latency. */
#define AHEAD 4

/* Division of the work: `wide` neighbouring threads of a block take different channels, `groups`
 * such groups cover all channels, and `stripes` stripes share the positions. */
struct channel_shape {
    int wide, groups, stripes;
};

/* Divides the work among threads that take `lanes` channels each. */
static struct channel_shape channel_shape(const struct kernel_channels *v, int lanes)
{
    int threads = v->channels / lanes, positions = v->outer * v->inner, most;
    struct channel_shape s = {1, 0, 0};

    while (v->inner == 1 && s.wide < THREADS && s.wide < threads)
        s.wide *= 2;
    s.groups = (threads + s.wide - 1) / s.wide;
    most = (positions + THREADS / s.wide - 1) / (THREADS / s.wide);
    s.stripes = (SUMS_BLOCKS + s.groups - 1) / s.groups;
    s.stripes = s.stripes < 1 ? 1 : s.stripes > most ? most : s.stripes;
    return s;
}

/* A thread's part of one stripe. c: its first channel; at least v.channels: no part. Positions are
 * begin, begin + step, ... below end. */
struct channel_part {
    int wide, stripe, c, begin, end, step;
    bool first; /* true for one thread per channel c */
};

template <int V>
static DEVICE struct channel_part channel_part_of(const struct kernel_channels &v,
                                                  const struct channel_shape &s, int job)
{
    int wide = s.wide < (int)blockDim.x ? s.wide : (int)blockDim.x, positions = v.outer * v.inner;
    int groups = (v.channels / V + wide - 1) / wide, mine = (int)threadIdx.x / wide;
    struct channel_part part;

    part.wide = wide;
    part.stripe = job / groups;
    part.c = (job % groups * wide + (int)threadIdx.x % wide) * V;
    part.begin = (int)((int64_t)part.stripe * positions / s.stripes) + mine;
    part.end = (int)((int64_t)(part.stripe + 1) * positions / s.stripes);
    part.step = (int)blockDim.x / wide;
    part.first = mine == 0;
    return part;
}

/* Returns the index of channel c at a position. With V > 1 channels lie side by side. */
template <int V> static DEVICE int channel_at(const struct kernel_channels &v, int position, int c)
{
    return V > 1 || v.inner == 1
               ? position * v.channels + c
               : (position / v.inner * v.channels + c) * v.inner + position % v.inner;
}

size_t kernel_sums_scratch(const struct kernel_channels *v)
{
    int one = channel_shape(v, 1).stripes, several = 1;

    if (v->channels % LANES == 0)
        several = channel_shape(v, LANES).stripes;
    return (size_t)((one > several ? one : several) + 1) * 2 * (size_t)v->channels;
}

struct pair {
    double first, second;
};

/* Sums x and x^2, and reads each number once. A run is held in registers: its first number and then
 * its mean are subtracted before squaring. The mean's part is added in double, where the difference
 * of the two sums loses nothing. Runs of equal numbers have variance 0. */
template <int V, typename T>
static DEVICE void channel_moments(const struct kernel_channels &v, const struct channel_part &part,
                                   const T *x, struct pair sum[V])
{
    constexpr int RUN = MOMENTS_RUN / V; /* positions held in registers */

    for (int from = part.begin; from < part.end; from += RUN * part.step) {
        int n = (part.end - from + part.step - 1) / part.step;
        float run[RUN][V];
        n = n < RUN ? n : RUN;
        UNROLL
        for (int k = 0; k < RUN; k++)
            if (k < n)
                lanes_get<V>(x + channel_at<V>(v, from + k * part.step, part.c), run[k]);
        UNROLL
        for (int l = 0; l < V; l++) {
            float first = 0, second = 0;
            UNROLL
            for (int k = 0; k < RUN; k++)
                first += k < n ? run[k][l] - run[0][l] : 0;
            float mean = first / (float)n;
            UNROLL
            for (int k = 0; k < RUN; k++)
                second +=
                    k < n ? (run[k][l] - run[0][l] - mean) * (run[k][l] - run[0][l] - mean) : 0;
            double all = n * (double)run[0][l] + (double)first;
            sum[l].first += all;
            sum[l].second += (double)second + all * all / n;
        }
    }
}

/* Adds number a of x, and d of dy, to the sums that WHAT names; may first make d 0 (ReLU). */
template <int WHAT, int V>
static DEVICE void channel_add(const struct normed<V> &by, int l, float a, float *d, float *first,
                               float *second)
{
    float mean = by.mean[l], inverse = by.inverse[l];

    if (WHAT == SUMS_CUT) {
        *d = a > 0 ? *d : 0 * *d;
        *first += *d;
    }
    if (WHAT == SUMS_X)
        *first += a;
    if (WHAT == SUMS_VARIANCE)
        *first += (a - mean) * (a - mean);
    if (WHAT == SUMS_ABS)
        *first += fabsf(a);
    if (WHAT == SUMS_BEHIND_RELU && !(by.of(l, a) > 0))
        *d = 0 * *d;
    if (WHAT == SUMS_BATCH_NORM || WHAT == SUMS_BEHIND_RELU) {
        *first += *d;
        *second += *d * ((a - mean) * inverse);
    }
    if (WHAT == SUMS_SCALE) {
        *first += *d * a;
        *second += *d;
    }
    if (WHAT == SUMS_PRELU)
        *first += a > 0 ? 0 : *d * a;
}

template <int WHAT, int V, typename T>
static DEVICE void channel_stripe_sum(const struct kernel_channels &v,
                                      const struct channel_part &part, const T *x, const T *dy,
                                      const struct normed<V> &by, struct pair sum[V])
{
    for (int from = part.begin; from < part.end;) {
        float first[V] = {0}, second[V] = {0};
        for (int run = 0; run < SUMS_RUN && from < part.end; run += AHEAD) {
            float a[AHEAD][V], d[AHEAD][V] = {};
            int n = (part.end - from + part.step - 1) / part.step;
            UNROLL
            for (int k = 0; k < AHEAD; k++)
                if (k < n) {
                    int at = channel_at<V>(v, from + k * part.step, part.c);
                    lanes_get<V>(x + at, a[k]);
                    if (WHAT >= SUMS_BATCH_NORM)
                        lanes_get<V>(dy + at, d[k]);
                }
            UNROLL
            for (int k = 0; k < AHEAD; k++)
                if (k < n) {
                    UNROLL
                    for (int l = 0; l < V; l++)
                        channel_add<WHAT>(by, l, a[k][l], &d[k][l], &first[l], &second[l]);
                    if (WHAT == SUMS_CUT) /* kernel_sums_cut has a dy that may be written */
                        lanes_set<V>((T *)(uintptr_t)dy +
                                         channel_at<V>(v, from + k * part.step, part.c),
                                     d[k]);
                }
            from += AHEAD * part.step;
        }
        UNROLL
        for (int l = 0; l < V; l++) {
            sum[l].first += (double)first[l];
            sum[l].second += (double)second[l];
        }
    }
}

/* Adds the sums of the threads that share a channel, `wide` threads apart. The first `wide` threads
 * get the result. */
static DEVICE struct pair channel_threads_sum(struct pair sum, int wide)
{
    SHARED double first[THREADS], second[THREADS];
    unsigned half = THREADS / 2;

    first[threadIdx.x] = sum.first;
    second[threadIdx.x] = sum.second;
    while (half * (unsigned)wide >= blockDim.x)
        half /= 2;
    for (; half > 0; half /= 2) {
        unsigned other = threadIdx.x + half * (unsigned)wide;
        BARRIER();
        if (threadIdx.x < half * (unsigned)wide && other < blockDim.x) {
            first[threadIdx.x] += first[other];
            second[threadIdx.x] += second[other];
        }
    }
    sum.first = first[threadIdx.x];
    sum.second = second[threadIdx.x];
    BARRIER();
    return sum;
}

template <int WHAT, int V, typename T>
KERNEL void sums_partial(struct kernel_channels v, struct channel_shape s, const T *x, const T *dy,
                         const float *mean, const float *inverse, const float *gamma,
                         const float *beta, double *partial)
{
    struct channel_part part;

    for (int job = (int)blockIdx.x; (part = channel_part_of<V>(v, s, job)).stripe < s.stripes;
         job += (int)gridDim.x) {
        bool has = part.c < v.channels;
        struct pair sum[V] = {};
        if (has && WHAT == SUMS_MOMENTS)
            channel_moments<V>(v, part, x, sum);
        if (has && WHAT != SUMS_MOMENTS)
            channel_stripe_sum<WHAT, V>(v, part, x, dy,
                                        normed<V>(part.c, mean, inverse, gamma, beta), sum);
        for (int l = 0; l < V; l++) {
            struct pair all = channel_threads_sum(sum[l], part.wide);
            if (!has || !part.first)
                continue;
            partial[(part.stripe * 2 + 0) * v.channels + part.c + l] = all.first;
            partial[(part.stripe * 2 + 1) * v.channels + part.c + l] = all.second;
        }
    }
}

/* Adds the stripes' partial sums, SUMS_TOGETHER channels to a block. */
KERNEL void sums_finish(const double *partial, int channels, int stripes, double *sums)
{
    int wide = SUMS_TOGETHER < (int)blockDim.x ? SUMS_TOGETHER : (int)blockDim.x;
    int mine = (int)threadIdx.x / wide, share = (int)blockDim.x / wide;

    for (int job = (int)blockIdx.x; job * wide < channels; job += (int)gridDim.x) {
        int c = job * wide + (int)threadIdx.x % wide;
        struct pair sum = {0, 0};
        for (int s = mine; c < channels && s < stripes; s += share) {
            sum.first += partial[(s * 2 + 0) * channels + c];
            sum.second += partial[(s * 2 + 1) * channels + c];
        }
        sum = channel_threads_sum(sum, wide);
        if (mine > 0 || c >= channels)
            continue;
        sums[c] = sum.first;
        sums[channels + c] = sum.second;
    }
}

template <int WHAT, int V, typename T>
static void sums_launch(cudaStream_t stream, const struct kernel_channels *v, const void *x,
                        const void *dy, const float *mean, const float *inverse, const float *gamma,
                        const float *beta, double *scratch)
{
    struct channel_shape s = channel_shape(v, V);
    double *partial = scratch + 2 * v->channels;

    LAUNCH((sums_partial<WHAT, V, T>), grid_rows(s.stripes * s.groups), THREADS, stream, *v, s,
           (const T *)x, (const T *)dy, mean, inverse, gamma, beta, partial);
    LAUNCH(sums_finish, grid_rows((v->channels + SUMS_TOGETHER - 1) / SUMS_TOGETHER), THREADS,
           stream, (const double *)partial, v->channels, s.stripes, scratch);
}

template <int WHAT>
static cudaError_t sums_run(cudaStream_t stream, enum cuda_type type,
                            const struct kernel_channels *v, const void *x, const void *dy,
                            const float *mean, const float *inverse, const float *gamma,
                            const float *beta, double *scratch)
{
    WITH_LANES(v->inner == 1 && lanes_fit(v->channels, x, dy, mean, inverse, gamma, beta),
               WITH_TYPE(type, (sums_launch<WHAT, V, T>(stream, v, x, dy, mean, inverse, gamma,
                                                        beta, scratch))));
    return cudaGetLastError();
}

cudaError_t kernel_sums(cudaStream_t stream, enum cuda_type type, enum kernel_sums what,
                        const struct kernel_channels *v, const void *x, const void *dy,
                        const float *mean, const float *inverse, double *scratch)
{
#define SUMS_CASE(one)                                                                             \
    case one:                                                                                      \
        return sums_run<one>(stream, type, v, x, dy, mean, inverse, NULL, NULL, scratch)
    switch (what) {
        SUMS_CASE(SUMS_X);
        SUMS_CASE(SUMS_MOMENTS);
        SUMS_CASE(SUMS_VARIANCE);
        SUMS_CASE(SUMS_ABS);
        SUMS_CASE(SUMS_BATCH_NORM);
        SUMS_CASE(SUMS_SCALE);
        SUMS_CASE(SUMS_PRELU);
    case SUMS_BEHIND_RELU:
    case SUMS_CUT:
        break;
    }
    return cudaErrorInvalidValue;
}

cudaError_t kernel_sums_behind_relu(cudaStream_t stream, enum cuda_type type,
                                    const struct kernel_channels *v, const void *x, const void *dy,
                                    const float *mean, const float *inverse, const float *gamma,
                                    const float *beta, double *scratch)
{
    return sums_run<SUMS_BEHIND_RELU>(stream, type, v, x, dy, mean, inverse, gamma, beta, scratch);
}

cudaError_t kernel_sums_cut(cudaStream_t stream, enum cuda_type type,
                            const struct kernel_channels *v, const void *y, void *dy,
                            double *scratch)
{
    return sums_run<SUMS_CUT>(stream, type, v, y, dy, NULL, NULL, NULL, NULL, scratch);
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
