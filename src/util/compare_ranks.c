/* The comparison of what ranks were given: every rank looks for the first line in which its own
 * list departs from rank 0's. Up to the first of these lines all ranks agree, so what a rank has
 * there is well defined. */
#include "util/agreement.h"

#include "util/agree.h"

#include <limits.h>
#include <stdlib.h>

int agreement_check(MPI_Comm comm, const struct strbuf *list, const char *advice)
{
    struct {
        int line, rank;
    } mine, first;
    char name[AGREEMENT_NAME] = "", value[AGREEMENT_VALUE], *root;
    const char *at = "";
    void *values = NULL;
    int nranks, status = -1;

    MPI_Comm_rank(comm, &mine.rank);
    MPI_Comm_size(comm, &nranks);
    root = mine.rank == 0 ? (char *)strbuf_text(list) : NULL;
    if (error_agree(comm, strbuf_status(list)) || agree_share_text(comm, &root))
        goto fail;
    mine.line = agreement_find(root, strbuf_text(list), &at);
    MPI_TRY(MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, comm));
    status = first.line == INT_MAX ? 0 : -1;
    if (!status)
        goto fail;
    if (mine.rank == first.rank)
        agreement_copy_name(at, name);
    MPI_TRY(MPI_Bcast(name, AGREEMENT_NAME, MPI_CHAR, first.rank, comm));
    agreement_copy_value(strbuf_text(list), first.line, name, value);
    if (agree_gather(comm, value, sizeof value, "the ranks' values", &values))
        goto fail;
    if (mine.rank == 0)
        agreement_describe(name, values, nranks, advice);
    error_agree(comm, -1); /* rank 0's message, since all fail */
fail:
    if (mine.rank != 0)
        free(root);
    free(values);
    return status;
}
