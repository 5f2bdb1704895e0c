/* What the files of src/comm/sync share: the state of one rank, and what schemes and gatherings
 * call.
 *
 * Ownership by thread. Compute thread: what is marked so, and staging of factors. Wire thread: all
 * else that changes after sync_start. Between them: wire_call (compute -> wire), the atomics `done`
 * of buckets, clip and calls (wire -> compute). */
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
    void *scheme_state;               /* the scheme's (steps.h) */
    bool leads;                       /* this rank moves some of its chunks */
    int depth;                        /* iterations that may be under way: 1, or staleness + 1 */
    int64_t posted;                   /* iterations posted (compute thread) */
    int64_t signalled;                /* of which the wire thread was told (compute thread): */
    _Atomic int64_t told_ns;          /* when it last was */
    int64_t applied;                  /* iterations whose values are in place (compute thread) */
    int groups_ready;     /* groups whose gradient of this micro-batch is final (compute thread) */
    int micro;            /* micro-batches staged in this iteration (compute thread) */
    int64_t started;      /* iterations posted as the wire thread knows */
    int pieces, there;    /* in how many pieces a gradient comes to where it leaves from: 1, or more
                             with steps->go_on; of them, those that were posted (wire thread) */
    int64_t complete;     /* of these, from the first on, that have all they waited for */
    int *pending;         /* per iteration modulo depth: what it still waits for */
    int64_t newest;       /* home.c: the oldest iteration that what came for the last one holds */
    _Atomic int64_t done; /* `complete`, for the compute thread */
};

/* Small collectives that the compute thread hands to the wire thread. */
struct sync_calls {
    struct call_sum {
        struct sync *sync;
        MPI_Comm comm;
        double *values, *result; /* allocated at once, by itself */
        int count, capacity;
        _Atomic int64_t done; /* 1: the result has come */
    } sums, asked;            /* sync_sum's, over the workers; sync_ask's, over all */
    enum kept kept;           /* what is gathered or dealt out; of gradients: */
    int leader;               /* whose */
    bool divides;             /* ... but every leader gets a part of it: */
    double part;              /* this one */
    float *arenas;            /* rank 0: what was gathered */
    int gathering;            /* its messages under way */
    _Atomic int64_t gathered; /* 1: all has come */
};

/* What this rank updates for others. */
struct sync_service {
    int chunks;           /* whose home this rank is */
    int64_t updates;      /* of them, sent since the start (wire thread) */
    _Atomic int64_t done; /* dedicated server: iterations that are over for all its chunks */
    struct jobs *helpers; /* dedicated server with idle cores: update chunks beside the
                             wire thread; NULL: that does it. Owned */
};

struct sync {
    struct owner owner; /* of all that is opened with the rest, unless noted */
    const struct plan *plan;
    struct sync_model model;
    struct sync_update update;
    struct sync_options options;
    int world_rank, nranks; /* among all */
    int leader;             /* who leads this rank, by its number in the plan */
    bool leads;             /* this rank does, if only some chunks (leads_chunk) */
    int rank;               /* `leader` where this rank leads; -1 where only other ranks lead it */
    bool worker;
    struct wire *wire;
    MPI_Comm data;      /* of all, by world rank; leaders use it: gradients, factors, sums,
                           parameters; point-to-point */
    MPI_Comm control;   /* of the ranks that lead: clipping, the history to come; with drop of the
                           homes alone, as no other worker is to hold clipping up */
    MPI_Comm sums;      /* of the workers: losses, scores; MPI_COMM_NULL on dedicated servers */
    MPI_Comm all;       /* what is agreed before the start; then the history's way to rank 0, and
                           sync_ask's sums, the only collective there */
    int64_t tag_period; /* iterations told apart by a tag */
    float *values;      /* = model.values, or own on a dedicated server */
    float scale;        /* 1 / (workers whose gradients are added * iter_size) */
    struct sync_bucket *buckets;
    const struct gather_i *gather;
    void *gathering;           /* its state */
    struct node_window window; /* what it shares with the node's other ranks */
    struct gradient *gradient; /* where gradients and values are, and in what form (gradient.h) */
    struct clip clip;
    struct lars lars;
    struct sync_calls calls;
    int *waiting, nwaiting; /* buckets whose gradients are on their way to the host, in order */
    struct sync_service service;
    _Atomic int64_t turns;   /* how often a scheme that advances has told the compute thread so */
    struct sync_stats stats; /* the compute thread's, but for bytes of buckets: the wire's */
    struct link_account {
        _Atomic uint64_t bytes, ns;
    } * links;      /* per rank of the world; wire thread */
    bool in_flight; /* the traffic ended in a failure: MPI may still use what it was given */
    struct sync *abandoned; /* the next abandoned sync; see abandon() in sync.c */
};

/* ---- communicators (comms.c) ---- */

/* Makes the sync's communicators, as plan and options want them. Collective; does not agree. */
int sync_split(struct sync *sync, MPI_Comm world);

/* Whether all ranks have the same plan. Collective over sync->all; fails on all ranks together. */
int sync_compare_plans(struct sync *sync);

/* Collective over each of them. */
void sync_free_communicators(struct sync *sync);

/* ---- what the wire's thread asks (wire_side.c) ---- */

/* Opens the wire, with the sync's callbacks. Collective over world. */
int sync_open_wire(struct sync *sync, MPI_Comm world);

/* ---- tags: the step signature ---- */

