/* Inner product: three matrix products on plain memory, rows x K and rows x O.
 *
 * Plain, because its inputs are the sufficient factors that travel in place of the weight gradient.
 */
#include "engine/cpu/cpu_internal.h"

#include "engine/op_size.h"

#include <string.h>

struct inner_product {
    struct cpu_op op;
    int64_t rows, inputs, outputs;
    struct cpu_input bottom; /* plain */
    struct cpu_output bottom_grad;
};

static int inner_product_create(struct cpu_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;
    struct blob *bottom = op->args.bottoms[0], *top = op->args.tops[0];
    struct op_product size = op_inner_product_size(&op->args);

    ip->rows = size.rows;
    ip->inputs = size.inputs;
    ip->outputs = size.outputs;
    cpu_top_set(top, NULL);
    if (cpu_input_create(op->engine, &bottom->value, NULL, WORK_OWN, &ip->bottom))
        return -1;
    if (!cpu_op_propagates(op, 0))
        return 0;
    return cpu_output_create(op->engine, &bottom->grad, NULL, WORK_BOTTOM_GRAD, &ip->bottom_grad);
}

static int inner_product_forward(struct cpu_op *op, const struct run *run)
{
    struct inner_product *ip = (struct inner_product *)op;
    bool transpose = op->args.u.inner_product.transpose, bias = op->args.u.inner_product.bias;
    const float *weight = op->args.params[0]->value;
    float *top = op->args.tops[0]->value.data;

    (void)run;
    if (cpu_input_load(op->engine, &ip->bottom))
        return -1;
    if (bias) {
        const float *from = op->args.params[1]->value;
#pragma omp parallel for if (ip->rows * ip->outputs > 16384)
        for (int64_t r = 0; r < ip->rows; r++)
            memcpy(top + r * ip->outputs, from, (size_t)ip->outputs * sizeof *top);
    }
    return cpu_gemm(false, !transpose, ip->rows, ip->outputs, ip->inputs, 1,
                    cpu_input_data(op->engine, &ip->bottom), ip->inputs, weight,
                    transpose ? ip->outputs : ip->inputs, bias ? 1 : 0, top, ip->outputs);
}

/* Column sums, a strip of columns at a time: the order of rows is fixed whatever the threads. */
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

#pragma omp parallel for if (ip->rows * ip->outputs > 16384)
    for (int64_t o = 0; o < ip->outputs; o += strip) {
        int64_t n = ip->outputs - o < strip ? ip->outputs - o : strip;
        inner_product_bias_strip(top_grad + o, ip->rows, ip->outputs, n, bias->accumulate,
                                 bias->grad + o);
    }
}

static int inner_product_weight_backward(const struct inner_product *ip, struct param *weight,
                                         bool transpose, const float *bottom, const float *top_grad)
{
    float beta = weight->accumulate ? 1 : 0;

    if (transpose)
        return cpu_gemm(true, false, ip->inputs, ip->outputs, ip->rows, 1, bottom, ip->inputs,
                        top_grad, ip->outputs, beta, weight->grad, ip->outputs);
    return cpu_gemm(true, false, ip->outputs, ip->inputs, ip->rows, 1, top_grad, ip->outputs,
                    bottom, ip->inputs, beta, weight->grad, ip->inputs);
}

static int inner_product_backward(struct cpu_op *op, const struct run *run)
{
    struct inner_product *ip = (struct inner_product *)op;
    bool transpose = op->args.u.inner_product.transpose;
    struct param *weight = op->args.params[0];
    struct param *bias = op->args.u.inner_product.bias ? op->args.params[1] : NULL;
    const float *top_grad = op->args.tops[0]->grad.data;
    const float *bottom = cpu_input_data(op->engine, &ip->bottom);

    (void)run;
    /* the planner may turn factors on after the op was made: the flag is read now */
    if (weight->wants_grad && !weight->factored &&
        inner_product_weight_backward(ip, weight, transpose, bottom, top_grad))
        return -1;
    if (bias && bias->wants_grad && !bias->factored)
        inner_product_bias_backward(ip, bias, top_grad);
    if (!ip->bottom_grad.tensor || !cpu_op_propagates(op, 0))
        return 0;
    if (cpu_gemm(false, transpose, ip->rows, ip->inputs, ip->outputs, 1, top_grad, ip->outputs,
                 weight->value, transpose ? ip->outputs : ip->inputs, 0,
                 cpu_output_data(op->engine, &ip->bottom_grad), ip->inputs))
        return -1;
    return cpu_output_store(op->engine, &ip->bottom_grad);
}

static void inner_product_destroy(struct cpu_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;

    cpu_input_destroy(&ip->bottom);
    cpu_output_destroy(&ip->bottom_grad);
}

void cpu_inner_product_factors(struct op *base, const float **bottom, const float **top_grad)
{
    struct inner_product *ip = (struct inner_product *)base;

    *bottom = cpu_input_data(ip->op.engine, &ip->bottom);
    *top_grad = ip->op.args.tops[0]->grad.data;
}

const struct cpu_kind cpu_inner_product = {
    .size = sizeof(struct inner_product),
    .create = inner_product_create,
    .forward = inner_product_forward,
    .backward = inner_product_backward,
    .destroy = inner_product_destroy,
};
