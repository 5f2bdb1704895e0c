/* The wire: one thread per rank that makes every MPI call while training runs.
 *
 * Open MPI moves a nonblocking call only inside MPI calls, so somebody must keep calling, and that
 * must not be the thread that computes. The wire's thread sends messages by urgency, takes in
 * whatever arrives, hands each completed message to its `done`, and rests when nothing happens. It
 * knows no net, no plan and no scheme: a message is a buffer, a length, a peer and a tag.
 *
 * Nothing is posted for messages to come: an arriving message is matched (MPI_Improbe), `accept`
 * says by its tag where it belongs, and it is received there. So only what is on its way is tested,
 * whatever the number of messages that are expected, and a message that nobody expects is noticed
 * at once.
 *
 * Flow control: a message is on its way until its receiver has matched it, and the end of a
 * synchronous send (MPI_Issend) says when. Small ones share such ends, since one of them costs a
 * reply. That is sound because a receiver matches by MPI_Improbe with any source and any tag alone,
 * and MPI keeps the order between messages of one sender, on one communicator, that the same
 * receive could take (MPI 3.1, 3.5, "non-overtaking"): when one is matched, so are all that its
 * sender posted before, whatever their tags. The `done` of a send says only that its buffer is free
 * again; of a small one it may come before the message has left.
 *
 * Two threads. The *compute thread* opens, starts, calls, waits, fails and closes. The *wire
 * thread* runs every callback; functions below that are marked "wire thread" may be called from
 * callbacks alone. A callback returns 0, or -1 with a message (util/error.h), which fails the rank.
 *
 * Failure: a rank that fails rings every other rank's alarm; from then on waits return -1
 * everywhere, no further message is sent or handed on, and wire_close agrees on the message of the
 * lowest failing rank. Nobody hangs. Buffers that are on their way then stay MPI's: they may still
 * be read and written until the process ends.
 *
 * Memory: 36 bytes for each rank of the data communicator (none is kept for those of world), 228
 * for each message (wire_options.messages), 24 for each call, and some 6 kB. */
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

/* One message. The wire copies the struct; the buffer is the caller's and stays untouched from
 * wire_send to `done` (sends), from `accept` or wire_receive to `done` (receives). */
struct wire_message {
    void *buffer; /* host memory, or an engine's where MPI reaches that */
    size_t bytes; /* up to 2^31 - 1 */
    int peer;     /* rank in the message's communicator */
    int tag;
    MPI_Comm comm;      /* MPI_COMM_NULL or zeros: wire_options.data. Sends on any other go at once,
                           past the queue, and count as control */
    int64_t urgency;    /* of sends: less goes first */
    double weight;      /* among equals: more goes first; then the earlier */
    wire_done_fn *done; /* wire thread: the message is complete. NULL: nothing is to be done */
    void *context;      /* for done */
    uint64_t user;      /* the caller's */
    /* Set by the wire if options.account is not NULL, by clock_ns. */
    int64_t posted;  /* when wire_send was called; of receives: when the message was matched */
    int64_t started; /* when it was handed to MPI */
    bool received;   /* it came; else it went */
};

/* How often the wire thread looks for work while nothing happens. */
enum wire_pace {
    WIRE_IDLE,      /* nothing can arrive but an alarm */
    WIRE_POLLED,    /* other ranks' results in shared memory are expected, and no message; no other
                       rank waits for this thread */
    WIRE_UNDER_WAY, /* messages are expected, with or without shared memory */
    WIRE_URGENT,    /* work ends soon that uses none of this rank's cores (copies by a device), or
                       this rank does nothing but communicate: rests stay short */
};

/* Where the compute thread is. */
struct wire_place {
    int64_t iteration; /* -1: before the first one */
    int64_t place[3];  /* within the iteration, as the caller counts; place[0] -1: unknown */
    int64_t done;      /* changes with every step of progress */
};

#define WIRE_NOWHERE ((struct wire_place){.iteration = -1, .place = {-1}})

/* Who watches over progress, and how.
 *
 * Stalls: if the compute thread waits for stall_seconds without progress, `warn` is called, unless
 * the rank that keeps it waiting was named already.
 *
 * Lost ranks: every rank of world sends signs of life to rank 0, and rank 0 to rank 1. A rank that
 * is silent for wire_silence seconds is named to rank 0's `warn` (rank 0 to rank 1's), and again at
 * growing intervals; after lost_seconds it is named to `lost`, which ends the process. A rank that
 * does not hear of rank 0 for lost_seconds calls its own `lost`. Ranks that send signs of life, but
 * for which all other ranks wait without any progress for lost_seconds, are treated alike; so is a
 * rank that closes while others do not.
 *
 * All functions are called on the wire thread; each may be NULL. */
struct wire_watch {
    double stall_seconds;            /* 0: never, and ranks send no signs of life */
    double lost_seconds;             /* 0: never */
    const struct topology *topology; /* of world, for hosts' names; borrowed; NULL: unknown */
    const char *end;                 /* what a closing rank does, for messages: "in
                                        poseidon_destroy" */
    const char *even;                /* advice where ranks do unequal numbers of iterations: once a
                                        rank closes that has done fewer, all fail. NULL: they may */
    void *context;                   /* first argument of the functions below */
    void (*warn)(void *context, const char *text);
    void (*lost)(void *context, const char *text);
    /* Where this rank's compute thread is. */
    void (*where)(void *context, struct wire_place *out);
    /* Appends what a place of any rank means: " (testing)". */
    void (*put_place)(void *context, const int64_t place[3], struct strbuf *text);
};

