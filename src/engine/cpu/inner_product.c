/* Inner product: three matrix products on plain memory, rows x K and rows x O.
 *
 * Plain, because its inputs are the sufficient factors that travel in place of the weight gradient.
 *
 * Forward with few rows is oneDNN's matmul where that has batch-reduced code: sgemm shares such a
 * product badly among threads (tests/bench/RESULTS.md). Of the shape and the library alone, so that
 * all ranks take the same. Backward passes gain nothing, nor do weights in a layout of their own,
 * which would have to be laid out again in every iteration. The bottom's gradient of fewer rows yet
 * reads the weights once, in order, ahead of what it computes: there sgemm waits for memory. */
#include "engine/cpu/cpu_internal.h"

#include "engine/op_size.h"

#include <stdio.h>
#include <string.h>

/* As many rows as were measured. */
enum { FEW_ROWS = 128 };

/* Of the bottom's gradient by streaming; outputs taken together; inputs of one vector, and at most
 * of what a thread goes through all outputs with. */
enum { STREAM_ROWS = 16, STREAM_OUTPUTS = 8, STREAM_LANES = 16, STREAM_INPUTS = 1024 };

typedef float lanes
    __attribute__((vector_size(STREAM_LANES * sizeof(float)), aligned(4), may_alias));

struct inner_product {
    struct cpu_op op;
    int64_t rows, inputs, outputs;
    struct cpu_primitive matmul; /* empty: sgemm */
    struct cpu_input bottom;     /* plain */
    struct cpu_output bottom_grad;
    bool streams; /* its values */
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
    const dnnl_dims_t src = {ip->rows, ip->inputs}, weights = {ip->inputs, ip->outputs},
                      bias = {1, ip->outputs}, dst = {ip->rows, ip->outputs};
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

static bool inner_product_streams(const struct inner_product *ip)
{
    int isa = (int)dnnl_get_effective_cpu_isa(), wide = (int)dnnl_cpu_isa_avx512_core;

    return (isa & wide) == wide && ip->rows <= STREAM_ROWS && ip->inputs % STREAM_LANES == 0 &&
           ip->outputs % STREAM_OUTPUTS == 0 && !ip->op.args.u.inner_product.transpose;
}

static int inner_product_create(struct cpu_op *op)
{
    struct inner_product *ip = (struct inner_product *)op;
    struct blob *bottom = op->args.bottoms[0], *top = op->args.tops[0];
    struct op_product size = op_inner_product_size(&op->args);

    ip->rows = size.rows;
    ip->inputs = size.inputs;
    ip->outputs = size.outputs;
    ip->streams = inner_product_streams(ip);
    cpu_top_set(top, NULL);
    if (cpu_input_create(op->engine, &bottom->value, NULL, WORK_OWN, &ip->bottom) ||
        (ip->rows <= FEW_ROWS && !op->args.u.inner_product.transpose && matmul_create(ip)))
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
    if (ip->matmul.primitive)
        return cpu_primitive_run(op->engine, &ip->matmul,
                                 (const void *const[]){cpu_input_data(op->engine, &ip->bottom),
                                                       weight, top,
                                                       bias ? op->args.params[1]->value : NULL});
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

/* dx += dy w for STREAM_OUTPUTS outputs and n inputs; dy has their gradients side by side, row
 * after row. next: the weights that the next call reads. */
CPU_KERNEL static void stream_outputs(const float *dy, int64_t rows, const float *w,
                                      const float *next, int64_t inputs, float *dx, int64_t n)
{
    for (int64_t k = 0; k < n; k += STREAM_LANES) {
        lanes v[STREAM_OUTPUTS];
#pragma GCC unroll 8
        for (int o = 0; o < STREAM_OUTPUTS; o++) {
            v[o] = *(const lanes *)(w + o * inputs + k);
            __builtin_prefetch(next + o * inputs + k);
        }
        for (int64_t r = 0; r < rows; r++) {
            const float *g = dy + r * STREAM_OUTPUTS;
            lanes *to = (lanes *)(dx + r * inputs + k);
            /* two sums: half as long to wait for */
            *to = (*to + g[0] * v[0] + g[1] * v[1] + g[2] * v[2] + g[3] * v[3]) +
                  (g[4] * v[4] + g[5] * v[5] + g[6] * v[6] + g[7] * v[7]);
        }
    }
}

/* dx = dy w. Every sum is made by one thread, in the order of outputs, whatever their number. */
static void inner_product_stream(const struct inner_product *ip, const float *dy, const float *w,
                                 float *dx)
{
    int64_t inputs = ip->inputs, outputs = ip->outputs;
    int64_t piece = inputs / ip->op.engine->threads / STREAM_LANES * STREAM_LANES;

    piece = piece < STREAM_LANES ? STREAM_LANES : piece > STREAM_INPUTS ? STREAM_INPUTS : piece;
#pragma omp parallel for
    for (int64_t k = 0; k < inputs; k += piece) {
        int64_t n = inputs - k < piece ? inputs - k : piece;
        for (int64_t r = 0; r < ip->rows; r++)
            memset(dx + r * inputs + k, 0, (size_t)n * sizeof *dx);
        for (int64_t o = 0; o < outputs; o += STREAM_OUTPUTS) {
            float g[STREAM_ROWS * STREAM_OUTPUTS];
            int64_t next = o + STREAM_OUTPUTS < outputs ? o + STREAM_OUTPUTS : o;
            for (int64_t r = 0; r < ip->rows; r++)
                memcpy(g + r * STREAM_OUTPUTS, dy + r * outputs + o, STREAM_OUTPUTS * sizeof *g);
            stream_outputs(g, ip->rows, w + o * inputs + k, w + next * inputs + k, inputs, dx + k,
                           n);
        }
    }
}

static int inner_product_bottom_backward(struct inner_product *ip, bool transpose, const float *dy)
{
    const float *w = ip->op.args.params[0]->value;
    float *dx = cpu_output_data(ip->op.engine, &ip->bottom_grad);

    if (ip->streams) {
        inner_product_stream(ip, dy, w, dx);
        return 0;
    }
    return cpu_gemm(false, transpose, ip->rows, ip->inputs, ip->outputs, 1, dy, ip->outputs, w,
                    transpose ? ip->outputs : ip->inputs, 0, dx, ip->inputs);
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
    if (((const struct inner_product *)op)->matmul.primitive)
        snprintf(words, ENGINE_OP_WORDS, "matmul forward");
}

const struct cpu_kind cpu_inner_product = {
    .size = sizeof(struct inner_product),
    .create = inner_product_create,
    .forward = inner_product_forward,
    .backward = inner_product_backward,
    .destroy = inner_product_destroy,
    .describe = inner_product_describe,
};
