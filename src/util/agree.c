/* Failing together: the lowest failing rank's message becomes everybody's. */
#include "util/agree.h"

#include "util/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
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
    if (nranks > 1) {
        MPI_TRY(MPI_Ibcast(message, MESSAGE_BYTES, MPI_CHAR, failing, comm, &request));
        MPI_TRY(patience_wait("MPI_Bcast", &request));
    }
    return error_set("%s", message);
fail:
    return -1;
}

int error_agree(MPI_Comm comm, int status)
{
    MPI_Request request;
    int rank = 0;

    MPI_Comm_rank(comm, &rank);
    /* least failing rank; 0 if even one rank did not fail */
    int mine[2] = {status ? rank : INT_MAX, status ? 1 : 0}, least[2] = {INT_MAX, 0};
    MPI_TRY(MPI_Iallreduce(mine, least, 2, MPI_INT, MPI_MIN, comm, &request));
    MPI_TRY(patience_wait("MPI_Allreduce", &request));
    return least[0] == INT_MAX ? 0 : spread(comm, least[0], !least[1]);
fail:
    return -1;
}
