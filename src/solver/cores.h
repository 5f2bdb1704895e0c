/* The cores that a rank may compute on, and how many of them are its own. */
#ifndef POSEIDON_SOLVER_CORES_H
#define POSEIDON_SOLVER_CORES_H

#include <mpi.h>

#include <stdbool.h>

#include "util/log.h"
#include "util/topology.h"

enum { CORES_TEXT_BYTES = 96 };

struct cores {
    int allowed; /* that this rank may run on */
    int sharers; /* ranks of the machine, this one included, that may run on any of them */
    int threads; /* this rank's share: each core counts once over all ranks; at least 1 */
    int idle;    /* cores of the machine that no rank may run on */
    char list[CORES_TEXT_BYTES]; /* those allowed, "0-3,8"; cut where there are too many pieces */
};

/* Gathers the masks of all ranks of each machine. Collective over `world`, whose topology that is;
 * fails on all ranks together. */
int cores_find(MPI_Comm world, const struct topology *topology, struct cores *out);

/* One line of where a rank computes; threads: what it was given, 0: the library
 * chooses. And a
 * warning where it has one core and others of the machine are nobody's. */
void cores_log(const struct cores *cores, int rank, int threads, struct log *log);

#endif
