/* Failing together. Every function here is collective over its communicator. */
#ifndef POSEIDON_UTIL_AGREE_H
#define POSEIDON_UTIL_AGREE_H

#include <mpi.h>

/* All ranks give their status; all get 0 if every one was 0, else -1 with the same message set:
 * that of the lowest failing rank, prefixed "rank R (HOST): " unless all ranks failed: then it is
 * the input, not the rank. */
int error_agree(MPI_Comm comm, int status);

/* The second half alone, when the ranks know already that `failing` is the lowest one that failed:
 * spreads its message and sets it everywhere. Returns -1. Collective. */
int error_spread(MPI_Comm comm, int failing);

/* Text of an MPI error code as this thread's message: "CALL: TEXT". Returns -1. Not collective. */
int error_mpi(int code, const char *call);

/* Every MPI call's status is checked through this: fails the calling function's `goto fail`. */
#define MPI_TRY(call)                                                                              \
    do {                                                                                           \
        int mpi_code_ = (call);                                                                    \
        if (mpi_code_ != MPI_SUCCESS) {                                                            \
            error_mpi(mpi_code_, #call);                                                           \
            goto fail;                                                                             \
        }                                                                                          \
    } while (0)

#endif
