/* How long each layer's transfer takes when nothing else goes on. It is asked of the
 * synchronisation itself, which moves every bucket once more by the scheme and with the messages
 * that training used, so that no scheme needs a model here. */
#ifndef POSEIDON_REPORT_ISOLATED_H
#define POSEIDON_REPORT_ISOLATED_H

#include "report/figures.h"

/* Moves every bucket by itself, in a synchronisation of its own that lives as long as this call:
 * over the plan and model of training, with those of training's options (`like`) that say how
 * messages travel and who watches over them. Training's must have been destroyed: a node's memory
 * and an engine's buffers are used again, and there is no room for them twice.
 *
 * Sets alone_seconds of every layer of `figures` on rank 0: seconds from all ranks' start until the
 * slowest worker has its parameters; the quickest of three rounds. Parameters and history stay as
 * they are, gradients are overwritten. Collective over `world`, servers included; fails on all
 * ranks together. */
int isolated_measure(MPI_Comm world, const struct plan *plan, const struct sync_model *model,
                     const struct sync_options *like, struct figures *figures);

#endif
