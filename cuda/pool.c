/* Pooling with channels last; see pool.cu for why it is ours. */
#include "cuda_internal.h"

#include "engine/op_size.h"

struct pool {
    struct cuda_op op;
    struct kernel_pool shape;
    struct cuda_input bottom, top_grad;
    struct cuda_output bottom_grad;
    int32_t *where; /* place of each top in its plane, -1: none. MAX: in TRAIN or for the
                       mask; STOCHASTIC: in TRAIN */
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
    struct cuda_engine *engine = op->engine;
    const struct cuda_format *format = cuda_nhwc(engine);
    struct blob *bottom = op->args.bottoms[0];
    void *where = NULL;

    pool_shape_fill(pool);
    cuda_top_set(op->args.tops[0], format);
    /* places are whole numbers beyond what bfloat16 holds */
    if (op->args.ntops == 2)
        cuda_top_set(op->args.tops[1], &cuda_nhwc_f32);
    if (cuda_input_create(engine, &bottom->value, format, WORK_TOP_GRAD, &pool->bottom) ||
        cuda_input_create(engine, &op->args.tops[0]->grad, format, WORK_TOP_GRAD, &pool->top_grad))
        return -1;
    if (cuda_op_propagates(op, 0) &&
        cuda_output_create(engine, &bottom->grad, format, WORK_BOTTOM_GRAD, &pool->bottom_grad))
        return -1;
    if (op->args.u.pool.method == POOL_AVE || (!op->args.train && op->args.ntops < 2))
        return 0;
    if (cuda_alloc(shape_elems(&op->args.tops[0]->value.shape) * sizeof *pool->where,
                   "the places that pooling chose", &where))
        return -1;
    pool->where = where;
    return 0;
}

static int pool_forward(struct cuda_op *op, const struct run *run)
{
    struct pool *pool = (struct pool *)op;
    struct cuda_engine *engine = op->engine;

    pool->shape.run = (struct kernel_run){run->seed, run->first_sample};
    pool->shape.at = cuda_recorded_run(engine);
    if (cuda_input_load(engine, &pool->bottom) ||
        cuda_check(kernel_pool(engine->stream, engine->type, &pool->shape,
                               cuda_input_data(engine, &pool->bottom), op->args.tops[0]->value.data,
                               pool->where)))
        return -1;
    if (op->args.ntops < 2)
        return 0;
    return cuda_check(kernel_int_to_float(engine->stream, CUDA_F32, pool->where,
                                          op->args.tops[1]->value.data,
                                          shape_elems(&op->args.tops[1]->value.shape)));
}

static int pool_backward(struct cuda_op *op, const struct run *run)
{
    struct pool *pool = (struct pool *)op;
    struct cuda_engine *engine = op->engine;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_input_load(engine, &pool->top_grad) ||
        cuda_check(kernel_pool_back(engine->stream, engine->type, &pool->shape,
                                    cuda_input_data(engine, &pool->top_grad), pool->where,
                                    cuda_output_data(engine, &pool->bottom_grad))))
        return -1;
    return cuda_output_store(engine, &pool->bottom_grad);
}

static void pool_destroy(struct cuda_op *op)
{
    cuda_free(((struct pool *)op)->where);
}

const struct cuda_kind cuda_pool = {
    .size = sizeof(struct pool),
    .create = pool_create,
    .forward = pool_forward,
    .backward = pool_backward,
    .destroy = pool_destroy,
};
