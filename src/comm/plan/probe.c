/* Start-up measurements. All ranks agree on the length of every loop from the slowest rank's time,
 * so that all leave it together. Rates come from whole exchanges, not from the luckiest one. */
#include "plan/probe.h"

#include "device/vector.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/alloc.h"
#include "util/owner.h"
#include "util/median.h"
#include "util/thread.h"

#include <float.h>
#include <pthread.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TAG = 1,
    BUFFER_BYTES = 16 << 20, /* bytes that a rank sends, and receives, in one exchange */
    FIRST_BYTES = 32 << 10,  /* bytes of the first exchange to each peer */
    MESSAGES = 64,           /* messages in flight while overhead is measured */
    MOST_ROUNDS = 64,        /* most repetitions of one exchange; the median counts */
    RATE_WINDOWS = 3,
    GEMM_M = 512,
    GEMM_N = 1024,
    GEMM_K = 128 /* product as large as a rebuilt gradient's tile */
};

/* Seconds spent per measurement. Even with one exchange too many each, the sum stays below two. */
#define LATENCY_BUDGET  0.12
#define OVERHEAD_BUDGET 0.10
#define LINK_BUDGET     0.30
#define LOCAL_BUDGET    0.12
#define THEFT_BUDGET    0.15
#define RATE_WINDOW                                                                                \
    0.02 /* length of each of RATE_WINDOWS windows; the best one counts, since others take the     \
            core at times */

struct prober {
    struct owner owner;
    MPI_Comm comm; /* communicator of the probe alone */
    int rank, nranks;
    const struct topology *topology; /* borrowed */
    int *peers;                      /* peers of the running measurement */
    int npeers;
    char *out, *in; /* BUFFER_BYTES each */
    MPI_Request *requests;
    int room;
};

static void choose_peers(struct prober *p, bool same_node)
{
    const int *machine = p->topology->machine;

    p->npeers = 0;
    for (int i = 1; i < p->nranks; i++) { /* rotated, so that ranks begin with different peers */
        int peer = (p->rank + i) % p->nranks;
        if ((machine[peer] == machine[p->rank]) == same_node)
            p->peers[p->npeers++] = peer;
    }
}

/* Finds the most peers that any rank has; all ranks get the number. */
static int find_most_peers(const struct prober *p, int *out)
{
    double most = p->npeers;
    int status = agree_max(p->comm, &most, 1);

    *out = (int)most;
    return status;
}

/* Begins to send `messages` of `bytes` to the peers in turn, and to receive as many: two requests
 * per message. */
static int post(struct prober *p, int messages, int bytes)
{
    int n = 0;

    for (int i = 0; i < messages; i++)
        MPI_CHECK(MPI_Irecv(p->in + (size_t)i * (size_t)bytes, bytes, MPI_BYTE,
                            p->peers[p->npeers - 1 - i % p->npeers], TAG, p->comm,
                            &p->requests[n++]));
    for (int i = 0; i < messages; i++)
        MPI_CHECK(MPI_Isend(p->out + (size_t)i * (size_t)bytes, bytes, MPI_BYTE,
                            p->peers[i % p->npeers], TAG, p->comm, &p->requests[n++]));
    return 0;
}

/* Posts the messages and waits for all of them; *seconds is the slowest rank's. */
static int exchange(struct prober *p, int messages, int bytes, double *seconds)
{
    MPI_CHECK(MPI_Barrier(p->comm));
    *seconds = clock_seconds();
    if (p->npeers == 0)
        messages = 0;
    if (post(p, messages, bytes))
        return -1;
    MPI_CHECK(MPI_Waitall(2 * messages, p->requests, MPI_STATUSES_IGNORE));
    *seconds = clock_seconds() - *seconds;
    return agree_max(p->comm, seconds, 1);
}

static int trips(struct prober *p, int to, int from, int count, double *seconds)
{
    MPI_CHECK(MPI_Barrier(p->comm));
    *seconds = clock_seconds();
    for (int i = 0; i < count; i++)
        MPI_CHECK(MPI_Sendrecv(p->out, 4, MPI_BYTE, to, TAG, p->in, 4, MPI_BYTE, from, TAG, p->comm,
                               MPI_STATUS_IGNORE));
    *seconds = (clock_seconds() - *seconds) / count;
    return agree_max(p->comm, seconds, 1);
}

