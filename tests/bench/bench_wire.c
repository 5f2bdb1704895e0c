/* What the wire costs beside MPI alone.
 *
 * bandwidth: every rank sends so many bytes to every other one in messages of one size, through the
 * wire, and by a windowed loop of MPI_Isend and MPI_Irecv with nothing beside (as osu_mbw_mr of the
 * OSU micro-benchmarks does). The two take turns within one run, so that whoever else is at work on
 * the machine disturbs both alike; the figure is Gbit/s sent by each rank, the median of the turns.
 *
 * messages: rounds of many small ones, as microseconds for each. It has to be the same however many
 * there are.
 *
 * Run under mpirun: bench_wire [TURNS]. Collective. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/clock.h"
#include "util/error.h"
#include "wire/wire.h"

enum { MOST_TURNS = 101, WINDOW = 16 }; /* of the plain loop: messages to all, as the wire's */

static int rank, nranks;
static MPI_Comm data, plain;
static struct wire *wire;
static _Atomic int64_t received, sent;
static int64_t expected; /* of each */
static char *out, *in;

static double processor_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_wire: %s: %s\n", what, error_text());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- through the wire ---- */

struct load {
    size_t bytes;
    int messages; /* to each other rank */
};

/* Only the last wakes who waits, as in training, where a bucket has many messages: woken for each,
 * the compute thread would take the core from the wire's. */
static void count(_Atomic int64_t *counter)
{
    if (atomic_fetch_add_explicit(counter, 1, memory_order_release) + 1 == expected)
        wire_wake(wire);
}

static int count_sent(void *context, const struct wire_message *message)
{
    (void)context;
    (void)message;
    count(&sent);
    return 0;
}

static int count_received(void *context, const struct wire_message *message)
{
    (void)context;
    (void)message;
    count(&received);
    return 0;
}

/* Each has a place of its own, as gradients have. */
static int accept(void *context, int peer, int tag, size_t bytes, struct wire_message *message)
{
    const struct load *load = context;

    message->buffer = in + ((size_t)peer * (size_t)load->messages + (size_t)tag) * bytes;
    message->done = count_received;
    return 0;
}

static int post(void *context, int64_t argument)
{
    const struct load *load = context;

    (void)argument;
    for (int i = 0; i < load->messages; i++)
        for (int step = 1; step < nranks; step++) {
            struct wire_message message = {.buffer = out + (size_t)i * load->bytes,
                                           .bytes = load->bytes,
                                           .peer = (rank + step) % nranks,
                                           .tag = i,
                                           .done = count_sent};
            if (wire_send(wire, &message))
                return -1;
        }
    return 0;
}

static double through_wire(struct load *load)
{
    double begun = clock_seconds();

    wire_call(wire, post, load, 0);
    if (wire_wait(wire, &received, expected, NULL) || wire_wait(wire, &sent, expected, NULL))
        fail("waiting");
    return clock_seconds() - begun;
}

/* ---- by MPI alone ---- */

static double by_mpi(const struct load *load)
{
    int total = load->messages * (nranks - 1), posted = 0;
    double begun = clock_seconds();

    while (posted < total) {
        MPI_Request requests[2 * WINDOW];
        int n = 0;
        for (; n < 2 * WINDOW && posted < total; posted++) {
            int step = posted % (nranks - 1) + 1, i = posted / (nranks - 1),
                from = (rank + nranks - step) % nranks;
            MPI_Irecv(in + ((size_t)from * (size_t)load->messages + (size_t)i) * load->bytes,
                      (int)(load->bytes / 4), MPI_FLOAT, from, i, plain, &requests[n++]);
            MPI_Isend(out + (size_t)i * load->bytes, (int)(load->bytes / 4), MPI_FLOAT,
                      (rank + step) % nranks, i, plain, &requests[n++]);
        }
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    }
    return clock_seconds() - begun;
}

/* ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

/* Seconds of the slowest rank. */
static double slowest(double mine)
{
    double all;

    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, plain);
    return all;
}

struct result {
    double wire, mpi, ratio;  /* medians: seconds, of the slowest rank; and of mpi / wire */
    double wire_cpu, mpi_cpu; /* seconds a turn, of this rank's thread that calls MPI */
};

