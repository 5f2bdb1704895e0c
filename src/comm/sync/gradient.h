/* Places and forms of a worker's gradients and parameters. Only this module asks whether the
 * device's memory is the host's, whether MPI reaches it, and whether a gradient travels encoded or
 * waits in a slot.
 *
 * The way out. When backward has run a layer, gradient_depart moves its gradient to the place that
 * its message leaves from: copied to the host beside the computation, encoded in device memory, or
 * (with --staleness) copied into a slot. gradient_arrived tells the wire's thread when the move is
 * over; gradient_message gives the message's memory. On devices in host memory all of this costs
 * nothing but encoding, which the wire's thread does when the message is due.
 *
 * The way back. Parameters arrive at gradient_values; gradient_store copies them to the device, and
 * gradient_order makes the computation wait for the copy there: no thread waits.
 *
 * Staleness (Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
 * Server", NIPS'13): a worker may compute iteration i with parameters that have all updates before
 * i - S, and perhaps newer ones. Running ahead needs copies: the next gradient must not overwrite a
 * gradient that has not left yet, and new parameters must not overwrite parameters that a pass
 * reads. There are S + 1 slots of gradients and of parameters, used by iteration modulo S + 1. */
#ifndef POSEIDON_SYNC_GRADIENT_H
#define POSEIDON_SYNC_GRADIENT_H

#include "device/device.h"
#include "device/tree_sum.h"

struct sync;

/* Decides, before buckets have steps, whether messages use device memory directly. Collective over
 * the workers. */
int gradient_open(struct sync *sync);
/* Makes room for messages and slots, after buckets have steps. Not collective. */
int gradient_place(struct sync *sync);

/* Returns "straight from and to the engine's memory", or the way through host memory and its
 * reason; NULL for devices in host memory. */
const char *gradient_way(const struct sync *sync);

/* True if MPI reaches device memory: gradients that need no other form are sent from there, and the
 * wire's thread calls `enter` of the device first. */
bool gradient_is_direct(const struct sync *sync);

/* True if the model's device works in host memory. */
bool gradient_on_host(const struct sync *sync);

/* True if this rank, as a server, updates its chunks in device memory. */
bool gradient_serves_on_device(const struct sync *sync);

/* Returns the device that multiplies on the host: the model's own, if it works there. */
const struct device *gradient_host_device(const struct sync *sync);

/* ---- the way out ---- */

/* Moves the bucket's gradient to the place that its messages leave from. Compute thread; a team's
 * wire thread calls it with turn DEVICE_STORED, after the team's sum. */
int gradient_depart(struct sync *sync, int bucket, enum device_turn turn);

/* Returns 1 if the bucket's next gradient to be posted is where its messages leave from, 0 if not,
 * -1 with a message. Wire thread. */
int gradient_arrived(struct sync *sync, int bucket);

/* Returns the message of the chunk's gradient of that iteration, plan_gradient_bytes long. Valid
 * until the bucket's next gradient (staleness: until the same slot's next). Wire thread. */
void *gradient_message(struct sync *sync, int chunk, int64_t iteration);

/* Returns the residual of a chunk's gradient that this rank encodes, for the host to read and
 * write; NULL with a message where fetching failed. gradient_restore_residual makes the writes take
 * effect; get the residuals of all chunks before it. No iteration may be under way. */
float *gradient_residual(struct sync *sync, int chunk);
int gradient_restore_residual(struct sync *sync);

/* Gives the sum of squares of scale * x, in device memory (compute thread; waits) or host memory.
 */
int gradient_sumsq(const struct sync *sync, bool on_device, const float *x, size_t elems,
                   float scale, double *out);

/* ---- the way back ---- */

/* Returns the place where the message with the chunk's new parameters of that iteration arrives. */
float *gradient_values(struct sync *sync, int chunk, int64_t iteration);

/* Returns the chunk's newest parameters that arrived complete, for weighing changes under
 * staleness; NULL if none arrived, or without staleness. */
const float *gradient_newest(struct sync *sync, int chunk);

/* Starts copying the bucket's parameters of the iteration just done to the device, except chunks
 * that arrived in device memory. The thread that changed the parameters last calls this. */
int gradient_store(struct sync *sync, int bucket);

/* Starts copying one chunk that arrived, where chunks are copied singly; gradient_store then has
 * nothing to copy. */
int gradient_store_chunk(struct sync *sync, int chunk);

/* Make later computation wait for the bucket's last store (order), or for its last staging, in
 * gradient_depart or factors_stage (order_staged). Compute thread. */
int gradient_order(struct sync *sync, int bucket);
int gradient_order_staged(struct sync *sync, int bucket);

/* Wire thread: makes gradient_order wait for the stores and updates that were started so far. */
int gradient_note_stored(struct sync *sync, int bucket);

/* Copies the newest complete parameters into the arena (staleness). Returns the number of updates
 * in these parameters, -1 with a message. Compute thread. */
int64_t gradient_take(struct sync *sync, int bucket);

/* ---- servers that update in device memory ---- */

/* Returns the chunk's new parameters, as the server sends them. */
float *gradient_served_values(const struct sync *sync, int chunk);

/* Starts the update, in device memory, of a chunk whose home is this rank, beside the computation:
 * copies the sum there, and the new values to the host unless messages go straight.
 * gradient_serve_poll calls home_updated when the update is over. Wire thread. */
struct history;
int gradient_serve(struct sync *sync, int chunk, int64_t iteration, const float *sum,
                   struct history *history);
int gradient_serve_poll(struct sync *sync); /* number of updates over, -1 with a message */
bool gradient_serve_busy(const struct sync *sync);

/* ---- memory beside the arenas ---- */

/* Give zeroed host memory that copies reach fast, zeroed memory of a device, and a ticket of the
 * model's device; NULL or -1 with a message. The sync frees all of these at its end. */
float *gradient_alloc(struct sync *sync, size_t elems, const char *what);
float *gradient_alloc_on(struct sync *sync, const struct device *device, size_t elems,
                         const char *what);
int gradient_ticket(struct sync *sync, struct device_ticket **out);

/* Opens a tree over the workers, for sums of their gradients; the sync frees it. */
int gradient_tree_sum(struct sync *sync, struct tree_sum *out);

#endif
