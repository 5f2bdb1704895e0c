/* What the files of src/sync share: the state of one rank, and the services of the progress thread.
 *
 * Ownership by thread. Compute thread: `posted`, `settled`, staging of factors, stalls. Progress
 * thread: everything under "progress thread", all requests, chunks' states. Between them: the ring
 * of events (compute -> progress) and the atomics `done`, `failed`, `sleeping` (progress ->
 * compute). */
#ifndef POSEIDON_SYNC_INTERNAL_H
#define POSEIDON_SYNC_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "sync/node.h"
#include "sync/sync.h"
#include "sync/syncer.h"
#include "trace/trace.h"

enum event_kind {
    EVENT_POST,    /* group's gradient is final */
    EVENT_PUBLISH, /* the compute thread settled group's parameters at a team's leader */
    EVENT_NORMS,   /* the compute thread filled clip.own for the SFB groups */
    EVENT_SUM,
    EVENT_GATHER,
    EVENT_ASK,
    EVENT_FAIL, /* this rank failed: tell the others */
    EVENT_CLOSE,
};

struct event {
    enum event_kind kind;
    int group;
};

/* What a completed request means. */
enum transfer_kind {
    TRANSFER_SYNCER, /* belongs to the group's syncer */
    TRANSFER_SUM,
    TRANSFER_CLIP,
    TRANSFER_GATHER,
    TRANSFER_ASK,
    TRANSFER_ALARM, /* another rank failed */
    TRANSFER_TELL,  /* our own alarm, sent */
    TRANSFER_CLOSE,
    TRANSFER_GONE, /* completed, its place about to be reused */
};

struct transfer {
    enum transfer_kind kind;
    int group;
    int chunk;     /* or -1 */
    int peer;      /* the speaker, or -1 */
    int what;      /* the syncer's own */
    int slot;      /* ditto */
    size_t bytes;  /* what must arrive, checked; 0: not a receive */
    double weight; /* sends under staleness: how much the message changes, relatively; most goes
                      first */
    size_t out;    /* what leaves the send queue's window when it is over; 0: not a send of data */
    bool idle;     /* may stay open at closing */
    struct trace_event event; /* what is recorded and counted of it: progress_describe */
};

/* One group, a bucket of the plan, as its worker sees it. */
struct group_state {
    const struct syncer_i *syncer; /* NULL: nothing to synchronise */
    void *own;                     /* the syncer's */
    int64_t posted;                /* iterations posted (compute) */
    int64_t told;                  /* of which the progress thread was told (compute) */
    int64_t settled;               /* iterations whose values are in place (compute) */
    int lag;                       /* how many iterations `settled` may stay behind `posted` */
    int joined;           /* members whose gradient of this micro-batch is there (compute) */
    int micro;            /* micro-batches staged in this iteration (compute) */
    int64_t running;      /* iterations posted as the progress thread knows */
    int pending;          /* its transfers in flight (progress thread) */
    _Atomic int64_t done; /* iterations whose transfers are all complete */
    /* Where the engine has memory of its own: gradients or factors on their way to the host, and
     * parameters or factors on their way back. */
    struct engine_ticket *down, *up;
    struct engine_ticket *passed; /* in a team: the computation of the gradient */
    double stall_seconds;
};

/* Clipping: one norm per chunk, each known to one rank, agreed by one small allreduce. */
struct clip_state {
    double *own,
        *all;       /* per chunk: sum of squares of the averaged gradient; own: zeros elsewhere */
    int local;      /* own PS chunks whose norm is not there yet */
    int own_chunks; /* how many PS chunks this rank serves */
    bool factors_ready; /* the SFB norms are in `own`; always true where there are none */
    bool has_factors;
    int64_t iteration;    /* being clipped */
    _Atomic int64_t done; /* iterations whose scale is known */
    double norm;          /* of the last one */
    float scale;
};

/* A send of training data that waits for its turn (sendq.c). */
struct parcel {
    int urgency;     /* less goes first */
    uint64_t number; /* then the earlier */
    const void *from;
    size_t elems; /* floats */
    int tag;
    struct transfer transfer;
    struct parcel *below, *beside; /* in its lane's heap */
};

/* What goes to one rank. */
struct send_lane {
    struct parcel *first; /* goes next; the root of a heap. NULL: nothing waits */
    size_t in_flight;     /* bytes in MPI's hands */
};

struct send_queue {
    struct parcel *parcels, *spare; /* all of them; those that hold nothing, by `beside` */
    struct send_lane *lanes;        /* per speaker */
    int nlanes;
    int count; /* parcels that wait */
    uint64_t number;
    size_t in_flight;      /* bytes in MPI's hands, of all lanes */
    double bucket, filled; /* bytes that the cap allows, since when */
};

