/* Which ranks share a machine. The launcher and MPI decide that once, and so does the program: a
 * command makes one topology of its ranks and hands it to all who need it. */
#ifndef POSEIDON_UTIL_TOPOLOGY_H
#define POSEIDON_UTIL_TOPOLOGY_H

#include <mpi.h>

enum { TOPOLOGY_HOST_BYTES = 64 }; /* of a host's name, its end included; longer names are cut */

/* Everything but `rank`, `local_rank` and `local_ranks` is the same on all ranks. */
struct topology {
    int nranks;      /* of the communicator */
    int rank;        /* this one */
    int nmachines;   /* at least 1 */
    int *machine;    /* per rank: number of its machine, below nmachines; machines are numbered in
                        the order of their lowest ranks. Owned */
    int local_rank;  /* number of this rank among the ranks of its machine, in rank order */
    int local_ranks; /* ranks on this rank's machine */
    int most_ranks;  /* ranks on the machine that has most */
    char (*host)[TOPOLOGY_HOST_BYTES]; /* per rank: what its system calls itself. Owned */
};

/* Two ranks share a machine where MPI can give them shared memory. Collective over `comm`; fails on
 * all of its ranks together, and then *out need not be freed. */
int topology_create(MPI_Comm comm, struct topology *out);

/* All zero is an empty topology. Not collective. */
void topology_free(struct topology *topology);

#endif
