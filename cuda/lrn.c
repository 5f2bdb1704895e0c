/* Local response normalisation in NHWC; see lrn.cu. */
#include "cuda_internal.h"

struct lrn {
    struct cuda_op op;
    struct kernel_lrn shape;
    struct cuda_input bottom; /* kept for backward */
    struct cuda_input top_grad;
    struct cuda_output bottom_grad;
};

static int lrn_create(struct cuda_op *op)
{
    struct lrn *lrn = (struct lrn *)op;
    struct cuda_engine *engine = op->engine;
    const struct lrn_args *a = &op->args.u.lrn;
    struct blob *bottom = op->args.bottoms[0];
    const struct shape *shape = &bottom->value.shape;
    const struct cuda_format *format = cuda_nhwc(engine);

    lrn->shape = (struct kernel_lrn){.samples = (int)shape->dim[0],
                                     .channels = (int)shape->dim[1],
                                     .height = (int)shape->dim[2],
                                     .width = (int)shape->dim[3],
                                     .half = a->local_size / 2,
                                     .scale = a->alpha / (float)a->local_size,
                                     .beta = a->beta,
                                     .k = a->within_channel ? 1 : a->k,
                                     .within = a->within_channel};
    if (a->within_channel)
        lrn->shape.scale /= (float)a->local_size;
    cuda_top_set(op->args.tops[0], format);
    if (cuda_input_create(engine, &bottom->value, format, WORK_OWN, &lrn->bottom) ||
        cuda_input_create(engine, &op->args.tops[0]->grad, format, WORK_TOP_GRAD, &lrn->top_grad))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_work_reserve(engine, WORK_SCRATCH, shape_elems(shape) * sizeof(float)))
        return -1;
    return cuda_output_create(engine, &bottom->grad, format, WORK_BOTTOM_GRAD, &lrn->bottom_grad);
}

static int lrn_forward(struct cuda_op *op, const struct run *run)
{
    struct lrn *lrn = (struct lrn *)op;
    struct cuda_engine *engine = op->engine;

    (void)run;
    if (cuda_input_load(engine, &lrn->bottom))
        return -1;
    return cuda_check(kernel_lrn(engine->stream, engine->type, &lrn->shape,
                                 cuda_input_data(engine, &lrn->bottom),
                                 op->args.tops[0]->value.data));
}

static int lrn_backward(struct cuda_op *op, const struct run *run)
{
    struct lrn *lrn = (struct lrn *)op;
    struct cuda_engine *engine = op->engine;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_input_load(engine, &lrn->top_grad) ||
        cuda_check(kernel_lrn_back(
            engine->stream, engine->type, &lrn->shape, cuda_input_data(engine, &lrn->bottom),
            cuda_input_data(engine, &lrn->top_grad), engine->work[WORK_SCRATCH].data,
            cuda_output_data(engine, &lrn->bottom_grad))))
        return -1;
    return cuda_output_store(engine, &lrn->bottom_grad);
}

static void lrn_destroy(struct cuda_op *op)
{
    cuda_input_destroy(&((struct lrn *)op)->bottom);
}

const struct cuda_kind cuda_lrn = {
    .size = sizeof(struct lrn),
    .create = lrn_create,
    .forward = lrn_forward,
    .backward = lrn_backward,
    .destroy = lrn_destroy,
};