struct sync {
    const struct plan *plan;
    struct net *net;
    struct sync_update update;
    struct sync_options options;
    int world_rank, nranks; /* among all */
    int speaker;            /* who speaks for this rank, by its number in the plan */
    bool speaks;            /* this rank does */
    int rank;               /* then it is `speaker`; -1 where this rank does not speak */
    bool worker;
    MPI_Comm data;      /* of the speakers: gradients, factors, sums, parameters: point-to-point */
    MPI_Comm control;   /* of the speakers: clipping, history */
    MPI_Comm sums;      /* of the workers: losses, scores; MPI_COMM_NULL on dedicated servers */
    MPI_Comm all;       /* alarms; what is agreed before the start */
    MPI_Comm asking;    /* sync_ask: a collective that overlaps all others */
    MPI_Comm closing;   /* its own, since ranks that fail skip collectives on the others */
    int64_t tag_period; /* iterations told apart by a tag */
    const struct engine_copies_i *remote; /* of the net's engine; NULL: its memory is the host's */
    bool direct; /* MPI reaches that engine's memory: what lies there as it travels goes straight */
    char way[512];             /* that in words; empty without such an engine */
    struct engine host_engine; /* beside one with memory of its own; opened where it is needed */
    float *values;             /* = net->values, or own on a dedicated server */
    bool owns_values;
    float scale; /* 1 / (workers * iter_size) */
    struct node_state
        *node; /* the node's groups (node_reduce.c); NULL where this rank is alone, or in a team */
    struct team_state *team; /* of its engine (team.c); NULL: in none */
    struct group_state *groups;
    struct clip_state clip;
    void *ps;              /* the parameter server's chunk states (ps.c) */
    struct outbox *outbox; /* gradients that travel encoded (outbox.h) */

    /* compute -> progress */
    struct event *ring;
    size_t ring_mask;
    _Atomic size_t head; /* next to read (progress) */
    _Atomic size_t tail; /* next to write (compute) */
    sem_t bell;          /* rung when the progress thread may be asleep */
    _Atomic int resting; /* progress thread is asleep on the bell */
    /* progress -> compute */
    sem_t wake;
    _Atomic int sleeping;   /* compute thread is asleep on `wake` */
    _Atomic int failed;     /* some rank failed */
    _Atomic int64_t served; /* dedicated server: iterations whose chunks are all updated and sent */

    /* one call at a time, compute thread to progress thread and back */
    double *sum_values, *sum_result;
    int sum_count, sum_capacity;
    float *gather_history;     /* rank 0: where to */
    _Atomic int64_t call_done; /* of EVENT_SUM, EVENT_GATHER, EVENT_CLOSE */
    double ask_values[SYNC_ASK_VALUES], ask_result[SYNC_ASK_VALUES];
    _Atomic int64_t ask_done; /* 1: the answer to sync_ask is there */

    /* progress thread */
    pthread_t thread;
    bool started;
    bool stop;
    MPI_Request *requests;      /* dense: [0, nrequests) are active */
    struct transfer *transfers; /* beside them */
    struct transfer *finished;  /* copies of the completed ones while they are dispatched */
    int *completed;             /* MPI_Testsome's */
    MPI_Status *statuses;
    int nrequests, capacity;
    struct send_queue sendq;
    int *waiting; /* groups whose gradients are on their way to the host, in order */
    int nwaiting;
    int idle_receives; /* active ones that nobody waits for yet: next gradients, the alarm */
    int sums_pending, gather_pending;
    bool close_asked, close_posted;
    int alarm_in, alarm_out; /* contents do not matter: the message is agreed at closing */
    int lowest_failing, my_failing;
    bool local_failure;   /* of the progress thread itself */
    char failure[4096];   /* its message */
    double last_progress; /* seconds, for the stall watch */
    bool stall_told;

    _Atomic uint64_t sent, received, control_sent; /* written by the progress thread */
    struct sync_stats stats;                       /* the compute thread's view */
    double *group_stalls;
    uint64_t *group_sent, *group_received; /* written by the progress thread */
};

/* Floats of history per parameter, for allocation: a solver without any still has a place. */
static inline size_t sync_history_blocks(const struct sync *sync)
{
    return sync->update.nhistory > 0 ? (size_t)sync->update.nhistory : 1;
}

/* ---- services of the progress thread; called on it alone ---- */

/* Posts a nonblocking transfer of `elems` floats and registers it; counts bytes. Training data goes
 * through the send queue: it is sent when its turn comes. */
int progress_send(struct sync *sync, MPI_Comm comm, const void *from, size_t elems, int tag,
                  struct transfer transfer);
int progress_receive(struct sync *sync, MPI_Comm comm, void *to, size_t elems, int tag,
                     struct transfer transfer);
