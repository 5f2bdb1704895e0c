/* State of one rank, and the functions that schemes and gatherings call: shared by the files of
 * src/comm/sync alone.
 *
 * Ownership by thread. The compute thread has the members marked so, and the staging of factors.
 * The wire thread has everything else that changes after sync_start. Between the threads: wire_call
 * (compute -> wire), and the atomics `done` of buckets, clip and calls (wire -> compute). */
#ifndef POSEIDON_SYNC_SYNC_INTERNAL_H
#define POSEIDON_SYNC_SYNC_INTERNAL_H

#include <stdatomic.h>

#include "sync/clip.h"
#include "sync/lars.h"
#include "sync/gather.h"
#include "sync/node.h"
#include "sync/steps.h"
#include "sync/sync.h"
#include "trace/trace.h"
#include "util/agree.h"
#include "util/owner.h"
#include "wire/wire.h"

/* One bucket as this rank sees it. */
struct sync_bucket {
    const struct scheme_steps *steps; /* NULL: nothing to synchronise */
    void *scheme_state;               /* state of the scheme (steps.h) */
    bool leads;                       /* this rank exchanges messages of some of its chunks */
    int depth;                        /* iterations that may be under way: 1, or staleness + 1 */
    int64_t posted;                   /* iterations posted (compute thread) */
    int64_t signalled; /* iterations whose post the wire thread was told of (compute thread) */
    _Atomic int64_t told_ns; /* time of the latest post that the wire thread was told of */
    int64_t applied;         /* iterations whose values are in place (compute thread) */
    int groups_ready;     /* groups whose gradient of this micro-batch is final (compute thread) */
    int micro;            /* micro-batches staged in this iteration (compute thread) */
    int64_t started;      /* iterations posted, as known to the wire thread */
    int pieces, there;    /* pieces: number of parts in which a gradient is posted (> 1 only with
                             steps->go_on); there: parts already posted (wire thread) */
    int64_t complete;     /* number of the first iteration that still waits for messages */
    int *pending;         /* per iteration modulo depth: messages still waited for */
    int64_t newest;       /* lowest iteration among this iteration's answers (home.c, with drop) */
    _Atomic int64_t done; /* copy of `complete` for the compute thread */
};

/* Small collectives that the compute thread hands to the wire thread. */
struct sync_calls {
    struct call_sum {
        struct sync *sync;
        MPI_Comm comm;
        double *values, *result; /* two arrays in one allocation, freed by itself */
        int count, capacity;
        _Atomic int64_t done; /* 1: the result is here */
    } sums, asked;  /* sums: of sync_sum, over the workers. asked: of sync_ask, over all ranks */
    enum kept kept; /* kind of state being moved */
    int leader;     /* leader whose gradients' residuals are moved (KEPT_GRADIENTS) */
    bool divides;   /* residuals are multiplied by `part` and added, since the saved run had other
                       numbers of leaders or gradients */
    double part;    /* factor of the residuals added, with `divides` */
    float *arenas;  /* arenas of the gathered state, on rank 0 */
    int gathering;  /* messages that the gathering still waits for */
    _Atomic int64_t gathered; /* 1: all state is here */
};

/* Updates that this rank makes for other ranks. */
struct sync_service {
    int chunks;           /* number of chunks whose home is this rank */
    int64_t updates;      /* updates of these chunks that were sent since the start (wire thread) */
    _Atomic int64_t done; /* dedicated server: iterations that are over for all its chunks */
    struct jobs *helpers; /* threads that update chunks beside the wire thread, on a dedicated
                             server with idle cores; NULL: the wire thread updates. Owned */
};

