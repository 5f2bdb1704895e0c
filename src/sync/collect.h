/* Gathering one chunk's gradients from all workers at its home, added in rank order as they come,
 * so that the sum has the same bits whatever the order of arrival. The server of a parameter server
 * and the home of a shard both do it. Progress thread, after the opening.
 *
 * Receives are posted one iteration ahead, so no gradient ever arrives unexpected. */
#ifndef POSEIDON_SYNC_COLLECT_H
#define POSEIDON_SYNC_COLLECT_H

#include "sync/sync_internal.h"

struct collect {
    int chunk;
    int64_t iteration; /* being collected */
    int next;          /* next worker to be added */
    int depth; /* iterations whose gradients may be here; iteration i uses slot i modulo it */
    unsigned char *arrived; /* per slot and worker */
    void **from;      /* per slot and worker: its gradient as it came; NULL for this rank's own and
                         where somebody else makes the sum */
    const void **own; /* per slot: this rank's own; borrowed, nobody overwrites it before the chunk
                         is back */
    float *sum;       /* NULL where there is one worker, whose gradient it is */
    bool locked;      /* sum is page-locked: it goes to the engine's memory */
};

/* receives: gradients come chunk by chunk; false: the sum is made otherwise (from factors). depth:
 * 1, or more where workers may run ahead. */
int collect_open(struct sync *sync, int chunk, bool receives, int depth, struct collect *out);
void collect_close(struct sync *sync, struct collect *collect);

/* Posts the first receives, of `depth` iterations; `what` marks them for the syncer. */
int collect_start(struct sync *sync, struct collect *collect, int what);

/* A worker's gradient is here, in that slot. own: this rank's, from outbox_fill; NULL: another's,
 * in its buffer. */
void collect_arrive(struct sync *sync, struct collect *collect, int worker, int slot,
                    const void *own);

/* Adds what is next; true when the sum is complete. */
bool collect_add(struct sync *sync, struct collect *collect);

static inline int collect_slot(const struct collect *collect, int64_t iteration)
{
    return (int)(iteration % collect->depth);
}

const float *collect_sum(const struct sync *sync, const struct collect *collect);

/* On to the next iteration; posts the receives of the one `depth` later. */
int collect_next(struct sync *sync, struct collect *collect, int what);

#endif
