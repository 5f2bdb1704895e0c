/* NCCL between the emulated GPUs of several processes; the last part of emulation.cpp. An operation
 * is one more piece of work in its stream. When it is run, all ranks meet in shared memory, so it
 * runs no earlier than any rank's stream allows; and since streams are worked off late, a thread of
 * every rank works its stream off as far as another rank has come, and no further. Ranks that ask
 * for different operations are told so and aborted.
 *
 * POSEIDON_EMULATED_NCCL: "missing": there is no library; "broken N": an error comes up after N
 * operations. POSEIDON_EMULATED_TEAM: what the names of files in /dev/shm begin with. */
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>

extern "C" {
#include "../../cuda/nccl_functions.h"
#include "util/error.h"
}

enum { TEAM_RANKS = 8, TEAM_FLOATS = 1 << 20 };

struct team_rank {
    uint64_t arrived, finished; /* operations, counted from 1 */
    uint64_t kind, count;       /* of the one that it arrived at */
    float data[TEAM_FLOATS];
};

struct team_shared {
    int joined;
    struct team_rank rank[TEAM_RANKS];
};

struct ncclComm {
    struct team_shared *shared;
    int rank, nranks;
    uint64_t issued;
    cudaStream_t stream;
    pthread_t helper;
    int stop;    /* the helper */
    int aborted; /* operations do nothing any more */
};

