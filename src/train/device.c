/* Devices are told apart by what they call themselves, not by their numbers: where the scheduler
 * shows each rank one GPU of its own, every one of them is number 0. */
#include "train/device.h"

#include "util/agree.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a rank computes on. */
struct used_device {
    char identity[64]; /* empty: none that others must keep off */
    char words[128];
};

static int find_double(const struct used_device *devices, int nranks)
{
    for (int first = 0; first < nranks; first++) {
        int sharers = 0;

        for (int r = first; r < nranks && devices[first].identity[0]; r++)
            sharers += !strcmp(devices[r].identity, devices[first].identity);
        if (sharers > 1)
            return error_set("%d ranks, the first of them rank %d, would share one GPU (%s): start "
                             "as many ranks on each node as it has GPUs, or give --tune share-gpu",
                             sharers, first, devices[first].words);
    }
    return 0;
}

static int check_double(MPI_Comm world, const struct engine *engine)
{
    struct used_device mine = {.identity = ""};
    void *devices;
    int nranks, status;

    MPI_Comm_size(world, &nranks);
    if (engine->i && engine->i->device)
        snprintf(mine.words, sizeof mine.words, "%s",
                 engine->i->device(engine->context, mine.identity));
    if (agree_gather(world, &mine, sizeof mine, "devices", &devices))
        return -1;
    status = devices ? find_double(devices, nranks) : 0;
    free(devices);
    return error_agree(world, status);
}

int device_open(MPI_Comm world, const char *name, const struct engine_options *options, bool share,
                struct engine *out)
{
    *out = (struct engine){.i = NULL};
    if (error_agree(world, engine_open(name, options, out)))
        return -1;
    return share ? 0 : check_double(world, out);
}
