/* MPI's profiling interface, between sync and the library: counts the bytes that are really put on
 * the wire, and delays messages and completions where a seed asks for it. Of the wire thread,
 * but for what starts and stops it. */
#include <mpi.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/conformance.h"
#include "tests/wire/late_requests.h"

/* The message that was matched last, until it is received. */
static struct {
    int bucket; /* -1: not counted */
    uint64_t bytes;
} matched;

static struct counted counted;
static const struct plan
    *_Atomic counted_plan; /* NULL: not counting. Set by one thread, read by the other */

/* The bucket; -1 where nothing is counted: the other thread may end it at any time. */
static int counted_bucket(MPI_Datatype type, int tag)
{
    const struct plan *plan = counted_plan;

    return plan && type == MPI_BYTE ? plan->chunks[tag / 2 % plan->nchunks].bucket : -1;
}

static bool naps;
static _Atomic bool held;
static uint64_t chaos; /* state of the random delays; 0: none. Of the wire thread alone */

static uint64_t chance(void)
{
    chaos ^= chaos << 13;
    chaos ^= chaos >> 7;
    chaos ^= chaos << 17;
    return chaos;
}

int MPI_Issend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    int group = counted_bucket(type, tag);

    if (group >= 0) {
        counted.sent[group] += (uint64_t)count;
        counted.messages[group]++;
    }
    if (chaos && chance() % 16 == 0)
        usleep((useconds_t)(chance() % 200));
    return PMPI_Issend(from, count, type, to, tag, comm, request);
}

/* The bytes of a message are known when it is matched. */
int MPI_Imrecv(void *to, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
    if (matched.bucket >= 0)
        counted.received[matched.bucket] += matched.bytes;
    matched.bucket = -1;
    return PMPI_Imrecv(to, count, type, message, request);
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status)
{
    int code, bytes = 0;

    *flag = 0;
    if (held || (chaos && chance() % 4 == 0))
        return MPI_SUCCESS; /* it is seen later */
    code = PMPI_Improbe(from, tag, comm, flag, message, status);
    if (code != MPI_SUCCESS || !*flag)
        return code;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    matched.bucket = counted_bucket(MPI_BYTE, status->MPI_TAG);
    matched.bytes = (uint64_t)bytes;
    return code;
}

int MPI_Testsome(int n, MPI_Request *requests, int *done, int *which, MPI_Status *statuses)
{
    if (!chaos || n == 0)
        return PMPI_Testsome(n, requests, done, which, statuses);
    if (naps && chance() % 512 == 0)
        usleep((useconds_t)(chance() % 20000));
    if (chance() % 16 == 0) /* what does not go through MPI, as a node's adding up, is late too */
        usleep((useconds_t)(chance() % 200));
    return late_test_some(chance, n, requests, done, which, statuses);
}

void counting_start(const struct plan *plan)
{
    memset(&counted, 0, sizeof counted);
    counted_plan = plan;
}

struct counted counting_stop(void)
{
    counted_plan = NULL;
    return counted;
}

void chaos_hold(bool on)
{
    held = on;
}

void chaos_naps(bool on)
{
    naps = on;
}

void chaos_set(uint64_t seed)
{
    chaos = seed;
}
