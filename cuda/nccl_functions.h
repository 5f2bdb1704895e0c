/* The functions of NCCL, loaded when a team is opened; libs.h has the same for cuDNN. */
#ifndef POSEIDON_CUDA_NCCL_FUNCTIONS_H
#define POSEIDON_CUDA_NCCL_FUNCTIONS_H

#include <nccl.h>

#define NCCL_FUNCTIONS(X)                                                                          \
    X(ncclGetVersion)                                                                              \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)                                                                            \
    X(ncclGetUniqueId)                                                                             \
    X(ncclCommInitRank)                                                                            \
    X(ncclCommDestroy)                                                                             \
    X(ncclCommAbort)                                                                               \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclReduce)                                                                                  \
    X(ncclBroadcast)

#define NCCL_FIELD(name) __typeof__(name) *name##_;

struct nccl_functions {
    void *library; /* handle of dlopen */
    NCCL_FUNCTIONS(NCCL_FIELD)
};

/* Fills the table. The message names the library or the function that is missing. */
int nccl_functions_open(struct nccl_functions *out);
void nccl_functions_close(struct nccl_functions *nccl);

#endif
