/* Interp, which works in every format. */
#include "engine/cpu/cpu_internal.h"

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