/* Measures a chain of tiny messages between each rank and the rank most_ranks further, which is on
 * another node if there are several. */
static int measure_latency(struct prober *p, double *out)
{
    int shift = p->topology->most_ranks < p->nranks ? p->topology->most_ranks : 1;
    int to = (p->rank + shift) % p->nranks, from = (p->rank + p->nranks - shift) % p->nranks;
    double seconds, spent = 0;
    int count = 2;

    *out = 0;
    if (p->nranks == 1)
        return 0;
    if (trips(p, to, from, count, &seconds)) /* opens connections */
        return -1;
    for (*out = DBL_MAX; spent < LATENCY_BUDGET; spent += seconds * count + 1e-6) {
        if (trips(p, to, from, count, &seconds))
            return -1;
        *out = seconds < *out ? seconds : *out;
        if (seconds * count < LATENCY_BUDGET / 16)
            count *= 2;
    }
    return 0;
}

static int measure_overhead(struct prober *p, double latency, double *out)
{
    double seconds, spent = 0, best = DBL_MAX;
    int most, each;

    *out = 0;
    if (find_most_peers(p, &most))
        return -1;
    each = most > 0 ? (MESSAGES + most - 1) / most
                    : 0; /* messages to each peer, the same number on both sides */
    for (int round = 0; most > 0 && (round < 2 || spent < OVERHEAD_BUDGET); round++) {
        if (exchange(p, each * p->npeers, 4, &seconds))
            return -1;
        spent += seconds + 1e-6;
        best = seconds < best ? seconds : best;
    }
    if (most > 0 && best > latency)
        *out = (best - latency) / (each * most);
    return 0;
}

/* Measures bytes per second in one direction while everybody sends to all peers: of a rank, or of
 * all ranks of a node together. 0: nobody has peers. */
static int measure_exchange(struct prober *p, double budget, bool of_node, double *out)
{
    int most, bytes = FIRST_BYTES, rounds = 0;
    double seconds = 0, spent = 0, round[MOST_ROUNDS];
    double streams = (double)p->npeers * (of_node ? p->topology->local_ranks : 1);

    *out = 0;
    if (find_most_peers(p, &most) || agree_max(p->comm, &streams, 1))
        return -1;
    if (most == 0)
        return 0;
    if (bytes > BUFFER_BYTES / most)
        bytes = BUFFER_BYTES / most;
    for (;;) { /* the first exchanges also open connections and windows */
        if (exchange(p, p->npeers, bytes, &seconds))
            return -1;
        spent += seconds;
        if (seconds > budget / 4 || bytes >= BUFFER_BYTES / most)
            break;
        bytes = bytes > BUFFER_BYTES / most / 4 ? BUFFER_BYTES / most : 4 * bytes;
    }
    while (rounds < MOST_ROUNDS && (rounds < 2 || spent < budget)) {
        if (exchange(p, p->npeers, bytes, &round[rounds]))
            return -1;
        spent += round[rounds++];
        if (spent > 2 * budget)
            break;
    }
    *out = streams * bytes / median_upper(round, rounds);
    return 0;
}

static int measure_network(struct prober *p, struct cost_cluster *cluster)
{
    bool one_node = p->topology->most_ranks == p->nranks;

    choose_peers(p, one_node);
    if (measure_latency(p, &cluster->latency_seconds) ||
        measure_overhead(p, cluster->latency_seconds, &cluster->message_seconds) ||
        measure_exchange(p, LINK_BUDGET, true, &cluster->link_Bps))
        return -1;
    cluster->local_Bps = 0;
    if (one_node) {
        cluster->local_Bps = cluster->link_Bps / p->topology->most_ranks;
        return 0;
    }
    choose_peers(p, true);
    return measure_exchange(p, LOCAL_BUDGET, false, &cluster->local_Bps);
}

