/* The cost model: what one layer's synchronisation costs by every scheme, in bytes and in seconds,
 * and what an iteration lasts when all layers' traffic shares the link with backprop going on
 * beside it. Pure arithmetic: no MPI, the same on every rank, usable without a cluster (`poseidon
 * plan`).
 *
 * Let P workers hold a layer of b = 4 elems bytes; m x n its weight, r = k iter_size rows a worker,
 * f = 4 r (m + n) bytes of factors, P2 the servers. Bytes that one rank sends (receives) per
 * iteration:
 *
 *   PS, every worker serves: 2b (P-1)/P            (Zhang et al. 2017, Table 1)
 *
 *   PS, dedicated servers: worker b; server b P/P2 (ditto)
 *
 *   SFB: f (P-1)                                   (ditto; Xie et al. 2016)
 *
 *   allreduce: 2b (P-1)/P                          (reduce-scatter + allgather; the lower bound
 *                                                  of Patarasuk and Yuan 2009)
 *
 *   Adam: worker f (b); owner b (P-1) (f (P-1)), P for P-1 where it is a dedicated server
 *                                                  (Table 1; Chilimbi et al. 2014)
 *
 *   1-bit: 2q (P-1)/P, q = m (4 ceil(n/32) + 8) + 4 (elems - m n): a bit per weight and two
 *   values per output, for the gradients and for their sum (Seide et al. 2014)
 *
 * Where nodes add up first, P counts nodes and r is that of all workers of one.
 *
 * With --wire=bf16 b halves where gradients travel (PS one way, allreduce both).
 *
 * Seconds follow the usual alpha-beta-gamma model (Thakur, Rabenseifner and Gropp 2005): trips that
 * must follow each other cost the latency, every message its overhead, every byte the link's or the
 * memory's time, every operation of the reconstruction the matrix product's. */
#ifndef POSEIDON_SYNC_COST_H
#define POSEIDON_SYNC_COST_H

#include "plan/plan.h"

/* The cluster as training sees it: every figure holds while all ranks do the same at once. */
struct cost_cluster {
    double latency_seconds; /* from a send to its receive on another node, few bytes */
    double message_seconds; /* what each further message costs the rank that sends it */
    double link_Bps;   /* bytes per second of one node in one direction, talking to all others */
    double local_Bps;  /* the same of one rank with the ranks of its own node */
    double gemm_flops; /* operations per second of one rank in a matrix product (2 m n k) */
    double copy_Bps;   /* bytes one rank copies per second, in memory */
    double sum_Bps;    /* bytes of gradient one rank adds to a sum per second */
    double
        serve_Bps; /* bytes of parameters a server updates per second in the memory of the engine it
                      trains on: sums there, rule, new values back; 0: that memory is the host's */
    double update_Bps; /* bytes of parameters a worker's engine updates per second after SFB, where
                          a profile tells (cost_work_profile); 0: as fast as a server does */
    double transport_Bps; /* bytes sent, and as many received, per second of the progress thread's
                             processor time */
    double core_share; /* how much of that thread's processor time delays the passes: 0 where it has
                          a core to itself, 1 where it has none; up to COST_MOST_SHARE where the
                          network's interrupts, which are no thread's time, take the passes' cores
                          too */
};

#define COST_MOST_SHARE 2.0

struct cost_setup {
    int nworkers;
    int locals; /* where workers of a node add up before one speaks (node.h): the workers of a node,
                   and nworkers counts nodes; 0 or 1: every worker speaks for itself */
    int nservers;                    /* = nworkers where every worker serves */
    bool dedicated;                  /* servers are ranks of their own */
    int ranks_per_node;              /* they share a link; 1: one rank, one link */
    int iter_size;                   /* micro-batches per iteration */
    size_t chunk_bytes, merge_bytes; /* as in plan_options */
    enum wire wire;                  /* ditto */
};

/* What one rank of a role sends and receives in one iteration; the mean over the ranks of that
 * role. */
struct cost_side {
    double sent, received; /* bytes */
};

/* One layer by one scheme. */
struct cost {
    enum scheme scheme;
    bool possible;  /* false: the layer has no factors, or no traffic is wanted; all else is 0 */
    uint64_t bytes; /* sent by all ranks together (and received); exact, UINT64_MAX: more */
    struct cost_side worker; /* a worker; where every worker serves, both roles together */
    struct cost_side server; /* PS: a dedicated server; Adam: the layer's owner; else zero */
    double messages;         /* that the busiest rank sends */
    double wire_seconds;     /* the busiest link is taken, if all layers share the servers evenly */
    double skew_seconds; /* and this longer by this layer alone: it has fewer chunks than servers */
    double latency_seconds; /* trips after each other, overheads of messages */
    double sum_seconds;     /* progress thread: adding, quantising, a server's update */
    double
        compute_seconds; /* compute thread: copying factors out, rebuilding the gradient (less what
                            backprop saves by leaving that to it), updating its own parameters */
    double stolen_seconds; /* by which the progress thread and the transport slow the passes down */
    double busy_seconds;   /* other layers wait this long: the longer of link and progress thread */
    double seconds;        /* the layer alone, from its gradient to its new parameters */
};

/* The computation of one iteration on one rank, and which layer of it each group hangs on. */
struct cost_work {
    int nlayers;
    double *forward, *backward; /* seconds per layer */
    int ngroups;
    const struct param_group *groups; /* borrowed from the net */
    int *layer; /* per group: the lowest layer that reads it. Its backward makes the gradient
                   final, its next forward waits for the parameters */
};

