/* How fast each host sends to the next one, while all do: what one slow cable, card or switch port
 * does to a training stands out here, and is lost in the figures of all ranks together. */
#ifndef POSEIDON_COMMANDS_DOCTOR_NETWORK_H
#define POSEIDON_COMMANDS_DOCTOR_NETWORK_H

#include <mpi.h>

#include "util/topology.h"

/* Bps[m]: bytes per second from machine m to machine m + 1, the last one to the first; of
 * topology->nmachines places, on rank 0. Takes less than two seconds. Collective; fails on all
 * ranks together. Several machines only. */
int network_ring(MPI_Comm world, const struct topology *topology, double *Bps);

#endif
