/* Gathering one chunk's gradients from all workers at its home, added in rank order as they come, so that
 * the sum has the same bits whatever the order of arrival. The server of a parameter server and the home
 * of a shard both do it. Progress thread, after the opening.
 *
 * Receives are posted one iteration ahead, so no gradient ever arrives unexpected. */
#ifndef POSEIDON_SYNC_COLLECT_H
#define POSEIDON_SYNC_COLLECT_H

#include "sync/codec.h"
#include "sync/sync_internal.h"

/* A worker's gradient of one chunk on its way out: the arena itself, or encoded. */
struct outbox {
    void *encoded;   /* NULL without a codec */
    float *residual; /* ditto */
};

struct collect {
    int chunk;
    int64_t iteration;      /* being collected */
    int next;               /* next worker to be added */
    unsigned char *arrived; /* per worker */
    void **from;            /* per worker: its gradient as it came; NULL for this rank's own and where
                               somebody else makes the sum */
    const void *own;        /* this rank's own: borrowed, nobody overwrites it before the chunk is back */
    float *sum;             /* NULL where there is one worker, whose gradient it is */
};

int outbox_open(struct sync *sync, int chunk, struct outbox *box);
/* What to send, plan_gradient_bytes of it; valid until the next call. */
const void *outbox_fill(struct sync *sync, int chunk, struct outbox *box);
void outbox_close(struct outbox *box);

/* receives: gradients come chunk by chunk; false: the sum is made otherwise (from factors). */
int collect_open(struct sync *sync, int chunk, bool receives, struct collect *out);
void collect_close(struct sync *sync, struct collect *collect);

/* Posts the receives of collect->iteration; `what` marks them for the syncer. */
int collect_expect(struct sync *sync, struct collect *collect, int what);

/* A worker's gradient is here. own: this rank's, from outbox_fill; NULL: another's, in its buffer. True
 * when the sum is complete. */
bool collect_arrive(struct sync *sync, struct collect *collect, int worker, const void *own);

const float *collect_sum(const struct collect *collect);

/* On to the next iteration. */
int collect_next(struct sync *sync, struct collect *collect, int what);

#endif
