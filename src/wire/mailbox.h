/* Calls on their way from the compute thread to the wire thread: a ring with one writer and one
 * reader, and no lock. */
#ifndef POSEIDON_WIRE_MAILBOX_H
#define POSEIDON_WIRE_MAILBOX_H

#include "wire/wire.h"

struct mailbox_call {
    wire_call_fn *call;
    void *context;
    int64_t argument;
};

struct mailbox {
    struct mailbox_call *calls;
    size_t mask;
    char apart[64]; /* each thread's counter has a cache line of its own */
    _Atomic size_t tail;
    char apart_too[64];
    _Atomic size_t head;
};

/* Room for `calls` at least; fails where memory does, with a message. */
int mailbox_open(struct mailbox *box, int calls);
void mailbox_close(struct mailbox *box);

/* Writer: false if there is no room. What it wrote before is seen by the call's reader. */
bool mailbox_put(struct mailbox *box, struct mailbox_call call);

/* Reader: false if there is none. */
bool mailbox_take(struct mailbox *box, struct mailbox_call *out);

/* Reader: whether nothing is there. Sequentially consistent: a reader that first says it is going
 * to sleep, and a writer that looks for sleepers after mailbox_put, cannot miss each other. */
bool mailbox_empty(struct mailbox *box);

#endif
