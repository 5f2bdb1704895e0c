/* Calls on their way from the compute thread to the wire thread: a ring with one writer and one
 * reader, and no lock. */
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
    char apart[64]; /* each thread's counter has a cache line of its own */
    _Atomic size_t tail;
    char apart_too[64];
    _Atomic size_t head;
};

/* Room for `calls` at least, which the owner has; fails where memory does, with a message. */
int call_ring_open(struct call_ring *ring, struct owner *owner, int calls);

/* Writer: false if there is no room. What it wrote before is seen by the call's reader. */
bool call_ring_put(struct call_ring *ring, struct ring_call call);

/* Reader: takes the oldest call; false if the ring is empty. */
bool call_ring_take(struct call_ring *ring, struct ring_call *out);

/* Reader: whether the ring is empty. Sequentially consistent: a reader that first says it is going
 * to sleep, and a writer that looks for sleepers after call_ring_put, cannot miss each other. */
bool call_ring_empty(struct call_ring *ring);

#endif
