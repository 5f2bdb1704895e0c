/* The cost model: what one bucket of a plan costs, in bytes and in seconds of processors. Bytes are
 * those of the plan (plan_traffic), there is no second count of them; how long the bucket takes is
 * not worked out here but played (simulate_group). Pure arithmetic: no MPI, the same on every
 * rank, usable without a cluster (`poseidon plan`).
 *
 * Let P workers hold a layer of b = 4 elems bytes; m x n its weight, r = k iter_size rows a worker,
 * f = 4 r (m + n) bytes of factors, P2 the servers. Bytes that one rank sends (receives) per
 * iteration:
 *
 *   PS, every worker serves: 2b (P-1)/P            (Zhang et al. 2017, Table 1)
 *
 *   PS, dedicated servers: worker b; server b P/P2 (Table 1)
 *
 *   SFB: f (P-1)                                   (Table 1; Xie et al. 2016)
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
 * Where nodes add up first, P counts nodes and r is that of all workers of one; several leaders of
 * a node share its link, its messages and its sums.
 *
 * As bfloat16 b and f halve where gradients or factors travel (PS one way, allreduce both). */
#ifndef POSEIDON_PLAN_COST_H
#define POSEIDON_PLAN_COST_H

#include "plan/plan.h"

/* How much communication is hidden behind computation; as train's option overlap. */
enum cost_overlap {
    COST_OVERLAP_NONE,     /* traffic starts after backward, forward waits for all of it */
    COST_OVERLAP_BACKWARD, /* traffic starts per layer, forward waits for all of it */
    COST_OVERLAP_WFBP,     /* and forward waits per layer, the most urgent layer goes first */
    COST_OVERLAPS
};

/* "none", "backward", "wfbp", by enum cost_overlap, ended by NULL. */
extern const char *const cost_overlap_words[];

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
                          a profile of the layers has it; 0: as fast as a server does */
    double device_Bps; /* bytes per second between a rank's host and its device, each way; 0: what
                          travels need not be copied */
    double transport_Bps; /* bytes sent, and as many received, per second of the wire thread's
                             processor time */
    double core_share; /* how much of that thread's processor time delays the passes: 0 where it has
                          a core to itself, 1 where it has none; more, up to COST_MOST_SHARE, where
                          the network's interrupts, which are no thread's time, take the passes'
                          cores too, or where several ranks, or hosts of a box, share a core */
    /* of what is played alone (simulate/simulate.h): */
    double thread_Bps;   /* bytes that a rank's wire thread sends, and as many that it receives, per
                            second of its time; 0: that takes it no time */
    double header_bytes; /* that a message takes of its links beside its own, for headers and for
                            the reply, which is taken to go its way; counted nowhere */
};

#define COST_MOST_SHARE 8.0

/* Lowers the cluster's rates to what ranks reach that send no more than bytes_per_second (0: no
 * limit), where leaders_per_host ranks share a host's link. */
void cost_cap(struct cost_cluster *cluster, double bytes_per_second, int leaders_per_host);

/* What one rank of a role sends and receives in one iteration; the mean over the ranks of that
 * role. */
struct cost_side {
    double sent, received; /* bytes */
};

/* One bucket of a plan. */
struct cost {
    const struct scheme *scheme; /* NULL: every rank updates alone */
    bool possible;  /* false: the bucket does not train, or (cost_table) the scheme cannot move it;
                       all else is 0 */
    uint64_t bytes; /* sent by all ranks together (and received); exact, UINT64_MAX: more */
    struct cost_side worker; /* a worker; where every worker serves, both roles together */
    struct cost_side server; /* a dedicated server; with HOME_OWNER the owner; else zero */
    double busiest;          /* bytes of the rank that moves most: the larger of both directions */
    double messages;         /* that the busiest rank sends */
    double sum_seconds;      /* wire thread: adding, quantising, a server's update; scheme->cost */
    double compute_seconds;  /* compute thread: copying factors out, rebuilding the gradient (less
                                what backprop saves by leaving that to it), updating its own
                                parameters; scheme->cost */
    double stolen_seconds;   /* by which the wire thread and the transport slow the passes down */
    double busy_seconds;     /* for how long it keeps the link of a rank of the busier role, if all
                                buckets share the servers evenly, or a wire thread: the longer */
    double seconds; /* the bucket alone, from its gradient to its new parameters; 0 until it
                       was played (simulate_group) */
};

