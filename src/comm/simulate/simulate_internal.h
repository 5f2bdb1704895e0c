/* Data and functions that the simulator's files share. An endpoint is one leader of the plan, or a
 * block of neighbouring leaders that act at the same time. */
#ifndef POSEIDON_SIMULATE_SIMULATE_INTERNAL_H
#define POSEIDON_SIMULATE_SIMULATE_INTERNAL_H

#include "simulate/simulate.h"
#include "util/owner.h"
#include "wire/queue.h"

/* Iterations before the measured ones. In these the worker served first gets ahead of the worker
 * served last, which spreads messages out from then on. */
enum { SIMULATE_WARM_UP = 2 };

/* ---- events ---- */

enum event_kind {
    EVENT_LAYER,   /* endpoint: a layer's pass is over */
    EVENT_JOINED,  /* endpoint: the sums that the layer's pass waits for are there */
    EVENT_COPIED,  /* endpoint, bucket: the gradient is in host memory */
    EVENT_BACK,    /* endpoint, bucket: the parameters are in device memory */
    EVENT_GATHER,  /* endpoint, bucket: the node's gradients are added up */
    EVENT_WORK,    /* endpoint, bucket: the wire thread has done the work that needs no message */
    EVENT_HEAD,    /* message: its first byte is at the receiver's link */
    EVENT_DELIVER, /* message: its last byte has arrived */
    EVENT_SUM,     /* endpoint, transfer, slice: the sum is complete */
    EVENT_WAKE,    /* endpoint: bytes_per_second allows another send */
    EVENT_RING,    /* a ring begins */
    EVENT_RING_END /* index: number of buckets that the ring summed */
};

struct message;

enum { EVENT_KINDS = 16 }; /* upper bound of the number of event kinds */

struct event {
    double time;
    uint64_t order; /* kind + EVENT_KINDS x sequence number; decides between equal times */
    union {
        struct message *message;
        struct {
            int endpoint, index, slice, iteration;
        };
    };
};

/* A binary heap, the earliest event first. */
struct events {
    struct event *heap;
    size_t count;
    uint64_t number;
};

int events_put(struct events *events, struct event event);
bool events_take(struct events *events, struct event *out); /* false: the heap is empty */

/* ---- the cluster ---- */

struct link { /* link of a node, or links of a block's nodes together */
    double rate;
    double out_free, in_free; /* time when each direction has served all waiting messages */
};

/* Link of a leaf switch, up to the other leaves and down from them. */
struct leaf {
    double rate, up_free, down_free;
};

struct endpoint {
    int first, members; /* leaders [first, first + members) */
    int hosts;          /* number of nodes that the leaders run on, at least 1 */
    int link, leaf;
    bool worker;
    struct queue queue;
    struct link_meter meter;         /* meter of the queue, if options->meters */
    bool wakes;                      /* an EVENT_WAKE is scheduled */
    double thread_free, memory_free; /* times when the wire thread and local copies end */
    double call_free[2][2]; /* manner.calls_Bps: when call threads are free, [back][receives] */
    double copy_out_free, copy_in_free;
    /* Seconds of the slowest worker over the reference worker's: slowness for equal work, stretch
     * for its own passes. */
    double slowness, stretch;
    /* progress of a worker's passes */
    int iteration, layer; /* layer: forward passes below nlayers, backward passes above */
    int awaited;          /* bucket whose parameters the worker waits for; -1: none */
    double waits_since, stall_seconds, join_seconds, ended;
    uint64_t sent, received; /* bytes in the first iteration */
};

/* An endpoint's progress with a bucket: arrivals of an iteration. The two counters take turns by
 * iteration, since an endpoint that is ahead may send for the next one early. */
struct progress {
    int came[2];
    int done; /* number of iterations whose parameters have arrived */
};

/* Chunks of a bucket at one endpoint's homes. A slice has one or several chunks of each home. */
struct transfer {
    int bucket, home; /* home: an endpoint */
    int homes, chunks, slices;
    uint64_t gradient_bytes, back_bytes; /* bytes of one rank's gradient; bytes of one answer */
    double work_seconds;                 /* seconds of its homes' wire threads, summed */
    int first_came;                      /* first counter of the transfer in simulation.came */
    double out_free, in_free;            /* when links are free, for homes on part of a block */
};

/* A slice of a transfer, at the place of its first chunk among the bucket's chunks. */
struct order_entry {
    int transfer, slice;
};

/* Identifies a slice of an iteration. */
struct part {
    int bucket, transfer, slice, iteration;
};

/* A message to be sent. */
struct message_spec {
    int from, to;
    struct part part;
    int narrow; /* ranks that send, or receive, at the end with fewer of them */
    bool back;
    uint64_t bytes;
    double count; /* number of real messages in this one */
};