int progress_send_now(struct sync *sync, const struct parcel *parcel);

/* ---- send queue (sendq.c) ---- */
int sendq_open(struct sync *sync, size_t capacity, int speakers);
int sendq_put(struct sync *sync, struct parcel parcel);
int sendq_flush(struct sync *sync); /* sends what window and cap allow */
void sendq_sent(struct sync *sync,
                const struct transfer *transfer); /* it is no longer in MPI's hands */
void sendq_close(struct sync *sync);

/* What the trace will say of a syncer's transfer that is posted now; the two above do it
 * themselves. bytes: in one direction. */
struct trace_event progress_describe(const struct sync *sync, enum trace_kind kind,
                                     const struct transfer *transfer, int tag, size_t bytes);
/* Registers a request that was made elsewhere. */
int progress_track(struct sync *sync, MPI_Request request, struct transfer transfer);

/* Starts the traffic of a group whose gradient is in place. */
int progress_post_group(struct sync *sync, int group);

/* One of the group's transfers of the running iteration is over; the last one makes it done. */
int progress_finish_one(struct sync *sync, int group);

/* How much `change` changes values of that many elements, for the order of sends: the ratio of
 * their squared lengths; 0 where the order does not ask for it, or values are not known (NULL). */
double progress_weight(const struct sync *sync, const float *change, const float *values,
                       size_t elems);

/* Wakes the compute thread if it sleeps. */
void progress_wake(struct sync *sync);

void *progress_main(void *sync);

/* ---- compute thread ---- */
int ring_push(struct sync *sync, enum event_kind kind, int group);

/* Sleeps until *counter >= target or failure; adds to the group's stall (group -1: none). */
int compute_wait(struct sync *sync, _Atomic int64_t *counter, int64_t target, int group);

/* ---- tags: direction, chunk and iteration; the step signature ---- */
int tag_of(const struct sync *sync, bool parameters, int chunk, int64_t iteration);

/* ---- clipping (clip.c) ---- */
int clip_chunk_ready(struct sync *sync, int chunk, double sumsq);
int clip_advance(struct sync *sync);  /* starts the allreduce when all is there */
int clip_complete(struct sync *sync); /* it is over: scale, then let the servers update */
double clip_sumsq(const float *sum, size_t n, float scale);

/* ---- parameter server (ps.c) ---- */
int ps_open(struct sync *sync);
void ps_close(struct sync *sync);
int ps_start(struct sync *sync);      /* first receives; progress thread */
int ps_update_all(struct sync *sync); /* after clipping; progress thread */
bool ps_serves(const struct sync *sync, int chunk);
/* Of a chunk that this rank serves, as the host can read and write it; NULL with a message where it
 * could not be fetched. What was written there holds after ps_restore. */
float *ps_history(struct sync *sync, int chunk);
int ps_restore(struct sync *sync);
bool ps_updates_remotely(const struct sync *sync,
                         int chunk);   /* this rank does, in its engine's memory */
int ps_poll(struct sync *sync);        /* such updates that are over; as node_poll */
bool ps_busy(const struct sync *sync); /* there are some under way */
/* For sums made elsewhere (Adam): where to put a chunk's, and that it is there; a worker's receive
 * of the parameters; what the server's own transfers mean. */
float *ps_sum(struct sync *sync, int chunk);
int ps_summed(struct sync *sync, int chunk);
int ps_expect_parameters(struct sync *sync, int chunk, int64_t iteration);
int ps_complete(struct sync *sync, const struct transfer *transfer);

/* The solver's rule on elements [begin, begin + elems) of the arenas; values, grad and history
 * point to the first of them. */
struct update {
    enum {
        UPDATE_ON_HOST,
        UPDATE_IN_TURN,
        UPDATE_STORED
    } place; /* the last two: in the engine's memory
                (engine_services_i.update) */
    int64_t iteration;
    float scale;
    size_t begin, elems;
    float *values;
    const float *grad; /* the sum */
    float *history;    /* blocks, `stride` apart */
    size_t stride;
};

int update_range(struct sync *sync, int group, const struct update *update);

/* To a whole group, on the compute thread; a blank engine lets the time pass instead. */
int update_group(struct sync *sync, int group, int64_t iteration, float scale, const float *grad,
                 float *history);

/* Whether the compute thread has something to do for the group before its parameters are in place.
 */
bool sync_settles(const struct sync *sync, int group);

/* What a gradient's sum is divided by for the clipping norm, inverted. */
static inline float sync_mean(const struct sync *sync)
{
    return 1.0f / (float)sync->plan->ncomputing;
}

