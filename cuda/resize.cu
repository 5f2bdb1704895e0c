/* Bilinear resizing, and spatial pyramid pooling. Backward gathers: an element of the bottom finds
 * the elements of the top that took from it. */
#include "kernel.cuh"

/* Sources of a target row or column: two rows or columns, and the second one's weight. */
struct tap {
    int first, second;
    float weight;
};

static DEVICE double interp_tap_ratio(int used, int out)
{
    return out > 1 ? (double)(used - 1) / (double)(out - 1) : 0;
}

static DEVICE struct tap interp_tap_of(int i, int used, double ratio)
{
    double from = ratio * (double)i;
    struct tap t;

    t.first = (int)from < used - 1 ? (int)from : used - 1;
    t.second = t.first + 1 < used ? t.first + 1 : t.first;
    t.weight = (float)(from - (double)t.first);
    return t;
}

/* Returns the weight of source s in target i. */
static DEVICE float interp_tap_share(int i, int s, int used, double ratio)
{
    struct tap t = interp_tap_of(i, used, ratio);

    return (t.first == s ? 1 - t.weight : 0) + (t.second == s ? t.weight : 0);
}

/* Finds the targets that may take from source s: [begin, end), up to one too many a side. */
static DEVICE void interp_tap_range(int s, int out, double ratio, int *begin, int *end)
{
    double from = ratio > 0 ? (double)(s - 1) / ratio - 1 : 0;
    double to = ratio > 0 ? (double)(s + 1) / ratio + 2 : (double)out;

    *begin = from > 0 ? (int)from : 0;
    *end = to < (double)out ? (int)to : out;
}

struct spot {
    int c, w, h, sample;
};

static DEVICE struct spot spot_of(uint32_t i, bool nhwc, int channels, int height, int width)
{
    struct spot s;

    if (nhwc) {
        s.c = (int)(i % (uint32_t)channels);
        i /= (uint32_t)channels;
    }
    s.w = (int)(i % (uint32_t)width);
    i /= (uint32_t)width;
    s.h = (int)(i % (uint32_t)height);
    i /= (uint32_t)height;
    if (!nhwc) {
        s.c = (int)(i % (uint32_t)channels);
        i /= (uint32_t)channels;
    }
    s.sample = (int)i;
    return s;
}

static DEVICE int spot_at(const struct spot &s, bool nhwc, int channels, int height, int width,
                          int h, int w)
{
    return nhwc ? ((s.sample * height + h) * width + w) * channels + s.c
                : ((s.sample * channels + s.c) * height + h) * width + w;
}

template <typename T> KERNEL void interp(struct kernel_interp p, const T *x, T *y, size_t n)
{
    int used_h = p.height - p.begin - p.end, used_w = p.width - p.begin - p.end;
    double ratio_h = interp_tap_ratio(used_h, p.top_height),
           ratio_w = interp_tap_ratio(used_w, p.top_width);

    FOR_EACH(i, n)
    {
        struct spot s = spot_of(i, p.nhwc, p.channels, p.top_height, p.top_width);
        struct tap r = interp_tap_of(s.h, used_h, ratio_h), c = interp_tap_of(s.w, used_w, ratio_w);
        float corner[4];
        for (int k = 0; k < 4; k++)
            corner[k] = element(x[spot_at(s, p.nhwc, p.channels, p.height, p.width,
                                          p.begin + (k < 2 ? r.first : r.second),
                                          p.begin + (k % 2 ? c.second : c.first))]);
        element_set(&y[i], (1 - r.weight) * (1 - c.weight) * corner[0] +
                               (1 - r.weight) * c.weight * corner[1] +
                               r.weight * (1 - c.weight) * corner[2] +
                               r.weight * c.weight * corner[3]);
    }
}

cudaError_t kernel_interp(cudaStream_t stream, enum cuda_type type, const struct kernel_interp *p,
                          const void *x, void *y)
{
    size_t n = (size_t)(p->samples * p->channels) * (size_t)(p->top_height * p->top_width);

    WITH_TYPE(type, LAUNCH(interp<T>, grid_for(n), THREADS, stream, *p, (const T *)x, (T *)y, n));
    return cudaGetLastError();
}

template <typename T> KERNEL void interp_back(struct kernel_interp p, const T *dy, T *dx, size_t n)
{
    int used_h = p.height - p.begin - p.end, used_w = p.width - p.begin - p.end;
    double ratio_h = interp_tap_ratio(used_h, p.top_height),
           ratio_w = interp_tap_ratio(used_w, p.top_width);

    FOR_EACH(i, n)
    {
        struct spot s = spot_of(i, p.nhwc, p.channels, p.height, p.width);
        int row = s.h - p.begin, column = s.w - p.begin, h0 = 0, h1 = 0, w0 = 0, w1 = 0;
        double sum = 0;
        if (row >= 0 && row < used_h && column >= 0 && column < used_w) {
            interp_tap_range(row, p.top_height, ratio_h, &h0, &h1);
            interp_tap_range(column, p.top_width, ratio_w, &w0, &w1);
        }
        for (int h = h0; h < h1; h++) {
            float share = interp_tap_share(h, row, used_h, ratio_h);
            for (int w = w0; w < w1 && share != 0; w++)
                sum += (double)(share * interp_tap_share(w, column, used_w, ratio_w) *
                                element(dy[spot_at(s, p.nhwc, p.channels, p.top_height, p.top_width,
                                                   h, w)]));
        }
        element_set(&dx[i], (float)sum);
    }
}

