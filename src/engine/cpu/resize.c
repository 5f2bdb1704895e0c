/* Interp, which works in every format, and spatial pyramid pooling. */
#include "engine/cpu/cpu_internal.h"

#include <float.h>

/* A target row or column: two source ones and the second one's weight. */
struct tap {
    int64_t first, second;
    float weight;
};

struct interp {
    struct cpu_op op;
    struct cpu_planes from, to;
    struct tap *rows, *columns; /* of the top; one piece of memory */
};

static void interp_taps_fill(struct tap *taps, int64_t in, int64_t out, int begin, int end)
{
    int64_t used = in - begin - end;
    double ratio = out > 1 ? (double)(used - 1) / (double)(out - 1) : 0;

    for (int64_t i = 0; i < out; i++) {
        double place = ratio * (double)i;
        int64_t first = (int64_t)place;
        if (first > used - 1)
            first = used - 1;
        taps[i].first = begin + first;
        taps[i].second = begin + (first + 1 < used ? first + 1 : first);
        taps[i].weight = (float)(place - (double)first);
    }
}

static int interp_create(struct cpu_op *op)
{
    struct interp *interp = (struct interp *)op;
    const struct interp_args *a = &op->args.u.interp;
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    const struct cpu_format *format = cpu_tensor_format(&op->args.bottoms[0]->value);

    interp->rows =
        cpu_op_alloc(op, (size_t)(y->dim[2] + y->dim[3]) * sizeof *interp->rows, "interp");
    if (!interp->rows)
        return -1;
    interp->columns = interp->rows + y->dim[2];
    interp_taps_fill(interp->rows, x->dim[2], y->dim[2], a->crop_begin, a->crop_end);
    interp_taps_fill(interp->columns, x->dim[3], y->dim[3], a->crop_begin, a->crop_end);
    interp->from = cpu_planes_of(x, format);
    interp->to = cpu_planes_of(y, format);
    return 0;
}

/* A pixel of the top, from or into four of the bottom, to which gradients are added. */
static void interp_pixel(const struct interp *interp, bool back, int64_t h, int64_t w,
                         const float *from, float *to)
{
    struct tap r = interp->rows[h], c = interp->columns[w];
    int64_t block = interp->from.block, width = interp->from.width;
    int64_t at = (h * interp->to.width + w) * block;
    int64_t corner[4] = {(r.first * width + c.first) * block, (r.first * width + c.second) * block,
                         (r.second * width + c.first) * block,
                         (r.second * width + c.second) * block};
    float weight[4] = {(1 - r.weight) * (1 - c.weight), (1 - r.weight) * c.weight,
                       r.weight * (1 - c.weight), r.weight * c.weight};

    for (int64_t l = 0; l < block; l++) {
        if (!back)
            to[at + l] = weight[0] * from[corner[0] + l] + weight[1] * from[corner[1] + l] +
                         weight[2] * from[corner[2] + l] + weight[3] * from[corner[3] + l];
        for (int i = 0; back && i < 4; i++)
            to[corner[i] + l] += weight[i] * from[at + l];
    }
}

static int interp_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct interp *interp = (const struct interp *)op;
    int64_t bottom = interp->from.pixels * interp->from.block;
    int64_t top = interp->to.pixels * interp->to.block;

    if (back)
        cpu_zero(to, cpu_tensor_stored(&op->args.bottoms[0]->grad));
#pragma omp parallel for
    for (int64_t p = 0; p < interp->to.planes; p++)
        for (int64_t h = 0; h < interp->to.height; h++)
            for (int64_t w = 0; w < interp->to.width; w++)
                interp_pixel(interp, back, h, w, from + p * (back ? top : bottom),
                             to + p * (back ? bottom : top));
    return 0;
}

const struct cpu_kind cpu_interp = {
    .size = sizeof(struct interp),
    .blobs = CPU_AS_BOTTOM,
    .create = interp_create,
    .run = interp_run,
};

struct spp {
    struct cpu_op op;
    int32_t *winner; /* MAX in TRAIN: place in the plane, per element of the top */
};

