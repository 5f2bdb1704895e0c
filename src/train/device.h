/* Which device of its node a rank computes on, for engines that have devices. */
#ifndef POSEIDON_TRAIN_DEVICE_H
#define POSEIDON_TRAIN_DEVICE_H

#include <mpi.h>

#include "engine/engine.h"

/* Opens the engine. No two ranks may have got the same device, unless `share`: each would slow the
 * other down. Collective; fails on all ranks together. */
int device_open(MPI_Comm world, const char *name, const struct engine_options *options, bool share,
                struct engine *out);

#endif
