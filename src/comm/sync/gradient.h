/* Where a worker's gradients and parameters are, and in what form: the only file that asks whether
 * the device's memory is the host's, whether MPI reaches it, and whether a gradient travels encoded
 * or waits in a slot.
 *
 * The way out. When backward has run a layer, gradient_depart has its gradient go where its message
 * leaves from: copied to the host beside the computation, encoded in the device's memory, or (with
 * --staleness) into a slot. gradient_arrived tells the wire's thread when that is over;
 * gradient_message gives what to send. Where the memory is one, all of that costs nothing, but for
 * encoding, which the wire's thread does when the message is due.
 *
 * The way back. Parameters arrive at gradient_values; gradient_store has them go to the device, and
 * gradient_order has the computation wait for them there: no thread waits for a copy.
 *
 * Staleness (Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
 * Server", NIPS'13): a worker may compute iteration i with parameters in which all updates before i
 * - S are, and perhaps newer ones. Running ahead needs copies: a gradient that has not left yet
 * must not be overwritten by the next, nor parameters by the wire's thread while a pass reads them.
 * There are S + 1 slots of each, used by iteration modulo S + 1. */
#ifndef POSEIDON_SYNC_GRADIENT_H
#define POSEIDON_SYNC_GRADIENT_H

#include "device/device.h"
#include "device/tree_sum.h"

struct sync;

/* Before the buckets have their steps: decides whether messages go straight from and to the
 * device's memory. Collective over the workers. */
int gradient_open(struct sync *sync);
/* After the buckets have their steps: room for messages and slots. Not collective. */
int gradient_place(struct sync *sync);

/* "straight from and to the engine's memory", or why not; NULL where that is the host's. */
const char *gradient_way(const struct sync *sync);

/* Whether MPI reaches the device's memory: gradients that travel in the form in which they lie
 * there go straight, and the wire's thread enters the device first. */
bool gradient_is_direct(const struct sync *sync);

/* Whether the model's device works on the host's memory. */
bool gradient_on_host(const struct sync *sync);

/* Whether this rank, as a server, updates its chunks in the device's memory. */
bool gradient_serves_on_device(const struct sync *sync);

/* The device that multiplies on the host: the model's own where it does. */
const struct device *gradient_host_device(const struct sync *sync);

/* ---- the way out ---- */

/* Compute thread, or a team's wire thread (turn DEVICE_STORED: behind the team's sum). */
int gradient_depart(struct sync *sync, int bucket, enum device_turn turn);

/* Wire thread: whether the gradient next to be posted of the bucket is where its message leaves
 * from: 1, 0, or -1 with a message. */
int gradient_arrived(struct sync *sync, int bucket);

/* Wire thread: what to send of the chunk's gradient of that iteration, plan_gradient_bytes of it.
 * Valid until the bucket's next gradient (staleness: until that of the same slot). */
void *gradient_message(struct sync *sync, int chunk, int64_t iteration);

/* What encoding has left of the chunk's gradients, which this rank sends encoded, as the host can
 * read and write it; NULL with a message where it could not be fetched. What is written there holds
 * after gradient_restore_residual, before which all such chunks are read. No iteration may be under
 * way. */
float *gradient_residual(struct sync *sync, int chunk);
int gradient_restore_residual(struct sync *sync);

/* Sum of squares of scale * x, in the device's memory (compute thread; waits) or the host's. */
int gradient_sumsq(const struct sync *sync, bool on_device, const float *x, size_t elems,
                   float scale, double *out);

/* ---- the way back ---- */

/* Where the message with the chunk's new parameters of that iteration arrives. */
float *gradient_values(struct sync *sync, int chunk, int64_t iteration);

/* The newest parameters that arrived complete, at the chunk; NULL where none did, or nothing asks
 * for them. For weighing changes under staleness. */
const float *gradient_newest(struct sync *sync, int chunk);

/* The bucket's parameters of the iteration just done are in place on the host: they start on their
 * way to the device, but for chunks that came there straight. Whichever thread changed them last.
 */
int gradient_store(struct sync *sync, int bucket);

/* The same of one chunk that came, where chunks go by themselves: gradient_store then finds nothing
 * left to do. */
int gradient_store_chunk(struct sync *sync, int chunk);

/* Compute thread: what is run from now on finds what was last stored for the bucket; or begins
 * after what was last staged of it (gradient_stage). */
int gradient_order(struct sync *sync, int bucket);
int gradient_order_staged(struct sync *sync, int bucket);

/* What was stored of the bucket, and made of it beside the computation, is what gradient_order
 * waits for. Wire thread. */
int gradient_note_stored(struct sync *sync, int bucket);

/* Staleness; compute thread: the newest complete parameters into the arena; returns how many
 * updates are in them, -1 with a message. */
int64_t gradient_take(struct sync *sync, int bucket);

/* ---- servers that update in the device's memory ---- */

/* Where the server's messages with the chunk's new parameters begin. */
float *gradient_served_values(const struct sync *sync, int chunk);

/* Wire thread: the update of a chunk at home here starts in the device's memory, beside the
 * computation: its sum goes there, and the new values come to the host unless messages go straight.
 * gradient_serve_poll calls home_updated when that is over. */
struct history;
int gradient_serve(struct sync *sync, int chunk, int64_t iteration, const float *sum,
                   struct history *history);
int gradient_serve_poll(struct sync *sync); /* how many are over, -1 with a message */
bool gradient_serve_busy(const struct sync *sync);

/* ---- memory beside the arenas ---- */

/* Zeroed host memory that copies to and from the device reach fast, zeroed memory of a device's,
 * and a ticket of the model's; NULL or -1 with a message. The sync's: it frees them in the end. */
float *gradient_alloc(struct sync *sync, size_t elems, const char *what);
float *gradient_alloc_on(struct sync *sync, const struct device *device, size_t elems,
                         const char *what);
int gradient_ticket(struct sync *sync, struct device_ticket **out);

/* A tree over the workers, for sums of what they send: the sync's likewise. */
int gradient_tree_sum(struct sync *sync, struct tree_sum *out);

#endif
