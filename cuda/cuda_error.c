/* Turns statuses of CUDA, cuDNN and cuBLASLt into messages. */
#include "cuda_internal.h"

#include "util/error.h"

int cuda_status(cudaError_t status, const char *call)
{
    if (status == cudaSuccess)
        return 0;
    cudaGetLastError(); /* clear the error where CUDA lets it be cleared */
    return error_set("CUDA: %s (%s) from %s", cudaGetErrorString(status), cudaGetErrorName(status),
                     call);
}

int cuda_cudnn_status(const struct cuda_engine *engine, cudnnStatus_t status, const char *call)
{
    char detail[512] = "";

    if (status == CUDNN_STATUS_SUCCESS)
        return 0;
    engine->libs.cudnnGetLastErrorString_(detail, sizeof detail);
    return error_set("cuDNN: %s from %s%s%s", engine->libs.cudnnGetErrorString_(status), call,
                     detail[0] ? ": " : "", detail);
}

int cuda_cublaslt_status(const struct cuda_engine *engine, cublasStatus_t status, const char *call)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return 0;
    return error_set("cuBLASLt: %s from %s", engine->libs.cublasLtGetStatusString_(status), call);
}
