/* Who forms a node, and the memory of one, on ranks of one machine. Run under mpirun with at least
 * two, by test_nodes.sh. Prints what is wrong and ends all ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "sync/node.h"
#include "tests/mpi/require.h"
#include "util/error.h"

static int rank, nranks;
static struct topology topology;

/* `servers` ranks at the end do not compute. */
static void check_map(int servers, int each)
{
    int workers = nranks - servers, full = each ? each : workers;
    int nodes = (workers + full - 1) / full;
    struct node_map map;

    REQUIRE(!node_map_create(topology.machine, topology.nmachines, topology.nranks, workers, each,
                             &map));
    REQUIRE(map.nnodes == nodes && map.leaders_per_host == nodes + servers);
    REQUIRE(map.most == (workers < full ? workers : full));
    for (int w = 0; w < workers; w++)
        REQUIRE(map.node[w] == w / full);
    node_map_free(&map);
}

/* Seven ranks on three machines, which no test has: machine 1 comes first with rank 1, the last two
 * ranks are servers. */
static void check_machines(void)
{
    static const int machine[] = {0, 1, 0, 1, 1, 1, 2};
    static const int whole[] = {0, 1, 0, 1, 1}, pairs[] = {0, 1, 0, 1, 2};
    struct node_map map;

    REQUIRE(!node_map_create(machine, 3, 7, 5, 0, &map));
    REQUIRE(map.nnodes == 2 && map.most == 3 && map.leaders_per_host == 2);
    REQUIRE(!memcmp(map.node, whole, sizeof whole));
    node_map_free(&map);
    REQUIRE(!node_map_create(machine, 3, 7, 5, 2, &map));
    REQUIRE(map.nnodes == 3 && map.most == 2 && map.leaders_per_host == 3);
    REQUIRE(!memcmp(map.node, pairs, sizeof pairs));
    node_map_free(&map);
}

/* What one writes the others read, and the gradients do not overlap. */
static void check_memory(int each)
{
    enum { ELEMS = 1000 };
    struct node_map map;
    struct node *node;
    int mine, size;

    REQUIRE(!node_map_create(topology.machine, topology.nmachines, topology.nranks, nranks, each,
                             &map));
    REQUIRE(!node_create(MPI_COMM_WORLD, &topology, &map, ELEMS, &node));
    mine = rank % each;
    size = nranks - rank / each * each < each ? nranks - rank / each * each : each;
    REQUIRE(node->nranks == size && node->rank == mine);
    if (size > 1) {
        for (int i = 0; i < ELEMS; i++) {
            node_grads(node, mine)[i] = (float)(rank * ELEMS + i);
            if (mine == 0)
                node->values[i] = (float)-rank - 1;
        }
        MPI_Barrier(node->comm);
        for (int i = 0; i < ELEMS; i++) {
            REQUIRE(node->values[i] == (float)-(rank - mine) - 1);
            for (int r = 0; r < size; r++)
                REQUIRE(node_grads(node, r)[i] == (float)((rank - mine + r) * ELEMS + i));
        }
        REQUIRE((size_t)node->values % 64 == 0);
        MPI_Barrier(node->comm);
    } else {
        REQUIRE(!node->values && !node->grads);
    }
    node_destroy(node);
    node_map_free(&map);
}

/* More than any machine has: all ranks fail, with the same message. */
static void check_space(void)
{
    struct node_map map;
    struct node *node;

    REQUIRE(
        !node_map_create(topology.machine, topology.nmachines, topology.nranks, nranks, 0, &map));
    REQUIRE(node_create(MPI_COMM_WORLD, &topology, &map, (size_t)1 << 45, &node) && !node);
    REQUIRE(strstr(error_text(), "MiB of shared memory, but /dev/shm has "));
    REQUIRE(strstr(error_text(), "hierarchy=off"));
    node_map_free(&map);
}

/* Enough for one node and too much for those of a machine together. */
static void check_space_of_several(void)
{
    struct node_window window;
    struct node_map map;
    struct node *node;
    struct statvfs fs;
    unsigned long long bytes = statvfs("/dev/shm", &fs) ? 0 : fs.f_bavail * fs.f_frsize / 10 * 7;

    MPI_Bcast(&bytes, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD);
    if (nranks < 4 || !bytes)
        return;
    REQUIRE(
        !node_map_create(topology.machine, topology.nmachines, topology.nranks, nranks, 2, &map));
    REQUIRE(!node_create(MPI_COMM_WORLD, &topology, &map, 1000, &node));
    REQUIRE(node_window_open(MPI_COMM_WORLD, node, (size_t)bytes, "a great deal", &window));
    REQUIRE(strstr(error_text(), "a great deal of this machine's ranks take "));
    node_destroy(node);
    node_map_free(&map);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    REQUIRE(!topology_create(MPI_COMM_WORLD, &topology));
    REQUIRE(topology.nranks == nranks && topology.rank == rank && topology.local_rank == rank);
    REQUIRE(topology.nmachines == 1 && topology.local_ranks == nranks &&
            topology.most_ranks == nranks);
    check_machines();
    for (int each = 0; each <= nranks + 1; each++)
        for (int servers = 0; servers < nranks; servers++)
            check_map(servers, each);
    for (int each = 2; each <= nranks; each++)
        check_memory(each);
    check_space();
    check_space_of_several();
    topology_free(&topology);
    MPI_Finalize();
    return 0;
}
