/* cuDNN and cuBLASLt, loaded when the engine is opened. The program runs without these libraries,
 * and reports a missing one only to users of this engine. The CUDA run time itself is linked in. */
#ifndef POSEIDON_CUDA_LIBS_H
#define POSEIDON_CUDA_LIBS_H

#include <cublasLt.h>
#include <cudnn.h>
#include <stdbool.h>

#define CUDNN_FUNCTIONS(X)                                                                         \
    X(cudnnCreate)                                                                                 \
    X(cudnnDestroy)                                                                                \
    X(cudnnSetStream)                                                                              \
    X(cudnnGetVersion)                                                                             \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnGetLastErrorString)                                                                     \
    X(cudnnBackendCreateDescriptor)                                                                \
    X(cudnnBackendDestroyDescriptor)                                                               \
    X(cudnnBackendSetAttribute)                                                                    \
    X(cudnnBackendGetAttribute)                                                                    \
    X(cudnnBackendFinalize)                                                                        \
    X(cudnnBackendExecute)

#define CUBLASLT_FUNCTIONS(X)                                                                      \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtGetStatusString)                                                                     \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)                                                                 \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)

#define CUDA_LIBS_FIELD(name) __typeof__(name) *name##_;

struct cuda_libs {
    void *cudnn, *cublaslt; /* handles of dlopen */
    CUDNN_FUNCTIONS(CUDA_LIBS_FIELD)
    CUBLASLT_FUNCTIONS(CUDA_LIBS_FIELD)
};

/* Fills the table, with cuDNN if dnn. The message names the library or the function that is
 * missing. */
int cuda_libs_open(struct cuda_libs *out, bool dnn);
void cuda_libs_close(struct cuda_libs *libs);

#endif
