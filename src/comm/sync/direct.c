/* Finds out whether MPI reaches a device's own memory, so that messages need no copy on the host.
 *
 * Open MPI says whether it was built with CUDA, but not whether its transport can. So at start the
 * workers send each other trial messages from device memory: a short one (sent eagerly) and a long
 * one (by rendezvous), since every transport treats these two differently. */
#include "sync/sync_internal.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

enum { SHORT_ELEMS = 64, LONG_ELEMS = 1 << 18 };

const char *const sync_direct_words[] = {
    [SYNC_DIRECT_AUTO] = "auto", [SYNC_DIRECT_ON] = "on", [SYNC_DIRECT_OFF] = "off", NULL};

/* Returns number i that worker `rank` sends, a whole number that floats hold exactly. */
static float sample(int rank, int i)
{
    return (float)(rank * 7919 % 65536 + i);
}

/* Sends from the first half of the memory to the second half of the next worker in a ring; fails
 * also where the data arrives changed. */
static int pass_on(struct sync *sync, float *memory, float *host, int elems)
{
    const struct device *device = sync->model.device;
    int rank, size, from;

    MPI_Comm_rank(sync->sums, &rank);
    MPI_Comm_size(sync->sums, &size);
    from = (rank + size - 1) % size;
    MPI_CHECK(MPI_Sendrecv(memory, elems, MPI_FLOAT, (rank + 1) % size, 0, memory + LONG_ELEMS,
                           elems, MPI_FLOAT, from, 0, sync->sums, MPI_STATUS_IGNORE));
    if (device->i->read(device->context, memory + LONG_ELEMS, host, LONG_ELEMS))
        return -1;
    for (int i = 0; i < elems; i++)
        if (host[i] != sample(from, i))
            return error_set("MPI claims to reach the engine's memory, but number %d of %d from "
                             "worker %d arrived as %g instead of %g",
                             i, elems, from, (double)host[i], (double)sample(from, i));
    return 0;
}

/* Sends the trial messages. The status and message are the same on all workers. */
static int make_trial(struct sync *sync)
{
    static const int lengths[] = {SHORT_ELEMS, LONG_ELEMS};
    const struct device *device = sync->model.device;
    const size_t bytes = LONG_ELEMS * sizeof(float);
    float *host = malloc(bytes);
    void *memory = NULL;
    int rank, status;

    MPI_Comm_rank(sync->sums, &rank);
    for (int i = 0; host && i < LONG_ELEMS; i++)
        host[i] = sample(rank, i);
    status = host ? device->i->alloc(device->context, 2 * bytes, "a trial message", &memory)
                  : error_memory(bytes, "a trial message");
    if (!status && (device->i->write(device->context, memory, host, LONG_ELEMS) ||
                    (device->i->finish && device->i->finish(device->context))))
        status = -1;
    status = error_agree(sync->sums, status); /* no worker may wait for a failed one */
    for (int i = 0; i < 2 && !status; i++)
        status = error_agree(sync->sums, pass_on(sync, memory, host, lengths[i]));
    device->i->free(device->context, memory);
    free(host);
    return status;
}

/* Returns the reason against direct messages that is known before a trial, or NULL. */
static const char *find_obstacle(const struct sync *sync)
{
    if (!sync->model.device->i->own_memory)
        return "the engine works in the host's memory and has none of its own";
    if (sync->options.direct == SYNC_DIRECT_OFF)
        return "direct=off";
#ifdef OMPI_HAVE_MPI_EXT_CUDA
    return MPIX_Query_cuda_support()
               ? NULL
               : "this MPI was built without CUDA (MPIX_Query_cuda_support says so)";
#else
    return "this MPI cannot say whether it reaches a GPU's memory: it has no "
           "MPIX_Query_cuda_support";
#endif
}

int direct_find(struct sync *sync, bool *direct, char *way, size_t bytes)
{
    const char *obstacle = find_obstacle(sync);
    int all = !obstacle;

    MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, sync->sums));
    if (obstacle && sync->options.direct == SYNC_DIRECT_ON)
        return error_set("direct=on: %s", obstacle);
    if (all && sync->nranks > 1 && make_trial(sync)) {
        if (sync->options.direct == SYNC_DIRECT_ON)
            return error_context("direct=on");
        obstacle = error_text();
        all = 0;
    }
    *direct = all && sync->nranks > 1;
    if (*direct)
        snprintf(way, bytes, "straight from and to the engine's memory");
    else if (sync->model.device->i->own_memory)
        snprintf(way, bytes, "by way of the host's memory: %s",
                 obstacle ? obstacle : "another worker's MPI does not reach the engine's");
    return 0;
}
