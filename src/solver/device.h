/* Which device of its node a rank computes on, for engines that have devices. */
#ifndef POSEIDON_SOLVER_DEVICE_H
#define POSEIDON_SOLVER_DEVICE_H

#include <mpi.h>

#include "engine/engine.h"

/* This rank's number among the ranks of its node, in their order in the world. Collective. */
int device_local_rank(MPI_Comm world);

/* Opens the engine. No two ranks may have got the same device, unless `share`: each would slow the
 * other down. Collective; fails on all ranks together. */
int device_open(MPI_Comm world, const char *name, const struct engine_options *options, bool share,
                struct engine *out);

#endif
