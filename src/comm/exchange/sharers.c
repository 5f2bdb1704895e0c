/* Finds ranks that would compute on the same device. */
#include "exchange/exchange.h"

#include "util/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct used_device {
    char identity[64]; /* name of a device that ranks cannot share; empty: none */
    char words[128];
};

static void find(const struct used_device *devices, int nranks, char sharers[EXCHANGE_SHARERS])
{
    for (int first = 0; first < nranks && !sharers[0]; first++) {
        int count = 0;

        for (int r = first; r < nranks && devices[first].identity[0]; r++)
            count += !strcmp(devices[r].identity, devices[first].identity);
        if (count > 1)
            snprintf(sharers, EXCHANGE_SHARERS,
                     "%d ranks, the first of them rank %d, would share one GPU (%s)", count, first,
                     devices[first].words);
    }
}

int exchange_find_sharers(MPI_Comm world, const struct device *device,
                          char sharers[EXCHANGE_SHARERS])
{
    struct used_device mine = {.identity = ""};
    void *devices;
    int nranks, rank;

    sharers[0] = '\0';
    MPI_Comm_size(world, &nranks);
    MPI_Comm_rank(world, &rank);
    if (device->i && device->i->describe)
        snprintf(mine.words, sizeof mine.words, "%s",
                 device->i->describe(device->context, mine.identity));
    if (agree_gather(world, &mine, sizeof mine, "devices", &devices))
        return -1;
    if (devices)
        find(devices, nranks, sharers);
    free(devices);
    return agree_share(world, sharers, EXCHANGE_SHARERS);
}
