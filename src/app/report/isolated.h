/* Time of each layer's transfer with nothing else going on. The synchronisation itself moves every
 * bucket once more, by the scheme and with the messages of training, so no scheme needs a model
 * here. */
#ifndef POSEIDON_REPORT_ISOLATED_H
#define POSEIDON_REPORT_ISOLATED_H

#include "report/figures.h"

/* Moves every bucket alone, in a synchronisation of its own that ends with the call. Uses the plan
 * and model of training; of training's options (`like`) those on messages and the watchdog.
 * Training's synchronisation must be destroyed before: memory of the node and the engine is used
 * again.
 *
 * Sets alone_seconds of every layer of `figures` on rank 0: seconds from all ranks' start until the
 * slowest worker has its parameters, in the quickest of three rounds. Keeps parameters and history,
 * overwrites gradients. Collective over `world`, servers included; fails on all ranks together. */
int isolated_measure(MPI_Comm world, const struct plan *plan, const struct sync_model *model,
                     const struct sync_options *like, struct figures *figures);

#endif
