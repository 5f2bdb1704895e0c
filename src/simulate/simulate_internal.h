/* What the files of the simulator share. An endpoint is one leader of the plan, or a block of
 * neighbouring ones that do the same at the same time. */
#ifndef POSEIDON_SIMULATE_SIMULATE_INTERNAL_H
#define POSEIDON_SIMULATE_SIMULATE_INTERNAL_H

#include "simulate/simulate.h"
#include "util/owner.h"
#include "wire/queue.h"

/* Iterations that are not measured: the first worker to be served starts the next iteration before
 * the last one, which spreads its messages out from then on. */
enum { SIMULATE_WARM_UP = 2 };

/* ---- events ---- */

enum event_kind {
    EVENT_LAYER,   /* endpoint: a layer's pass is over */
    EVENT_JOINED,  /* endpoint: that layer has the sums of all */
    EVENT_COPIED,  /* endpoint, bucket: its gradient is in the host's memory */
    EVENT_BACK,    /* endpoint, bucket: its parameters are in the device's memory */
    EVENT_GATHER,  /* endpoint, bucket: its node's gradients are added up */
    EVENT_WORK,    /* endpoint, bucket: what its wire thread has to do for it alone is done */
    EVENT_HEAD,    /* message: its first byte is at the receiver's link */
    EVENT_DELIVER, /* message: its last byte has arrived */
    EVENT_SUM,     /* endpoint, transfer, slice: all that is added up there has been */
    EVENT_WAKE,    /* endpoint: the cap lets it send again */
    EVENT_RING,    /* a ring begins */
    EVENT_RING_END /* index: how many buckets it summed */
};

struct message;

enum { EVENT_KINDS = 16 }; /* at most */

struct event {
    double time;
    uint64_t
        order; /* its kind and EVENT_KINDS times its number: of equal times the earlier first */
    union {
        struct message *message;
        struct {
            int endpoint, index, slice, iteration;
        };
    };
};

/* A binary heap. */
struct events {
    struct event *heap;
    size_t count;
    uint64_t number;
};

int events_put(struct events *events, struct event event);
bool events_take(struct events *events, struct event *out); /* false: the heap is empty */

/* ---- the cluster ---- */

struct link { /* of a node, or of a block's nodes together */
    double rate;
    double out_free, in_free; /* when each direction has served all that waits */
};

/* A leaf switch's, up to the others and down from them. */
struct leaf {
    double rate, up_free, down_free;
};

struct endpoint {
    int first, members; /* leaders [first, first + members) */
    int hosts;          /* nodes that they make up, at least 1 */
    int link, leaf;
    bool worker;
    struct queue queue;
    struct link_meter meter;         /* of the queue, where it is watched */
    bool wakes;                      /* an EVENT_WAKE is on its way */
    double thread_free, memory_free; /* wire thread; the way to ranks of its own node */
    double call_free[2][2]; /* manner.calls_Bps: of gradients and answers, called and calling */
    double copy_out_free, copy_in_free;
    /* of the slowest worker behind it: seconds over those of the cluster's rank, for the same
       products, for its own passes, and for its passes of this iteration, with what is drawn */
    double slowness, stretch, pace;
    /* the passes of a worker */
    int iteration, layer; /* layer counts up to nlayers forward, then to 2 nlayers backward */
    int awaited;          /* the bucket whose parameters it waits for; -1: none */
    double waits_since, stall_seconds, join_seconds, ended;
    uint64_t sent, received; /* in the first iteration */
};

/* What an endpoint knows of a bucket: how much of an iteration has come. Two counters, since one
 * that is ahead may send of the next iteration before this one has all. */
struct progress {
    int came[2];
    int done; /* iterations whose parameters are there */
};

/* A bucket's chunks whose homes belong to one endpoint; travels in `slices` of a chunk of each. */
struct transfer {
    int bucket, home; /* an endpoint */
    int homes, chunks, slices;
    uint64_t gradient_bytes, back_bytes; /* of one rank's gradient; of one answer */
    double work_seconds;                 /* of the wire threads of its homes, one after the other */
    int first_came;                      /* in simulation.came */
    double out_free, in_free;            /* as a link's, where its homes are a part of a block */
};

/* A slice of a transfer, where its first chunk stands among the bucket's. */
struct order_entry {
    int transfer, slice;
};