/* A message that arrives for one of the buckets. */
struct arrival {
    int bucket, chunk;
    bool back;    /* from a chunk's home; else on its way there, or factors */
    int peer;     /* the leader that sent it */
    int rank;     /* its world rank */
    int64_t slot; /* its iteration modulo sync->tag_period */
    size_t bytes;
};

/* Direction, chunk and iteration of a message in its tag. */
int tag_of(const struct sync *sync, bool back, int chunk, int64_t iteration);

/* The first iteration from `from` on that the arrival can be of. */
int64_t tag_iteration(const struct sync *sync, const struct arrival *arrival, int64_t from);

/* Whether the arrival is `bytes` long and of an iteration before `end`, where its iteration is that
 * of tag_iteration; -1 with a message about a rank that is out of step or runs another net. */
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

/* Whether this rank moves the chunk for its leader. */
static inline bool leads_chunk(const struct sync *sync, int chunk)
{
    return plan_leads_chunk(sync->plan, chunk, sync->world_rank);
}

/* Whether this rank is the chunk's home. */
static inline bool is_home(const struct sync *sync, int chunk)
{
    return leads_chunk(sync, chunk) && plan_home(sync->plan, chunk) == sync->leader;
}

/* Which chunk a message of the data communicator is of. */
static inline int message_chunk(const struct sync *sync, const struct wire_message *message)
{
    return message->tag / 2 % sync->plan->nchunks;
}

/* The leader that a message of the data communicator came from. */
static inline int leader_of(const struct sync *sync, const struct wire_message *message)
{
    return sync->plan->leader[message->peer];
}

/* The steps of ranks that lead the bucket. */
const struct scheme_steps *leading_steps(const struct sync *sync, int bucket);

/* The bucket's gradient (or its node's sum) is posted: starts its traffic as soon as it has reached
 * the place that it leaves from. */
int bucket_await(struct sync *sync, int bucket);
int bucket_poll(struct sync *sync); /* the same for those that had not; how many */

/* The bucket's chunks from number *begin to *end are of that piece, counted around from the one
 * that is sent first. */
static inline void bucket_piece(const struct sync *sync, int bucket, int piece, int *begin,
                                int *end)
{
    int64_t n = bucket_of(sync, bucket)->nchunks, pieces = sync->buckets[bucket].pieces;

    *begin = (int)(n * piece / pieces);
    *end = (int)(n * (piece + 1) / pieces);
}

/* The traffic of the bucket's gradient begins now. */
int bucket_post(struct sync *sync, int bucket);

/* The running iteration waits for `count` messages, sent and received, or other ends. */
void bucket_expect(struct sync *sync, int bucket, int64_t iteration, int count);

/* One of them is over; the last one makes the iteration done. */
int bucket_finish_one(struct sync *sync, int bucket, int64_t iteration);

/* Of a message that the iteration waits for, whose number is its `user`: it is over. */
int bucket_message_over(void *sync, const struct wire_message *message);

/* What others bring is in place, and what this rank had to bring itself: the iteration is done. */
void bucket_brought(struct sync *sync, int bucket);

/* Sends training data of the bucket's iteration; fills in urgency and what is common to all.
 * message: buffer, bytes, peer (a leader), tag, weight, done, user. */
int bucket_send(struct sync *sync, int bucket, int64_t iteration, struct wire_message message);

/* The same of a chunk: its gradient on the way home, or (back) what home has made of it. The
 * message's `user` is the iteration. */
int bucket_send_chunk(struct sync *sync, int chunk, bool back, int64_t iteration, const void *what,
                      int peer, double weight, wire_done_fn *done);

/* A chunk at home here was updated and sent: a dedicated server waits for whole iterations. */
void sync_count_served(struct sync *sync);

/* The wire's callbacks; context: the sync. */
int bucket_accept(void *sync, int peer, int tag, size_t bytes, struct wire_message *out);
void bucket_account(void *sync, const struct wire_message *message);

/* How much `change` changes values of that many elements, for the order of sends: the ratio of
 * their squared lengths; 0 where the order does not ask for it, or values are not known (NULL). */
double bucket_weight(const struct sync *sync, const float *change, const float *values,
                     size_t elems);

/* ---- the compute thread's waits (post.c) ---- */

/* As wire_wait; the time is the bucket's stall (-1: nobody's). */
int compute_wait(struct sync *sync, const _Atomic int64_t *counter, int64_t target, int bucket);

/* All buckets' `advance`: computes with what is here, and waits for nothing. */
int compute_advance(struct sync *sync);

/* Whether iterations go on without the workers that come last. */
static inline bool sync_drops(const struct sync *sync)
{
    return sync->plan->options.drop > 0;
}

/* Whether updates wait for norms: of clipping, of LARS, or to skip one that is not finite. */
static inline bool sync_clips(const struct sync *sync)
{
    return sync->options.clip > 0 || sync->options.skips > 0 || sync->options.lars > 0;
}

/* ---- pieces: what a stretch of a bucket has of one parameter (history.c) ---- */

struct piece {
    int bucket;
    size_t begin, end;  /* the stretch, in the arenas */
    int group, param;   /* the parameter; group -1: before the first */
    size_t at;          /* where it begins */
    size_t from, elems; /* the piece */
};

static inline struct piece piece_before(int bucket, size_t begin, size_t elems)
{
    return (struct piece){.bucket = bucket, .begin = begin, .end = begin + elems, .group = -1};
}

/* The next one; false: there is none. */
bool piece_next(const struct sync *sync, struct piece *piece);

/* ---- whether MPI reaches the device's memory (direct.c); collective over the workers ---- */
int direct_find(struct sync *sync, bool *direct, char *way, size_t bytes);

#endif
