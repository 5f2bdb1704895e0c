/* Collective failure. Every function here is collective over its communicator but for error_mpi. */
#ifndef POSEIDON_UTIL_AGREE_H
#define POSEIDON_UTIL_AGREE_H

#include <mpi.h>
#include <stddef.h>

#include "util/strbuf.h"
#include "util/watchdog.h"

/* Returns 0 on all ranks if every rank's `status` is 0, else -1 with the lowest failing rank's
 * message on all ranks. "rank R (HOST): " precedes the message unless every rank failed: then the
 * input is at fault, not the rank. */
int error_agree(MPI_Comm comm, int status);

/* Agrees like error_agree, and compares the ranks' lists of lines (util/agreement.h). If lists
 * differ, all ranks fail with one message: the first name that differs and which ranks have which
 * value ("base_lr differs: 0.01 on ranks 0, 1, 3; 0.1 on rank 2; ADVICE"). A list that ran out of
 * memory is a failure. Comparing equal lists costs no more than error_agree. */
int agree_alike(MPI_Comm comm, int status, const struct strbuf *list, const char *advice);

/* Replaces each of n values by the maximum over all ranks. */
int agree_max(MPI_Comm comm, double *values, int n);

/* Copies rank 0's bytes to all ranks. */
int agree_share(MPI_Comm comm, void *bytes, size_t count);

/* Copies rank 0's text, which may be NULL, to all ranks. Overwrites *text on other ranks with
 * memory that the caller frees. Fails on all ranks together, unless MPI itself fails. */
int agree_share_text(MPI_Comm comm, char **text);

/* Gathers `bytes` bytes of every rank, in rank order. *all is NULL except on rank 0, whose caller
 * frees the memory. what: named if memory runs out. Fails like agree_share_text. */
int agree_gather(MPI_Comm comm, const void *mine, size_t bytes, const char *what, void **all);

/* Sets the message "CALL: TEXT" with the text of an MPI error code. Returns -1. Not collective. */
int error_mpi(int code, const char *call);

/* MPI_STATUS returns the status of an MPI call: 0, or -1 with the error's text as the message.
 * Every MPI call goes through MPI_STATUS, and util/watchdog.h watches how long the call lasts. On
 * failure MPI_CHECK returns -1 from the calling function, and MPI_TRY jumps to its label `fail`. */
#define MPI_STATUS(call) (watchdog_enter(#call), agree_left((call), #call))
#define MPI_CHECK(call)                                                                            \
    do {                                                                                           \
        if (MPI_STATUS(call))                                                                      \
            return -1;                                                                             \
    } while (0)
#define MPI_TRY(call)                                                                              \
    do {                                                                                           \
        if (MPI_STATUS(call))                                                                      \
            goto fail;                                                                             \
    } while (0)

/* Tells the watchdog that a call has returned, and returns the call's status. */
static inline int agree_left(int code, const char *call)
{
    watchdog_leave();
    return code == MPI_SUCCESS ? 0 : error_mpi(code, call);
}

#endif
