/* Counters only grow; call number n is stored at n modulo the size, a power of two. */
#include "wire/call_ring.h"

#include <assert.h>

int call_ring_open(struct call_ring *ring, struct owner *owner, int calls)
{
    size_t size = 64;

    while (calls > 0 && size < (size_t)calls)
        size *= 2;
    if (OWN(owner, ring->calls, size, "calls of the wire"))
        return -1;
    ring->mask = size - 1;
    return 0;
}

bool call_ring_put(struct call_ring *ring, struct ring_call call)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    assert(call.call);
    if (tail - atomic_load_explicit(&ring->head, memory_order_acquire) > ring->mask)
        return false;
    ring->calls[tail & ring->mask] = call;
    atomic_store(&ring->tail, tail + 1);
    return true;
}

bool call_ring_take(struct call_ring *ring, struct ring_call *out)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    if (head == atomic_load_explicit(&ring->tail, memory_order_acquire))
        return false;
    *out = ring->calls[head & ring->mask];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return true;
}

bool call_ring_empty(struct call_ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_relaxed) == atomic_load(&ring->tail);
}
