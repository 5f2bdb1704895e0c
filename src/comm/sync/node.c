/* The memory that the ranks of a node share. */
#include "sync/node.h"

#include "util/agree.h"
#include "util/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

enum { LINE = 64 }; /* bytes of a cache line */

/* Sums the bytes that all nodes of this rank's machine want. Collective over the machine. */
static int sum_over_machine(const struct node *node, size_t mine, uint64_t *out)
{
    uint64_t bytes = mine;

    return MPI_STATUS(MPI_Allreduce(&bytes, out, 1, MPI_UINT64_T, MPI_SUM, node->machine));
}

/* Fails if the folder of MPI's windows on Linux lacks room: in a full folder some ranks would wait
 * for the others for ever. Leaves some room for the smaller windows that follow, and for MPI. */
static int check_space(uint64_t bytes, const char *what)
{
    enum { SPARE = 1 << 20 };
    static const char folder[] = "/dev/shm";
    struct statvfs fs;
    uint64_t there;

    if (statvfs(folder, &fs))
        return 0;
    there = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (bytes == 0 || bytes + SPARE <= there)
        return 0;
    return error_set(
        "%s of this machine's ranks take %.0f MiB of shared memory, but %s has %.0f MiB left: "
        "enlarge it, or use hierarchy=off",
        what, (double)bytes / 1048576, folder, (double)there / 1048576);
}

static int allocate(const struct node *node, size_t bytes, struct node_window *out)
{
    MPI_Aint mine = node->rank == 0 ? (MPI_Aint)(bytes + LINE) : 0, size;
    char *base = NULL;
    int unit;

    MPI_CHECK(
        MPI_Win_allocate_shared(mine, 1, MPI_INFO_NULL, node->comm, (void *)&base, &out->window));
    MPI_CHECK(MPI_Win_shared_query(out->window, 0, &size, &unit, (void *)&base));
    /* every rank's mapping begins at a page, so all ranks skip the same bytes */
    out->memory = base + (LINE - (uintptr_t)base % LINE) % LINE;
    return 0;
}

int node_window_open(MPI_Comm world, const struct node *node, size_t bytes, const char *what,
                     struct node_window *out)
{
    bool alone = node->nranks == 1, leads = !alone && node->rank == 0;
    uint64_t total = 0;

    *out = (struct node_window){.window = MPI_WIN_NULL};
    /* all nodes of a machine share its memory */
    if (error_agree(world, sum_over_machine(node, leads ? bytes : 0, &total)) ||
        error_agree(world, leads ? check_space(total, what) : 0))
        return -1;
    return error_agree(world, alone ? 0 : allocate(node, bytes, out));
}

void node_window_close(struct node_window *window)
{
    if (window->window != MPI_WIN_NULL)
        (void)MPI_Win_free(&window->window);
    window->memory = NULL;
}

/* Makes the communicator of the machine's ranks, and of the node's if the node has several. */
static int split(MPI_Comm world, const struct topology *topology, const struct node_map *map,
                 struct node *node)
{
    int rank = topology->rank, mates = 0;

    MPI_CHECK(MPI_Comm_split(world, topology->machine[rank], rank, &node->machine));
    MPI_CHECK(MPI_Comm_set_errhandler(node->machine, MPI_ERRORS_RETURN));
    for (int w = 0; rank < map->nworkers && w < map->nworkers; w++)
        mates += map->node[w] == map->node[rank];
    MPI_CHECK(
        MPI_Comm_split(world, mates > 1 ? map->node[rank] : MPI_UNDEFINED, rank, &node->comm));
    if (mates <= 1)
        return 0;
    MPI_CHECK(MPI_Comm_set_errhandler(node->comm, MPI_ERRORS_RETURN));
    MPI_CHECK(MPI_Comm_rank(node->comm, &node->rank));
    MPI_CHECK(MPI_Comm_size(node->comm, &node->nranks));
    return 0;
}

int node_create(MPI_Comm world, const struct topology *topology, const struct node_map *map,
                size_t elems, struct node **out)
{
    struct node *node;
    size_t bytes;

    *out = NULL;
    if (map->most == 1)
        return 0;
    if (error_agree(world, ALLOC(node, 1, "the node"))) {
        free(node); /* memory lacked on another rank */
        return -1;
    }
    *node = (struct node){.comm = MPI_COMM_NULL,
                          .machine = MPI_COMM_NULL,
                          .nranks = 1,
                          .team = map->team,
                          .elems = elems,
                          .arenas = {.window = MPI_WIN_NULL}};
    if (error_agree(world, split(world, topology, map, node)))
        goto fail;
    bytes = elems * sizeof(float) * (1 + (size_t)node->nranks);
    if (!node->team &&
        node_window_open(world, node, bytes, "parameters and gradients", &node->arenas))
        goto fail;
    if (node->nranks > 1 && !node->team) {
        node->values = node->arenas.memory;
        node->grads = node->values + elems;
        /* each rank clears its own gradients, so that the pages are near its cores; padding stays
         * zero */
        memset(node_grads(node, node->rank), 0, elems * sizeof(float));
        if (node->rank == 0)
            memset(node->values, 0, elems * sizeof(float));
    }
    *out = node;
    return 0;
fail:
    node_destroy(node);
    return -1;
}

void node_destroy(struct node *node)
{
    if (!node)
        return;
    node_window_close(&node->arenas);
    if (node->comm != MPI_COMM_NULL)
        MPI_Comm_free(&node->comm);
    if (node->machine != MPI_COMM_NULL)
        MPI_Comm_free(&node->machine);
    free(node);
}
