/* Matrix products by cuBLASLt. The library is column-major, and sees a row-major matrix as its
 * transpose: so C^T = op(B)^T op(A)^T, with the operands exchanged. A bias added to every row of C
 * is added to every column of C^T, as the library's epilogue does. */
#include "cuda_internal.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

struct cuda_matmul {
    struct cuda_matmul_shape shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c; /* the library's operands: a is our B */
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
    uint32_t alignment; /* operands' alignment that algo was chosen for, bytes */
    struct cuda_matmul *next;
};

/* Returns the largest power of two that divides all addresses, at most 256, which the library
 * assumes. A net's blobs and groups are aligned to 64 at least; factors from other ranks are
 * packed. */
static uint32_t matmul_alignment(const void *a, const void *b, const void *c)
{
    uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | 256;

    return (uint32_t)(bits & -bits);
}

static cudaDataType_t matmul_data_type(enum cuda_type type)
{
    return type == CUDA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasComputeType_t matmul_compute_type(const struct cuda_engine *engine,
                                               enum cuda_type type)
{
    return type == CUDA_F32 && engine->math != MATH_FP32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                         : CUBLAS_COMPUTE_32F;
}

static int matmul_describe(struct cuda_engine *engine, struct cuda_matmul *m)
{
    const struct cuda_libs *lib = &engine->libs;
    const struct cuda_matmul_shape *s = &m->shape;
    cublasOperation_t a = s->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = s->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = s->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType_t in = matmul_data_type(s->type), out = matmul_data_type(s->type_c);

    if (cublaslt_check(engine, lib->cublasLtMatmulDescCreate_(
                                   &m->desc, matmul_compute_type(engine, s->type), CUDA_R_32F)) ||
        cublaslt_check(engine, lib->cublasLtMatmulDescSetAttribute_(
                                   m->desc, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a)) ||
        cublaslt_check(engine, lib->cublasLtMatmulDescSetAttribute_(
                                   m->desc, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b)) ||
        cublaslt_check(engine,
                       lib->cublasLtMatmulDescSetAttribute_(m->desc, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                                            &epilogue, sizeof epilogue)))
        return -1;
    /* columns of C^T are rows of C: the library's m is our n */
    if (cublaslt_check(engine, lib->cublasLtMatrixLayoutCreate_(
                                   &m->a, in, (uint64_t)(s->trans_b ? s->k : s->n),
                                   (uint64_t)(s->trans_b ? s->n : s->k), s->ldb)) ||
        cublaslt_check(engine, lib->cublasLtMatrixLayoutCreate_(
                                   &m->b, in, (uint64_t)(s->trans_a ? s->m : s->k),
                                   (uint64_t)(s->trans_a ? s->k : s->m), s->lda)))
        return -1;
    return cublaslt_check(engine, lib->cublasLtMatrixLayoutCreate_(&m->c, out, (uint64_t)s->n,
                                                                   (uint64_t)s->m, s->ldc));
}

static bool matmul_same_shape(const struct cuda_matmul_shape *a, const struct cuda_matmul_shape *b)
{
    return a->trans_a == b->trans_a && a->trans_b == b->trans_b && a->m == b->m && a->n == b->n &&
           a->k == b->k && a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc &&
           a->type == b->type && a->type_c == b->type_c && a->bias == b->bias;
}

static int matmul_prefer_alignment(const struct cuda_engine *engine,
                                   cublasLtMatmulPreference_t preference, uint32_t alignment)
{
    static const cublasLtMatmulPreferenceAttributes_t operands[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};

    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        if (cublaslt_check(engine, engine->libs.cublasLtMatmulPreferenceSetAttribute_(
                                       preference, operands[i], &alignment, sizeof alignment)))
            return -1;
    return 0;
}

/* Takes the library's first choice; if engine->deterministic, the first whose bits repeat. */
static int matmul_choose(struct cuda_engine *engine, struct cuda_matmul *m, uint32_t alignment)
{
    const struct cuda_libs *lib = &engine->libs;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result;
    uint32_t no_split =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    uint64_t limit = engine->workspace;
    int found = 0, status = -1;

    memset(&result, 0, sizeof result);
    if (cublaslt_check(engine, lib->cublasLtMatmulPreferenceCreate_(&preference)) ||
        cublaslt_check(engine, lib->cublasLtMatmulPreferenceSetAttribute_(
                                   preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit,
                                   sizeof limit)) ||
        matmul_prefer_alignment(engine, preference, alignment))
        goto done;
    /* forbids split sums in place, which are added in the order of arrival */
    if (engine->deterministic &&
        cublaslt_check(engine, lib->cublasLtMatmulPreferenceSetAttribute_(
                                   preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                   &no_split, sizeof no_split)))
        goto done;
    if (cublaslt_check(engine, lib->cublasLtMatmulAlgoGetHeuristic_(engine->cublaslt, m->desc, m->a,
                                                                    m->b, m->c, m->c, preference, 1,
                                                                    &result, &found)))
        goto done;
    if (found == 0) {
        error_set("cuBLASLt has no algorithm for a product of %lld x %lld by %lld x %lld",
                  (long long)m->shape.m, (long long)m->shape.k, (long long)m->shape.k,
                  (long long)m->shape.n);
        goto done;
    }
    m->algo = result.algo;
    m->workspace = result.workspaceSize;
    m->alignment = alignment;
    status = cuda_work_reserve(engine, WORK_LIBRARY, m->workspace);
done:
    if (preference)
        lib->cublasLtMatmulPreferenceDestroy_(preference);
    return status;
}

static int matmul_create(struct cuda_engine *engine, const struct cuda_matmul_shape *shape,
                         uint32_t alignment, struct cuda_matmul **out)
{
    struct cuda_matmul *m = calloc(1, sizeof *m);

    *out = NULL;
    if (!m)
        return error_memory(sizeof *m, "a matrix product");
    m->shape = *shape;
    if (matmul_describe(engine, m) || matmul_choose(engine, m, alignment)) {
        cuda_matmul_destroy(engine, m);
        return -1;
    }
    *out = m;
    return 0;
}

int cuda_matmul_create(struct cuda_engine *engine, const struct cuda_matmul_shape *shape,
                       struct cuda_matmul **out)
{
    return matmul_create(engine, shape, CUDA_ALIGNMENT, out);
}

int cuda_matmul_run(struct cuda_engine *engine, struct cuda_matmul *m, float alpha, const void *a,
                    const void *b, float beta, void *c, const void *bias)
{
    const struct cuda_libs *lib = &engine->libs;
    const struct cuda_work *work = &engine->work[WORK_LIBRARY];
    uint32_t alignment = matmul_alignment(a, b, c);

    /* the kernel's wider loads would fault: choose again, once, before passes are recorded */
    if (alignment < m->alignment && matmul_choose(engine, m, alignment))
        return -1;
    if (bias &&
        cublaslt_check(engine, lib->cublasLtMatmulDescSetAttribute_(
                                   m->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias)))
        return -1;
    return cublaslt_check(engine, lib->cublasLtMatmul_(engine->cublaslt, m->desc, &alpha, b, m->a,
                                                       a, m->b, &beta, c, m->c, c, m->c, &m->algo,
                                                       work->data, m->workspace, engine->stream));
}

void cuda_matmul_destroy(struct cuda_engine *engine, struct cuda_matmul *m)
{
    if (!m)
        return;
    if (m->desc)
        engine->libs.cublasLtMatmulDescDestroy_(m->desc);
    if (m->a)
        engine->libs.cublasLtMatrixLayoutDestroy_(m->a);
    if (m->b)
        engine->libs.cublasLtMatrixLayoutDestroy_(m->b);
    if (m->c)
        engine->libs.cublasLtMatrixLayoutDestroy_(m->c);
    free(m);
}

/* Returns a kept product of that shape and alignment, or NULL. sync multiplies factors of few
 * shapes, and describing a product takes longer than a small product. */
static struct cuda_matmul *matmul_kept(const struct cuda_engine *engine,
                                       const struct cuda_matmul_shape *shape, uint32_t alignment)
{
    struct cuda_matmul *m = engine->products;

    while (m && (m->alignment != alignment || !matmul_same_shape(&m->shape, shape)))
        m = m->next;
    return m;
}

int cuda_gemm(void *context, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
              float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
              float *c, int64_t ldc)
{
    struct cuda_engine *engine = context;
    const struct cuda_matmul_shape shape = {.trans_a = trans_a,
                                            .trans_b = trans_b,
                                            .m = m,
                                            .n = n,
                                            .k = k,
                                            .lda = lda,
                                            .ldb = ldb,
                                            .ldc = ldc};
    uint32_t alignment = matmul_alignment(a, b, c);
    struct cuda_matmul *matmul = matmul_kept(engine, &shape, alignment);

    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    if (!matmul) {
        if (matmul_create(engine, &shape, alignment, &matmul))
            return -1;
        matmul->next = engine->products;
        engine->products = matmul;
    }
    return cuda_matmul_run(engine, matmul, alpha, a, b, beta, c, NULL);
}

void cuda_products_close(struct cuda_engine *engine)
{
    while (engine->products) {
        struct cuda_matmul *m = engine->products;
        engine->products = m->next;
        cuda_matmul_destroy(engine, m);
    }
}
