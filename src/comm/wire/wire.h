/* The wire: one thread per rank that makes every MPI call while training runs.
 *
 * Open MPI advances nonblocking calls only inside MPI calls, so a thread other than the compute
 * thread must keep calling MPI. The wire thread sends messages by urgency, receives arriving
 * messages, calls the `done` of each completed message, and rests when idle. It knows no net, plan
 * or scheme: a message is a buffer, a length, a peer and a tag.
 *
 * No receive is posted ahead: the wire thread matches an arriving message (MPI_Improbe), asks
 * `accept` for its buffer by its tag, and receives it there. So MPI tests only messages that are
 * under way, however many are expected, and an unexpected message is noticed at once.
 *
 * Flow control: a message is on its way until its receiver has matched it. The end of a synchronous
 * send (MPI_Issend) shows this but costs a reply, so small messages share replies. Sharing is sound
 * because receivers match with any source and any tag only, and MPI keeps the order of one sender's
 * messages on one communicator (MPI 3.1, 3.5, "non-overtaking"): when a message is matched, so are
 * all that its sender posted before, with any tag. The `done` of a send means that the buffer is
 * free again; for a small message it may come before the message has left.
 *
 * Threads: the *compute thread* opens, starts, calls, waits, fails and closes. The *wire thread*
 * runs every callback; functions marked "wire thread" below may be called from callbacks only. A
 * callback returns 0, or -1 with a message (util/error.h), which fails the rank.
 *
 * Failure: a rank that fails rings every other rank's alarm. From then on waits return -1 on every
 * rank, no message is sent or handed on, and wire_close agrees on the message of the lowest failing
 * rank. No rank hangs. MPI keeps the buffers that are on their way: MPI may read and write them
 * until the process ends.
 *
 * Memory: 36 bytes for each rank of the data communicator (none for ranks of world), 228 for each
 * message (wire_options.messages), 24 for each call, and about 6 kB. */
#ifndef POSEIDON_WIRE_WIRE_H
#define POSEIDON_WIRE_WIRE_H

#include <mpi.h>
#include <stdatomic.h>

#include "wire/queue.h"

struct strbuf;
struct topology;
struct wire;
struct wire_message;

typedef int wire_done_fn(void *context, const struct wire_message *message);
typedef int wire_call_fn(void *context, int64_t argument);

/* One message. The wire copies the struct. The buffer is the caller's and stays untouched until
 * `done`: from wire_send on for sends, from `accept` or wire_receive on for receives. */
struct wire_message {
    void *buffer; /* host memory, or engine memory that MPI can reach */
    size_t bytes; /* at most 2^31 - 1 */
    int peer;     /* rank in the message's communicator */
    int tag;
    MPI_Comm comm; /* MPI_COMM_NULL or zeros: wire_options.data. Sends on another communicator skip
                      the queue and count as control messages */
    int64_t urgency;    /* sends: lower goes first */
    double weight;      /* sends of equal urgency: higher goes first, then the earlier send */
    wire_done_fn *done; /* called on the wire thread when the message is complete; may be NULL */
    void *context;      /* first argument of `done` */
    uint64_t user;      /* free for the caller's use */
    /* Times by clock_ns, set by the wire if options.account is not NULL. */
    int64_t posted;  /* call of wire_send; for receives: match of the message */
    int64_t started; /* handover to MPI */
    bool received;   /* true: received; false: sent */
};

/* How often the wire thread polls while idle. */
enum wire_pace {
    WIRE_IDLE,   /* only an alarm can arrive */
    WIRE_POLLED, /* results of other ranks are expected in shared memory, and no message; no other
                    rank waits for this thread */
    WIRE_UNDER_WAY, /* messages are expected, with or without shared memory */
    WIRE_URGENT, /* rests stay short: device work that uses no core (copies) ends soon, or this rank
                    only communicates */
};

/* Position of the compute thread. */
struct wire_place {
    int64_t iteration; /* -1: before the first iteration */
    int64_t place[3];  /* position in the iteration, in the caller's units; [0] -1: unknown */
    int64_t done;      /* progress counter; changes with every step */
};

#define WIRE_NOWHERE ((struct wire_place){.iteration = -1, .place = {-1}})

/* How progress is watched.
 *
 * Stalls: `warn` is called when the compute thread has waited for stall_seconds without progress,
 * unless the rank that keeps it waiting was named already.
 *
 * Lost ranks: every rank of world sends heartbeats to rank 0, and rank 0 answers. Rank 0's `warn`
 * names a rank that is silent for wire_silence seconds (rank 1's `warn` a silent rank 0), and again
 * at growing intervals. After lost_seconds `lost` names the rank and ends the process. A rank that
 * does not hear from rank 0 for lost_seconds calls its own `lost`. Treated alike: ranks that send
 * heartbeats but make no progress for lost_seconds while all other ranks wait, and a rank that
 * closes while other ranks do not.
 *
 * All functions are called on the wire thread; each may be NULL. */
struct wire_watch {
    double stall_seconds;            /* 0: no warnings and no heartbeats */
    double lost_seconds;             /* 0: no rank counts as lost */
    const struct topology *topology; /* topology of world, for host names; may be NULL; borrowed */
    const char *end;  /* position of a closing rank, for messages: "in poseidon_destroy" */
    const char *even; /* advice if ranks do unequal numbers of iterations: all fail once a rank
                         closes after fewer. NULL: such ranks are allowed */
    void *context;    /* first argument of the functions below */
    void (*warn)(void *context, const char *text);
    void (*lost)(void *context, const char *text);
    /* Fills in the position of this rank's compute thread. */
    void (*where)(void *context, struct wire_place *out);
    /* Appends the meaning of any rank's place, such as " (testing)". */
    void (*put_place)(void *context, const int64_t place[3], struct strbuf *text);
};

