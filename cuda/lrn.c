/* Local response normalisation in NHWC; see lrn.cu. */
#include "cuda_internal.h"

struct lrn {
    struct cuda_op op;
    struct kernel_lrn shape;
};

static int lrn_create(struct cuda_op *op)
{
    const struct lrn_args *a = &op->args.u.lrn;
    const struct shape *shape = &op->args.bottoms[0]->value.shape;
    struct kernel_lrn *out = &((struct lrn *)op)->shape;

    *out = (struct kernel_lrn){.samples = (int)shape->dim[0],
                               .channels = (int)shape->dim[1],
                               .height = (int)shape->dim[2],
                               .width = (int)shape->dim[3],
                               .half = a->local_size / 2,
                               .scale = a->alpha / (float)a->local_size,
                               .beta = a->beta,
                               .k = a->within_channel ? 1 : a->k,
                               .within = a->within_channel};
    if (a->within_channel)
        out->scale /= (float)a->local_size;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_work_reserve(op->engine, WORK_SCRATCH, shape_elems(shape) * sizeof(float));
}

static int lrn_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    const struct kernel_lrn *shape = &((struct lrn *)op)->shape;
    struct cuda_engine *engine = op->engine;

    return cuda_check(back ? kernel_lrn_back(engine->stream, engine->type, shape, cuda_op_x(op, 0),
                                             from, engine->work[WORK_SCRATCH].data, to)
                           : kernel_lrn(engine->stream, engine->type, shape, from, to));
}

const struct cuda_kind cuda_lrn = {
    .size = sizeof(struct lrn),
    .blobs = CUDA_NHWC,
    .again = true,
    .create = lrn_create,
    .run = lrn_run,
};
