/* MPI's profiling interface, between sync and the library: counts the bytes that are really put on
 * the wire, and delays messages and completions where a seed asks for it. Of the progress thread,
 * but for what starts and stops it. */
#include <mpi.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/conformance.h"

enum {
    MOST_RECEIVES = 16384
}; /* posted at a time; more would be missed by the count, which then differs */

static struct counted counted;
static const struct plan
    *_Atomic counted_plan; /* NULL: not counting. Set by one thread, read by the other */

/* -1 where nothing is counted: the other thread may end it at any time. */
static int counted_group(MPI_Datatype type, int tag)
{
    const struct plan *plan = counted_plan;

    return plan && type == MPI_FLOAT ? plan->chunks[tag / 2 % plan->nchunks].group : -1;
}

static uint64_t chaos; /* state of the random delays; 0: none. Of the progress thread alone */

static uint64_t chance(void)
{
    chaos ^= chaos << 13;
    chaos ^= chaos >> 7;
    chaos ^= chaos << 17;
    return chaos;
}

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int group = counted_group(type, tag);

    if (group >= 0)
        counted.sent[group] += (uint64_t)count * 4;
    if (chaos && chance() % 16 == 0)
        usleep((useconds_t)(chance() % 200));
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}

/* Receives are posted early and some never complete, so they count when they complete: which
 * request is a receive of floats is remembered from its posting. */
static struct {
    MPI_Request request;
    int group;
} receives[MOST_RECEIVES];
static int nreceives;

int MPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int code = PMPI_Irecv(to, count, type, from, tag, comm, request),
        group = counted_group(type, tag);

    if (group >= 0 && nreceives < MOST_RECEIVES) {
        receives[nreceives].request = *request;
        receives[nreceives++].group = group;
    }
    return code;
}

/* Half of the requests, from a random place backwards or forwards: late and out of order. */
static int test_some(int n, MPI_Request *requests, int *done, int *which, MPI_Status *statuses)
{
    int code = MPI_SUCCESS, start, step;

    if (!chaos || n == 0)
        return PMPI_Testsome(n, requests, done, which, statuses);
    if (chance() % 16 == 0) /* what does not go through MPI, as a node's adding up, is late too */
        usleep((useconds_t)(chance() % 200));
    start = (int)(chance() % (uint64_t)n);
    step = chance() % 2 ? 1 : n - 1;
    *done = 0;
    for (int i = 0, at = start; i < n && code == MPI_SUCCESS; i++, at = (at + step) % n) {
        int flag = 0;
        if (chance() % 2)
            code = PMPI_Test(&requests[at], &flag, &statuses[*done]);
        if (flag)
            which[(*done)++] = at;
    }
    return code;
}

int MPI_Testsome(int n, MPI_Request *requests, int *done, int *which, MPI_Status *statuses)
{
    static MPI_Request before[65536];

    memcpy(before, requests, (size_t)n * sizeof *before);
    int code = test_some(n, requests, done, which, statuses);
    for (int i = 0; counted_plan && *done != MPI_UNDEFINED && i < *done; i++)
        for (int r = 0; r < nreceives; r++)
            if (receives[r].request == before[which[i]]) {
                int bytes = 0;
                MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
                counted.received[receives[r].group] += (uint64_t)bytes;
                receives[r] = receives[--nreceives];
                break;
            }
    return code;
}

void counting_start(const struct plan *plan)
{
    memset(&counted, 0, sizeof counted);
    nreceives = 0;
    counted_plan = plan;
}

struct counted counting_stop(void)
{
    counted_plan = NULL;
    return counted;
}

void chaos_set(uint64_t seed)
{
    chaos = seed;
}
