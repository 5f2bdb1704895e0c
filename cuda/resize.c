/* Operators that change the plane's size: interp, in the bottom's format, and spatial pyramid
 * pooling, on plain rows. */
#include "cuda_internal.h"

#include "engine/op_size.h"

static int interp_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    const struct interp_args *a = &op->args.u.interp;
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    const struct cuda_format *format = cuda_tensor_format(&op->args.bottoms[0]->value);
    const struct kernel_interp kernel = {.samples = (int)x->dim[0],
                                         .channels = (int)x->dim[1],
                                         .height = (int)x->dim[2],
                                         .width = (int)x->dim[3],
                                         .top_height = (int)y->dim[2],
                                         .top_width = (int)y->dim[3],
                                         .begin = a->crop_begin,
                                         .end = a->crop_end,
                                         .nhwc = format && format->nhwc};

    return cuda_check((back ? kernel_interp_back : kernel_interp)(
        op->engine->stream, cuda_format_type(format), &kernel, from, to));
}

const struct cuda_kind cuda_interp = {.blobs = CUDA_AS_BOTTOM, .run = interp_run};

struct spp {
    struct cuda_op op;
    struct kernel_spp kernel;
    void *winner; /* MAX in TRAIN: indices of the maxima in the plane */
};

static int spp_create(struct cuda_op *op)
{
    struct spp *spp = (struct spp *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    int levels = op->args.u.spp.levels;

    spp->kernel = (struct kernel_spp){.samples = (int)x->dim[0],
                                      .channels = (int)x->dim[1],
                                      .height = (int)x->dim[2],
                                      .width = (int)x->dim[3],
                                      .levels = levels,
                                      .places = (int)op_spp_places(levels),
                                      .max = op->args.u.spp.method == POOL_MAX};
    if (!op->args.train || !spp->kernel.max)
        return 0;
    spp->winner = cuda_op_alloc(op, shape_elems(&op->args.tops[0]->value.shape) * sizeof(int32_t),
                                "the indices of maxima");
    return spp->winner ? 0 : -1;
}

static int spp_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    const struct spp *spp = (const struct spp *)op;
    struct cuda_engine *engine = op->engine;

    return cuda_check(
        back ? kernel_spp_back(engine->stream, engine->type, &spp->kernel, from, spp->winner, to)
             : kernel_spp(engine->stream, engine->type, &spp->kernel, from, to, spp->winner));
}

const struct cuda_kind cuda_spp = {
    .size = sizeof(struct spp),
    .blobs = CUDA_PLAIN,
    .create = spp_create,
    .run = spp_run,
};
