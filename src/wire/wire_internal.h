/* What the files of the wire share. wire.c: life, and the compute thread's side; progress_thread.c:
 * the loop; messages.c: what is on its way; alarm.c: failures and stalls. */
#ifndef POSEIDON_WIRE_WIRE_INTERNAL_H
#define POSEIDON_WIRE_WIRE_INTERNAL_H

#include "util/clock.h"
#include "wire/call_ring.h"
#include "wire/wire.h"

#include <pthread.h>
#include <semaphore.h>

enum slot_kind {
    SLOT_SEND,    /* on the data communicator: counted in the window */
    SLOT_RECEIVE, /* as well */
    SLOT_CONTROL_SEND,
    SLOT_CONTROL_RECEIVE,
    SLOT_TRACKED,
    SLOT_ALARM_OUT,
    SLOT_ALARM_IN,
    SLOT_CLOSING
};

/* A message that waits or is on its way. */
struct slot {
    struct queue_entry entry; /* first: a slot is found by its entry */
    struct wire_message message;
    enum slot_kind kind;
    struct slot *spare; /* the next that is free */
};

/* What is on its way: arrays of `capacity`, as many as there are slots. */
struct active {
    int count, idle, capacity; /* idle: those that nobody waits for */
    MPI_Request *requests;
    struct slot **slots;
    int *completed; /* as MPI_Testsome fills them */
    MPI_Status *statuses;
    struct slot **finished;
};

/* Written by the thread that each is of, read by any. */
struct wire_counters {
    _Atomic uint64_t sent, received, control_sent, messages_sent, messages_received, polls, rests;
};

/* Rounds of the closing: what each rank has sent and received so far, and whether it failed. */
enum { CLOSING_SENT, CLOSING_RECEIVED, CLOSING_FAILED, CLOSING_VALUES };

struct closing {
    bool posted;
    int64_t mine[CLOSING_VALUES], all[CLOSING_VALUES];
    int64_t received_before; /* by all, a round ago; -1: there was none */
};

struct wire {
    struct owner owner; /* of all memory but the arrays of `active` */
    struct wire_options options;
    MPI_Comm comm; /* of alarms, closing and agreement */
    int rank, nranks;
    pthread_t thread;
    bool started, closed;

    /* compute thread -> wire thread */
    struct call_ring calls;
    sem_t wakeup;
    _Atomic int resting;     /* the wire thread is about to sleep on wakeup */
    _Atomic int close_asked; /* set after the two below */
    bool compute_failed;     /* the compute thread closes with a failure of its own */

    /* wire thread -> compute thread */
    char apart[64];
    sem_t wake;
    _Atomic int sleeping; /* the compute thread is about to sleep on it */
    _Atomic int failed;   /* some rank failed */
    _Atomic int told;     /* the compute thread knows: its status is a consequence from then on */

    /* the wire thread's own */
    char apart_too[64];
    struct queue queue;
    struct active active;
    struct slot *spare; /* they come in blocks, since the queue links them where they are */
    bool stop, alarm_rung;
    bool own_failure; /* of the wire thread, with its message: */
    char failure[4096];
    struct closing closing;
    struct heartbeat *heartbeat; /* heartbeat.c; NULL: no signs of life are asked for */
    int64_t last_progress;       /* ns */
    bool stall_told;

    struct wire_counters counters;
    _Atomic int64_t begun, run_ns, cpu_ns; /* the last two: when the thread has ended */
};

/* One thread writes, so no locked instruction is needed. */
static inline void wire_count(_Atomic uint64_t *counter, uint64_t more)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, value + more, memory_order_relaxed);
}

/* Whether this is where callbacks run: the wire thread, or before wire_start the compute thread. */
static inline bool wire_is_inside(const struct wire *wire)
{
    return !wire->started || pthread_equal(pthread_self(), wire->thread);
}

/* ---- messages.c ---- */
int messages_open(struct wire *wire);
void messages_close(struct wire *wire);
/* A free slot, zeroed; NULL with a message. */
struct slot *messages_slot(struct wire *wire, enum slot_kind kind);
/* The request is on its way; takes the slot over. idle: closing does not wait for it. */
void messages_track(struct wire *wire, MPI_Request request, struct slot *slot);
/* Hands MPI what may leave. */
int messages_flush(struct wire *wire);
/* Takes in what arrives and hands on what is complete; returns how much. Failures raise the alarm.
 */
int messages_take(struct wire *wire);
/* Whether anything waits or is on its way. */
bool messages_busy(const struct wire *wire);
/* What is still on its way when the thread ends is forgotten. */
void messages_drop(struct wire *wire);

/* ---- progress_thread.c ---- */
/* Returns when every rank has closed. */
void thread_run(struct wire *wire, bool enter);
/* A round of the closing is over. */
void thread_closing_over(struct wire *wire);

/* ---- heartbeat.c: signs of life ---- */
int heartbeat_open(struct wire *wire);
/* Around the loop of the wire's thread, and at every turn of it. */
void heartbeat_start(struct wire *wire);
void heartbeat_look(struct wire *wire, int64_t now);
void heartbeat_stop(struct wire *wire);
/* Whether somebody says already who keeps this rank waiting. */
bool heartbeat_speaks(const struct wire *wire);
/* "; rank 3 on n3 is in iteration 12 (computing layer 'fc6' backward)": those that wait for nobody,
 * as far as rank 0 knows; elsewhere nothing. */
void heartbeat_put_busy(const struct wire *wire, struct strbuf *text);

/* ---- alarm.c ---- */
/* Waits for other ranks' alarms. */
int alarm_listen(struct wire *wire);
/* This rank failed with a message of this thread (`own`), or has to pass on that some rank did. */
void alarm_raise(struct wire *wire, bool own);
/* Between two rests: whether the compute thread has waited for too long. */
void alarm_watch_stall(struct wire *wire, int64_t now);

#endif
