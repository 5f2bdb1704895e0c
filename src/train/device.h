/* Which device of its node a rank computes on, for engines that have devices. */
#ifndef POSEIDON_TRAIN_DEVICE_H
#define POSEIDON_TRAIN_DEVICE_H

#include <mpi.h>

#include "engine/engine.h"

/* Opens the engine. No two ranks may have got the same device, unless `share`: each would slow the
 * other down. Collective; fails on all ranks together. */
int device_open(MPI_Comm world, const char *name, const struct engine_options *options, bool share,
                struct engine *out);

/* What rank 0's engine chose by measuring holds for all engines that measure: to be called when
 * rank 0 has built its nets, and before the others build theirs. Collective. */
int device_share_choices(MPI_Comm world, struct engine *engine);

/* Whether the others have to wait for that. Collective; the same on all ranks. */
int device_measures(MPI_Comm world, const struct engine *engine, bool *out);

#endif
