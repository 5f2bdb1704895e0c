/* Bounded staleness, the worker's side (Ho et al., "More Effective Distributed ML via a Stale
 * Synchronous Parallel Parameter Server", NIPS'13): a worker may compute iteration i with
 * parameters in which all updates before i - S are, and perhaps newer ones; so it is never more
 * than S iterations ahead of the slowest. The server still adds up whole iterations in rank order,
 * and the result of S = 0 is that of plain synchronous training.
 *
 * Running ahead needs copies: a gradient that has not left yet must not be overwritten by the next,
 * nor parameters by the progress thread while a pass reads them. There are S + 1 slots of each. */
#ifndef POSEIDON_SYNC_STALE_H
#define POSEIDON_SYNC_STALE_H

#include "sync/sync_internal.h"

/* Slots of one group; iteration i uses slot i modulo depth. */
struct stale {
    int depth;        /* S + 1 */
    size_t elems;     /* of the group */
    float *gradients; /* depth x elems */
    float *values;    /* depth x elems: after iteration i's update */
    int *pending;     /* per slot: transfers in flight (progress thread) */
    int64_t complete; /* iterations whose transfers are over, without a gap (progress thread) */
    /* Per slot, where the engine has memory of its own: its gradient on the way to the host. */
    struct engine_ticket **fetches;
};

int stale_open(struct sync *sync, int group);
void stale_close(struct sync *sync, int group);

/* Compute thread: keeps the finished gradient. */
int stale_stage(struct sync *sync, int group, int micro);

/* Where element `begin` of the arenas is in the iteration's slot. */
float *stale_gradient(struct sync *sync, int group, int64_t iteration, size_t begin);
float *stale_values(struct sync *sync, int group, int64_t iteration, size_t begin);

/* Progress thread: the parameters that came last, from element `begin` on; NULL before the first
 * ones. */
const float *stale_newest(struct sync *sync, int group, size_t begin);

/* Progress thread: one of the iteration's transfers is over. */
void stale_finish_one(struct sync *sync, int group, int64_t iteration);

/* The iteration's gradient on its way from an engine with memory of its own. */
struct engine_ticket *stale_fetch(struct sync *sync, int group, int64_t iteration);

/* Compute thread: the newest complete parameters into the arena, or on their way to an engine with
 * memory of its own; returns how many updates are in them, -1 with a message. */
int64_t stale_take(struct sync *sync, int group);

#endif
