/* Counters only grow; a call's place is its number modulo the size, a power of two. */
#include "wire/mailbox.h"

#include "util/error.h"

#include <stdlib.h>

int mailbox_open(struct mailbox *box, int calls)
{
    size_t size = 64;

    while (calls > 0 && size < (size_t)calls)
        size *= 2;
    box->calls = calloc(size, sizeof *box->calls);
    if (!box->calls)
        return error_memory(size * sizeof *box->calls, "calls of the wire");
    box->mask = size - 1;
    return 0;
}

void mailbox_close(struct mailbox *box)
{
    free(box->calls);
    box->calls = NULL;
}

bool mailbox_put(struct mailbox *box, struct mailbox_call call)
{
    size_t tail = atomic_load_explicit(&box->tail, memory_order_relaxed);

    if (tail - atomic_load_explicit(&box->head, memory_order_acquire) > box->mask)
        return false;
    box->calls[tail & box->mask] = call;
    atomic_store(&box->tail, tail + 1);
    return true;
}

bool mailbox_take(struct mailbox *box, struct mailbox_call *out)
{
    size_t head = atomic_load_explicit(&box->head, memory_order_relaxed);

    if (head == atomic_load_explicit(&box->tail, memory_order_acquire))
        return false;
    *out = box->calls[head & box->mask];
    atomic_store_explicit(&box->head, head + 1, memory_order_release);
    return true;
}

bool mailbox_empty(struct mailbox *box)
{
    return atomic_load_explicit(&box->head, memory_order_relaxed) == atomic_load(&box->tail);
}