/* Reads a value, which makes an engine that runs beside the processor finish its work. */
static int finish(const struct device *device, float *data)
{
    float value;

    return device->i->read(device->context, data, &value, 1);
}

struct products {
    const struct device *device;
    float *memory;
};

/* Multiplies, as one step of a rate. Returns the work done, bytes or operations; < 0: it failed. */
static double multiply(void *context)
{
    const struct products *p = context;
    float *a = p->memory, *b = a + GEMM_K * GEMM_M, *c = b + GEMM_K * GEMM_N;

    for (int i = 0; i < 4; i++)
        if (p->device->i->gemm(p->device->context, true, false, GEMM_M, GEMM_N, GEMM_K, 1.0f, a,
                               GEMM_M, b, GEMM_N, 0.0f, c, GEMM_N))
            return -1;
    return finish(p->device, c) ? -1 : 4 * 2.0 * GEMM_M * GEMM_N * GEMM_K;
}

/* Returns a step's mean rate over `seconds`; 0: the step failed. */
static double mean_rate(double (*step)(void *context), void *context, double seconds)
{
    double start = clock_seconds(), spent = 0, done = 0;

    while (spent < seconds) {
        double work = step(context);
        if (work < 0)
            return 0;
        done += work;
        spent = clock_seconds() - start;
    }
    return done / spent;
}

/* Returns the rate of a step's best window; 0: the step failed. The first step warms up. */
static double measure_rate(double (*step)(void *context), void *context)
{
    double best = 0, rate = step(context);

    for (int window = 0; window < RATE_WINDOWS && rate > 0; window++) {
        rate = mean_rate(step, context, RATE_WINDOW);
        best = rate > best ? rate : best;
    }
    return rate > 0 ? best : 0;
}

/* Slowdown of the passes by a wire thread: traffic in a thread of its own, products in this one. */
struct theft {
    struct prober *p;
    int bytes, rounds;  /* bytes to each peer; number of exchanges */
    double cpu_seconds; /* processor time of the thread */
    int status;
    char failure[1024];
    atomic_bool over;
};

/* Waits as the wire thread does, with a look now and then. */
static int wait_in_naps(MPI_Request *requests, int n)
{
    const struct timespec nap = {.tv_nsec = 100000};
    int done = 0;

    for (;;) {
        MPI_CHECK(MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE));
        if (done)
            return 0;
        nanosleep(&nap, NULL);
    }
}

static int send_in_thread(struct theft *theft)
{
    struct prober *p = theft->p;

    for (int round = 0; round < theft->rounds; round++)
        if (post(p, p->npeers, theft->bytes) || wait_in_naps(p->requests, 2 * p->npeers))
            return -1;
    return 0;
}

static void *theft_main(void *argument)
{
    struct theft *theft = argument;

    theft->status = send_in_thread(theft);
    if (theft->status) /* error_text is the thread's own */
        snprintf(theft->failure, sizeof theft->failure, "%s", error_text());
    theft->cpu_seconds = clock_thread_seconds();
    atomic_store(&theft->over, true);
    return NULL;
}

/* Multiplies while the thread sends. lost: seconds of products that did not happen meanwhile.
 * products NULL: nothing to lose. */
static int run_theft(struct theft *theft, struct products *products, double flops, double *lost)
{
    pthread_t thread;
    double start, done = 0, step = 0;

    start = clock_seconds();
    if (thread_start(&thread, NULL, theft_main, theft))
        return error_set("cannot start the thread that measures traffic");
    while (products && step >= 0 && !atomic_load(&theft->over)) {
        step = multiply(products);
        done += step;
    }
    *lost = clock_seconds() - start - done / flops;
    pthread_join(thread, NULL);
    if (theft->status)
        return error_set("%s", theft->failure);
    return step < 0 ? -1 : 0;
}

