/* Failing together: the lowest failing rank's message becomes everybody's. A comparison is no more
 * than that while nothing differs: digests travel with the status. */
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

/* The lists differ: the first name that does, and which ranks have which value of it. Up to that
 * line all ranks agree, so what a rank has there is well defined. */
static int tell_difference(MPI_Comm comm, const struct strbuf *list, const char *advice)
{
    struct {
        int begin, rank;
    } mine = {INT_MAX, 0}, first;
    char name[AGREEMENT_NAME] = "", value[AGREEMENT_VALUE], *root;
    void *values = NULL;
    int nranks;

    MPI_Comm_rank(comm, &mine.rank);
    MPI_Comm_size(comm, &nranks);
    root = mine.rank == 0 ? (char *)strbuf_text(list) : NULL;
    if (agree_share_text(comm, &root))
        return -1;
    mine.begin = agreement_find(root, strbuf_text(list), name);
    if (mine.rank != 0)
        free(root);
    if (MPI_STATUS(MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, comm)) ||
        MPI_STATUS(MPI_Bcast(name, AGREEMENT_NAME, MPI_CHAR, first.rank, comm)))
        return -1;
    assert(first.begin < INT_MAX);
    agreement_copy_value(strbuf_text(list) + first.begin, name, value);
    if (agree_gather(comm, value, sizeof value, "the ranks' values", &values))
        return -1;
    if (values)
        agreement_describe(name, values, nranks, advice);
    free(values);
    return spread(comm, 0, false);
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
    enum { RANK, ONE, DIGEST, INVERSE, WORDS };
    MPI_Request request;
    int rank = 0;

    MPI_Comm_rank(comm, &rank);
    if (list && strbuf_status(list))
        status = -1;
    /* the least of all ranks' words: the least failing rank; 0 if even one rank did not fail; and
     * the least and, inverted, the largest digest */
    uint64_t mine[WORDS] = {status ? (uint64_t)rank : INT_MAX, status ? 1 : 0,
                            list ? digest_of(list) : 0};
    uint64_t least[WORDS] = {INT_MAX};
    mine[INVERSE] = ~mine[DIGEST];
    if (MPI_STATUS(MPI_Iallreduce(mine, least, WORDS, MPI_UINT64_T, MPI_MIN, comm, &request)) ||
        MPI_STATUS(watchdog_wait("MPI_Allreduce", &request)))
        return -1;
    if (least[RANK] < INT_MAX)
        return spread(comm, (int)least[RANK], !least[ONE]);
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
