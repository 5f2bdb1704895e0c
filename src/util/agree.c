/* Failing together: the lowest failing rank's message becomes everybody's. */
#include "util/agree.h"

#include "util/alloc.h"

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES 4096

int error_mpi(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;

    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof text, "MPI error %d", code);
    return error_set("%s: %s", call, text);
}

/* The failing rank's message for everybody; `alone`: its name belongs to it. */
static int spread(MPI_Comm comm, int failing, bool alone)
{
    char message[MESSAGE_BYTES] = "";
    MPI_Request request;
    int rank = 0, nranks = 1;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    if (rank == failing) {
        char host[MPI_MAX_PROCESSOR_NAME] = "?";
        int length = 0;
        MPI_Get_processor_name(host, &length);
        if (nranks > 1 && alone)
            snprintf(message, sizeof message, "rank %d (%s): %s", rank, host, error_text());
        else
            snprintf(message, sizeof message, "%s", error_text());
    }
    if (nranks > 1 &&
        (MPI_STATUS(MPI_Ibcast(message, MESSAGE_BYTES, MPI_CHAR, failing, comm, &request)) ||
         MPI_STATUS(watchdog_wait("MPI_Bcast", &request))))
        return -1;
    return error_set("%s", message);
}

int error_agree(MPI_Comm comm, int status)
{
    MPI_Request request;
    int rank = 0;

    MPI_Comm_rank(comm, &rank);
    /* least failing rank; 0 if even one rank did not fail */
    int mine[2] = {status ? rank : INT_MAX, status ? 1 : 0}, least[2] = {INT_MAX, 0};
    if (MPI_STATUS(MPI_Iallreduce(mine, least, 2, MPI_INT, MPI_MIN, comm, &request)) ||
        MPI_STATUS(watchdog_wait("MPI_Allreduce", &request)))
        return -1;
    return least[0] == INT_MAX ? 0 : spread(comm, least[0], !least[1]);
}

int agree_max(MPI_Comm comm, double *values, int n)
{
    return MPI_STATUS(MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_MAX, comm));
}

int agree_share(MPI_Comm comm, void *bytes, size_t count)
{
    const size_t most = (size_t)1 << 30; /* MPI counts by int */
    int status = 0;

    for (char *at = bytes; count > 0 && !status; at += most) {
        size_t part = count < most ? count : most;
        status = MPI_STATUS(MPI_Bcast(at, (int)part, MPI_BYTE, 0, comm));
        count -= part;
    }
    return status;
}

int agree_share_text(MPI_Comm comm, char **text)
{
    uint64_t bytes; /* its end included; 0: there is none */
    int rank = 0;

    MPI_Comm_rank(comm, &rank);
    if (rank != 0)
        *text = NULL;
    bytes = *text ? strlen(*text) + 1 : 0;
    if (agree_share(comm, &bytes, sizeof bytes))
        return -1;
    if (rank != 0 && bytes > 0)
        *text = alloc_array((size_t)bytes, 1, "what rank 0 has");
    if (error_agree(comm, bytes > 0 && !*text ? -1 : 0))
        return -1;
    return agree_share(comm, *text, (size_t)bytes);
}

int agree_gather(MPI_Comm comm, const void *mine, size_t bytes, const char *what, void **all)
{
    int rank = 0, nranks = 1;

    assert(bytes <= INT_MAX);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    *all = rank == 0 ? alloc_array((size_t)nranks, bytes, what) : NULL;
    if (error_agree(comm, rank == 0 && !*all ? -1 : 0))
        return -1;
    if (!MPI_STATUS(MPI_Gather(mine, (int)bytes, MPI_BYTE, *all, (int)bytes, MPI_BYTE, 0, comm)))
        return 0;
    free(*all);
    *all = NULL;
    return -1;
}