/* A window of one bin on one axis, clipped as pooling does. */
struct bin {
    int64_t begin, end; /* in the image */
    int64_t size;       /* with the padding: the divisor */
};

static struct bin spp_bin_of(int64_t size, int64_t bins, int64_t i)
{
    int64_t kernel = (size + bins - 1) / bins, pad = (kernel * bins - size + 1) / 2;
    int64_t begin = i * kernel - pad, end = begin + kernel;

    if (end > size + pad)
        end = size + pad;
    return (struct bin){begin > 0 ? begin : 0, end < size ? end : size, end - begin};
}

static int spp_create(struct cpu_op *op)
{
    struct spp *spp = (struct spp *)op;

    if (!op->args.train || op->args.u.spp.method != POOL_MAX)
        return 0;
    spp->winner =
        cpu_op_alloc(op, shape_elems(&op->args.tops[0]->value.shape) * sizeof *spp->winner,
                     "the places of maxima");
    return spp->winner ? 0 : -1;
}

/* One bin of one plane; top and winner are its places there. */
static void spp_bin_forward(const struct spp *spp, const float *x, int64_t width, struct bin h,
                            struct bin w, float *top, int32_t *winner)
{
    float most = -FLT_MAX;
    int64_t place = h.begin * width + w.begin;
    double sum = 0;

    for (int64_t i = h.begin; i < h.end; i++)
        for (int64_t j = w.begin; j < w.end; j++) {
            float value = x[i * width + j];
            sum += value;
            if (value > most) {
                most = value;
                place = i * width + j;
            }
        }
    if (spp->op.args.u.spp.method == POOL_MAX)
        *top = x[place];
    else
        *top = (float)(sum / (double)(h.size * w.size));
    if (winner)
        *winner = (int32_t)place;
}

static void spp_bin_backward(const struct spp *spp, float *dx, int64_t width, struct bin h,
                             struct bin w, float dy, const int32_t *winner)
{
    if (spp->op.args.u.spp.method == POOL_MAX) {
        dx[*winner] += dy;
        return;
    }
    for (int64_t i = h.begin; i < h.end; i++)
        for (int64_t j = w.begin; j < w.end; j++)
            dx[i * width + j] += dy / (float)(h.size * w.size);
}

/* All bins of one plane: x to the top, or, where back, the top's gradients to dx. */
static void spp_plane_run(const struct spp *spp, bool back, int64_t plane, const float *from,
                          float *to)
{
    const struct shape *shape = &spp->op.args.bottoms[0]->value.shape;
    int64_t channels = shape->dim[1], before = 0;
    int64_t sample = plane / channels, channel = plane % channels;
    int64_t total = (int64_t)shape_elems(&spp->op.args.tops[0]->value.shape) / shape->dim[0];

    for (int l = 0; l < spp->op.args.u.spp.levels; l++) {
        int64_t bins = (int64_t)1 << l;
        for (int64_t b = 0; b < bins * bins; b++) {
            int64_t at = sample * total + before + channel * bins * bins + b;
            struct bin h = spp_bin_of(shape->dim[2], bins, b / bins);
            struct bin w = spp_bin_of(shape->dim[3], bins, b % bins);
            int32_t *winner = spp->winner ? spp->winner + at : NULL;
            if (back)
                spp_bin_backward(spp, to, shape->dim[3], h, w, from[at], winner);
            else
                spp_bin_forward(spp, from, shape->dim[3], h, w, to + at, winner);
        }
        before += channels * bins * bins;
    }
}

static int spp_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct shape *shape = &op->args.bottoms[0]->value.shape;
    int64_t pixels = shape->dim[2] * shape->dim[3];

    if (back)
        cpu_zero(to, shape_elems(shape));
#pragma omp parallel for
    for (int64_t p = 0; p < shape->dim[0] * shape->dim[1]; p++)
        spp_plane_run((const struct spp *)op, back, p, back ? from : from + p * pixels,
                      back ? to + p * pixels : to);
    return 0;
}

const struct cpu_kind cpu_spp = {
    .size = sizeof(struct spp),
    .blobs = CPU_PLAIN,
    .create = spp_create,
    .run = spp_run,
};
