/* The machine of each rank. The launcher and MPI decide once which ranks share a machine, so a
 * command makes one topology of its ranks and passes it to all code that needs it. */
#ifndef POSEIDON_UTIL_TOPOLOGY_H
#define POSEIDON_UTIL_TOPOLOGY_H

#include <mpi.h>

enum { TOPOLOGY_HOST_BYTES = 64 }; /* bytes of a host's name with its NUL; longer names are cut */

/* Everything but `rank`, `local_rank` and `local_ranks` is the same on all ranks. */
struct topology {
    int nranks;    /* ranks of the communicator */
    int rank;      /* this process's rank */
    int nmachines; /* number of machines, at least 1 */
    int *machine; /* per rank: number of its machine, below nmachines, in the order of the machines'
                     lowest ranks. Owned */
    int local_rank;  /* index of this rank among the ranks of its machine, in rank order */
    int local_ranks; /* ranks on this rank's machine */
    int most_ranks;  /* ranks on the machine that has the most */
    char (*host)[TOPOLOGY_HOST_BYTES]; /* per rank: name of its host. Owned */
};

/* Finds the machine of each rank: ranks share a machine if MPI can give them shared memory.
 * Collective over `comm`; fails on all its ranks together, and then *out need not be freed. */
int topology_create(MPI_Comm comm, struct topology *out);

/* Frees the topology; all zero is an empty topology. Not collective. */
void topology_free(struct topology *topology);

#endif