/* Whether a server that trains on an engine with memory of its own had better update its chunks
 * there. The host reads values, sums and history and writes two of them, the other way moves each
 * twice over the bus: the faster of both as measured. */
bool cost_updates_remotely(const struct cost_cluster *cluster);
double
cost_host_update_rate(const struct cost_cluster *cluster); /* bytes of parameters per second */

/* Where nothing is known of the network. */
#define COST_USUAL_SIZES                                                                           \
    ((struct plan_sizes){.chunk = 512 << 10,                                                       \
                         .merge = 64 << 10,                                                        \
                         .window = 8 << 20,                                                        \
                         .latency = PLAN_USUAL_LATENCY_BYTES})
#define COST_SIZE_CHOSEN ((size_t)-1) /* in options: to be replaced by what these say */
#define COST_NO_SIZES                                                                              \
    ((struct plan_sizes){COST_SIZE_CHOSEN, COST_SIZE_CHOSEN, COST_SIZE_CHOSEN, COST_SIZE_CHOSEN})

/* Those that were given hold: that are not COST_SIZE_CHOSEN. */
struct plan_sizes cost_sizes_keep(struct plan_sizes sizes, const struct plan_sizes *given);

/* What suits a network: a chunk's bytes take 20 times as long as its latency (so cutting costs 5
 * %), a bucket's 4 times, on a link that is no faster than a rank's thread; within bounds that
 * overheads and memory set. The window holds sixteen chunks of the whole link, two to a rank
 * (sync's queue): with fewer a link falls idle, with more an urgent chunk waits longer
 * (tests/bench/RESULTS.md). */
struct plan_sizes cost_sizes_for(const struct cost_cluster *cluster);

/* Every bucket of the plan; out: plan->nbuckets places. Time: O(leaders + shares log shares). */
void cost_plan(const struct cost_cluster *cluster, const struct plan *plan, struct cost *out);

/* Every group by itself by every way: row g of `out`, of ways->n places, is group g's. How: all of
 * the plan's options but comm, ways and merging. Fails for want of memory, or where no such plan
 * can be. */
int cost_table(const struct cost_cluster *cluster, const struct plan_options *how,
               const struct ways *ways, int ngroups, const struct group *groups, struct cost *out);

/* Of the bucket's sum_seconds, what comes before anything travels: the ranks of a node add up whole
 * gradients, a slice each. */
double cost_node_seconds(const struct cost_cluster *cluster, const struct plan *plan, int bucket);

/* ---- for schemes ---- */

/* What a worker's device gives the host, and gets back, for the bucket: its gradient and the new
 * parameters, or its factors and the others'. Zero where it updates alone. */
struct cost_side cost_device_bytes(const struct plan *plan, int bucket);

/* Seconds to update `bytes` bytes of parameters on the host. */
double cost_update_seconds(const struct cost_cluster *cluster, double bytes);

/* Likewise on a server that is a worker, and may update in its engine's memory. */
double cost_worker_update_seconds(const struct cost_cluster *cluster, double bytes);

/* Likewise by a worker's engine. */
double cost_device_update_seconds(const struct cost_cluster *cluster, double bytes);

/* Copying one worker's factors out of the way of the next pass; decoding all workers'; rebuilding
 * the gradient of all workers' factors. Backprop leaves the rank's own outer products to the
 * rebuilding, so only the others' are extra. */
double cost_stage_seconds(const struct cost_cluster *cluster, const struct plan *plan, int bucket);
double cost_decode_seconds(const struct cost_cluster *cluster, const struct plan *plan, int bucket);
double cost_rebuild_seconds(const struct cost_cluster *cluster, const struct plan *plan,
                            int bucket);

#endif
