/* Shared by the wire's files: wire.c (life, compute thread's side), progress_thread.c (the loop),
 * messages.c (messages under way), heartbeat.c (lost ranks), alarm.c (failures, stalls). */
#ifndef POSEIDON_WIRE_WIRE_INTERNAL_H
#define POSEIDON_WIRE_WIRE_INTERNAL_H

#include "util/clock.h"
#include "wire/call_ring.h"
#include "wire/wire.h"

#include <pthread.h>
#include <semaphore.h>

enum slot_kind {
    SLOT_SEND,    /* on the data communicator; uses the send window */
    SLOT_RECEIVE, /* on the data communicator */
    SLOT_CONTROL_SEND,
    SLOT_CONTROL_RECEIVE,
    SLOT_TRACKED,
    SLOT_ALARM_OUT,
    SLOT_ALARM_IN,
    SLOT_CLOSING
};

/* A message that waits or is on its way. */
struct slot {
    struct queue_entry entry; /* first: the queue's entry is cast to its slot */
    struct wire_message message;
    enum slot_kind kind;
    struct slot *spare; /* next free slot */
};

/* Requests under way, in arrays with room for all slots. */
struct active {
    int count, idle, capacity; /* idle: requests of alarms, which closing does not wait for */
    MPI_Request *requests;
    struct slot **slots;
    int *completed; /* indices filled in by MPI_Testsome */
    MPI_Status *statuses;
    struct slot **finished;
};

/* Each counter is written by one thread and read by any thread. */
struct wire_counters {
    _Atomic uint64_t sent, received, control_sent, messages_sent, messages_received, polls, rests;
};

/* Sums of a closing round over all ranks: messages sent, messages received, failures. */
enum { CLOSING_SENT, CLOSING_RECEIVED, CLOSING_FAILED, CLOSING_VALUES };

struct closing {
    bool posted;
    int64_t mine[CLOSING_VALUES], all[CLOSING_VALUES];
    int64_t received_before; /* messages received by the end of the last round; -1: none yet */
};

struct wire {
    struct owner owner; /* owner of all memory but the arrays of `active` */
    struct wire_options options;
    MPI_Comm comm; /* for alarms, heartbeats, closing and agreement */
    int rank, nranks;
    pthread_t thread;
    bool started, closed;

    /* compute thread -> wire thread */
    struct call_ring calls;
    sem_t wakeup;
    _Atomic int resting;     /* the wire thread is about to sleep on wakeup */
    _Atomic int close_asked; /* wire_close was called; set after compute_failed */
    bool compute_failed;     /* the compute thread closes with a failure of its own */

    /* wire thread -> compute thread */
    char pad_compute[64];
    sem_t wake;
    _Atomic int sleeping;     /* the compute thread is about to sleep on `wake` */
    _Atomic int failed;       /* some rank failed */
    _Atomic int failure_seen; /* compute thread knows of `failed`: its status is a consequence */

    /* private to the wire thread */
    char pad_wire[64];
    struct queue queue;
    struct active active;
    struct slot *spare; /* free slots, allocated in blocks: the queue links slots by address */
    bool stop, alarm_rung;
    bool own_failure; /* the wire thread itself failed, with the message in `failure` */
    char failure[4096];
    struct closing closing;
    struct heartbeat *heartbeat; /* heartbeat.c; NULL: no heartbeats */
    int64_t last_progress;       /* ns */
    bool stall_reported;

    struct wire_counters counters;
    _Atomic int64_t begun, run_ns, cpu_ns; /* ns; the last two are set at the end */
};

/* Adds to a counter that one thread alone writes, so no locked instruction is needed. */
static inline void wire_count(_Atomic uint64_t *counter, uint64_t added)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, value + added, memory_order_relaxed);
}

/* Returns true where callbacks run: on the wire thread, before wire_start on the compute thread. */
static inline bool wire_is_inside(const struct wire *wire)
{
    return !wire->started || pthread_equal(pthread_self(), wire->thread);
}

/* ---- messages.c ---- */
int messages_open(struct wire *wire);
void messages_close(struct wire *wire);
/* Returns a free slot, zeroed; NULL with a message. */
struct slot *messages_slot(struct wire *wire, enum slot_kind kind);
/* Adds a request to the messages under way; takes over its slot. */
void messages_track(struct wire *wire, MPI_Request request, struct slot *slot);
/* Hands MPI the queued messages that may leave. */
int messages_flush(struct wire *wire);
/* Receives arrivals, hands on completions, returns their number. A failure raises the alarm. */
int messages_take(struct wire *wire);
/* Returns true if any message waits or is on its way, alarms apart. */
bool messages_busy(const struct wire *wire);
/* Forgets the messages under way when the thread ends. */
void messages_drop(struct wire *wire);

/* ---- progress_thread.c ---- */
/* Runs the loop until every rank has closed. enter: calls options.enter first. */
void thread_run(struct wire *wire, bool enter);
/* Evaluates a closing round that is over. */
void thread_closing_over(struct wire *wire);

/* ---- heartbeat.c ---- */
int heartbeat_open(struct wire *wire);
/* Start and stop surround the loop of the wire thread; look is called at every turn. */
void heartbeat_start(struct wire *wire);
void heartbeat_look(struct wire *wire, int64_t now);
void heartbeat_stop(struct wire *wire);
/* Returns true if heartbeats report the rank that keeps this rank waiting. */
bool heartbeat_speaks(const struct wire *wire);
/* Appends the ranks that wait for no rank, as rank 0 knows them: "; rank 3 on n3 is in iteration 12
 * (computing layer 'fc6' backward)". Ranks other than 0 append nothing. */
void heartbeat_put_busy(const struct wire *wire, struct strbuf *text);

/* ---- alarm.c ---- */
/* Posts the receive of other ranks' alarms. */
int alarm_listen(struct wire *wire);
/* Marks the run as failed and passes the alarm on. own: keeps this thread's error message. */
void alarm_raise(struct wire *wire, bool own);
/* Warns if the compute thread has waited for too long. Called before a rest. */
void alarm_watch_stall(struct wire *wire, int64_t now);

#endif
