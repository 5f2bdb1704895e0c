/* Failing together. Every function here is collective over its communicator. */
#ifndef POSEIDON_UTIL_AGREE_H
#define POSEIDON_UTIL_AGREE_H

#include <mpi.h>
#include <stddef.h>

#include "util/strbuf.h"
#include "util/watchdog.h"

/* All ranks give their status; all get 0 if every one was 0, else -1 with the same message set:
 * that of the lowest failing rank, prefixed "rank R (HOST): " unless all ranks failed: then it is
 * the input, not the rank. */
int error_agree(MPI_Comm comm, int status);

/* The same, and all lists of lines (util/agreement.h) are compared: where they differ, all fail
 * with one message, the first name that differs and which ranks have which value of it
 * ("base_lr differs: 0.01 on ranks 0, 1, 3; 0.1 on rank 2; ADVICE"). A list that lacks memory is a
 * failure. Costs no more than error_agree where all are the same. */
int agree_alike(MPI_Comm comm, int status, const struct strbuf *list, const char *advice);

/* Each of n values becomes the largest that any rank has. */
int agree_max(MPI_Comm comm, double *values, int n);

/* Rank 0's bytes become everybody's. */
int agree_share(MPI_Comm comm, void *bytes, size_t count);

/* Rank 0's text becomes everybody's, NULL included: memory of each rank's own, to be freed. *text
 * of other ranks is overwritten. Fails on all ranks together, but where MPI does. */
int agree_share_text(MPI_Comm comm, char **text);

/* Gathers `bytes` bytes of every rank, in the ranks' order: in *all on rank 0, to be freed; NULL
 * elsewhere. what: for whom memory is lacking. Fails as agree_share_text does. */
int agree_gather(MPI_Comm comm, const void *mine, size_t bytes, const char *what, void **all);

/* The same of texts, which all get the room of the longest one: *room bytes. */
int agree_gather_texts(MPI_Comm comm, const struct strbuf *text, const char *what, size_t *room,
                       void **all);

/* Text of an MPI error code as this thread's message: "CALL: TEXT". Returns -1. Not collective. */
int error_mpi(int code, const char *call);

/* The status of an MPI call, 0 or -1 with its text as the message: every call's is asked for
 * through this. MPI_CHECK returns -1 from the calling function where it failed, MPI_TRY goes to its
 * `fail`, where there is something to free. How long it lasts is watched (util/watchdog.h). */
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

/* Behind a call that was entered. */
static inline int agree_left(int code, const char *call)
{
    watchdog_leave();
    return code == MPI_SUCCESS ? 0 : error_mpi(code, call);
}

#endif