cudaError_t kernel_interp_back(cudaStream_t stream, enum cuda_type type,
                               const struct kernel_interp *p, const void *dy, void *dx)
{
    size_t n = (size_t)(p->samples * p->channels) * (size_t)(p->height * p->width);

    WITH_TYPE(type,
              LAUNCH(interp_back<T>, grid_for(n), THREADS, stream, *p, (const T *)dy, (T *)dx, n));
    return cudaGetLastError();
}

/* The window of one bin on one axis, clipped as in pooling. */
struct bin {
    int begin, end; /* within the image */
    int size;       /* length with the padding: the divisor */
};

static DEVICE int spp_bin_kernel(int size, int bins)
{
    return (size + bins - 1) / bins;
}

static DEVICE int spp_bin_pad(int size, int bins)
{
    return (spp_bin_kernel(size, bins) * bins - size + 1) / 2;
}

static DEVICE struct bin spp_bin_of(int size, int bins, int i)
{
    int kernel = spp_bin_kernel(size, bins), pad = spp_bin_pad(size, bins);
    int begin = i * kernel - pad, end = begin + kernel < size + pad ? begin + kernel : size + pad;
    struct bin b;

    b.begin = begin > 0 ? begin : 0;
    b.end = end < size ? end : size;
    b.size = end - begin;
    return b;
}

template <typename T>
KERNEL void spp(struct kernel_spp p, const T *x, T *y, int32_t *winner, size_t n)
{
    FOR_EACH(i, n)
    {
        int rest = (int)i % (p.channels * p.places), sample = (int)i / (p.channels * p.places),
            bins = 1;
        for (; rest >= p.channels * bins * bins; bins *= 2)
            rest -= p.channels * bins * bins;
        struct bin h = spp_bin_of(p.height, bins, rest / bins % bins),
                   w = spp_bin_of(p.width, bins, rest % bins);
        const T *plane = x + (sample * p.channels + rest / (bins * bins)) * p.height * p.width;
        int best = h.begin * p.width + w.begin;
        float most = -FLT_MAX;
        double sum = 0;
        for (int r = h.begin; r < h.end; r++)
            for (int c = w.begin; c < w.end; c++) {
                float value = element(plane[r * p.width + c]);
                sum += (double)value;
                if (value > most) {
                    most = value;
                    best = r * p.width + c;
                }
            }
        if (p.max)
            y[i] = plane[best];
        else
            element_set(&y[i], (float)(sum / (double)(h.size * w.size)));
        if (winner)
            winner[i] = best;
    }
}

cudaError_t kernel_spp(cudaStream_t stream, enum cuda_type type, const struct kernel_spp *p,
                       const void *x, void *y, int32_t *winner)
{
    size_t n = (size_t)p->samples * (size_t)(p->channels * p->places);

    WITH_TYPE(type,
              LAUNCH(spp<T>, grid_for(n), THREADS, stream, *p, (const T *)x, (T *)y, winner, n));
    return cudaGetLastError();
}

/* Gathers dx. Bins do not overlap: one bin of each level holds the element. */
template <typename T>
KERNEL void spp_back(struct kernel_spp p, const T *dy, const int32_t *winner, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        struct spot s = spot_of(i, false, p.channels, p.height, p.width);
        int at = s.sample * p.channels * p.places;
        float sum = 0;
        for (int l = 0, bins = 1; l < p.levels; l++, bins *= 2) {
            int h = (s.h + spp_bin_pad(p.height, bins)) / spp_bin_kernel(p.height, bins);
            int w = (s.w + spp_bin_pad(p.width, bins)) / spp_bin_kernel(p.width, bins);
            int from = at + (s.c * bins + h) * bins + w;
            if (p.max)
                sum += winner[from] == s.h * p.width + s.w ? element(dy[from]) : 0;
            else
                sum += element(dy[from]) / (float)(spp_bin_of(p.height, bins, h).size *
                                                   spp_bin_of(p.width, bins, w).size);
            at += p.channels * bins * bins;
        }
        element_set(&dx[i], sum);
    }
}

cudaError_t kernel_spp_back(cudaStream_t stream, enum cuda_type type, const struct kernel_spp *p,
                            const void *dy, const int32_t *winner, void *dx)
{
    size_t n = (size_t)(p->samples * p->channels) * (size_t)(p->height * p->width);

    WITH_TYPE(type, LAUNCH(spp_back<T>, grid_for(n), THREADS, stream, *p, (const T *)dy, winner,
                           (T *)dx, n));
    return cudaGetLastError();
}
