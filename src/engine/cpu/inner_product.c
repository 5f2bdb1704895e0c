/* Inner product: three matrix products on plain memory, rows x K and rows x O.
 *
 * Plain, because its inputs are the sufficient factors that travel in place of the weight gradient.
 *
 * Forward of 13 to 16 rows and the bottom's gradient of at most 16 read the weights once, in order,
 * ahead of what is computed (stream.c). Forward of others up to 128 is oneDNN's matmul where that
 * has batch-reduced code: sgemm shares such a product badly among threads (tests/bench/RESULTS.md).
 * Of the shape, the processor and the library alone, so that all ranks take the same. Elsewhere
 * sgemm is as fast, and weights in a layout of their own would have to be laid out again in every
 * iteration. */
#include "engine/cpu/cpu_internal.h"

#include <stdio.h>
#include <string.h>

/* As many rows as were measured. */
enum { FEW_ROWS = 128 };

struct inner_product {
    struct cpu_op op;
    struct op_product size;
    struct cpu_primitive matmul; /* empty: sgemm */
    struct cpu_input bottom;     /* plain */
    struct cpu_output bottom_grad;
    bool streams, streams_forward; /* the bottom's gradient; the values */
};

static int matmul_arg(struct inner_product *ip, const_dnnl_primitive_desc_t desc, int arg,
                      dnnl_query_t query, int index)
{
    return cpu_primitive_arg(ip->op.engine, &ip->matmul, arg,
                             dnnl_primitive_desc_query_md(desc, query, index));
}

static int matmul_args(struct inner_product *ip, const_dnnl_primitive_desc_t desc)
{
    if (cpu_primitive_create(ip->op.engine, desc, &ip->matmul) ||
        matmul_arg(ip, desc, DNNL_ARG_SRC, dnnl_query_src_md, 0) ||
        matmul_arg(ip, desc, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0) ||
        matmul_arg(ip, desc, DNNL_ARG_DST, dnnl_query_dst_md, 0))
        return -1;
    return ip->op.args.u.inner_product.bias
               ? matmul_arg(ip, desc, DNNL_ARG_BIAS, dnnl_query_weights_md, 1)
               : 0;
}

/* Whether it is neither sgemm once more nor a general fall-back. */
static bool is_batch_reduced(const_dnnl_primitive_desc_t desc)
{
    const char *name = "";

    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           strncmp(name, "brg", 3) == 0;
}

static int matmul_create(struct inner_product *ip)
{
    const dnnl_dims_t src = {ip->size.rows, ip->size.inputs},
                      weights = {ip->size.inputs, ip->size.outputs}, bias = {1, ip->size.outputs},
                      dst = {ip->size.rows, ip->size.outputs};
    md_t src_md = NULL, weights_md = NULL, bias_md = NULL, dst_md = NULL;
    dnnl_primitive_desc_t desc = NULL;
    int status = -1;

    if (cpu_check(md_create_tag(&src_md, 2, src, dnnl_ab)) ||
        cpu_check(md_create_tag(&weights_md, 2, weights, dnnl_ba)) ||
        cpu_check(md_create_tag(&dst_md, 2, dst, dnnl_ab)) ||
        (ip->op.args.u.inner_product.bias && cpu_check(md_create_tag(&bias_md, 2, bias, dnnl_ab))))
        goto done;
    status = 0;
    if (compat_matmul(&desc, ip->op.engine->engine, src_md, weights_md, bias_md, dst_md,
                      ip->op.engine->attr) == dnnl_success &&
        is_batch_reduced(desc))
        status = matmul_args(ip, desc);
done:
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    md_destroy(src_md);
    md_destroy(weights_md);
    md_destroy(bias_md);
    md_destroy(dst_md);
    return status;
}