/* As the program has it: sixteen messages of the size that is usual, 512 kB, or of a larger one. */
static size_t window_for(const struct load *load)
{
    size_t bytes = load->bytes < (size_t)512 << 10 ? (size_t)512 << 10 : load->bytes;

    return WINDOW * bytes;
}

/* A wire is opened for each turn, since MPI is the wire's alone from its start to its close. */
static double wire_turn(struct load *load, double *cpu)
{
    struct wire_options options = {.data = data,
                                   .sends.window = window_for(load),
                                   .calls = 4,
                                   .messages = 2 * load->messages * (nranks - 1),
                                   .accept = accept,
                                   .context = load};
    double seconds;

    received = sent = 0;
    expected = (int64_t)load->messages * (nranks - 1);
    if (wire_open(MPI_COMM_WORLD, &options, &wire))
        fail("opening");
    MPI_Barrier(plain);
    if (wire_start(wire))
        fail("starting");
    seconds = through_wire(load);
    *cpu += wire_stats(wire).cpu_seconds;
    if (wire_close(wire, 0))
        fail("closing");
    wire_destroy(wire);
    return slowest(seconds);
}

static struct result measure(struct load load, int turns)
{
    double of_wire[MOST_TURNS], of_mpi[MOST_TURNS], ratio[MOST_TURNS];
    struct result result = {0};

    for (int t = -1; t < turns; t++) {
        double cpu = 0, used, seconds = wire_turn(&load, &cpu);
        MPI_Barrier(plain);
        used = processor_seconds();
        double other = slowest(by_mpi(&load));
        if (t < 0)
            continue; /* memory and connections are touched for the first time */
        of_wire[t] = seconds;
        of_mpi[t] = other;
        ratio[t] = other / seconds;
        result.wire_cpu += cpu / turns;
        result.mpi_cpu += (processor_seconds() - used) / turns;
    }
    result.wire = median(of_wire, turns);
    result.mpi = median(of_mpi, turns);
    result.ratio = median(ratio, turns);
    return result;
}

int main(int argc, char **argv)
{
    const size_t sizes[] = {64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20};
    const int counts[] = {420, 1683, 6735};
    const size_t volume = (size_t)64 << 20; /* to each other rank, in a turn */
    int provided, turns = argc > 1 ? atoi(argv[1]) : 11;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (nranks < 2 || turns < 1 || turns > MOST_TURNS) {
        if (rank == 0)
            printf("bench_wire wants two ranks or more, and 1 to %d turns\n", MOST_TURNS);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &data);
    MPI_Comm_dup(MPI_COMM_WORLD, &plain);
    out = malloc(volume);
    in = malloc(volume * (size_t)nranks);
    if (!out || !in)
        fail("memory");
    memset(out, 1, volume);
    memset(in, 0, volume * (size_t)nranks);
    if (rank == 0)
        printf("%d ranks, %d turns\nmessage  wire Gbit/s   MPI Gbit/s   wire/MPI   wire s/GB   MPI "
               "s/GB\n",
               nranks, turns);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct load load = {.bytes = sizes[s], .messages = (int)(volume / sizes[s])};
        double bytes = (double)volume * (nranks - 1);
        struct result r = measure(load, turns);
        if (rank == 0)
            printf("%4zu kB  %11.2f  %11.2f  %9.2f  %10.3f  %9.3f\n", sizes[s] >> 10,
                   8e-9 * bytes / r.wire, 8e-9 * bytes / r.mpi, r.ratio, 1e9 * r.wire_cpu / bytes,
                   1e9 * r.mpi_cpu / bytes);
    }
    if (rank == 0)
        printf("\n256 B, a round     wire us each    MPI us each   processor us each\n");
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct load load = {.bytes = 256, .messages = counts[c]};
        double messages = (double)counts[c] * (nranks - 1);
        struct result r = measure(load, turns);
        if (rank == 0)
            printf("%13.0f  %15.2f  %13.2f  %18.2f\n", messages, 1e6 * r.wire / messages,
                   1e6 * r.mpi / messages, 1e6 * r.wire_cpu / messages);
    }
    MPI_Comm_free(&data);
    MPI_Comm_free(&plain);
    MPI_Finalize();
    return 0;
}