/* Which slice of what. */
struct part {
    int bucket, transfer, slice, iteration;
};

/* What is sent. */
struct message_spec {
    int from, to;
    struct part part;
    int narrow; /* ranks at the end where fewer are: they alone send, or receive */
    bool back;
    uint64_t bytes;
    double count; /* messages that it stands for */
};

struct message {
    struct queue_entry entry; /* first: the queue hands out this */
    struct message_spec spec;
    double last; /* when its last byte has left */
};

struct ring {
    int *posted; /* per bucket: by how many workers */
    int *queue;  /* buckets that all have posted, in that order */
    int nqueue, iteration;
    bool busy;
};

struct played_bucket {
    double gather;              /* seconds: a node adds up first */
    double bytes_out, bytes_in; /* of a worker, to its host and back to its device */
    int layer, next; /* on which it hangs, -1: it does not train; the bucket before it there, -1:
                        none */
    int needs;       /* what must come to a worker until its parameters are there */
    int slices;      /* that a worker's factors go to all in; 0: they do not */
    int transfer_first, order_first; /* its own end where the next bucket's begin */
};

struct simulation {
    struct owner owner; /* of its memory, but for the events' */
    const struct simulate_options *options;
    const struct plan *plan;
    const struct cost_cluster *cluster;
    struct cost *costs;            /* per bucket */
    struct played_bucket *buckets; /* one more than there are */
    int *layer_first; /* per layer: a bucket that hangs on it, the last one in forward order */
    int nendpoints, nworkers; /* workers first */
    struct endpoint *endpoints;
    struct link *links;
    struct leaf *leaves;
    struct ring ring;
    double all_out, all_in;    /* bytes_out and bytes_in of all buckets */
    struct progress *progress; /* per endpoint and bucket */
    int ntransfers;
    struct transfer *transfers;
    struct order_entry *order; /* of each bucket in the order of its chunks */
    int *came;         /* per slice of a transfer, along trees per endpoint of each: two counters */
    int nsums, summed; /* sums_late: slices that an iteration adds up; that this one has */
    struct events events;
    struct queue_entry *free; /* messages that nobody sends */
    double now;
    int iterations, ended; /* that are measured, 0: not known yet; workers that are through */
    int round, through;    /* the iteration that not all workers have ended; how many have */
    int joined;            /* workers that wait for the others' layer */
    int agreed;            /* iterations in a row that lasted as long as the one before */
    double round_ended, round_seconds; /* of the last one that all have ended */
    double begin;                      /* of what is measured */
    uint64_t messages;
};

/* Allocates n elements, all zero, for the array, until the simulation ends; -1 with a message. */
#define ROOM(s, array, n) OWN(&(s)->owner, array, n, "the simulation")

/* Endpoints, links, transfers and all arrays (blocks.c). */
int blocks_open(struct simulation *s);

static inline struct progress *progress_of(struct simulation *s, int endpoint, int bucket)
{
    return &s->progress[(size_t)endpoint * (size_t)s->plan->nbuckets + (size_t)bucket];
}

/* What serves one after the other is free at `free`: from `start` at the earliest it is busy for
 * `seconds`. Returns when it has done so. */
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
int network_deliver(struct simulation *s, struct message *message); /* the message is free then */
int network_pump(struct simulation *s, int endpoint);

/* ---- the schemes' messages (traffic.c) ---- */

/* The endpoint's gradient of the bucket is final. */
int traffic_post(struct simulation *s, int endpoint, int bucket, int iteration);
int traffic_copied(struct simulation *s, int endpoint, int bucket, int iteration);
int traffic_gathered(struct simulation *s, int endpoint, int bucket, int iteration);
int traffic_summed(struct simulation *s, int endpoint, struct part part);
int traffic_arrived(struct simulation *s, const struct message_spec *spec);

/* ---- the passes (simulate.c) ---- */

/* Another part of what a worker waits for has arrived. */
int passes_arrived(struct simulation *s, int endpoint, int bucket, int iteration);

/* ---- rings (ring.c) ---- */

int ring_open(struct simulation *s);
int ring_post(struct simulation *s, int bucket, int iteration);
int ring_begin(struct simulation *s);
int ring_end(struct simulation *s, int n);

#endif