struct sync {
    struct owner owner; /* owner of everything opened with the sync, unless noted */
    const struct plan *plan;
    struct sync_model model;
    struct sync_update update;
    struct sync_options options;
    int world_rank, nranks; /* this rank in the world, and the world's size */
    int leader;             /* number of this rank's leader in the plan */
    bool leads;             /* this rank leads, though perhaps only for some chunks (leads_chunk) */
    int rank;               /* `leader` if this rank leads; -1 if another rank leads it */
    bool worker;
    struct wire *wire;
    MPI_Comm data;    /* messages of leaders, by world rank: gradients, factors, sums, parameters */
    MPI_Comm control; /* leading ranks, for clipping and loading history; with plan_options.drop
                         homes alone, so that no other worker delays clipping */
    MPI_Comm sums;    /* workers, for losses and scores; MPI_COMM_NULL on dedicated servers */
    MPI_Comm all;     /* all ranks: agreements before the start, history on its way to rank 0, and
                         sync_ask's sums, the only collective while training */
    int64_t tag_period; /* number of iterations that tags tell apart */
    float *values;      /* model.values, or the sync's own array on a dedicated server */
    float scale;        /* 1 / (workers whose gradients are added * iter_size) */
    struct sync_bucket *buckets;
    const struct gather_i *gather;
    void *gathering;           /* state of `gather` */
    struct node_window window; /* memory that `gather` shares with the node's other ranks */
    struct gradient *gradient; /* places and forms of gradients and values (gradient.h) */
    struct clip clip;
    struct lars lars;
    struct sync_calls calls;
    int *waiting, nwaiting; /* buckets whose gradients are on their way to the host, in order */
    struct sync_service service;
    _Atomic int64_t turns; /* count of events that let a scheme's `advance` compute, for the compute
                              thread to wait on */
    struct sync_stats
        stats; /* written by the compute thread; bytes of buckets: by the wire thread */
    struct link_account {
        _Atomic uint64_t bytes, ns;
    } * links;              /* data sent to each rank of the world (wire thread) */
    bool in_flight;         /* the traffic ended in a failure: MPI may still use its buffers */
    struct sync *abandoned; /* next abandoned sync; see abandon() in sync.c */
};

/* ---- communicators (comms.c) ---- */

/* Makes the sync's communicators, as plan and options want. Collective; does not agree. */
int sync_split(struct sync *sync, MPI_Comm world);

/* Fails, on all ranks together, unless all ranks have the same plan. Collective over sync->all. */
int sync_compare_plans(struct sync *sync);

/* Frees the sync's communicators. Collective over each. */
void sync_free_communicators(struct sync *sync);

/* ---- callbacks of the wire's thread (wire_side.c) ---- */

/* Opens the wire, with the sync's callbacks. Collective over world. */
int sync_open_wire(struct sync *sync, MPI_Comm world);

/* ---- tags ---- */

/* A message that arrives for a bucket. */
struct arrival {
    int bucket, chunk;
    bool back;    /* true: from the chunk's home; false: on its way home, or factors */
    int peer;     /* leader that sent it */
    int rank;     /* sender's world rank */
    int64_t slot; /* its iteration modulo sync->tag_period */
    size_t bytes;
};

/* Returns the tag of a message: its direction, chunk and iteration. */
int tag_of(const struct sync *sync, bool back, int chunk, int64_t iteration);

/* Returns the first iteration from `from` on that the arrival can belong to. */
int64_t tag_iteration(const struct sync *sync, const struct arrival *arrival, int64_t from);

/* Returns 0 if the arrival is `bytes` long and `iteration` (of tag_iteration) is before `end`; else
 * -1 with a message about a rank that is out of step or runs another net. */
int arrival_check(const struct sync *sync, const struct arrival *arrival, int64_t iteration,
                  int64_t end, size_t bytes);

/* ---- buckets (bucket.c); wire thread ---- */

static inline const struct bucket *bucket_of(const struct sync *sync, int bucket)
{
    return &sync->plan->buckets[bucket];
}

static inline const struct chunk *chunk_of(const struct sync *sync, int chunk)
{
    return &sync->plan->chunks[chunk];
}

/* True if this rank exchanges the chunk's messages for its leader. */
static inline bool leads_chunk(const struct sync *sync, int chunk)
{
    return plan_leads_chunk(sync->plan, chunk, sync->world_rank);
}

/* True if this rank is the chunk's home. */
static inline bool is_home(const struct sync *sync, int chunk)
{
    return leads_chunk(sync, chunk) && plan_home(sync->plan, chunk) == sync->leader;
}

/* Returns the chunk that a message of the data communicator belongs to. */
static inline int message_chunk(const struct sync *sync, const struct wire_message *message)
{
    return message->tag / 2 % sync->plan->nchunks;
}

/* Returns the leader that a message of the data communicator came from. */
static inline int leader_of(const struct sync *sync, const struct wire_message *message)
{
    return sync->plan->leader[message->peer];
}

/* Returns the steps of ranks that lead the bucket. */
const struct scheme_steps *leading_steps(const struct sync *sync, int bucket);

