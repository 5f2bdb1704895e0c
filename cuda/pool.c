/* Pooling with channels last; pool.cu says why cuDNN's is not used. */
#include "cuda_internal.h"

#include "engine/op_size.h"

struct pool {
    struct cuda_op op;
    struct kernel_pool shape;
    int32_t *where; /* index in the plane of the maximum or drawn element, per top element; -1:
                       none. For MAX in TRAIN or with a mask, and for STOCHASTIC in TRAIN */
};

static void pool_shape_fill(struct pool *pool)
{
    const struct pool_args *a = &pool->op.args.u.pool;
    const struct shape *bottom = &pool->op.args.bottoms[0]->value.shape;
    const struct op_windows w = op_pool_windows(a, bottom, &pool->op.args.tops[0]->value.shape);

    pool->shape = (struct kernel_pool){.samples = (int)bottom->dim[0],
                                       .channels = (int)bottom->dim[1],
                                       .max = a->method == POOL_MAX,
                                       .stochastic = a->method == POOL_STOCHASTIC,
                                       .layer = (uint32_t)pool->op.args.layer_index};
    for (int i = 0; i < OP_SPATIAL; i++) {
        pool->shape.size[i] = (int)w.size[i];
        pool->shape.places[i] = (int)w.places[i];
        pool->shape.kernel[i] = w.kernel[i];
        pool->shape.stride[i] = w.stride[i];
        pool->shape.pad[i] = w.pad[i];
    }
}

static int pool_create(struct cuda_op *op)
{
    struct pool *pool = (struct pool *)op;

    pool_shape_fill(pool);
    /* bfloat16 does not hold indices exactly */
    if (op->args.ntops == 2)
        cuda_top_set(op->args.tops[1], &cuda_nhwc_f32);
    if (op->args.u.pool.method == POOL_AVE || (!op->args.train && op->args.ntops < 2))
        return 0;
    pool->where =
        cuda_op_alloc(op, shape_elems(&op->args.tops[0]->value.shape) * sizeof *pool->where,
                      "the indices that pooling chose");
    return pool->where ? 0 : -1;
}

static int pool_forward(struct cuda_op *op)
{
    struct pool *pool = (struct pool *)op;
    struct cuda_engine *engine = op->engine;

    pool->shape.pass = (struct kernel_pass){op->pass->seed, op->pass->first_sample};
    pool->shape.at = cuda_recorded_pass(engine);
    if (cuda_check(kernel_pool(engine->stream, engine->type, &pool->shape, cuda_op_x(op, 0),
                               cuda_op_y(op), pool->where)))
        return -1;
    if (op->args.ntops < 2)
        return 0;
    return cuda_check(kernel_int_to_float(engine->stream, CUDA_F32, pool->where,
                                          op->args.tops[1]->value.data,
                                          shape_elems(&op->args.tops[1]->value.shape)));
}

static int pool_gradient(struct cuda_op *op, int bottom, void *dx)
{
    const struct pool *pool = (const struct pool *)op;

    (void)bottom;
    return cuda_check(kernel_pool_back(op->engine->stream, op->engine->type, &pool->shape,
                                       cuda_op_dy(op), pool->where, dx));
}

const struct cuda_kind cuda_pool = {
    .size = sizeof(struct pool),
    .blobs = CUDA_NHWC,
    .create = pool_create,
    .forward = pool_forward,
    .gradient = pool_gradient,
};
