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
    /* Set by the wire where options.account is there: clock_ns. */
    int64_t posted;  /* when wire_send was called; of receives: when the message was matched */
    int64_t started; /* when it was handed to MPI */
    bool received;   /* it came; else it went */
};

/* How pressing the work is that goes on beside messages. */
enum wire_pace {
    WIRE_IDLE,      /* nothing can arrive but an alarm */
    WIRE_POLLED,    /* others' work in shared memory is looked for, and no message: what others wait
                       for this rank has done when it was posted, or does while it waits itself */
    WIRE_UNDER_WAY, /* messages are expected, with or without shared memory */
    WIRE_URGENT,    /* something ends soon that costs this rank's cores nothing, or this rank has
                       nothing else to do: rests stay short */
};

/* Where the compute thread is. */
struct wire_place {
    int64_t iteration; /* -1: before the first one */
    int64_t place[3];  /* in it: the caller's; the first one -1: nothing is known */
    int64_t done;      /* changes whenever something was got done */
};

#define WIRE_NOWHERE ((struct wire_place){.iteration = -1, .place = {-1}})

/* A wait of this rank's compute thread that lasts stall_seconds without progress is told to `warn`,
 * unless somebody says already who keeps this rank waiting.
 *
 * Signs of life. A rank of world that gives none for wire_silence is named by rank 0 (rank 0 itself
 * by rank 1), in one sentence, to `warn`, and again at growing intervals; after lost_seconds to
 * `lost`, which ends the process, as on every rank that does not hear of rank 0 any more. So are
 * ranks that give them and for which all wait, when no rank has got anything done for so long: one
 * that closes, too, where others do not. All on the wire thread; each may be NULL. */
struct wire_watch {
    double stall_seconds;            /* 0: never, and no signs are asked for */
    double lost_seconds;             /* 0: never */
    const struct topology *topology; /* of world, for hosts' names; borrowed; NULL: not known */
    const char *end;                 /* what a rank is in that closes: "in poseidon_destroy" */
    void *context;
    void (*warn)(void *context, const char *text);
    void (*lost)(void *context, const char *text);
    /* Where this rank's compute thread is; and what a place means, some rank's, appended: "
     * (testing)". */
    void (*where)(void *context, struct wire_place *out);
    void (*put_place)(void *context, const int64_t place[3], struct strbuf *text);
};

enum { WIRE_SILENCE_SECONDS = 60 };

/* Seconds after which a rank that gives no sign is named: before it is given up. */
static inline double wire_silence(double lost_seconds)
{
    return lost_seconds > 0 && lost_seconds < 2 * WIRE_SILENCE_SECONDS ? lost_seconds / 2
                                                                       : WIRE_SILENCE_SECONDS;
}

struct wire_options {
    MPI_Comm data; /* of this rank's messages, with the ranks of world in their order; borrowed, and
                      no one else's; MPI_COMM_NULL: it sends and gets none. Its errors return from
                      now on */
    struct queue_options sends; /* how they wait; but for peers and shared_replies */
    int calls;                  /* most wire_call that may be outstanding */
    int messages;               /* most messages that may wait or be on their way; grows beyond */
    void *context; /* of the callbacks below, all on the wire thread; each may be NULL */
    /* Once, before all else: the thread is going to hand an engine's memory to MPI. */
    int (*enter)(void *context);
    /* A message of that length came; fills buffer, done, context, user of *out, and bytes if it
     * wants another length: the wire refuses what differs. Refuses with a message what does not
     * belong here. NULL only where `data` is. */
    int (*accept)(void *context, int peer, int tag, size_t bytes, struct wire_message *out);
    /* A data message is complete, before its done: for accounts and traces. */
    void (*account)(void *context, const struct wire_message *message);
    /* What goes on beside messages: looked after at every turn. Returns how much came of it, -1
     * with a message. */
    int (*poll)(void *context);
    enum wire_pace (*pace)(void *context); /* NULL: WIRE_UNDER_WAY with data, else WIRE_IDLE */
    /* Whether closing must wait for something beside messages. */
    bool (*busy)(void *context);
    /* Some rank failed: ends at once what others may never come to. At most once. */
    void (*abort)(void *context);
    /* " for layer 'A'": what the compute thread waits for, appended. */
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

/* Has the wire thread call `call`. Calls are made in order. Never waits but for room in the
 * ring of calls; calls after a failure are dropped. */
void wire_call(struct wire *wire, wire_call_fn *call, void *context, int64_t argument);

/* Sleeps until *counter >= target: 0; or until some rank failed: -1 with a message. Callbacks that
 * advance the counter call wire_wake. seconds, if not NULL: how long it slept is added. */
int wire_wait(struct wire *wire, const _Atomic int64_t *counter, int64_t target, double *seconds);

/* -1 with a message where some rank failed, else 0. Any thread. */
int wire_failed(struct wire *wire);

/* Ends the traffic when every rank has called this, has sent all that it had to send, and is not
 * `busy`, and every message has been handed to its receiver's `done` (whatever that sends
 * included): none is left behind. After a failure at once. status: this rank's; non-zero with its
 * message set. Returns the agreed status, with the lowest failing rank's message set everywhere.
 * After it the compute thread may call MPI again. Collective over world. A wire that was never
 * started does all this in the calling thread, without `enter`. */
int wire_close(struct wire *wire, int status);

/* A snapshot, from the compute thread at any time. */
struct wire_stats wire_stats(const struct wire *wire);

/* After wire_close, or where it was never started. Collective over world where MPI is still up;
 * NULL is fine. */
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
