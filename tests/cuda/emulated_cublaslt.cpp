/* cuBLASLt in the part that cuda/ uses: plain loops, and a search that gives what it was told. Part
 * of emulation.cpp. */

struct matrix {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t ld;
};

struct product {
    int32_t trans_a, trans_b;
    uint32_t epilogue;
    const void *bias;
};

static float value_at(const struct matrix *m, const void *data, uint64_t row, uint64_t column)
{
    uint64_t at = column * (uint64_t)m->ld + row;

    return m->type == CUDA_R_16BF ? element(((const struct bf16 *)data)[at])
                                  : element(((const float *)data)[at]);
}

static void value_set(const struct matrix *m, void *data, uint64_t row, uint64_t column,
                      float value)
{
    uint64_t at = column * (uint64_t)m->ld + row;

    if (m->type == CUDA_R_16BF)
        element_set(&((struct bf16 *)data)[at], value);
    else
        element_set(&((float *)data)[at], value);
}

/* Row after row of C, each sum in the order of the inner index. */
static void multiply(struct product p, float alpha, const void *a, struct matrix ma, const void *b,
                     struct matrix mb, float beta, void *c, struct matrix mc)
{
    uint64_t inner = p.trans_a == CUBLAS_OP_T ? ma.rows : ma.columns, columns = mc.columns;
    struct matrix bias = {mc.type, mc.rows, 1, (int64_t)mc.rows};
    double *sums = (double *)malloc((1 + inner) * columns * sizeof *sums), *rows = sums + columns;

    for (uint64_t k = 0; k < inner; k++)
        for (uint64_t j = 0; j < columns; j++)
            rows[k * columns + j] =
                p.trans_b == CUBLAS_OP_T ? value_at(&mb, b, j, k) : value_at(&mb, b, k, j);
    for (uint64_t i = 0; i < mc.rows; i++) {
        memset(sums, 0, columns * sizeof *sums);
        for (uint64_t k = 0; k < inner; k++) {
            double left =
                p.trans_a == CUBLAS_OP_T ? value_at(&ma, a, k, i) : value_at(&ma, a, i, k);
            for (uint64_t j = 0; j < columns; j++)
                sums[j] += left * rows[k * columns + j];
        }
        for (uint64_t j = 0; j < columns; j++) {
            float value = alpha * (float)sums[j];
            if (beta != 0)
                value += beta * value_at(&mc, c, i, j);
            if (p.epilogue == CUBLASLT_EPILOGUE_BIAS)
                value += value_at(&bias, p.bias, i, 0);
            value_set(&mc, c, i, j, value);
        }
    }
    free(sums);
}

/* What a search was told: the library takes 256 for granted where it is told nothing. */
struct preference {
    uint64_t workspace;
    uint32_t alignment[4]; /* of A, B, C, D */
};

/* Kept in what the search gives. */
struct algorithm {
    uint64_t workspace;
    uint32_t alignment[4];
};

enum { PRODUCT_WORKSPACE = 4096, BIAS_ALIGNMENT = 16 };

