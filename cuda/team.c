/* NCCL: the GPUs of one machine add up their data over NVLink or PCIe.
 *
 * NCCL's kernels run on the stream of copies from the host. So the update or fetch that needs a sum
 * comes after the sum, and the broadcast of a stored value after its store.
 *
 * NCCL chooses its order of summation: the same at every run on one machine, but unlike other
 * engines' order. */
#include "cuda_internal.h"
#include "nccl_functions.h"

#include "util/error.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(DEVICE_TEAM_ID >= NCCL_UNIQUE_ID_BYTES, "an identity of NCCL's");

struct cuda_team {
    struct nccl_functions nccl;
    ncclComm_t comm;
};

/* Returns 0, or -1 with the call's text in the message. */
#define nccl_check(team, call) nccl_status((team), (call), #call)

static int nccl_status(const struct cuda_team *team, ncclResult_t status, const char *call)
{
    const char *detail = status == ncclSuccess ? NULL : team->nccl.ncclGetLastError_(team->comm);

    return status == ncclSuccess
               ? 0
               : error_set("NCCL: %s from %s%s%s", team->nccl.ncclGetErrorString_(status), call,
                           detail && *detail ? ": " : "", detail ? detail : "");
}

static int library(char *words, size_t size)
{
    struct cuda_team team = {.comm = NULL};
    int version = 0, status;

    if (nccl_functions_open(&team.nccl))
        return -1;
    status = nccl_check(&team, team.nccl.ncclGetVersion_(&version));
    snprintf(words, size, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    nccl_functions_close(&team.nccl);
    return status;
}

void cuda_team_close(struct cuda_engine *engine)
{
    struct cuda_team *team = engine->team;

    if (!team)
        return;
    if (team->comm)
        team->nccl.ncclCommDestroy_(team->comm);
    nccl_functions_close(&team->nccl);
    free(team);
    engine->team = NULL;
}

/* Loads the library into a team that has no communicator yet, unless the engine has a team. */
static int load(struct cuda_engine *engine)
{
    if (engine->team)
        return 0;
    engine->team = calloc(1, sizeof *engine->team);
    if (!engine->team)
        return error_memory(sizeof *engine->team, "NCCL");
    return nccl_functions_open(&engine->team->nccl) || cuda_check(cudaSetDevice(engine->device))
               ? -1
               : 0;
}

static int identify(void *context, char id[DEVICE_TEAM_ID])
{
    struct cuda_engine *engine = context;
    ncclUniqueId unique;

    if (load(engine) || nccl_check(engine->team, engine->team->nccl.ncclGetUniqueId_(&unique)))
        return -1;
    memcpy(id, unique.internal, sizeof unique.internal);
    return 0;
}

static int reduce(void *context, float *x, size_t n, struct device_ticket *after)
{
    const struct cuda_engine *engine = context;
    const struct cuda_team *team = engine->team;

    assert(team);
    if (cuda_check(cudaSetDevice(engine->device)) || (after && cuda_store_after(engine, after)))
        return -1;
    return nccl_check(
        team, team->nccl.ncclReduce_(x, x, n, ncclFloat, ncclSum, 0, team->comm, engine->up));
}

static int broadcast(void *context, float *x, size_t n)
{
    const struct cuda_engine *engine = context;
    const struct cuda_team *team = engine->team;

    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    return nccl_check(team,
                      team->nccl.ncclBroadcast_(x, x, n, ncclFloat, 0, team->comm, engine->up));
}

/* Makes NCCL connect, by a trial sum and broadcast of ones: the first operation waits for all
 * ranks. Each operation has one algorithm only, so that no later call connects. */
static int add_ones(struct cuda_engine *engine, int nranks)
{
    float *x = (float *)engine->sums, sum = 1;

    if (cuda_check(cudaMemcpyAsync(x, &sum, sizeof sum, cudaMemcpyHostToDevice, engine->up)) ||
        reduce(engine, x, 1, NULL) || broadcast(engine, x, 1) ||
        cuda_check(cudaMemcpyAsync(&sum, x, sizeof sum, cudaMemcpyDeviceToHost, engine->up)) ||
        cuda_check(cudaStreamSynchronize(engine->up)))
        return -1;
    return sum == (float)nranks
               ? 0
               : error_set("NCCL: %d GPUs added up a 1 each and got %g", nranks, (double)sum);
}

static int team_open(void *context, const char id[DEVICE_TEAM_ID], int rank, int nranks)
{
    struct cuda_engine *engine = context;
    ncclUniqueId unique;

    memcpy(unique.internal, id, sizeof unique.internal);
    if (load(engine) || nccl_check(engine->team, engine->team->nccl.ncclCommInitRank_(
                                                     &engine->team->comm, nranks, unique, rank)))
        return -1;
    return add_ones(engine, nranks);
}

static int team_check(void *context)
{
    const struct cuda_engine *engine = context;
    const struct cuda_team *team = engine->team;
    ncclResult_t found = ncclSuccess;

    if (nccl_check(team, team->nccl.ncclCommGetAsyncError_(team->comm, &found)))
        return -1;
    return found == ncclInProgress ? 0 : nccl_status(team, found, "an operation under way");
}

static void team_abort(void *context)
{
    struct cuda_team *team = ((struct cuda_engine *)context)->team;

    team->nccl.ncclCommAbort_(team->comm);
    team->comm = NULL;
}

const struct device_team_i cuda_team = {
    .library = library,
    .identify = identify,
    .open = team_open,
    .reduce = reduce,
    .broadcast = broadcast,
    .check = team_check,
    .abort = team_abort,
};
