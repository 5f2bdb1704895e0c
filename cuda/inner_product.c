/* Inner product: three matrix products on plain memory, rows x K and rows x O, the bias inside the
 * first.
 *
 * In bfloat16 the parameter has a copy of that type. The factors that travel in place of the weight
 * gradient are floats on any engine; in bfloat16 they are made when backward finds the weight
 * factored. */
#include "cuda_internal.h"

#include "engine/op_size.h"

struct inner_product {
    struct cuda_op op;
    int64_t rows, inputs, outputs;
    struct cuda_input bottom; /* plain, kept for backward */
    struct cuda_output bottom_grad;
    struct cuda_matmul *forward, *back_data, *back_weight;
    struct cuda_param weight, bias;
    float *factor_bottom, *factor_top; /* bfloat16 only */
};

static void inner_product_sizes(struct inner_product *ip)
{
    struct op_product size = op_inner_product_size(&ip->op.args);

    ip->rows = size.rows;
    ip->inputs = size.inputs;
    ip->outputs = size.outputs;
}

static int inner_product_products(struct inner_product *ip)
{
    struct cuda_op *op = &ip->op;
    struct cuda_engine *engine = op->engine;
    const struct inner_product_args *a = &op->args.u.inner_product;
    int64_t k = ip->inputs, o = ip->outputs, rows = ip->rows, stride = a->transpose ? o : k;
    enum cuda_type type = engine->type;
    struct cuda_matmul_shape forward = {.trans_b = !a->transpose,
                                        .m = rows,
                                        .n = o,
                                        .k = k,
                                        .lda = k,
                                        .ldb = stride,
                                        .ldc = o,
                                        .type = type,
                                        .type_c = type,
                                        .bias = a->bias};
    struct cuda_matmul_shape data = {.trans_b = a->transpose,
                                     .m = rows,
                                     .n = k,
                                     .k = o,
                                     .lda = o,
                                     .ldb = stride,
                                     .ldc = k,
                                     .type = type,
                                     .type_c = type};
    /* the gradient is the parameter's: float */
    struct cuda_matmul_shape weight = {.trans_a = true,
                                       .m = a->transpose ? k : o,
                                       .n = a->transpose ? o : k,
                                       .k = rows,
                                       .lda = a->transpose ? k : o,
                                       .ldb = a->transpose ? o : k,
                                       .ldc = stride,
                                       .type = type,
                                       .type_c = CUDA_F32};

    if (cuda_matmul_create(engine, &forward, &ip->forward))
        return -1;
    if (!op->args.train)
        return 0;
    if (op->args.params[0]->wants_grad && cuda_matmul_create(engine, &weight, &ip->back_weight))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_matmul_create(engine, &data, &ip->back_data);
}

static int inner_product_copies(struct inner_product *ip)
{
    struct cuda_op *op = &ip->op;
    size_t rows = (size_t)ip->rows, k = (size_t)ip->inputs, o = (size_t)ip->outputs;
    void *bottom = NULL, *top = NULL;

    if (cuda_param_create(op->engine, op->args.params[0], false, "an inner product's weight",
                          &ip->weight) ||
        (op->args.u.inner_product.bias && cuda_param_create(op->engine, op->args.params[1], true,
                                                            "an inner product's bias", &ip->bias)))
        return -1;
    if (op->engine->type == CUDA_F32 || !op->args.train || !op->args.params[0]->wants_grad)
        return 0;
    if (cuda_alloc(rows * k * sizeof(float), "sufficient factors", &bottom))
        return -1;
    ip->factor_bottom = bottom;
    if (cuda_alloc(rows * o * sizeof(float), "sufficient factors", &top))
        return -1;
    ip->factor_top = top;
    return 0;
}

static int inner_product_create(struct cuda_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;
    struct cuda_engine *engine = op->engine;
    struct blob *bottom = op->args.bottoms[0];

    inner_product_sizes(ip);
    cuda_top_set(op->args.tops[0], cuda_plain(engine));
    if (cuda_input_create(engine, &bottom->value, cuda_plain(engine), WORK_OWN, &ip->bottom) ||
        inner_product_products(ip) || inner_product_copies(ip) ||
        cuda_bias_reserve(engine, (int)ip->rows, (int)ip->outputs))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    return cuda_output_create(engine, &bottom->grad, cuda_plain(engine), WORK_BOTTOM_GRAD,
                              &ip->bottom_grad);
}