static cublasStatus_t fake_search(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                  cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                  cublasLtMatrixLayout_t, cublasLtMatmulPreference_t preference_,
                                  int, cublasLtMatmulHeuristicResult_t *result, int *found)
{
    const struct preference *preference = (struct preference *)preference_;
    struct algorithm algorithm = {0, {0}};

    static_assert(sizeof algorithm <= sizeof result->algo, "an algorithm must fit");
    if (preference->workspace >= PRODUCT_WORKSPACE)
        algorithm.workspace = PRODUCT_WORKSPACE;
    memcpy(algorithm.alignment, preference->alignment, sizeof algorithm.alignment);
    memcpy(&result->algo, &algorithm, sizeof algorithm);
    result->workspaceSize = algorithm.workspace;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_prefer(cublasLtMatmulPreference_t preference_,
                                  cublasLtMatmulPreferenceAttributes_t name, const void *value,
                                  size_t size)
{
    struct preference *preference = (struct preference *)preference_;

    if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && size == sizeof preference->workspace)
        memcpy(&preference->workspace, value, size);
    else if (name >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
             name <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES && size == sizeof(uint32_t))
        memcpy(&preference->alignment[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
               size);
    else if (name != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_matmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha,
                                  const void *a, cublasLtMatrixLayout_t la, const void *b,
                                  cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                                  cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t ld,
                                  const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
                                  cudaStream_t stream)
{
    struct product p = *(struct product *)desc;
    struct matrix ma = *(struct matrix *)la, mb = *(struct matrix *)lb, md = *(struct matrix *)ld;
    float alpha_ = *(const float *)alpha, beta_ = *(const float *)beta;
    bool ta = p.trans_a == CUBLAS_OP_T, tb = p.trans_b == CUBLAS_OP_T;
    const void *operands[4] = {a, b, c, d};
    struct algorithm algorithm;

    if ((ta ? ma.columns : ma.rows) != md.rows || (tb ? mb.rows : mb.columns) != md.columns ||
        (ta ? ma.rows : ma.columns) != (tb ? mb.columns : mb.rows) || ma.ld < (int64_t)ma.rows ||
        mb.ld < (int64_t)mb.rows || md.ld < (int64_t)md.rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&algorithm, algo, sizeof algorithm);
    /* a GPU would fault, or load from elsewhere */
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)operands[i] % algorithm.alignment[i])
            return CUBLAS_STATUS_INVALID_VALUE;
    if (p.epilogue == CUBLASLT_EPILOGUE_BIAS && (uintptr_t)p.bias % BIAS_ALIGNMENT)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algorithm.workspace > 0 && (!workspace || bytes < algorithm.workspace))
        return CUBLAS_STATUS_INVALID_VALUE;
    emulated_later(stream, [=]() {
        if (algorithm.workspace > 0)
            memset(workspace, 0xFF, algorithm.workspace);
        multiply(p, alpha_, a, ma, b, mb, beta_, d, md);
    });
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_desc_set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                    const void *value, size_t size)
{
    struct product *p = (struct product *)desc;

    if (name == CUBLASLT_MATMUL_DESC_TRANSA)
        memcpy(&p->trans_a, value, size);
    else if (name == CUBLASLT_MATMUL_DESC_TRANSB)
        memcpy(&p->trans_b, value, size);
    else if (name == CUBLASLT_MATMUL_DESC_EPILOGUE)
        memcpy(&p->epilogue, value, size);
    else if (name == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
        memcpy(&p->bias, value, size);
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static void fake_cublaslt(struct cuda_libs *libs)
{
    libs->cublasLtCreate_ = [](cublasLtHandle_t *out) {
        *out = NULL;
        return CUBLAS_STATUS_SUCCESS;
    };
    libs->cublasLtDestroy_ = [](cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; };
    libs->cublasLtGetStatusString_ = [](cublasStatus_t) { return "an emulated status"; };
    libs->cublasLtMatmul_ = fake_matmul;
    libs->cublasLtMatmulAlgoGetHeuristic_ = fake_search;
    libs->cublasLtMatmulDescCreate_ = [](cublasLtMatmulDesc_t *out, cublasComputeType_t,
                                         cudaDataType_t) {
        *out = (cublasLtMatmulDesc_t)calloc(1, sizeof(struct product));
        return CUBLAS_STATUS_SUCCESS;
    };
    libs->cublasLtMatmulDescDestroy_ = [](cublasLtMatmulDesc_t desc) {
        free((void *)desc);
        return CUBLAS_STATUS_SUCCESS;
    };
    libs->cublasLtMatmulDescSetAttribute_ = fake_desc_set;
    libs->cublasLtMatrixLayoutCreate_ = [](cublasLtMatrixLayout_t *out, cudaDataType type,
                                           uint64_t rows, uint64_t columns, int64_t ld) {
        struct matrix *m = (struct matrix *)malloc(sizeof *m);
        *m = {type, rows, columns, ld};
        *out = (cublasLtMatrixLayout_t)m;
        return CUBLAS_STATUS_SUCCESS;
    };
    libs->cublasLtMatrixLayoutDestroy_ = [](cublasLtMatrixLayout_t layout) {
        free((void *)layout);
        return CUBLAS_STATUS_SUCCESS;
    };
    libs->cublasLtMatmulPreferenceCreate_ = [](cublasLtMatmulPreference_t *out) {
        struct preference *preference = (struct preference *)malloc(sizeof *preference);
        *preference = {0, {256, 256, 256, 256}};
        *out = (cublasLtMatmulPreference_t)preference;
        return CUBLAS_STATUS_SUCCESS;
    };
    libs->cublasLtMatmulPreferenceDestroy_ = [](cublasLtMatmulPreference_t preference) {
        free((void *)preference);
        return CUBLAS_STATUS_SUCCESS;
    };
    libs->cublasLtMatmulPreferenceSetAttribute_ = fake_prefer;
}
