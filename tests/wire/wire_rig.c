/* The shim's delays are the wire thread's alone, and so is its state. */
#include "config.h" /* HAVE_SEM_CLOCKWAIT */

#include "tests/wire/late_requests.h"
#include "tests/wire/wire_rig.h"

#include <semaphore.h>
#include <time.h>

#ifdef HAVE_SEM_CLOCKWAIT
/* On the clock of the day a rest would not end while somebody sets that back. */
int sem_timedwait(sem_t *semaphore, const struct timespec *until)
{
    CHECK(!pthread_equal(pthread_self(), wire_thread), "a rest on a clock that can be set");
    return sem_clockwait(semaphore, CLOCK_REALTIME, until);
}
#endif

uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- the profiling shim; the wire thread's alone ---- */

uint64_t chaos;
int order[4096], norder, replies;

static uint64_t chance(void)
{
    return chaos = mix(chaos);
}

static void dawdle(unsigned seldom)
{
    if (chaos && chance() % seldom == 0)
        usleep((useconds_t)(chance() % 200));
}

static void note(int tag, MPI_Comm comm)
{
    if (comm == data && norder < (int)(sizeof order / sizeof *order))
        order[norder++] = tag;
    dawdle(16);
}

int MPI_Issend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    note(tag, comm);
    replies += comm == data;
    return PMPI_Issend(from, count, type, to, tag, comm, request);
}

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    note(tag, comm);
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status)
{
    *flag = 0;
    if (chaos && chance() % 3 == 0)
        return MPI_SUCCESS;
    return PMPI_Improbe(from, tag, comm, flag, message, status);
}

int MPI_Testsome(int n, MPI_Request *requests, int *done, int *which, MPI_Status *statuses)
{
    if (!chaos || n == 0)
        return PMPI_Testsome(n, requests, done, which, statuses);
    dawdle(16);
    return late_test_some(chance, n, requests, done, which, statuses);
}

/* ---- the rig ---- */

int rank, nranks;
MPI_Comm data;
struct wire *wire;
pthread_t wire_thread;
_Atomic int64_t received, sent, called, warned;
char warning[1024];
double moved_bytes;

static int enter(void *context)
{
    (void)context;
    wire_thread = pthread_self();
    return 0;
}

int say_sent(void *context, const struct wire_message *message)
{
    (void)context;
    CHECK(pthread_equal(pthread_self(), wire_thread), "a callback on another thread");
    CHECK(!message->received && message->posted <= message->started && message->posted > 0,
          "posted %lld, started %lld", (long long)message->posted, (long long)message->started);
    free(message->buffer);
    atomic_fetch_add(&sent, 1);
    wire_wake(wire);
    return 0;
}

static void account(void *context, const struct wire_message *message)
{
    (void)context;
    CHECK(message->comm == data, "accounted for another communicator's message");
    moved_bytes += (double)message->bytes;
}

static void warn(void *context, const char *text)
{
    (void)context;
    snprintf(warning, sizeof warning, "%s", text);
    atomic_store(&warned, 1);
}

struct wire_options usual(void)
{
    return (struct wire_options){.data = data,
                                 .sends.window = 1 << 20,
                                 .calls = 16,
                                 .messages = 8, /* fewer than there are: it grows */
                                 .enter = enter,
                                 .account = account,
                                 .watch.warn = warn};
}

void open_wire(const struct wire_options *options)
{
    norder = replies = 0;
    moved_bytes = 0;
    received = sent = called = warned = 0;
    CHECK(!wire_open(MPI_COMM_WORLD, options, &wire), "%s", error_text());
}

void close_wire(int status, int expected)
{
    char first[4096];

    status = wire_close(wire, status);
    CHECK((status != 0) == (expected != 0), "closed with %d: %s", status, error_text());
    snprintf(first, sizeof first, "%s", status ? error_text() : "");
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
    CHECK(!status || !strcmp(first, error_text()), "'%s' and '%s'", first, error_text());
}

int accept_float(void *context, int peer, int tag, size_t bytes, struct wire_message *out)
{
    static float nothing[64];

    (void)context;
    (void)peer;
    (void)tag;
    CHECK(bytes == 4, "%zu bytes", bytes);
    out->buffer = &nothing[tag % 64];
    return 0;
}

int take_float(void *context, const struct wire_message *message)
{
    (void)context;
    (void)message;
    atomic_fetch_add(&received, 1);
    wire_wake(wire);
    return 0;
}
