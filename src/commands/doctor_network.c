/* A ring over the first rank of every host. */
#include "commands/doctor_network.h"

#include "util/agree.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdbool.h>
#include <stdlib.h>

enum { MESSAGE_BYTES = 4 << 20, FIRST_BYTES = 64 << 10, MOST_ROUNDS = 64 };

#define RING_SECONDS 0.5

/* Sends a message to the next host while the host before sends one. *seconds: until that message
 * was there. Collective over the ring. */
static int pass_on(MPI_Comm ring, char *memory, int bytes, double *seconds)
{
    MPI_Request request[2];
    int rank, size;

    MPI_TRY(MPI_Comm_rank(ring, &rank));
    MPI_TRY(MPI_Comm_size(ring, &size));
    MPI_TRY(MPI_Barrier(ring));
    *seconds = clock_seconds();
    MPI_TRY(MPI_Irecv(memory, bytes, MPI_BYTE, (rank + size - 1) % size, 0, ring, &request[0]));
    MPI_TRY(MPI_Issend(memory + bytes, bytes, MPI_BYTE, (rank + 1) % size, 0, ring, &request[1]));
    MPI_TRY(MPI_Wait(&request[0], MPI_STATUS_IGNORE));
    *seconds = clock_seconds() - *seconds; /* of what came: it is there, whole */
    MPI_TRY(MPI_Wait(&request[1], MPI_STATUS_IGNORE));
    return 0;
fail:
    return -1;
}

/* Bytes per second that came; a first small message opens connections. Until the slowest host has
 * had RING_SECONDS. */
static int run_ring(MPI_Comm ring, char *memory, double *Bps)
{
    double mine, slowest, sum = 0, spent = 0;
    int rounds = 0;

    if (pass_on(ring, memory, FIRST_BYTES, &mine))
        return -1;
    while (rounds < MOST_ROUNDS && spent < RING_SECONDS) {
        if (pass_on(ring, memory, MESSAGE_BYTES, &mine))
            return -1;
        sum += mine;
        rounds++;
        MPI_TRY(MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, ring));
        spent += slowest;
    }
    *Bps = rounds * (double)MESSAGE_BYTES / sum;
    return 0;
fail:
    return -1;
}

/* What the next host saw come from this one. */
static int give_back(MPI_Comm ring, double came, double *sent)
{
    int rank, size;

    MPI_TRY(MPI_Comm_rank(ring, &rank));
    MPI_TRY(MPI_Comm_size(ring, &size));
    MPI_TRY(MPI_Sendrecv(&came, 1, MPI_DOUBLE, (rank + size - 1) % size, 0, sent, 1, MPI_DOUBLE,
                         (rank + 1) % size, 0, ring, MPI_STATUS_IGNORE));
    return 0;
fail:
    return -1;
}

int network_ring(MPI_Comm world, const struct topology *topology, double *Bps)
{
    bool first = topology->local_rank == 0;
    char *memory = first ? calloc(2, MESSAGE_BYTES) : NULL;
    MPI_Comm ring = MPI_COMM_NULL;
    double mine = 0, came = 0;
    int status = first && !memory ? error_memory(2 * MESSAGE_BYTES, "measuring the ring") : 0;

    if (error_agree(world, status))
        goto fail;
    /* by machine, whose numbers are in the order of their lowest ranks */
    MPI_TRY(MPI_Comm_split(world, first ? 0 : MPI_UNDEFINED, topology->rank, &ring));
    if (error_agree(world, first ? run_ring(ring, memory, &came) : 0))
        goto fail;
    if (first && give_back(ring, came, &mine))
        goto fail;
    if (first)
        MPI_TRY(MPI_Gather(&mine, 1, MPI_DOUBLE, Bps, 1, MPI_DOUBLE, 0, ring));
    if (first)
        MPI_TRY(MPI_Comm_free(&ring));
    free(memory);
    return 0;
fail:
    free(memory);
    return -1;
}
