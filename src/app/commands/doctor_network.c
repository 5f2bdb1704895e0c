/* Measures rings over the first rank of every host. */
#include "commands/doctor_internal.h"

#include "util/agree.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>

enum { MESSAGE_BYTES = 2 << 20, SMALL_BYTES = 4, LARGE_BYTES = 64 << 10, ROUNDS = 64 };

/* Passes over the rings. Other programs may disturb a measurement: each ring is measured twice, and
 * again while a link looks slow. */
enum { PASSES = 2, MOST_PASSES = 8 };

#define RING_SECONDS  0.3 /* for one ring in one pass */
#define DOUBT_SECONDS 6.0 /* for all rings in all passes */

/* One host's figures of a ring: rate of received bytes, and segments sent. */
struct seen {
    double Bps, sent, resent;
};

static void expect(struct network *n, int bytes, const char *way, int machine)
{
    atomic_store(&n->is_missing, false);
    if (machine < 0)
        return;
    snprintf(n->missing, sizeof n->missing, "a message of %d bytes %s %s did not come through; %s",
             bytes, way, n->names[machine],
             bytes == SMALL_BYTES
                 ? "look at firewalls, the interfaces shown first, cards and cables of both hosts"
                 : "4 bytes did, so large packets are lost on the way: compare the MTU of both "
                   "hosts and of their switches (ip link; ping -M do -s 1472)");
    atomic_store(&n->is_missing, true);
}

/* Sends a message to the host `step` places further and receives one. *seconds: time until receipt.
 * Collective over the ring. */
static int pass_on(struct network *n, int step, int bytes, double *seconds)
{
    MPI_Request request[2];
    int rank, size, from, to;

    MPI_CHECK(MPI_Comm_rank(n->comm, &rank));
    MPI_CHECK(MPI_Comm_size(n->comm, &size));
    to = (rank + step) % size;
    from = (rank + size - step) % size;
    MPI_CHECK(MPI_Barrier(n->comm));
    *seconds = clock_seconds();
    MPI_CHECK(MPI_Irecv(n->memory, bytes, MPI_BYTE, from, 0, n->comm, &request[0]));
    MPI_CHECK(MPI_Issend(n->memory + MESSAGE_BYTES, bytes, MPI_BYTE, to, 0, n->comm, &request[1]));
    expect(n, bytes, "from", from);
    MPI_CHECK(MPI_Wait(&request[0], MPI_STATUS_IGNORE));
    *seconds = clock_seconds() - *seconds; /* the whole message has arrived */
    expect(n, bytes, "to", to);
    MPI_CHECK(MPI_Wait(&request[1], MPI_STATUS_IGNORE));
    expect(n, bytes, "", -1);
    return 0;
}

/* Measures a ring until the slowest host has spent RING_SECONDS. Keeps the best rate. */
static int run_ring(struct network *n, int step, struct seen *seen, double *total)
{
    double seconds, spent = 0, before[2], after[2];

    host_count_segments(&before[0], &before[1]);
    for (int round = 0; round < ROUNDS && spent < RING_SECONDS; round++) {
        if (pass_on(n, step, MESSAGE_BYTES, &seconds))
            return -1;
        if (MESSAGE_BYTES / seconds > seen->Bps)
            seen->Bps = MESSAGE_BYTES / seconds;
        if (agree_max(n->comm, &seconds, 1)) /* seconds of the slowest host */
            return -1;
        spent += seconds;
    }
    host_count_segments(&after[0], &after[1]);
    seen->sent += after[0] - before[0];
    seen->resent += after[1] - before[1];
    *total += spent; /* the same on all ranks, since agree_max gave `seconds` */
    return 0;
}

/* Gathers the figures of a ring's links at rank 0: rate at the receiver, segments of the sender. */
static int gather(const struct network *n, int step, const struct seen *mine, struct link *links)
{
    int hosts = n->topology->nmachines;
    void *gathered = NULL;
    struct seen *all;

    if (agree_gather(n->comm, mine, sizeof *mine, "rings", &gathered))
        return -1;
    all = gathered;
    for (int h = 0; all && h < hosts; h++) {
        int to = (h + step) % hosts;
        links[h] = (struct link){
            .from = h, .to = to, .Bps = all[to].Bps, .sent = all[h].sent, .resent = all[h].resent};
    }
    free(all);
    return 0;
}

static int measure(struct network *n, struct link *links)
{
    int hosts = n->topology->nmachines, steps[LINKS_RINGS], rings = links_rings(hosts, steps);
    struct seen seen[LINKS_RINGS] = {{.Bps = 0}};
    int doubt = 1;
    double spent = 0;

    for (int pass = 0; pass < PASSES || (doubt && pass < MOST_PASSES && spent < DOUBT_SECONDS);
         pass++) {
        for (int r = 0; r < rings; r++)
            if (run_ring(n, steps[r], &seen[r], &spent) ||
                gather(n, steps[r], &seen[r], links + r * hosts))
                return -1;
        doubt = n->topology->rank == 0 && links_are_uneven(links, rings * hosts);
        if (MPI_STATUS(MPI_Bcast(&doubt, 1, MPI_INT, 0, n->comm)))
            return -1;
    }
    return 0;
}

static int touch(struct network *n)
{
    int steps[LINKS_RINGS], rings = links_rings(n->topology->nmachines, steps), status = 0;
    double seconds;

    for (int i = 0; i < 2 * rings && !status; i++)
        status = pass_on(n, steps[i % rings], i < rings ? SMALL_BYTES : LARGE_BYTES, &seconds);
    return status;
}

int network_create(MPI_Comm world, const struct topology *topology, const char *const *names,
                   struct network *n)
{
    bool first = topology->local_rank == 0;

    *n = (struct network){.topology = topology,
                          .names = names,
                          .world = world,
                          .comm = MPI_COMM_NULL,
                          .memory = first ? calloc(2, MESSAGE_BYTES) : NULL};
    if (error_agree(world, first && !n->memory ? error_memory(2 * MESSAGE_BYTES, "rings") : 0))
        goto fail;
    /* ranks of `comm` are numbers of machines, which follow the machines' lowest ranks */
    MPI_TRY(MPI_Comm_split(world, first ? 0 : MPI_UNDEFINED, topology->rank, &n->comm));
    return 0;
fail:
    network_free(n);
    return -1;
}

int network_touch(struct network *n)
{
    return error_agree(n->world, n->memory ? touch(n) : 0);
}

int network_measure(struct network *n, struct link *links)
{
    return error_agree(n->world, n->memory ? measure(n, links) : 0);
}

void network_free(struct network *n)
{
    if (n->memory && n->comm != MPI_COMM_NULL)
        MPI_Comm_free(&n->comm);
    free(n->memory);
    n->memory = NULL;
}
