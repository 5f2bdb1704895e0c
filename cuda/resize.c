/* Operators that change the plane: interp, in the format that comes, and spatial pyramid pooling,
 * on plain rows. */
#include "cuda_internal.h"

#include "engine/op_size.h"

struct interp {
    struct cuda_op op;
    struct kernel_interp kernel;
    enum cuda_type type;
};

static int interp_create(struct cuda_op *op)
{
    struct interp *interp = (struct interp *)op;
    const struct interp_args *a = &op->args.u.interp;
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    const struct cuda_format *format = cuda_tensor_format(&op->args.bottoms[0]->value);

    interp->type = cuda_format_type(format);
    interp->kernel = (struct kernel_interp){.samples = (int)x->dim[0],
                                            .channels = (int)x->dim[1],
                                            .height = (int)x->dim[2],
                                            .width = (int)x->dim[3],
                                            .top_height = (int)y->dim[2],
                                            .top_width = (int)y->dim[3],
                                            .begin = a->crop_begin,
                                            .end = a->crop_end,
                                            .nhwc = format && format->nhwc};
    cuda_top_set(op->args.tops[0], format);
    return 0;
}

static int interp_forward(struct cuda_op *op, const struct run *run)
{
    const struct interp *interp = (struct interp *)op;

    (void)run;
    return cuda_check(kernel_interp(op->engine->stream, interp->type, &interp->kernel,
                                    op->args.bottoms[0]->value.data, op->args.tops[0]->value.data));
}

static int interp_backward(struct cuda_op *op, const struct run *run)
{
    const struct interp *interp = (struct interp *)op;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_check(kernel_interp_back(op->engine->stream, interp->type, &interp->kernel,
                                         op->args.tops[0]->grad.data,
                                         op->args.bottoms[0]->grad.data));
}

const struct cuda_kind cuda_interp = {
    .size = sizeof(struct interp),
    .create = interp_create,
    .forward = interp_forward,
    .backward = interp_backward,
};

struct spp {
    struct cuda_op op;
    struct cuda_pair plain;
    struct kernel_spp kernel;
    void *winner; /* MAX in TRAIN */
};

static int spp_create(struct cuda_op *op)
{
    struct spp *spp = (struct spp *)op;
    const struct shape *x = &op->args.bottoms[0]->value.shape;
    int levels = op->args.u.spp.levels;
    size_t outs = shape_elems(&op->args.tops[0]->value.shape);

    spp->kernel = (struct kernel_spp){.samples = (int)x->dim[0],
                                      .channels = (int)x->dim[1],
                                      .height = (int)x->dim[2],
                                      .width = (int)x->dim[3],
                                      .levels = levels,
                                      .places = (int)op_spp_places(levels),
                                      .max = op->args.u.spp.method == POOL_MAX};
    if (op->args.train && spp->kernel.max &&
        cuda_alloc(outs * sizeof(int32_t), "the places of maxima", &spp->winner))
        return -1;
    cuda_top_set(op->args.tops[0], cuda_plain(op->engine));
    return cuda_pair_create(op, 0, cuda_plain(op->engine), false, &spp->plain);
}

static int spp_forward(struct cuda_op *op, const struct run *run)
{
    struct spp *spp = (struct spp *)op;
    struct cuda_engine *engine = op->engine;

    (void)run;
    if (cuda_input_load(engine, &spp->plain.in))
        return -1;
    return cuda_check(kernel_spp(engine->stream, engine->type, &spp->kernel,
                                 cuda_input_data(engine, &spp->plain.in),
                                 op->args.tops[0]->value.data, spp->winner));
}

static int spp_backward(struct cuda_op *op, const struct run *run)
{
    struct spp *spp = (struct spp *)op;
    struct cuda_engine *engine = op->engine;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_check(kernel_spp_back(engine->stream, engine->type, &spp->kernel,
                                   op->args.tops[0]->grad.data, spp->winner,
                                   cuda_output_data(engine, &spp->plain.out))))
        return -1;
    return cuda_output_store(engine, &spp->plain.out);
}

static void spp_destroy(struct cuda_op *op)
{
    struct spp *spp = (struct spp *)op;

    cuda_pair_destroy(&spp->plain);
    cuda_free(spp->winner);
}

const struct cuda_kind cuda_spp = {
    .size = sizeof(struct spp),
    .create = spp_create,
    .forward = spp_forward,
    .backward = spp_backward,
    .destroy = spp_destroy,
};