/* Starts the traffic of the bucket's posted gradient (or its node's sum) when gradient_arrived is
 * 1. */
int bucket_await(struct sync *sync, int bucket);
/* Starts the traffic of waiting gradients that have arrived. Returns the pieces posted, or -1 with
 * a message. */
int bucket_poll(struct sync *sync);

/* Gives the chunks [*begin, *end) of a piece, numbered from the chunk sent first on and wrapping
 * around. */
static inline void bucket_piece(const struct sync *sync, int bucket, int piece, int *begin,
                                int *end)
{
    int64_t n = bucket_of(sync, bucket)->nchunks, pieces = sync->buckets[bucket].pieces;

    *begin = (int)(n * piece / pieces);
    *end = (int)(n * (piece + 1) / pieces);
}

/* Starts the traffic of the bucket's gradient now. */
int bucket_post(struct sync *sync, int bucket);

/* Sets the number of ends that the iteration waits for: of messages, sent or received, or of other
 * work. */
void bucket_expect(struct sync *sync, int bucket, int64_t iteration, int count);

/* Counts an end that the iteration waits for (bucket_expect); the last end completes the iteration.
 */
int bucket_finish_one(struct sync *sync, int bucket, int64_t iteration);

/* Counts the end of a message whose `user` is the iteration's number (wire_message.done). */
int bucket_message_over(void *sync, const struct wire_message *message);

/* Completes the iteration: the node's leaders have put its parameters in place. */
void bucket_brought(struct sync *sync, int bucket);

/* Sends training data of the bucket's iteration; sets urgency, communicator and context. message:
 * buffer, bytes, peer (a leader), tag, weight, done, user. */
int bucket_send(struct sync *sync, int bucket, int64_t iteration, struct wire_message message);

/* Sends a chunk's gradient on the way home, or (back) the home's answer, by bucket_send. The
 * message's `user` is the iteration. */
int bucket_send_chunk(struct sync *sync, int chunk, bool back, int64_t iteration, const void *what,
                      int peer, double weight, wire_done_fn *done);

/* Counts a chunk whose home is this rank as updated and sent: a dedicated server waits for whole
 * iterations. */
void sync_count_served(struct sync *sync);

/* Callbacks of the wire; context: the sync. */
int bucket_accept(void *sync, int peer, int tag, size_t bytes, struct wire_message *out);
void bucket_account(void *sync, const struct wire_message *message);

/* Returns the weight of `change` for the order of sends: the ratio of the squared lengths of
 * `change` and `values`; 0 where the order needs no weight, or values are not known (NULL). */
double bucket_weight(const struct sync *sync, const float *change, const float *values,
                     size_t elems);

/* ---- the compute thread's waits (post.c) ---- */

/* Waits as wire_wait does, and adds the time to the bucket's stall (-1: to no bucket's). */
int compute_wait(struct sync *sync, const _Atomic int64_t *counter, int64_t target, int bucket);

/* Calls `advance` of all buckets: computes with the data that is here, and does not wait. */
int compute_advance(struct sync *sync);

/* True if iterations go on without the latest workers. */
static inline bool sync_drops(const struct sync *sync)
{
    return sync->plan->options.drop > 0;
}

/* True if updates wait for norms: for clipping, LARS, or skipping updates that are not finite. */
static inline bool sync_clips(const struct sync *sync)
{
    return sync->options.clip > 0 || sync->options.skips > 0 || sync->options.lars > 0;
}

/* ---- pieces: parts of a bucket's range, each within one parameter (history.c) ---- */

struct piece {
    int bucket;
    size_t begin, end;  /* the range, in the arenas */
    int group, param;   /* the piece's parameter; group -1: before the first */
    size_t at;          /* begin of the parameter, in the arenas */
    size_t from, elems; /* begin and size of the piece */
};

static inline struct piece piece_before(int bucket, size_t begin, size_t elems)
{
    return (struct piece){.bucket = bucket, .begin = begin, .end = begin + elems, .group = -1};
}

/* Moves to the next piece of the range; false: there is none. */
bool piece_next(const struct sync *sync, struct piece *piece);

/* ---- direct messages from and to device memory (direct.c); collective over the workers ---- */
int direct_find(struct sync *sync, bool *direct, char *way, size_t bytes);

#endif
