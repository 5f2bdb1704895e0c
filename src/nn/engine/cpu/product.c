/* Chooses the way in which a matrix product is computed.
 *
 * sgemm works everywhere, but shares products with a transposed second factor badly among threads.
 * oneDNN's matmul shares them well where it has batch-reduced code. Products of few rows are as
 * fast as the weights can be read (stream.c). The shape decides, so that every run and every rank
 * gives the same bits (times: tests/bench/RESULTS.md). Where bits may not depend on the threads,
 * matmul is not used: it cuts the inner sum by the number of threads. cpu_gemm then shares out
 * blocks of the result. Weights have no layout of their own here: reordering them in every
 * iteration takes longer than it saves. Where the processor multiplies bfloat16, --math=bf16 rounds
 * the operands for matmul, but not for products of few rows: rounding all weights in memory takes
 * longer than AMX saves. */
#include "engine/cpu/product.h"

#include "util/error.h"

#include <string.h>

static void product_start(struct cpu_engine *engine, const struct product_args *args,
                          struct product *out)
{
    const struct op_product *size = &args->size;
    bool transpose = args->transpose;

    *out = (struct product){.engine = engine, .args = *args, .way = PRODUCT_SGEMM};
    switch (args->pass) {
    case PRODUCT_FORWARD:
        out->m = size->rows, out->n = size->outputs, out->k = size->inputs;
        out->trans_b = !transpose;
        break;
    case PRODUCT_DATA:
        out->m = size->rows, out->n = size->inputs, out->k = size->outputs;
        out->trans_b = transpose;
        break;
    default:
        out->m = transpose ? size->inputs : size->outputs;
        out->n = transpose ? size->outputs : size->inputs;
        out->k = size->rows;
        out->trans_a = true;
    }
}

/* ---- the ways ---- */

static bool streams(const struct product *p)
{
    return p->args.pass != PRODUCT_WEIGHTS && !p->args.transpose && cpu_stream_fits(&p->args.size);
}

static int run_stream(const struct product *p, const float *a, const float *b, const float *bias,
                      float *c)
{
    if (p->args.pass == PRODUCT_FORWARD)
        cpu_stream_forward(&p->args.size, a, b, bias, c);
    else
        cpu_stream_data(&p->args.size, p->engine->threads, a, b, c);
    return 0;
}

static int run_sgemm(const struct product *p, const float *a, const float *b, const float *bias,
                     bool add, float *c)
{
    if (bias) {
#pragma omp parallel for if (p->m * p->n > 16384)
        for (int64_t r = 0; r < p->m; r++)
            memcpy(c + r * p->n, bias, (size_t)p->n * sizeof *c);
    }
    return cpu_gemm(p->engine, p->trans_a, p->trans_b, p->m, p->n, p->k, 1, a,
                    p->trans_a ? p->m : p->k, b, p->trans_b ? p->k : p->n, add || bias ? 1 : 0, c,
                    p->n);
}

static int matmul_args(struct product *p, struct owner *owner, const_dnnl_primitive_desc_t desc,
                       struct cpu_primitive *out)
{
    static const struct {
        int arg, index;
        dnnl_query_t query;
    } args[] = {{DNNL_ARG_SRC, 0, dnnl_query_src_md},
                {DNNL_ARG_WEIGHTS, 0, dnnl_query_weights_md},
                {DNNL_ARG_DST, 0, dnnl_query_dst_md},
                {DNNL_ARG_BIAS, 1, dnnl_query_weights_md}};

    if (cpu_primitive_create(p->engine, owner, desc, out))
        return -1;
    for (int i = 0; i < (p->args.bias ? 4 : 3); i++)
        if (cpu_primitive_arg(p->engine, out, args[i].arg,
                              dnnl_primitive_desc_query_md(desc, args[i].query, args[i].index)))
            return -1;
    return 0;
}

/* Returns true if the code is batch-reduced: neither sgemm again nor a general fall-back. */
static bool is_batch_reduced(const_dnnl_primitive_desc_t desc)
{
    const char *name = "";

    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           strncmp(name, "brg", 3) == 0;
}

/* Creates a matmul; leaves it empty where oneDNN has no code of its own for floats. */
static int matmul_create(struct product *p, struct owner *owner, const_dnnl_primitive_attr_t attr,
                         struct cpu_primitive *out)
{
    const dnnl_data_type_t type = p->rounds ? dnnl_bf16 : dnnl_f32;
    const dnnl_dims_t src = {p->m, p->k}, weights = {p->k, p->n}, bias = {1, p->n},
                      dst = {p->m, p->n};
    md_t src_md = NULL, weights_md = NULL, bias_md = NULL, dst_md = NULL;
    dnnl_primitive_desc_t desc = NULL;
    int status = -1;

