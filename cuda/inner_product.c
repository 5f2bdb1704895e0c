/* Inner product: three matrix products on plain memory, rows x K and rows x O; the forward product
 * adds the bias.
 *
 * In bfloat16 the parameter has a bfloat16 copy. Factors that travel in place of the weight
 * gradient are floats with every engine. In bfloat16, backward converts them where the weight is
 * factored. */
#include "cuda_internal.h"

#include "engine/op_size.h"
#include "util/error.h"

struct inner_product {
    struct cuda_op op;
    struct op_product size;
    struct cuda_matmul *forward, *back_data, *back_weight;
    struct cuda_param weight, bias;
    float *factor_bottom, *factor_top; /* with bfloat16 only */
};

static int inner_product_products(struct inner_product *ip)
{
    struct cuda_op *op = &ip->op;
    struct cuda_engine *engine = op->engine;
    const struct inner_product_args *a = &op->args.u.inner_product;
    int64_t k = ip->size.inputs, o = ip->size.outputs, rows = ip->size.rows;
    int64_t stride = a->transpose ? o : k;
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
    /* the gradient is float, as the parameter is */
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
    size_t rows = (size_t)ip->size.rows;

    if (cuda_param_create(op, op->args.params[0], false, "an inner product's weight",
                          &ip->weight) ||
        (op->args.u.inner_product.bias &&
         cuda_param_create(op, op->args.params[1], true, "an inner product's bias", &ip->bias)))
        return -1;
    if (op->engine->type == CUDA_F32 || !op->args.train || !op->args.params[0]->wants_grad)
        return 0;
    ip->factor_bottom =
        cuda_op_alloc(op, rows * (size_t)ip->size.inputs * sizeof(float), "sufficient factors");
    ip->factor_top =
        cuda_op_alloc(op, rows * (size_t)ip->size.outputs * sizeof(float), "sufficient factors");
    return ip->factor_bottom && ip->factor_top ? 0 : -1;
}

static int inner_product_create(struct cuda_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;

    ip->size = op_inner_product_size(&op->args);
    return error_status(inner_product_products(ip) || inner_product_copies(ip) ||
                        cuda_bias_reserve(op->engine, (int)ip->size.rows, (int)ip->size.outputs));
}

static int inner_product_forward(struct cuda_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;
    struct cuda_engine *engine = op->engine;

    if (cuda_param_load(engine, &ip->weight) || cuda_param_load(engine, &ip->bias))
        return -1;
    return cuda_matmul_run(engine, ip->forward, 1, cuda_op_x(op, 0),
                           cuda_param_data(engine, &ip->weight), 0, cuda_op_y(op),
                           cuda_param_data(engine, &ip->bias));
}

/* Converts what backward reads to floats, for ranks that send factors. */
static int inner_product_make_factors(struct inner_product *ip, const void *bottom,
                                      const void *top_grad)
{
    cudaStream_t stream = ip->op.engine->stream;

    if (!ip->factor_bottom)
        return 0;
    if (cuda_check(kernel_transpose(stream, CUDA_BF16, bottom, CUDA_F32, ip->factor_bottom, 1, 1,
                                    (int)(ip->size.rows * ip->size.inputs), false)))
        return -1;
    return cuda_check(kernel_transpose(stream, CUDA_BF16, top_grad, CUDA_F32, ip->factor_top, 1, 1,
                                       (int)(ip->size.rows * ip->size.outputs), false));
}

static int inner_product_backward(struct cuda_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;
    struct cuda_engine *engine = op->engine;
    struct param *weight = op->args.params[0];
    struct param *bias = op->args.u.inner_product.bias ? op->args.params[1] : NULL;
    const void *top_grad = cuda_op_dy(op), *bottom = cuda_op_x(op, 0);
    bool transpose = op->args.u.inner_product.transpose;

    /* the planner may choose factors after the operator was created: read the flag now */
    if (weight->wants_grad && weight->factored && inner_product_make_factors(ip, bottom, top_grad))
        return -1;
    if (weight->wants_grad && !weight->factored &&
        cuda_matmul_run(engine, ip->back_weight, 1, transpose ? bottom : top_grad,
                        transpose ? top_grad : bottom, weight->accumulate ? 1 : 0, weight->grad,
                        NULL))
        return -1;
    return bias && bias->wants_grad && !bias->factored
               ? cuda_bias_gradient(engine, engine->type, top_grad, (int)ip->size.rows,
                                    (int)ip->size.outputs, bias)
               : 0;
}

static int inner_product_gradient(struct cuda_op *op, int bottom, void *dx)
{
    struct inner_product *ip = (struct inner_product *)op;

    (void)bottom;
    return cuda_matmul_run(op->engine, ip->back_data, 1, cuda_op_dy(op),
                           cuda_param_data(op->engine, &ip->weight), 0, dx, NULL);
}

static void inner_product_destroy(struct cuda_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;

    cuda_matmul_destroy(op->engine, ip->forward);
    cuda_matmul_destroy(op->engine, ip->back_data);
    cuda_matmul_destroy(op->engine, ip->back_weight);
}

void cuda_inner_product_factors(struct op *base, const float **bottom, const float **top_grad)
{
    struct inner_product *ip = (struct inner_product *)base;

    *bottom = ip->factor_bottom ? ip->factor_bottom : cuda_op_x(&ip->op, 0);
    *top_grad = ip->factor_top ? ip->factor_top : cuda_op_dy(&ip->op);
}

const struct cuda_kind cuda_inner_product = {
    .size = sizeof(struct inner_product),
    .blobs = CUDA_PLAIN,
    .again = true,
    .create = inner_product_create,
    .forward = inner_product_forward,
    .backward = inner_product_backward,
    .gradient = inner_product_gradient,
    .destroy = inner_product_destroy,
};