/* Measures core_share: all ranks' lost seconds over all threads' processor time. */
static int measure_theft(struct prober *p, struct products *products, struct cost_cluster *cluster)
{
    struct theft theft = {.p = p, .rounds = 2};
    double local[3] = {0, 0, 0}, total[3], lost = 0, each, flops = 0;
    int level = MPI_THREAD_SINGLE, most, status;

    cluster->transport_Bps = cluster->copy_Bps / 4;
    cluster->core_share = 0;
    MPI_CHECK(MPI_Query_thread(&level));
    choose_peers(p, p->topology->most_ranks == p->nranks);
    if (find_most_peers(p, &most))
        return -1;
    if (most == 0 || level < MPI_THREAD_SERIALIZED)
        return 0;
    each = cluster->link_Bps / p->topology->most_ranks * THEFT_BUDGET / theft.rounds / most;
    theft.bytes = each < BUFFER_BYTES / most ? (int)each + 1 : BUFFER_BYTES / most;
    MPI_CHECK(MPI_Barrier(p->comm));
    /* products alone, as long as later beside the traffic: the best of short windows would count
     * every disturbance by others as theft */
    flops = products ? mean_rate(multiply, products, THEFT_BUDGET) : 1;
    status = error_agree(p->comm, flops > 0 ? 0 : -1);
    if (!status)
        status = error_agree(p->comm, run_theft(&theft, products, flops, &lost));
    if (status)
        return -1;
    if (products) {
        local[0] = lost > 0 ? lost : 0;
        local[1] = theft.cpu_seconds;
        local[2] = (double)theft.bytes * p->npeers * theft.rounds;
    }
    MPI_CHECK(MPI_Allreduce(local, total, 3, MPI_DOUBLE, MPI_SUM, p->comm));
    if (total[1] > 0 && total[2] > 0) {
        cluster->transport_Bps = total[2] / total[1];
        cluster->core_share =
            total[0] < COST_MOST_SHARE * total[1] ? total[0] / total[1] : COST_MOST_SHARE;
    }
    return 0;
}

/* Measures this rank's rate of products, and of updates and copies of engine memory; then the loss
 * of products by traffic. */
static int measure_products(struct prober *p, const struct device *device,
                            struct cost_cluster *cluster)
{
    struct products products = {.device = device};
    void *memory = NULL;
    int status = 0;

    cluster->gemm_flops = cluster->serve_Bps = cluster->device_Bps = DBL_MAX;
    if (device) {
        status = device->i->alloc(
            device->context, sizeof(float) * (GEMM_K * GEMM_M + GEMM_K * GEMM_N + GEMM_M * GEMM_N),
            "measuring products", &memory);
        products.memory = memory;
        cluster->gemm_flops = status ? 0 : measure_rate(multiply, &products);
        status =
            error_status(cluster->gemm_flops <= 0 || probe_serving(device, &cluster->serve_Bps) ||
                         probe_copying(device, &cluster->device_Bps));
    }
    status = error_agree(p->comm, status);
    if (!status)
        status = measure_theft(p, device ? &products : NULL, cluster);
    if (memory)
        device->i->free(device->context, memory);
    return status;
}

/* Walks go through buffers larger than caches, a piece a step. */
enum { PIECE = 1 << 18, PIECES = BUFFER_BYTES / (int)sizeof(float) / PIECE }; /* PIECE: floats */

struct memory_walk {
    float *to, *from;
    bool adds; /* true: adds; false: copies */
    int at;
};

static double walk_piece(void *context)
{
    struct memory_walk *walk = context;
    float *to = walk->to + (size_t)walk->at * PIECE, *from = walk->from + (size_t)walk->at * PIECE;

    walk->at = (walk->at + 1) % PIECES;
    if (walk->adds)
        vector_add(to, from, PIECE);
    else
        memcpy(to, from, PIECE * sizeof *to);
    return PIECE * sizeof *to;
}

/* Returns bytes per second from one buffer to the other. */
static double measure_walk(void *to, void *from, bool adds)
{
    struct memory_walk walk = {.to = to, .from = from, .adds = adds};

    return measure_rate(walk_piece, &walk);
}

