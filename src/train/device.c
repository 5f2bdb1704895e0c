/* Devices are told apart by what they call themselves, not by their numbers: where the scheduler
 * shows each rank one GPU of its own, every one of them is number 0. */
#include "train/device.h"

#include "util/agree.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

enum { IDENTITY_BYTES = 64 };

/* identities: one per rank, empty where there is none. */
static int find_double(const char *identities, int nranks, int rank, const char *words)
{
    const char *mine = identities + (size_t)rank * IDENTITY_BYTES;
    int sharers = 0, first = -1;

    for (int r = 0; r < nranks && mine[0]; r++)
        if (!strncmp(identities + (size_t)r * IDENTITY_BYTES, mine, IDENTITY_BYTES)) {
            sharers++;
            first = first < 0 ? r : first;
        }
    if (sharers < 2)
        return 0;
    return error_set(
        "%d ranks, the first of them rank %d, would share one GPU (%s): start as many ranks on "
        "each node as it has GPUs, or say --tune share-gpu",
        sharers, first, words);
}

static int check_double(MPI_Comm world, const struct engine *engine)
{
    char mine[IDENTITY_BYTES] = "", *all;
    const char *words = "";
    int nranks, rank, status;

    MPI_Comm_size(world, &nranks);
    MPI_Comm_rank(world, &rank);
    if (engine->i && engine->i->device)
        words = engine->i->device(engine->context, mine);
    all = calloc((size_t)nranks, IDENTITY_BYTES);
    if (error_agree(world, all ? 0 : error_memory((size_t)nranks * IDENTITY_BYTES, "devices"))) {
        free(all);
        return -1;
    }
    MPI_TRY(MPI_Allgather(mine, IDENTITY_BYTES, MPI_CHAR, all, IDENTITY_BYTES, MPI_CHAR, world));
    status = find_double(all, nranks, rank, words);
    free(all);
    return error_agree(world, status);
fail:
    free(all);
    return -1;
}

int device_open(MPI_Comm world, const char *name, const struct engine_options *options, bool share,
                struct engine *out)
{
    *out = (struct engine){.i = NULL};
    if (error_agree(world, engine_open(name, options, out)))
        return -1;
    return share ? 0 : check_double(world, out);
}