    if (cpu_check(md_create_tag(&src_md, 2, src, type, p->trans_a ? dnnl_ba : dnnl_ab)) ||
        cpu_check(md_create_tag(&weights_md, 2, weights, type, p->trans_b ? dnnl_ba : dnnl_ab)) ||
        cpu_check(md_create_tag(&dst_md, 2, dst, p->args.half ? dnnl_bf16 : dnnl_f32, dnnl_ab)) ||
        (p->args.bias && cpu_check(md_create_tag(&bias_md, 2, bias, dnnl_f32, dnnl_ab))))
        goto done;
    status = 0;
    if (compat_matmul(&desc, p->engine->engine, src_md, weights_md, bias_md, dst_md, attr) ==
            dnnl_success &&
        (p->rounds || is_batch_reduced(desc)))
        status = matmul_args(p, owner, desc, out);
done:
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    md_destroy(src_md);
    md_destroy(weights_md);
    md_destroy(bias_md);
    md_destroy(dst_md);
    return status;
}

/* Creates the matmul that adds to c. */
static int adding_create(struct product *p, struct owner *owner)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    int status = -1;

    if (cpu_check(dnnl_primitive_attr_clone(&attr, p->engine->attr)) ||
        cpu_check(dnnl_post_ops_create(&ops)) || cpu_check(compat_append_sum(ops)) ||
        cpu_check(dnnl_primitive_attr_set_post_ops(attr, ops)))
        goto done;
    status = matmul_create(p, owner, attr, &p->adds);
done:
    if (ops)
        dnnl_post_ops_destroy(ops);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return status;
}

static int run_as(struct product *p, enum product_way way, const float *a, const float *b,
                  const float *bias, float *c)
{
    switch (way) {
    case PRODUCT_MATMUL:
        return cpu_primitive_run(p->engine, &p->matmul, (const void *const[]){a, b, c, bias});
    case PRODUCT_STREAM:
        return run_stream(p, a, b, bias, c);
    default:
        return run_sgemm(p, a, b, bias, false, c);
    }
}

int product_run_rounded(struct product *p, const void *a, const void *b, const float *bias,
                        bool add, void *c)
{
    return cpu_primitive_run(p->engine, add ? &p->adds : &p->matmul,
                             (const void *const[]){a, b, c, bias});
}

int product_run(struct product *p, const float *a, const float *b, const float *bias, bool add,
                float *c)
{
    const size_t a_elems = (size_t)(p->m * p->k), b_elems = (size_t)(p->k * p->n);

    if (p->rounds)
        return product_run_rounded(p, cpu_round(p->engine, WORK_ROUNDED_X, a, a_elems),
                                   cpu_round(p->engine, WORK_ROUNDED_DY, b, b_elems), bias, add, c);
    return add ? run_sgemm(p, a, b, NULL, true, c) : run_as(p, p->way, a, b, bias, c);
}

/* ---- which way ---- */

static enum product_way way_by_shape(const struct product *p)
{
    if (streams(p) &&
        (p->args.pass == PRODUCT_DATA || p->args.size.rows >= CPU_STREAM_FORWARD_ROWS))
        return PRODUCT_STREAM;
    return p->trans_b && !p->engine->options.steady ? PRODUCT_MATMUL : PRODUCT_SGEMM;
}

int product_create_rounded(struct cpu_engine *engine, struct owner *owner,
                           const struct product_args *args, struct product *out)
{
    product_start(engine, args, out);
    out->way = PRODUCT_MATMUL;
    out->rounds = true;
    if (matmul_create(out, owner, engine->attr, &out->matmul))
        return -1;
    return out->matmul.primitive ? 0 : error_set("oneDNN has no bfloat16 product of this shape");
}

int product_create(struct cpu_engine *engine, struct owner *owner, const struct product_args *args,
                   enum product_way way, struct product *out)
{
    product_start(engine, args, out);
    if (cpu_rounds(engine) && (args->transpose || !cpu_stream_fits(&args->size)))
        return error_status(
            cpu_round_reserve(engine, (size_t)(out->m * out->k), (size_t)(out->k * out->n), 0) ||
            product_create_rounded(engine, owner, args, out) ||
            (args->pass == PRODUCT_WEIGHTS && adding_create(out, owner)));
    if (way == PRODUCT_BY_SHAPE)
        way = way_by_shape(out);
    if (way == PRODUCT_MATMUL && matmul_create(out, owner, engine->attr, &out->matmul))
        return -1;
    if (way == PRODUCT_MATMUL ? out->matmul.primitive != NULL
                              : way == PRODUCT_STREAM && streams(out))
        out->way = way;
    return 0;
}

int cpu_multiply_bf16(struct cpu_engine *engine, int size, const float *a, const float *b, float *c)
{
    const struct product_args args = {.pass = PRODUCT_WEIGHTS, .size = {size, size, size}};
    struct owner owner = {0};
    struct product p;
    int status = product_create_rounded(engine, &owner, &args, &p) ||
                 product_run_rounded(&p, a, b, NULL, false, c);

    owner_free(&owner);
    return status ? -1 : 0;
}

const char *product_way_name(enum product_way way)
{
    static const char *const names[PRODUCT_WAYS] = {"sgemm", "matmul", "streaming"};

    return names[way];
}
