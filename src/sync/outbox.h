/* A worker's gradients on their way out, in the form in which they travel (codec.h), and what
 * rounding has yet to send of them: a place for every chunk that is encoded.
 *
 * Where the engine has memory of its own, gradients are encoded there, behind the computation, and
 * only what they have become goes to the host; where MPI reaches that memory, not even that
 * (remote.c). A place is free again when its group's transfers are over: staleness, which does not
 * wait for that, excludes codecs. */
#ifndef POSEIDON_SYNC_OUTBOX_H
#define POSEIDON_SYNC_OUTBOX_H

#include "sync/sync_internal.h"

/* Chunks lie one behind the other; those that are not encoded take no room. */
struct outbox {
    size_t *begin;   /* nchunks + 1: floats before the chunk's gradient */
    size_t *message; /* nchunks + 1: floats before the chunk's message */
    float *residual; /* of the gradients; in the engine's memory where that encodes */
    float *messages; /* on the host; page-locked where the engine encodes */
    float *remote;   /* the same in the engine's memory; NULL where the host encodes */
};

/* After the groups have their syncers. Not collective. */
int outbox_open(struct sync *sync);
void outbox_close(struct sync *sync);

/* Whether this rank sends that chunk's gradient encoded. */
bool outbox_encodes(const struct sync *sync, int chunk);

/* As remote_fetch_gradient: the group's gradients that travel encoded become messages, in the
 * memory of the engine that has them; those that do not go straight are fetched. The ticket tells
 * when that is over; untouched where there are none. */
int outbox_encode(struct sync *sync, int group, struct engine_ticket *ticket);

/* Progress thread: what to send of that gradient, plan_gradient_bytes of it: the gradient itself
 * where it is not encoded. Valid until the group's next gradient. */
const void *outbox_fill(struct sync *sync, int chunk, const float *gradient);

#endif