static uint64_t load(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

/* Whether a counter of all ranks is there. */
static bool all_at(const struct ncclComm *comm, uint64_t team_rank::*counter, uint64_t target)
{
    for (int r = 0; r < comm->nranks; r++)
        if (load(&(comm->shared->rank[r].*counter)) < target)
            return false;
    return true;
}

/* Number i of all ranks, along the fixed tree over them (device/tree_sum.h): NCCL promises no
 * order, and so one node gives the bits of ranks that exchange messages. */
static float sum_at(const struct team_rank *rank, int nranks, uint64_t i)
{
    float sum[TEAM_RANKS];

    for (int r = 0; r < nranks; r++)
        sum[r] = rank[r].data[i];
    for (int step = 1; step < nranks; step *= 2)
        for (int r = 0; r + step < nranks; r += 2 * step)
            sum[r] += sum[r + step];
    return sum[0];
}

enum { TEAM_REDUCE = 1, TEAM_BROADCAST };

static bool work_off(ncclComm_t comm, uint64_t kind, float *x, uint64_t count, uint64_t number)
{
    struct team_rank *rank = comm->shared->rank, *mine = &rank[comm->rank];

    if (__atomic_load_n(&comm->aborted, __ATOMIC_ACQUIRE))
        return true;
    if (mine->arrived < number) {
        if (!all_at(comm, &team_rank::finished, number - 1)) /* they may still read */
            return false;
        mine->kind = kind;
        mine->count = count;
        if (kind == TEAM_REDUCE || comm->rank == 0)
            memcpy(mine->data, x, count * sizeof(float));
        __atomic_store_n(&mine->arrived, number, __ATOMIC_RELEASE);
    }
    if (!all_at(comm, &team_rank::arrived, number))
        return false;
    if (kind != rank[0].kind || count != rank[0].count) {
        fprintf(stderr,
                "emulated NCCL: operation %llu is %llu of %llu at rank %d, and %llu of %llu at "
                "rank 0\n",
                (unsigned long long)number, (unsigned long long)kind, (unsigned long long)count,
                comm->rank, (unsigned long long)rank[0].kind, (unsigned long long)rank[0].count);
        abort();
    }
    if (kind == TEAM_BROADCAST)
        memcpy(x, rank[0].data, count * sizeof(float));
    for (uint64_t i = 0; kind == TEAM_REDUCE && comm->rank == 0 && i < count; i++)
        x[i] = sum_at(rank, comm->nranks, i);
    __atomic_store_n(&mine->finished, number, __ATOMIC_RELEASE);
    return true;
}

static void *help(void *argument)
{
    ncclComm_t comm = (ncclComm_t)argument;
    const struct team_rank *rank = comm->shared->rank;

    while (!__atomic_load_n(&comm->stop, __ATOMIC_ACQUIRE)) {
        uint64_t wanted = 0;
        for (int r = 0; r < comm->nranks; r++)
            if (load(&rank[r].arrived) > wanted)
                wanted = load(&rank[r].arrived);
        pthread_mutex_lock(&lock);
        while (rank[comm->rank].finished < wanted && comm->stream && comm->stream->first &&
               run_first(comm->stream))
            ;
        pthread_mutex_unlock(&lock);
        usleep(200);
    }
    return NULL;
}

static ncclResult_t issue(uint64_t kind, void *x, size_t count, ncclComm_t comm,
                          cudaStream_t stream)
{
    if (count > TEAM_FLOATS)
        return ncclInvalidArgument;
    pthread_mutex_lock(&lock);
    uint64_t number = ++comm->issued;
    comm->stream = stream;
    emulated_later(stream, [=]() { return work_off(comm, kind, (float *)x, count, number); });
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

static ncclResult_t join_team(ncclComm_t *out, int nranks, ncclUniqueId id, int rank)
{
    ncclComm_t comm = (ncclComm_t)calloc(1, sizeof *comm);
    int file = shm_open(id.internal, O_RDWR | O_CREAT, 0600);

    if (nranks > TEAM_RANKS || file < 0 || ftruncate(file, sizeof *comm->shared))
        return ncclSystemError;
    void *memory = mmap(NULL, sizeof *comm->shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    comm->shared = (struct team_shared *)memory;
    comm->rank = rank;
    comm->nranks = nranks;
    __atomic_add_fetch(&comm->shared->joined, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&comm->shared->joined, __ATOMIC_ACQUIRE) < nranks)
        usleep(100);
    if (rank == 0)
        shm_unlink(id.internal);
    pthread_create(&comm->helper, NULL, help, comm);
    *out = comm;
    return ncclSuccess;
}

static void leave(ncclComm_t comm)
{
    __atomic_store_n(&comm->stop, 1, __ATOMIC_RELEASE);
    pthread_join(comm->helper, NULL);
}

extern "C" {

int nccl_functions_open(struct nccl_functions *nccl)
{
    const char *how = getenv("POSEIDON_EMULATED_NCCL");

    memset(nccl, 0, sizeof *nccl);
    if (how && !strcmp(how, "missing"))
        return error_set("the library libnccl.so.2 is missing (emulated)");
    nccl->ncclGetVersion_ = [](int *version) {
        *version = NCCL_VERSION_CODE;
        return ncclSuccess;
    };
    nccl->ncclGetErrorString_ = [](ncclResult_t) { return "an emulated status"; };
    nccl->ncclGetLastError_ = [](ncclComm_t) { return ""; };
    nccl->ncclGetUniqueId_ = [](ncclUniqueId *id) {
        const char *name = getenv("POSEIDON_EMULATED_TEAM");
        memset(id, 0, sizeof *id);
        snprintf(id->internal, sizeof id->internal, "/%s-%d",
                 name ? name : "poseidon-emulated-nccl", (int)getpid());
        return ncclSuccess;
    };
    nccl->ncclCommInitRank_ = join_team;
    nccl->ncclCommDestroy_ = [](ncclComm_t comm) {
        if (comm->stream)
            drain(comm->stream);
        leave(comm);
        munmap(comm->shared, sizeof *comm->shared);
        free(comm);
        return ncclSuccess;
    };
    /* Streams may still hold its operations, so it stays. */
    nccl->ncclCommAbort_ = [](ncclComm_t comm) {
        __atomic_store_n(&comm->aborted, 1, __ATOMIC_RELEASE);
        leave(comm);
        return ncclSuccess;
    };
    nccl->ncclCommGetAsyncError_ = [](ncclComm_t comm, ncclResult_t *out) {
        const char *text = getenv("POSEIDON_EMULATED_NCCL");
        unsigned long limit =
            text && !strncmp(text, "broken ", 7) ? strtoul(text + 7, NULL, 10) : ~0UL;
        *out = comm->rank == 1 && comm->issued > limit ? ncclRemoteError : ncclSuccess;
        return ncclSuccess;
    };
    nccl->ncclReduce_ = [](const void *, void *x, size_t count, ncclDataType_t, ncclRedOp_t, int,
                           ncclComm_t comm, cudaStream_t stream) {
        return issue(TEAM_REDUCE, x, count, comm, stream);
    };
    nccl->ncclBroadcast_ = [](const void *, void *x, size_t count, ncclDataType_t, int,
                              ncclComm_t comm, cudaStream_t stream) {
        return issue(TEAM_BROADCAST, x, count, comm, stream);
    };
    return 0;
}

void nccl_functions_close(struct nccl_functions *nccl)
{
    memset(nccl, 0, sizeof *nccl);
}

} /* extern "C" */
