/* One split and one gather. A machine's lowest rank names it until machines have numbers. */
#include "util/topology.h"

#include "util/agree.h"
#include "util/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Each rank's part of the gather. */
struct rank_record {
    int lowest; /* lowest rank of this rank's machine */
    char host[TOPOLOGY_HOST_BYTES];
};

static int find_lowest(MPI_Comm comm, int rank, int *lowest)
{
    MPI_Comm machine = MPI_COMM_NULL;

    *lowest = rank;
    return error_status(MPI_STATUS(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank,
                                                       MPI_INFO_NULL, &machine)) ||
                        MPI_STATUS(MPI_Bcast(lowest, 1, MPI_INT, 0, machine)) ||
                        MPI_STATUS(MPI_Comm_free(&machine)));
}

/* Numbers the machines in the order of their lowest ranks. ranks: scratch, ranks per machine. */
static void number_machines(struct topology *t, const struct rank_record *records, int *ranks)
{
    for (int r = 0; r < t->nranks; r++) {
        int lowest = records[r].lowest;
        assert(lowest >= 0 && lowest <= r);
        t->machine[r] = lowest == r ? t->nmachines++ : t->machine[lowest];
        if (r == t->rank)
            t->local_rank = ranks[t->machine[r]];
        if (++ranks[t->machine[r]] > t->most_ranks)
            t->most_ranks = ranks[t->machine[r]];
        memcpy(t->host[r], records[r].host, sizeof t->host[r]);
    }
    t->local_ranks = ranks[t->machine[t->rank]];
}

int topology_create(MPI_Comm comm, struct topology *out)
{
    struct rank_record mine = {.host = "?"}, *records = NULL;
    const char *what = "the ranks' machines";
    int *ranks = NULL, status;
    size_t n;

    *out = (struct topology){.nranks = 0};
    MPI_Comm_rank(comm, &out->rank);
    MPI_Comm_size(comm, &out->nranks);
    n = (size_t)out->nranks;
    if (gethostname(mine.host, sizeof mine.host - 1))
        strcpy(mine.host, "?");
    records = alloc_array(n, sizeof *records, what);
    ranks = alloc_array(n, sizeof *ranks, what);
    out->machine = alloc_array(n, sizeof *out->machine, what);
    out->host = alloc_array(n, sizeof *out->host, what);
    status = error_status(
        error_agree(comm, records && ranks && out->machine && out->host ? 0 : -1) ||
        error_agree(comm, find_lowest(comm, out->rank, &mine.lowest)) ||
        error_agree(comm, MPI_STATUS(MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, records,
                                                   (int)sizeof mine, MPI_BYTE, comm))));
    if (!status)
        number_machines(out, records, ranks);
    else
        topology_free(out);
    free(records);
    free(ranks);
    return status;
}

void topology_free(struct topology *topology)
{
    free(topology->machine);
    free(topology->host);
    *topology = (struct topology){.nranks = 0};
}
