/* A sync's communicators, and the steps of all ranks before the wire's thread starts: comparing
 * plans, and sharing rank 0's parameters. */
#include "sync/sync_internal.h"

#include "util/agreement.h"

#include <inttypes.h>
#include <string.h>

int sync_compare_plans(struct sync *sync)
{
    struct strbuf list = {0};
    int status;

    agreement_put(&list, "the plan of messages", "%016" PRIx64,
                  plan_digest(sync->plan, (uint64_t)sync->options.staleness));
    status = agree_alike(sync->all, 0, &list, "are all layers' shapes the same there?");
    strbuf_free(&list);
    return status;
}

enum { COMMUNICATORS = 4 };

static void list_communicators(struct sync *sync, MPI_Comm *out[COMMUNICATORS])
{
    MPI_Comm *all[COMMUNICATORS] = {&sync->data, &sync->control, &sync->sums, &sync->all};

    memcpy(out, all, sizeof all);
}

/* True if this rank is the home of any chunk that trains. */
static bool serves(const struct sync *sync)
{
    for (int c = 0; c < sync->plan->nchunks; c++)
        if (is_home(sync, c) && bucket_of(sync, chunk_of(sync, c)->bucket)->trains)
            return true;
    return false;
}

int sync_split(struct sync *sync, MPI_Comm world)
{
    bool controls = sync_drops(sync) ? serves(sync) : sync->leads;
    const int color[COMMUNICATORS] = {0, controls ? 0 : MPI_UNDEFINED,
                                      sync->worker ? 0 : MPI_UNDEFINED, 0};
    MPI_Comm *comms[COMMUNICATORS];

    list_communicators(sync, comms);
    for (int i = 0; i < COMMUNICATORS; i++) {
        MPI_CHECK(MPI_Comm_split(world, color[i], sync->world_rank, comms[i]));
        if (*comms[i] != MPI_COMM_NULL)
            MPI_CHECK(MPI_Comm_set_errhandler(*comms[i], MPI_ERRORS_RETURN));
    }
    return 0;
}

void sync_free_communicators(struct sync *sync)
{
    MPI_Comm *comms[COMMUNICATORS];

    list_communicators(sync, comms);
    for (int i = 0; i < COMMUNICATORS; i++)
        if (*comms[i] != MPI_COMM_NULL)
            MPI_Comm_free(comms[i]);
}

/* ---- rank 0's parameters ---- */

/* Shares rank 0's parameters. Ranks of a node (not a team) train from one arena: one of them takes
 * part, and all wait until the node's arena is in place. */
static int share_values(struct sync *sync)
{
    const struct node *node = sync->options.node;
    bool shared = node_shares_memory(node), takes = !shared || node->rank == 0;
    MPI_Comm comm;

    MPI_CHECK(MPI_Comm_split(sync->all, takes ? 0 : MPI_UNDEFINED, sync->world_rank, &comm));
    if (takes) {
        MPI_CHECK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
        if (agree_share(comm, sync->values, sync->model.elems * sizeof(float)))
            return -1;
        MPI_CHECK(MPI_Comm_free(&comm));
    }
    if (shared)
        MPI_CHECK(MPI_Barrier(node->comm));
    return 0;
}

int sync_share_values(struct sync *sync)
{
    return error_agree(sync->all, share_values(sync));
}