struct message {
    struct queue_entry entry; /* first: the queue hands out a pointer to the entry */
    struct message_spec spec;
    double last; /* time when the last byte has left */
};

struct ring {
    int *posted; /* per bucket: number of workers that posted it */
    int *queue;  /* buckets that all workers have posted, in that order */
    int nqueue, iteration;
    bool busy;
};

struct played_bucket {
    double gather;              /* seconds of adding up on the node */
    double bytes_out, bytes_in; /* a worker's copies, to its host and back to its device */
    int layer, next; /* layer that waits for the bucket, -1: does not train; previous bucket of that
                        layer, -1: none */
    int needs;       /* number of arrivals that complete a worker's parameters */
    int slices;      /* slices of a worker's factors that go to all; 0: no factors do */
    int transfer_first, order_first; /* first transfer and order entry, up to the next bucket's */
};

struct simulation {
    struct owner owner; /* owner of all memory but that of `events` */
    const struct simulate_options *options;
    const struct plan *plan;
    const struct cost_cluster *cluster;
    struct cost *costs;            /* costs of each bucket */
    struct played_bucket *buckets; /* one per bucket, and one more to end the ranges of the last */
    int *layer_first;              /* per layer: its last bucket in forward order, head of `next` */
    int nendpoints, nworkers;      /* workers come before servers */
    struct endpoint *endpoints;
    struct link *links;
    struct leaf *leaves;
    struct ring ring;
    double all_out, all_in;    /* sums of all bytes_out and all bytes_in */
    struct progress *progress; /* progress of each endpoint with each bucket */
    int ntransfers;
    struct transfer *transfers;
    struct order_entry *order; /* slices of all buckets, one bucket after another */
    int *came;         /* two counters of arrivals a slice (in trees a slice and endpoint) */
    int nsums, summed; /* sums_late: slices to add up in an iteration; slices added up so far */
    struct events events;
    struct queue_entry *free; /* messages free for reuse */
    double now;
    int iterations, ended; /* measured iterations, 0: not known yet; workers that have ended */
    int round, through;    /* oldest iteration not ended by all workers; workers that ended it */
    int joined;            /* workers that wait in a layer_join */
    int agreed;            /* consecutive iterations of equal duration */
    double round_ended, round_seconds; /* end and duration of the last finished iteration */
    double begin;                      /* start of the measured iterations */
    uint64_t messages;
};

/* Allocates a zeroed array of n elements for the simulation's lifetime; -1 with a message. */
#define ROOM(s, array, n) OWN(&(s)->owner, array, n, "the simulation")

/* Makes endpoints, links, transfers and all arrays (blocks.c). */
int blocks_open(struct simulation *s);

static inline struct progress *progress_of(struct simulation *s, int endpoint, int bucket)
{
    return &s->progress[(size_t)endpoint * (size_t)s->plan->nbuckets + (size_t)bucket];
}

/* Occupies a resource that serves one request at a time: for `seconds`, from `start` or *free,
 * whichever is later. Sets *free to the end, and returns the end. */
static inline double busy(double *free, double start, double seconds)
{
    *free = (*free > start ? *free : start) + seconds;
    return *free;
}

static inline int schedule(struct simulation *s, double time, enum event_kind kind, int endpoint,
                           int index, int iteration)
{
    struct event event = {
        .time = time, .order = kind, .endpoint = endpoint, .index = index, .iteration = iteration};

    return events_put(&s->events, event);
}

/* ---- messages (network.c) ---- */

int network_send(struct simulation *s, const struct message_spec *spec);
int network_head(struct simulation *s, struct message *message);
int network_deliver(struct simulation *s, struct message *message); /* frees the message */
int network_pump(struct simulation *s, int endpoint);

/* ---- the schemes' messages (traffic.c) ---- */

/* Posts the endpoint's final gradient of the bucket. */
int traffic_post(struct simulation *s, int endpoint, int bucket, int iteration);
int traffic_copied(struct simulation *s, int endpoint, int bucket, int iteration);
int traffic_gathered(struct simulation *s, int endpoint, int bucket, int iteration);
int traffic_summed(struct simulation *s, int endpoint, struct part part);
int traffic_arrived(struct simulation *s, const struct message_spec *spec);

/* ---- the passes (simulate.c) ---- */

/* Counts an arrival for the worker's parameters of the bucket. */
int passes_arrived(struct simulation *s, int endpoint, int bucket, int iteration);

/* ---- rings (ring.c) ---- */

int ring_open(struct simulation *s);
int ring_post(struct simulation *s, int bucket, int iteration);
int ring_begin(struct simulation *s);
int ring_end(struct simulation *s, int n);

#endif
