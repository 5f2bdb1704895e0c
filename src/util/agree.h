/* Failing together. Every function here is collective over its communicator. */
#ifndef POSEIDON_UTIL_AGREE_H
#define POSEIDON_UTIL_AGREE_H

#include <mpi.h>

#include "util/patience.h"

/* All ranks give their status; all get 0 if every one was 0, else -1 with the same message set:
 * that of the lowest failing rank, prefixed "rank R (HOST): " unless all ranks failed: then it is
 * the input, not the rank. */
int error_agree(MPI_Comm comm, int status);

/* Text of an MPI error code as this thread's message: "CALL: TEXT". Returns -1. Not collective. */
int error_mpi(int code, const char *call);

/* Every MPI call's status is checked through this: fails the calling function's `goto fail`. How
 * long it lasts is watched (util/patience.h). */
#define MPI_TRY(call)                                                                              \
    do {                                                                                           \
        int mpi_code_;                                                                             \
        patience_enter(#call);                                                                     \
        mpi_code_ = (call);                                                                        \
        patience_leave();                                                                          \
        if (mpi_code_ != MPI_SUCCESS) {                                                            \
            error_mpi(mpi_code_, #call);                                                           \
            goto fail;                                                                             \
        }                                                                                          \
    } while (0)

#endif