static int inner_product_forward(struct cuda_op *op, const struct run *run)
{
    struct inner_product *ip = (struct inner_product *)op;
    struct cuda_engine *engine = op->engine;

    (void)run;
    if (cuda_input_load(engine, &ip->bottom) || cuda_param_load(engine, &ip->weight) ||
        cuda_param_load(engine, &ip->bias))
        return -1;
    return cuda_matmul_run(engine, ip->forward, 1, cuda_input_data(engine, &ip->bottom),
                           cuda_param_data(engine, &ip->weight), 0, op->args.tops[0]->value.data,
                           cuda_param_data(engine, &ip->bias));
}

/* Floats of what backward saw, for those who send it. */
static int inner_product_make_factors(struct inner_product *ip, const void *bottom,
                                      const void *top_grad)
{
    cudaStream_t stream = ip->op.engine->stream;

    if (!ip->factor_bottom)
        return 0;
    if (cuda_check(kernel_transpose(stream, CUDA_BF16, bottom, CUDA_F32, ip->factor_bottom, 1, 1,
                                    (int)(ip->rows * ip->inputs), false)))
        return -1;
    return cuda_check(kernel_transpose(stream, CUDA_BF16, top_grad, CUDA_F32, ip->factor_top, 1, 1,
                                       (int)(ip->rows * ip->outputs), false));
}

static int inner_product_backward(struct cuda_op *op, const struct run *run)
{
    struct inner_product *ip = (struct inner_product *)op;
    struct cuda_engine *engine = op->engine;
    struct param *weight = op->args.params[0];
    struct param *bias = op->args.u.inner_product.bias ? op->args.params[1] : NULL;
    const void *top_grad = op->args.tops[0]->grad.data;
    const void *bottom = cuda_input_data(engine, &ip->bottom);
    bool transpose = op->args.u.inner_product.transpose;

    (void)run;
    /* the planner may turn factors on after the op was made: the flag is read now */
    if (weight->wants_grad && weight->factored && inner_product_make_factors(ip, bottom, top_grad))
        return -1;
    if (weight->wants_grad && !weight->factored &&
        cuda_matmul_run(engine, ip->back_weight, 1, transpose ? bottom : top_grad,
                        transpose ? top_grad : bottom, weight->accumulate ? 1 : 0, weight->grad,
                        NULL))
        return -1;
    if (bias && bias->wants_grad && !bias->factored &&
        cuda_bias_gradient(engine, engine->type, top_grad, (int)ip->rows, (int)ip->outputs, bias))
        return -1;
    if (!cuda_op_propagates(op, 0))
        return 0;
    if (cuda_matmul_run(engine, ip->back_data, 1, top_grad, cuda_param_data(engine, &ip->weight), 0,
                        cuda_output_data(engine, &ip->bottom_grad), NULL))
        return -1;
    return cuda_output_store(engine, &ip->bottom_grad);
}

static void inner_product_destroy(struct cuda_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;

    cuda_matmul_destroy(op->engine, ip->forward);
    cuda_matmul_destroy(op->engine, ip->back_data);
    cuda_matmul_destroy(op->engine, ip->back_weight);
    cuda_input_destroy(&ip->bottom);
    cuda_param_destroy(&ip->weight);
    cuda_param_destroy(&ip->bias);
    cuda_free(ip->factor_bottom);
    cuda_free(ip->factor_top);
}

void cuda_inner_product_factors(struct op *base, const float **bottom, const float **top_grad)
{
    struct inner_product *ip = (struct inner_product *)base;

    *bottom = ip->factor_bottom ? ip->factor_bottom : cuda_input_data(ip->op.engine, &ip->bottom);
    *top_grad = ip->factor_top ? ip->factor_top : ip->op.args.tops[0]->grad.data;
}

const struct cuda_kind cuda_inner_product = {
    .size = sizeof(struct inner_product),
    .create = inner_product_create,
    .forward = inner_product_forward,
    .backward = inner_product_backward,
    .destroy = inner_product_destroy,
};