enum cost_overlap {
    COST_OVERLAP_NONE, /* traffic starts after backward, forward waits for all of it */
    COST_OVERLAP_WFBP, /* traffic starts per layer, forward waits for all of it */
    COST_OVERLAP_FULL, /* and forward waits per layer, the most urgent layer goes first */
};

struct cost_iteration {
    double seconds;         /* from one iteration's start to the next one's */
    double compute_seconds; /* the passes, updates, rebuilding, what is stolen from them */
    double wire_seconds;    /* the busiest link is taken */
    double exposed_seconds; /* seconds - compute_seconds: the network was waited for */
    double sent, received;  /* bytes of the rank that moves most, mean over its role */
    uint64_t bytes;         /* of all ranks together */
};

/* Schemes as a set: bit 1 << SCHEME_PS and so on. */
typedef unsigned cost_schemes_t;

/* What --comm=auto chooses from: those that change no result. Adam's way is one of them too, but
 * never beats PS and SFB both for more than two workers: its owner sends all that PS spreads. */
#define COST_AUTO_SCHEMES (1u << SCHEME_PS | 1u << SCHEME_SFB | 1u << SCHEME_ALLREDUCE)

/* Whether a server that trains on an engine with memory of its own had better update its chunks
 * there. The host reads values, sums and history and writes two of them, the other way moves each
 * twice over the bus: the faster of both as measured. */
bool cost_updates_remotely(const struct cost_cluster *cluster);
double
cost_host_update_rate(const struct cost_cluster *cluster); /* bytes of parameters per second */

/* Sizes of what is sent, in bytes. */
struct cost_sizes {
    size_t chunk;  /* a KV chunk, what something urgent may have to wait for */
    size_t merge;  /* neighbours travel together until they hold it */
    size_t window; /* in MPI's hands at a time; an eighth of it to one rank */
};

/* Where nothing is known of the network. */
#define COST_USUAL_SIZES                                                                           \
    ((struct cost_sizes){.chunk = 512 << 10, .merge = 64 << 10, .window = 8 << 20})
#define COST_SIZE_CHOSEN ((size_t)-1) /* in options: to be replaced by what these say */

/* What suits a network: a chunk's bytes take 20 times as long as its latency (so cutting costs 5
 * %), a bucket's 4 times; within bounds that overheads and memory set. The window holds sixteen
 * chunks, two to a rank (sendq.c): with fewer a link falls idle, with more an urgent chunk waits
 * longer (tests/bench/RESULTS.md). */
struct cost_sizes cost_sizes_for(const struct cost_cluster *cluster);

/* One layer by one scheme. SCHEME_NONE: no traffic, every rank updates alone. */
struct cost cost_of(const struct cost_cluster *cluster, const struct cost_setup *setup,
                    const struct param_group *group, enum scheme scheme);

/* The scheme of a layer under a single-scheme mode: the one named where the layer can travel by it,
 * PS where it cannot, SCHEME_NONE where it does not train. `paper`: BestScheme instead of `scheme`.
 */
enum scheme cost_single(const struct cost_setup *setup, const struct param_group *group,
                        enum scheme scheme, bool paper);

/* The computation of a net by the operations of its layers: products at gemm_flops, all else at the
 * rate of copying its data. Where the net has no such figures of its own. */
int cost_work_create(const struct net *net, const struct cost_cluster *cluster,
                     struct cost_work *out);

/* The same from a file of measured times (engine/replay/profile.h), one line for every layer that
 * is in the net's file. The rates of products and updates there, if any, become cluster's. */
int cost_work_profile(const struct net *net, const char *file, struct cost_cluster *cluster,
                      struct cost_work *out);

/* Stretches all seconds so that one pass forward and backward lasts that long. */
void cost_work_scale(struct cost_work *work, double seconds);

double cost_work_seconds(const struct cost_work *work);
void cost_work_free(struct cost_work *work);

/* Plays iterations until they repeat. chosen: one cost per group. Fails for want of memory. */
int cost_iterate(const struct cost_work *work, const struct cost *chosen, enum cost_overlap overlap,
                 struct cost_iteration *out);

/* One scheme per group, from `allowed`, so that the iteration is shortest. Starts from the better
 * of "every layer by what is cheapest for it alone" and each single scheme, then changes single
 * layers while that shortens the iteration by more than a thousandth. Alone, equal seconds (to 1e-9
 * of them) go to fewer bytes, then to the earlier in enum scheme. The same on every rank where the
 * figures are. scheme: ngroups places. */
int cost_choose(const struct cost_work *work, const struct cost_cluster *cluster,
                const struct cost_setup *setup, enum cost_overlap overlap, cost_schemes_t allowed,
                enum scheme *scheme, struct cost_iteration *out);

/* Why `chosen` and none of the others: a sentence without its full stop into `out`. */
void cost_explain(const struct cost_cluster *cluster, const struct cost_setup *setup,
                  const struct param_group *group, enum scheme chosen, cost_schemes_t allowed,
                  char *out, size_t bytes);

/* "1.25 GB", "147 kB"; "12.3 ms", "41 us": at most 8 characters. */
#define COST_CELL 24 /* UNITS_CELL */
void cost_print_bytes(double bytes, char out[COST_CELL]);
void cost_print_seconds(double seconds, char out[COST_CELL]);

#endif