enum { WIRE_SILENCE_SECONDS = 60 };

/* Seconds after which a silent rank is named; less than lost_seconds. */
static inline double wire_silence(double lost_seconds)
{
    return lost_seconds > 0 && lost_seconds < 2 * WIRE_SILENCE_SECONDS ? lost_seconds / 2
                                                                       : WIRE_SILENCE_SECONDS;
}

struct wire_options {
    MPI_Comm data; /* communicator of data messages, with the ranks of world in their order;
                      borrowed, and used by the wire alone; its error handler becomes
                      MPI_ERRORS_RETURN. MPI_COMM_NULL: this rank has no data messages */
    struct queue_options sends; /* order and limits of sends, without peers and shared_replies */
    int calls;                  /* most wire_call that may be outstanding */
    int messages;               /* messages to allocate for; more are allocated when needed */
    void *context; /* first argument of the functions below, all called on the wire thread; each may
                      be NULL */
    /* Called once, first: prepares the thread for an engine whose memory MPI will read. */
    int (*enter)(void *context);
    /* A message of `bytes` bytes has arrived: fills buffer, done, context and user of *out, and
     * bytes if another length was expected, which the wire then refuses. Fails with a message if no
     * such message is expected. NULL only if `data` is MPI_COMM_NULL. */
    int (*accept)(void *context, int peer, int tag, size_t bytes, struct wire_message *out);
    /* A data message is complete; called before its `done`, for counts and traces. */
    void (*account)(void *context, const struct wire_message *message);
    /* Called at every turn, for work besides messages. Returns the number of things done, -1 with a
     * message. */
    int (*poll)(void *context);
    /* NULL: WIRE_UNDER_WAY with `data`, else WIRE_IDLE. */
    enum wire_pace (*pace)(void *context);
    /* Whether closing must wait for work besides messages. */
    bool (*busy)(void *context);
    /* Some rank failed: ends at once all that waits for other ranks. Called at most once. */
    void (*abort)(void *context);
    /* Appends what the compute thread waits for: " for layer 'A'". */
    void (*describe_wait)(void *context, struct strbuf *text);
    struct wire_watch watch;
};

struct wire_stats {
    uint64_t sent, received; /* bytes of data messages */
    uint64_t control_sent;   /* bytes of others, and of what wire_track was told */
    uint64_t messages_sent, messages_received;
    uint64_t polls, rests;
    double cpu_seconds; /* processor time of the wire thread */
    double seconds;     /* how long it ran; complete after wire_close */
};

/* world: every rank that may fail together with this one; the wire makes communicators of its own
 * from it. Collective over world; the same status everywhere. */
int wire_open(MPI_Comm world, const struct wire_options *options, struct wire **out);

/* Starts the thread. From here to wire_close no other thread calls MPI on this rank. Not
 * collective. */
int wire_start(struct wire *wire);

/* ---- compute thread ---- */

/* Makes the wire thread call `call`, in the order of these requests. Waits only if
 * wire_options.calls of them are outstanding. After a failure requests are dropped. */
void wire_call(struct wire *wire, wire_call_fn *call, void *context, int64_t argument);

/* Sleeps until *counter >= target and returns 0, or until some rank failed and returns -1 with a
 * message. A callback that advances the counter must call wire_wake. *seconds, if not NULL, grows
 * by the time slept. */
int wire_wait(struct wire *wire, const _Atomic int64_t *counter, int64_t target, double *seconds);

/* Returns -1 with a message if some rank failed, else 0. Any thread. */
int wire_failed(struct wire *wire);

/* Ends the traffic when every rank has called this, has sent all that it had to send, and is not
 * `busy`, and every message has been handed to its receiver's `done` (whatever that sends
 * included): none is left behind. After a failure at once. status: this rank's; non-zero with its
 * message set. Returns the agreed status, with the lowest failing rank's message set everywhere.
 * After it the compute thread may call MPI again. Collective over world. A wire that was never
 * started does all this in the calling thread, without `enter`. */
int wire_close(struct wire *wire, int status);

/* The counts so far. Compute thread. */
struct wire_stats wire_stats(const struct wire *wire);

/* Frees the wire, after wire_close or if it was never started. Collective over world unless MPI was
 * finalised; NULL is allowed. */
void wire_destroy(struct wire *wire);

/* ---- wire thread, or the compute thread before wire_start ---- */

/* Queues a message; it leaves when its turn comes, but not before the callback returns: what one
 * callback queues goes by urgency. Longer than 2^31 - 1 bytes: -1 with a message. A rank may send
 * to itself. */
int wire_send(struct wire *wire, const struct wire_message *message);

/* Posts a receive on a communicator other than `data`. */
int wire_receive(struct wire *wire, const struct wire_message *message);

/* Hands over a request made elsewhere (a nonblocking collective): `done` is called when it is
 * complete, with a message of which only context, user and bytes mean something. bytes: counted as
 * control. */
int wire_track(struct wire *wire, MPI_Request request, size_t bytes, wire_done_fn *done,
               void *context);

/* Wakes the compute thread if it waits: it looks at its counter again. */
void wire_wake(struct wire *wire);

#endif