/* ---- ranks that add up among themselves (node_reduce.c) ---- */
int node_open(struct sync *sync, MPI_Comm world); /* collective over world */
void node_close(struct sync *sync);
float *node_rows(const struct sync *sync, int group); /* where the node's factors are */
/* Progress thread: the group's gradient is posted by this rank; what is to be done meanwhile: > 0
 * if there was something, -1 with a message; whether groups are open; the parameters of the
 * leader's iteration are in place (either thread of the leader). */
void node_post(struct sync *sync, int group);
int node_poll(struct sync *sync);
bool node_busy(const struct sync *sync);
void node_publish(struct sync *sync, int group);
/* " for X layer 'A'; Y layer 'B'": what is waited for; returns how many. */
int node_describe_wait(const struct sync *sync, char *text, size_t bytes);

/* ---- ranks whose engines add up among themselves (team.c); no team: nothing is done ---- */
int team_open(struct sync *sync, MPI_Comm world); /* collective over world */
void team_close(struct sync *sync);
/* Compute thread: the group's gradient is final when what was run so far is over. */
int team_mark(struct sync *sync, int group);
/* Progress thread: the gradient that was marked is posted; the leader's new parameters are in its
 * engine's memory, or stored; what is to be done meanwhile, as node_poll; whether sums or
 * parameters are still to be asked for; some rank failed. */
void team_post(struct sync *sync, int group);
void team_publish(struct sync *sync, int group);
int team_poll(struct sync *sync);
bool team_busy(const struct sync *sync);
void team_abort(struct sync *sync);
int team_describe_wait(const struct sync *sync, char *text,
                       size_t bytes); /* as node_describe_wait */

/* ---- whether MPI reaches the engine's memory (direct.c); collective over the workers ---- */
int direct_open(struct sync *sync);

/* ---- engines with memory of their own (remote.c); all do nothing, at no cost, elsewhere ---- */
int remote_open(struct sync *sync);
void remote_close(struct sync *sync);
/* Whether the messages to and from the chunk's home leave and reach the engine's memory without the
 * host's. */
bool remote_goes_straight(const struct sync *sync, int chunk);
/* The group's gradient, or its team's sum, starts on its way to the host, in the form in which it
 * travels, unless its factors did. Compute thread; a team's progress thread. */
int remote_fetch_gradient(struct sync *sync, int group);
/* Where the chunk's gradient is when its message is due, unless it is of a stale iteration or
 * encoded; and where the message with its new parameters arrives: on the host, or in the engine's
 * memory where MPI reaches that. */
const float *remote_gradient(const struct sync *sync, int chunk);
float *remote_parameters(const struct sync *sync, int chunk);
/* Progress thread: whether what was fetched for the group is there; -1 with a message. */
int remote_fetched(struct sync *sync, int group);
/* Whichever thread changed them: the group's new parameters start on their way to the engine, once
 * its transfers are over (`settled` false) or once settle has run. */
int remote_store_values(struct sync *sync, int group, bool settled);
/* Compute thread: what is run from now on finds what was last stored for the group. */
int remote_order(struct sync *sync, int group);
/* Compute thread: what is run from now on begins after what was last fetched for the group. */
int remote_order_staged(struct sync *sync, int group);
/* The solver's rule on the whole group, in the engine's memory. history: blocks of the group's
 * elems. stored: not in turn, but after what was stored. */
int remote_update(struct sync *sync, int group, int64_t iteration, float scale, float *history,
                  bool stored);
/* For rebuilding on the host what the engine would rebuild in its own memory: an engine that
 * computes there. */
const struct engine *remote_host_engine(struct sync *sync);
/* Where staleness lets gradients and parameters wait on their way; page-locked where the engine has
 * memory of its own. Zeroed; NULL with a message. */
float *remote_slots_alloc(struct sync *sync, size_t elems, const char *what);
void remote_slots_free(struct sync *sync, float *slots);
/* A server's update in the engine's memory, beside the computation: the chunk's sum goes there, and
 * the new values come to the host unless messages go straight; the ticket tells when all that is
 * over. history: blocks of the chunk's elems. */
int remote_serve(struct sync *sync, int chunk, int64_t iteration, float scale, float *sum,
                 float *history, struct engine_ticket *ticket);
/* Where the server's messages with new parameters begin. */
float *remote_served_values(const struct sync *sync, int chunk);
/* History of that many elements in the engine's memory, with a copy on the host for snapshots. */
struct remote_history {
    float *memory; /* nhistory blocks of elems */
    float *host;   /* NULL until asked for */
    size_t elems;
};
int remote_history_open(struct sync *sync, const char *layer, size_t elems,
                        struct remote_history *out);
void remote_history_close(struct sync *sync, struct remote_history *history);
/* Fetches it; NULL with a message. */
float *remote_history_read(struct sync *sync, struct remote_history *history);
/* What was written to the copy holds from now on. */
int remote_history_restore(struct sync *sync, struct remote_history *history);

#endif
