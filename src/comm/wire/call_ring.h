/* Ring of calls from the compute thread to the wire thread: one writer, one reader, no lock. */
#ifndef POSEIDON_WIRE_CALL_RING_H
#define POSEIDON_WIRE_CALL_RING_H

#include "util/owner.h"
#include "wire/wire.h"

struct ring_call {
    wire_call_fn *call;
    void *context;
    int64_t argument;
};

struct call_ring {
    struct ring_call *calls;
    size_t mask;
    char pad_tail[64]; /* padding: each thread's counter has its own cache line */
    _Atomic size_t tail;
    char pad_head[64];
    _Atomic size_t head;
};

/* Allocates room for at least `calls` calls, owned by `owner`; -1 with a message on failure. */
int call_ring_open(struct call_ring *ring, struct owner *owner, int calls);

/* Adds a call; false if the ring is full. Writer only. The reader of a call sees everything that
 * the writer stored before adding the call. */
bool call_ring_put(struct call_ring *ring, struct ring_call call);

/* Takes the oldest call; false if the ring is empty. Reader only. */
bool call_ring_take(struct call_ring *ring, struct ring_call *out);

/* Returns true if the ring is empty. Reader only. Sequentially consistent: a reader that announces
 * its sleep before this call cannot miss a writer that looks for sleepers after call_ring_put. */
bool call_ring_empty(struct call_ring *ring);

#endif
