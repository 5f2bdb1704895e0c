/* Inner product: three matrix products (product.h) on plain memory, rows x K and rows x O.
 *
 * Memory is plain because the products' inputs are the sufficient factors, which travel in place of
 * the weight gradient. */
#include "engine/cpu/product.h"
#include "util/strbuf.h"

#include <stdio.h>
#include <string.h>

struct inner_product {
    struct cpu_op op;
    struct op_product size;
    struct product products[PRODUCT_PASSES];
    bool has[PRODUCT_PASSES];
};

static int product_of(struct inner_product *ip, enum product_pass pass)
{
    const struct op_args *args = &ip->op.args;
    const struct product_args product = {.pass = pass,
                                         .size = ip->size,
                                         .transpose = args->u.inner_product.transpose,
                                         .bias =
                                             pass == PRODUCT_FORWARD && args->u.inner_product.bias};

    ip->has[pass] = true;
    return product_create(ip->op.engine, &ip->op.owner, &product, PRODUCT_BY_SHAPE,
                          &ip->products[pass]);
}

static int inner_product_create(struct cpu_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;

    ip->size = op_inner_product_size(&op->args);
    if (op->engine->options.steady &&
        cpu_work_reserve(
            op->engine, WORK_SCRATCHPAD,
            cpu_sum_products_bytes(op->engine, op->engine->options.passes * ip->size.rows)))
        return -1;
    if (product_of(ip, PRODUCT_FORWARD) ||
        (op->args.train && op->args.params[0]->wants_grad && product_of(ip, PRODUCT_WEIGHTS)))
        return -1;
    return cpu_op_propagates(op, 0) ? product_of(ip, PRODUCT_DATA) : 0;
}

static int inner_product_forward(struct cpu_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;

    return product_run(&ip->products[PRODUCT_FORWARD], cpu_op_x(op, 0), op->args.params[0]->value,
                       op->args.u.inner_product.bias ? op->args.params[1]->value : NULL, false,
                       cpu_op_y(op));
}

/* Sums a strip of columns. Rows are added in one order, whatever the number of threads. */
CPU_KERNEL static void inner_product_bias_strip(const float *top_grad, int64_t rows, int64_t stride,
                                                int64_t n, bool add, float *restrict grad)
{
    if (!add)
        memset(grad, 0, (size_t)n * sizeof *grad);
    for (int64_t r = 0; r < rows; r++) {
        const float *restrict row = top_grad + r * stride;
#pragma omp simd
        for (int64_t o = 0; o < n; o++)
            grad[o] += row[o];
    }
}

static void inner_product_bias_backward(const struct inner_product *ip, struct param *bias,
                                        const float *top_grad)
{
    const int64_t strip = 256;

#pragma omp parallel for if (ip->size.rows * ip->size.outputs > 16384)
    for (int64_t o = 0; o < ip->size.outputs; o += strip) {
        int64_t n = ip->size.outputs - o < strip ? ip->size.outputs - o : strip;
        inner_product_bias_strip(top_grad + o, ip->size.rows, ip->size.outputs, n, bias->accumulate,
                                 bias->grad + o);
    }
}

static int inner_product_weight_backward(struct inner_product *ip, struct param *weight,
                                         const float *bottom, const float *top_grad)
{
    bool transpose = ip->op.args.u.inner_product.transpose;

    return product_run(&ip->products[PRODUCT_WEIGHTS], transpose ? bottom : top_grad,
                       transpose ? top_grad : bottom, NULL, weight->accumulate, weight->grad);
}

static int inner_product_backward(struct cpu_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;
    struct param *weight = op->args.params[0];
    struct param *bias = op->args.u.inner_product.bias ? op->args.params[1] : NULL;
    const float *top_grad = cpu_op_dy(op);

    /* factored is read here: the planner may set it after the op was created */
    if (weight->wants_grad && !weight->factored &&
        inner_product_weight_backward(ip, weight, cpu_op_x(op, 0), top_grad))
        return -1;
    if (bias && bias->wants_grad && !bias->factored)
        inner_product_bias_backward(ip, bias, top_grad);
    return 0;
}

static int inner_product_gradient(struct cpu_op *op, int bottom, float *dx)
{
    struct inner_product *ip = (struct inner_product *)op;

    (void)bottom;
    return product_run(&ip->products[PRODUCT_DATA], cpu_op_dy(op), op->args.params[0]->value, NULL,
                       false, dx);
}

void cpu_inner_product_factors(struct op *base, const float **bottom, const float **top_grad)
{
    const struct cpu_op *op = (const struct cpu_op *)base;

    *bottom = cpu_op_x(op, 0);
    *top_grad = cpu_op_dy(op);
}

/* Writes the passes that sgemm does not run, such as "matmul forward weights, streaming data". */
static void inner_product_describe(const struct cpu_op *op, char words[ENGINE_OP_WORDS])
{
    static const char *const names[PRODUCT_PASSES] = {"forward", "data", "weights"};
    const struct inner_product *ip = (const struct inner_product *)op;

    for (int way = PRODUCT_SGEMM + 1; way < PRODUCT_WAYS; way++)
        for (int pass = 0, first = 1; pass < PRODUCT_PASSES; pass++) {
            if (!ip->has[pass] || (int)ip->products[pass].way != way)
                continue;
            buffer_printf(words, ENGINE_OP_WORDS, "%s%s %s", *words && first ? ", " : "",
                          first ? product_way_name((enum product_way)way) : "", names[pass]);
            first = 0;
        }
}

const struct cpu_kind cpu_inner_product = {
    .size = sizeof(struct inner_product),
    .blobs = CPU_PLAIN_AGAIN,
    .create = inner_product_create,
    .forward = inner_product_forward,
    .backward = inner_product_backward,
    .gradient = inner_product_gradient,
    .describe = inner_product_describe,
};