enum { WIRE_SILENCE_SECONDS = 60 };

/* Returns the seconds after which a silent rank is named; less than lost_seconds, if set. */
static inline double wire_silence(double lost_seconds)
{
    return lost_seconds > 0 && lost_seconds < 2 * WIRE_SILENCE_SECONDS ? lost_seconds / 2
                                                                       : WIRE_SILENCE_SECONDS;
}

struct wire_options {
    MPI_Comm data; /* borrowed communicator of data messages, with the ranks of world in their
                      order; used by the wire alone; its error handler becomes MPI_ERRORS_RETURN.
                      MPI_COMM_NULL: this rank has no data messages */
    struct queue_options sends; /* order and limits; the wire sets peers and shared_replies */
    int calls;                  /* most outstanding wire_call requests */
    int messages;  /* messages to allocate at the start; more are allocated when needed */
    void *context; /* first argument of the functions below, which run on the wire thread; each may
                      be NULL */
    /* Prepares the wire thread for an engine whose memory MPI will read. Called once, first. */
    int (*enter)(void *context);
    /* Fills in buffer, done, context and user of *out for an arrived message of `bytes` bytes.
     * Changes out->bytes if another length was expected; the wire then refuses the message. Fails
     * with a message if no such message is expected. NULL only if `data` is MPI_COMM_NULL. */
    int (*accept)(void *context, int peer, int tag, size_t bytes, struct wire_message *out);
    /* Counts and traces a complete data message. Called before the message's `done`. */
    void (*account)(void *context, const struct wire_message *message);
    /* Does work besides messages, at every turn. Returns the number of things done, -1 with a
     * message. */
    int (*poll)(void *context);
    /* Returns the current pace. NULL: WIRE_UNDER_WAY with `data`, else WIRE_IDLE. */
    enum wire_pace (*pace)(void *context);
    /* Returns true if closing must wait for work besides messages. */
    bool (*busy)(void *context);
    /* Ends at once all waits for other ranks, since some rank failed. Called at most once. */
    void (*abort)(void *context);
    /* Appends the thing that the compute thread waits for: " for layer 'A'". */
    void (*describe_wait)(void *context, struct strbuf *text);
    struct wire_watch watch;
};

struct wire_stats {
    uint64_t sent, received; /* bytes of data messages */
    uint64_t control_sent;   /* bytes of control messages and of requests given to wire_track */
    uint64_t messages_sent, messages_received;
    uint64_t polls, rests;
    double cpu_seconds; /* processor time of the wire thread */
    double seconds;     /* run time of the wire thread; complete after wire_close */
};

/* Opens a wire, with communicators of its own. world: every rank that may fail together with this
 * rank. Collective over world; returns the same status everywhere. */
int wire_open(MPI_Comm world, const struct wire_options *options, struct wire **out);

/* Starts the thread. From here to wire_close no other thread calls MPI on this rank. Not
 * collective. */
int wire_start(struct wire *wire);

/* ---- compute thread ---- */

/* Makes the wire thread call `call`; requests keep their order. Waits only if wire_options.calls
 * requests are outstanding. Drops requests after a failure. */
void wire_call(struct wire *wire, wire_call_fn *call, void *context, int64_t argument);

/* Sleeps until *counter >= target and returns 0, or until some rank failed and returns -1 with a
 * message. A callback that advances the counter must call wire_wake. Adds the time slept to
 * *seconds, if not NULL. */
int wire_wait(struct wire *wire, const _Atomic int64_t *counter, int64_t target, double *seconds);

/* Returns -1 with a message if some rank failed, else 0. Any thread. */
int wire_failed(struct wire *wire);

/* Ends the traffic. Waits until every rank has called wire_close, has sent its messages and is not
 * `busy`, and every message has reached its receiver's `done`, as has any message sent by a `done`.
 * Does not wait after a failure. status: this rank's; if non-zero, its message is set. Returns the
 * agreed status, with the lowest failing rank's message set everywhere. Afterwards the compute
 * thread may call MPI again. A wire that was never started closes in the calling thread, without
 * `enter`. Collective over world. */
int wire_close(struct wire *wire, int status);

/* Returns the counts so far. Compute thread. */
struct wire_stats wire_stats(const struct wire *wire);

/* Frees the wire, after wire_close or if it was never started. Collective over world unless MPI was
 * finalised; NULL is allowed. */
void wire_destroy(struct wire *wire);

/* ---- wire thread, or the compute thread before wire_start ---- */

/* Queues a message, which leaves by urgency after the current callback has returned. Returns -1
 * with a message for more than 2^31 - 1 bytes. A rank may send to itself. */
int wire_send(struct wire *wire, const struct wire_message *message);

/* Posts a receive on a communicator other than `data`. */
int wire_receive(struct wire *wire, const struct wire_message *message);

/* Tracks a request made elsewhere (a nonblocking collective). Calls `done` when the request is
 * complete, with a message that has context and bytes only. bytes: counted as control. */
int wire_track(struct wire *wire, MPI_Request request, size_t bytes, wire_done_fn *done,
               void *context);

/* Wakes the compute thread from wire_wait to read its counter again. */
void wire_wake(struct wire *wire);

#endif