static int inner_product_create(struct cpu_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;
    struct blob *bottom = op->args.bottoms[0], *top = op->args.tops[0];

    ip->size = op_inner_product_size(&op->args);
    ip->streams = !op->args.u.inner_product.transpose && cpu_stream_fits(&ip->size);
    ip->streams_forward = ip->streams && ip->size.rows >= CPU_STREAM_FORWARD_ROWS;
    cpu_top_set(top, NULL);
    if (cpu_input_create(op->engine, &bottom->value, NULL, WORK_OWN, &ip->bottom) ||
        (ip->size.rows <= FEW_ROWS && !ip->streams_forward && !op->args.u.inner_product.transpose &&
         matmul_create(ip)))
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
    if (ip->streams_forward) {
        cpu_stream_forward(&ip->size, cpu_input_data(op->engine, &ip->bottom), weight,
                           bias ? op->args.params[1]->value : NULL, top);
        return 0;
    }
    if (ip->matmul.primitive)
        return cpu_primitive_run(op->engine, &ip->matmul,
                                 (const void *const[]){cpu_input_data(op->engine, &ip->bottom),
                                                       weight, top,
                                                       bias ? op->args.params[1]->value : NULL});
    if (bias) {
        const float *from = op->args.params[1]->value;
#pragma omp parallel for if (ip->size.rows * ip->size.outputs > 16384)
        for (int64_t r = 0; r < ip->size.rows; r++)
            memcpy(top + r * ip->size.outputs, from, (size_t)ip->size.outputs * sizeof *top);
    }
    return cpu_gemm(false, !transpose, ip->size.rows, ip->size.outputs, ip->size.inputs, 1,
                    cpu_input_data(op->engine, &ip->bottom), ip->size.inputs, weight,
                    transpose ? ip->size.outputs : ip->size.inputs, bias ? 1 : 0, top,
                    ip->size.outputs);
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

#pragma omp parallel for if (ip->size.rows * ip->size.outputs > 16384)
    for (int64_t o = 0; o < ip->size.outputs; o += strip) {
        int64_t n = ip->size.outputs - o < strip ? ip->size.outputs - o : strip;
        inner_product_bias_strip(top_grad + o, ip->size.rows, ip->size.outputs, n, bias->accumulate,
                                 bias->grad + o);
    }
}

static int inner_product_weight_backward(const struct inner_product *ip, struct param *weight,
                                         bool transpose, const float *bottom, const float *top_grad)
{
    float beta = weight->accumulate ? 1 : 0;

    if (transpose)
        return cpu_gemm(true, false, ip->size.inputs, ip->size.outputs, ip->size.rows, 1, bottom,
                        ip->size.inputs, top_grad, ip->size.outputs, beta, weight->grad,
                        ip->size.outputs);
    return cpu_gemm(true, false, ip->size.outputs, ip->size.inputs, ip->size.rows, 1, top_grad,
                    ip->size.outputs, bottom, ip->size.inputs, beta, weight->grad, ip->size.inputs);
}

static int inner_product_bottom_backward(struct inner_product *ip, bool transpose, const float *dy)
{
    const float *w = ip->op.args.params[0]->value;
    float *dx = cpu_output_data(ip->op.engine, &ip->bottom_grad);

    if (ip->streams) {
        cpu_stream_data(&ip->size, ip->op.engine->threads, dy, w, dx);
        return 0;
    }
    return cpu_gemm(false, transpose, ip->size.rows, ip->size.inputs, ip->size.outputs, 1, dy,
                    ip->size.outputs, w, transpose ? ip->size.outputs : ip->size.inputs, 0, dx,
                    ip->size.inputs);
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
    if (inner_product_bottom_backward(ip, transpose, top_grad))
        return -1;
    return cpu_output_store(op->engine, &ip->bottom_grad);
}

static void inner_product_destroy(struct cpu_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;

    cpu_primitive_destroy(&ip->matmul);
    cpu_input_destroy(&ip->bottom);
    cpu_output_destroy(&ip->bottom_grad);
}

void cpu_inner_product_factors(struct op *base, const float **bottom, const float **top_grad)
{
    struct inner_product *ip = (struct inner_product *)base;

    *bottom = cpu_input_data(ip->op.engine, &ip->bottom);
    *top_grad = ip->op.args.tops[0]->grad.data;
}

static void inner_product_describe(const struct cpu_op *op, char words[ENGINE_OP_WORDS])
{
    const struct inner_product *ip = (const struct inner_product *)op;

    if (ip->streams_forward || ip->matmul.primitive)
        snprintf(words, ENGINE_OP_WORDS, "%s forward",
                 ip->streams_forward ? "streaming" : "matmul");
}

const struct cpu_kind cpu_inner_product = {
    .size = sizeof(struct inner_product),
    .create = inner_product_create,
    .forward = inner_product_forward,
    .backward = inner_product_backward,
    .destroy = inner_product_destroy,
    .describe = inner_product_describe,
};
