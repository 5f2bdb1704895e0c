/* The comparison of what ranks were given. The one trick: only a hash travels. Where hashes differ,
 * rank 0's whole list is broadcast and every rank looks for the first line in which its own departs
 * from it; up to the first of these lines all ranks agree, so what a rank has there is well
 * defined. */
#include "solver/agreement.h"

#include "util/agree.h"
#include "util/error.h"
#include "util/sha256.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_BYTES = 32 };

/* Some rank differs: which, and in what. Collective; returns -1. */
static int explain(MPI_Comm comm, const struct strbuf *list)
{
    struct {
        int line, rank;
    } mine, first;
    char name[AGREEMENT_NAME] = "", value[AGREEMENT_VALUE], *root = NULL;
    void *values = NULL;
    const char *at = "";
    int nranks;

    MPI_TRY(MPI_Comm_rank(comm, &mine.rank));
    MPI_TRY(MPI_Comm_size(comm, &nranks));
    if (mine.rank == 0)
        root = strdup(strbuf_text(list));
    if (error_agree(comm,
                    mine.rank == 0 && !root ? error_memory(list->length, "the comparison") : 0) ||
        agree_share_text(comm, &root))
        goto fail;
    mine.line = agreement_find(root, strbuf_text(list), &at);
    MPI_TRY(MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, comm));
    if (mine.rank == first.rank)
        agreement_copy_name(at, name);
    MPI_TRY(MPI_Bcast(name, AGREEMENT_NAME, MPI_CHAR, first.rank, comm));
    agreement_copy_value(strbuf_text(list), first.line, name, value);
    if (agree_gather(comm, value, sizeof value, "the ranks' values", &values))
        goto fail;
    if (mine.rank == 0)
        agreement_describe(name, values, nranks);
    error_agree(comm, -1); /* rank 0's message, since all fail */
fail:
    free(root);
    free(values);
    return -1;
}

int agreement_check(MPI_Comm comm, const struct strbuf *list)
{
    unsigned char mine[HASH_BYTES], root[HASH_BYTES];
    struct sha256 hash;
    int differs, any = 0;

    if (error_agree(comm, strbuf_status(list)))
        return -1;
    sha256_init(&hash);
    sha256_update(&hash, strbuf_text(list), list->length);
    sha256_final(&hash, mine);
    memcpy(root, mine, sizeof root);
    MPI_TRY(MPI_Bcast(root, HASH_BYTES, MPI_BYTE, 0, comm));
    differs = memcmp(mine, root, sizeof root) != 0;
    MPI_TRY(MPI_Allreduce(&differs, &any, 1, MPI_INT, MPI_MAX, comm));
    return any ? explain(comm, list) : 0;
fail:
    return -1;
}
