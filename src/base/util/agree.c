/* Collective failure: the lowest failing rank's message becomes every rank's message. The trick:
 * digests of compared lists travel with the status, so equal lists cost no extra call. */
#include "util/agree.h"

#include "util/agreement.h"
#include "util/alloc.h"
#include "util/sha256.h"

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

/* Broadcasts in pieces: MPI counts are ints, and some transports fail on very large messages. */
static int broadcast(MPI_Comm comm, int root, void *bytes, size_t count)
{
    enum { PIECE = 1 << 26 };
    MPI_Request request;

    for (size_t at = 0; at < count; at += PIECE) {
        size_t n = count - at < PIECE ? count - at : PIECE;
        MPI_CHECK(MPI_Ibcast((char *)bytes + at, (int)n, MPI_BYTE, root, comm, &request));
        MPI_CHECK(watchdog_wait("MPI_Bcast", &request));
    }
    return 0;
}

/* Sets the failing rank's message on all ranks. alone: prefixes the rank and its host. */
static int spread(MPI_Comm comm, int failing, bool alone)
{
    char message[MESSAGE_BYTES] = "";
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
    if (nranks > 1 && broadcast(comm, failing, message, MESSAGE_BYTES))
        return -1;
    return error_set("%s", message);
}

/* Gathers the lists and sets the message that names their first difference. */
static int tell_difference(MPI_Comm comm, const struct strbuf *list, const char *advice)
{
    double room = (double)list->length + 1; /* length of the longest list with its NUL */
    void *lists = NULL;
    char *mine;
    int nranks, status;

    MPI_Comm_size(comm, &nranks);
    if (agree_max(comm, &room, 1))
        return -1;
    mine = alloc_array((size_t)room, 1, "a list of settings");
    if (mine)
        memcpy(mine, strbuf_text(list), list->length);
    status = error_agree(comm, mine ? 0 : -1) ||
             agree_gather(comm, mine, (size_t)room, "the ranks' lists", &lists);
    if (!status && lists)
        agreement_describe(lists, (size_t)room, nranks, advice);
    free(mine);
    free(lists);
    return status ? -1 : spread(comm, 0, false);
}

static uint64_t digest_of(const struct strbuf *list)
{
    unsigned char digest[32];
    struct sha256 hash;
    uint64_t word;

    sha256_init(&hash);
    sha256_update(&hash, strbuf_text(list), list->length);
    sha256_final(&hash, digest);
    memcpy(&word, digest, sizeof word);
    return word;
}

int agree_alike(MPI_Comm comm, int status, const struct strbuf *list, const char *advice)
{
    enum { RANK, ALL_FAILED, DIGEST, INVERSE, WORDS };
    MPI_Request request;
    int rank = 0;

    MPI_Comm_rank(comm, &rank);
    if (list && strbuf_status(list))
        status = -1;
    /* Each word becomes its minimum over all ranks: the lowest failing rank; 0 if any rank
     * succeeded; the lowest digest; the inverse of the highest digest. */
    uint64_t mine[WORDS] = {status ? (uint64_t)rank : INT_MAX, status ? 1 : 0,
                            list ? digest_of(list) : 0};
    uint64_t least[WORDS] = {INT_MAX};
    mine[INVERSE] = ~mine[DIGEST];
    if (MPI_STATUS(MPI_Iallreduce(mine, least, WORDS, MPI_UINT64_T, MPI_MIN, comm, &request)) ||
        MPI_STATUS(watchdog_wait("MPI_Allreduce", &request)))
        return -1;
    if (least[RANK] < INT_MAX)
        return spread(comm, (int)least[RANK], !least[ALL_FAILED]);
    return least[DIGEST] == ~least[INVERSE] ? 0 : tell_difference(comm, list, advice);
}

int error_agree(MPI_Comm comm, int status)
{
    return agree_alike(comm, status, NULL, NULL);
}

int agree_max(MPI_Comm comm, double *values, int n)
{
    return MPI_STATUS(MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_MAX, comm));
}

int agree_share(MPI_Comm comm, void *bytes, size_t count)
{
    return broadcast(comm, 0, bytes, count);
}

int agree_share_text(MPI_Comm comm, char **text)
{
    uint64_t bytes; /* length of *text with its NUL; 0 if rank 0's text is NULL */
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
