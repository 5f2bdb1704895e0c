/* Masks of the ranks of a machine, put beside each other: a launcher may bind each rank to cores of
 * its own, or let all run on the same ones, and a batch system may leave both only some of them. */
#define _GNU_SOURCE
#include "solver/cores.h"

#include "util/agree.h"
#include "util/error.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool overlap(const cpu_set_t *a, const cpu_set_t *b)
{
    cpu_set_t both;

    CPU_AND(&both, a, b);
    return CPU_COUNT(&both) > 0;
}

/* "0-3,8" */
static void print_list(const cpu_set_t *mask, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int c = 0; c < CPU_SETSIZE && used < size; c++) {
        int last = c;

        if (!CPU_ISSET(c, mask))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, mask))
            last++;
        used += (size_t)snprintf(text + used, size - used, last > c ? "%s%d-%d" : "%s%d",
                                 used ? "," : "", c, last);
        c = last;
    }
}

/* masks: of the machine's ranks, this one's at `mine`. */
static void divide(const cpu_set_t *masks, int ranks, int mine, struct cores *out)
{
    int online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    double share = 0;
    cpu_set_t used;

    CPU_ZERO(&used);
    out->allowed = CPU_COUNT(&masks[mine]);
    for (int r = 0; r < ranks; r++) {
        CPU_OR(&used, &used, &masks[r]);
        out->sharers += r == mine || overlap(&masks[r], &masks[mine]);
    }
    for (int c = 0; c < CPU_SETSIZE; c++) {
        int sharers = 0;

        for (int r = 0; r < ranks && CPU_ISSET(c, &masks[mine]); r++)
            sharers += CPU_ISSET(c, &masks[r]) ? 1 : 0;
        share += sharers ? 1.0 / sharers : 0;
    }
    out->threads = share + 1e-6 >= 1 ? (int)(share + 1e-6) : 1;
    out->idle = online > CPU_COUNT(&used) ? online - CPU_COUNT(&used) : 0;
    print_list(&masks[mine], out->list, sizeof out->list);
}

int cores_find(MPI_Comm world, const struct topology *topology, struct cores *out)
{
    MPI_Comm machine = MPI_COMM_NULL;
    int ranks = topology->local_ranks;
    cpu_set_t mine, *masks = calloc((size_t)ranks, sizeof *masks);
    int status = masks ? 0 : error_memory((size_t)ranks * sizeof *masks, "masks of cores");

    *out = (struct cores){.threads = 1};
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof mine, &mine) || CPU_COUNT(&mine) == 0)
        CPU_SET(0, &mine);
    if (error_agree(world, status))
        goto fail;
    MPI_TRY(MPI_Comm_split(world, topology->machine[topology->rank], topology->rank, &machine));
    MPI_TRY(MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, masks, (int)sizeof mine, MPI_BYTE,
                          machine));
    MPI_TRY(MPI_Comm_free(&machine));
    divide(masks, ranks, topology->local_rank, out);
    free(masks);
    return 0;
fail:
    free(masks);
    return -1;
}

void cores_log(const struct cores *cores, int rank, int threads, struct log *log)
{
    char count[32] = "the library's", shared[64] = "";

    if (threads > 0)
        snprintf(count, sizeof count, "%d", threads);
    if (cores->sharers > 1)
        snprintf(shared, sizeof shared, ", which %d ranks share", cores->sharers);
    LOG_INFO(log, "Rank %d: %s compute thread%s on core%s %s%s", rank, count,
             threads == 1 ? "" : "s", cores->allowed == 1 ? "" : "s", cores->list, shared);
    if (cores->allowed == 1 && cores->idle > 0)
        LOG_WARNING(log,
                    "Rank %d is bound to one core, where its threads for computing, communication "
                    "and input take turns, and %d core%s of the machine %s nobody's: start with "
                    "mpirun --bind-to none",
                    rank, cores->idle, cores->idle == 1 ? "" : "s",
                    cores->idle == 1 ? "is" : "are");
}