int probe_sums(double *Bps)
{
    char *buffers;

    if (ALLOC(buffers, 2 * BUFFER_BYTES, "measuring sums"))
        return -1;
    memset(buffers, 0, 2 * BUFFER_BYTES); /* makes the kernel allocate the pages */
    *Bps = measure_walk(buffers, buffers + BUFFER_BYTES, true);
    free(buffers);
    return 0;
}

/* Gives all ranks the slowest rank's rates, in rank 0's bits. */
static int agree_figures(struct prober *p, struct cost_cluster *cluster)
{
    double local[] = {cluster->gemm_flops, cluster->copy_Bps, cluster->sum_Bps, cluster->serve_Bps,
                      cluster->device_Bps},
           least[5];

    MPI_CHECK(MPI_Allreduce(local, least, 5, MPI_DOUBLE, MPI_MIN, p->comm));
    cluster->gemm_flops = least[0];
    cluster->copy_Bps = least[1];
    cluster->sum_Bps = least[2];
    cluster->serve_Bps = least[3];
    cluster->device_Bps = least[4];
    if (cluster->link_Bps <= 0)
        cluster->link_Bps = cluster->copy_Bps;
    if (cluster->local_Bps <= 0)
        cluster->local_Bps = cluster->copy_Bps;
    MPI_CHECK(MPI_Bcast(cluster, sizeof *cluster, MPI_BYTE, 0, p->comm));
    return 0;
}

static int allocate(struct prober *p)
{
    static const char what[] = "measuring the cluster";

    p->room = 2 * (MESSAGES + p->nranks);
    return error_status(
        OWN(&p->owner, p->peers, p->nranks, what) || OWN(&p->owner, p->requests, p->room, what) ||
        OWN(&p->owner, p->out, BUFFER_BYTES, what) || OWN(&p->owner, p->in, BUFFER_BYTES, what));
}

static void release(struct prober *p)
{
    if (p->comm != MPI_COMM_NULL)
        MPI_Comm_free(&p->comm);
    owner_free(&p->owner);
}

int probe_measure(MPI_Comm world, const struct topology *topology, const struct device *device,
                  struct probe *out)
{
    struct prober p = {.comm = MPI_COMM_NULL, .topology = topology};
    double start = clock_seconds();

    memset(out, 0, sizeof *out);
    MPI_TRY(MPI_Comm_dup(world, &p.comm));
    MPI_TRY(MPI_Comm_rank(p.comm, &p.rank));
    MPI_TRY(MPI_Comm_size(p.comm, &p.nranks));
    if (error_agree(p.comm, allocate(&p)) || measure_network(&p, &out->cluster))
        goto fail;
    MPI_TRY(MPI_Barrier(p.comm));
    memset(p.out, 0, BUFFER_BYTES);
    memset(p.in, 0, BUFFER_BYTES);
    out->cluster.copy_Bps = measure_walk(p.in, p.out, false);
    out->cluster.sum_Bps = measure_walk(p.in, p.out, true);
    if (measure_products(&p, device, &out->cluster) || agree_figures(&p, &out->cluster))
        goto fail;
    out->nranks = p.nranks;
    out->ranks_per_node = topology->most_ranks;
    out->took_seconds = clock_seconds() - start;
    release(&p);
    return 0;
fail:
    release(&p);
    return -1;
}

int probe_cluster(MPI_Comm world, const struct topology *topology, const struct device *device,
                  const char *file, bool keeps, struct probe *out)
{
    struct probe known = {.nranks = 0};
    int rank = 0, status = 0;

    if (!file)
        return probe_measure(world, topology, device, out);
    MPI_CHECK(MPI_Comm_rank(world, &rank));
    if (rank == 0 && access(file, F_OK) == 0)
        status = probe_read(file, &known);
    if (error_agree(world, status))
        return -1;
    MPI_CHECK(MPI_Bcast(&known, sizeof known, MPI_BYTE, 0, world));
    if (known.nranks == topology->nranks && known.ranks_per_node == topology->most_ranks) {
        *out = known;
        out->from_file = true;
        return 0;
    }
    if (probe_measure(world, topology, device, out))
        return -1;
    return error_agree(world, rank == 0 && keeps ? probe_write(file, out) : 0);
}
