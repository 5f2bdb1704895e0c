/* The cost model: bytes and processor seconds of one bucket of a plan. Bytes have a single count,
 * plan_traffic; simulate_group plays how long the bucket takes. Pure arithmetic: no MPI, the same
 * on every rank, usable without a cluster (`poseidon plan`).
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
 * Where nodes add up first, P counts nodes, and r counts the rows of all workers of a node. Several
 * leaders of a node share its link, its messages and its sums.
 *
 * With bfloat16, b and f halve where gradients or factors travel (PS one way, allreduce both). */
#ifndef POSEIDON_PLAN_COST_H
#define POSEIDON_PLAN_COST_H

#include "plan/plan.h"

/* Overlap of communication with computation; train's option overlap. */
enum cost_overlap {
    COST_OVERLAP_NONE,     /* traffic starts after backward, forward waits for all of it */
    COST_OVERLAP_BACKWARD, /* traffic starts per layer, forward waits for all of it */
    COST_OVERLAP_WFBP,     /* traffic starts and forward waits per layer; most urgent layer first */
    COST_OVERLAPS
};

/* Words of enum cost_overlap, ended by NULL: "none", "backward", "wfbp". */
extern const char *const cost_overlap_words[];

/* Figures of a cluster as training sees it; each holds while all ranks do the same at once. */
struct cost_cluster {
    double latency_seconds; /* seconds from a short send to its receive on another node */
    double message_seconds; /* cost of each further message to the rank that sends it */
    double link_Bps; /* bytes per second of a node in one direction, while it talks to all others */
    double local_Bps;  /* bytes per second of a rank in one direction, with the ranks of its node */
    double gemm_flops; /* operations per second of a rank's matrix products (2 m n k) */
    double copy_Bps;   /* bytes per second that a rank copies in memory */
    double sum_Bps;    /* bytes per second of gradient that a rank adds to a sum */
    double serve_Bps; /* bytes per second of parameters that a server updates in engine memory: sums
                         go there, rule, new values come back; 0: that memory is the host's */
    double update_Bps; /* bytes per second of parameters that a worker's engine updates after SFB,
                          from a profile of the layers; 0: as fast as a server */
    double device_Bps; /* bytes per second between a rank's host and its device, each way; 0:
                          nothing is copied */
    double transport_Bps; /* bytes sent, and as many received, per second of the wire thread's
                             processor time */
    double core_share;    /* fraction of the wire thread's processor time that delays the passes: 0
                             with a core of its own, 1 without; up to COST_MOST_SHARE where network
                             interrupts also take the passes' cores, or where several ranks, or hosts
                             of a box, share a core */
    /* figures that only the simulator uses */
    double thread_Bps;   /* bytes that a rank's wire thread sends, and as many that it receives, per
                            second; 0: takes no time */
    double header_bytes; /* bytes that headers and the reply add to a message on a link; part of no
                            sum */
};

#define COST_MOST_SHARE 8.0

/* Lowers the cluster's rates to a limit of bytes_per_second for each rank (0: no limit), where
 * leaders_per_host ranks share a host's link. */
void cost_cap(struct cost_cluster *cluster, double bytes_per_second, int leaders_per_host);

/* Bytes of one rank of a role in one iteration, the mean over the ranks of that role. */
struct cost_side {
    double sent, received; /* bytes in each direction */
};

/* Costs of one bucket of a plan in one iteration. */
struct cost {
    const struct scheme *scheme; /* NULL: every rank updates alone */
    bool possible;  /* false: the bucket does not train, or (cost_table) the scheme cannot move it;
                       all else is 0 */
    uint64_t bytes; /* bytes that all ranks send together (and receive); exact, UINT64_MAX: more */
    struct cost_side worker; /* bytes of a worker; both roles together where every worker serves */
    struct cost_side server; /* bytes of a dedicated server, or of the owner (HOME_OWNER) */
    double busiest;          /* bytes of the busiest rank in its busier direction */
    double messages;         /* messages that the busiest rank sends */
    double sum_seconds; /* seconds of the wire thread for sums, quantising, updates; scheme->cost */
    double compute_seconds; /* seconds of the compute thread: copying factors out, rebuilding the
                               gradient (less what backprop saves by leaving that to it), own
                               updates; scheme->cost */
    double stolen_seconds;  /* seconds that wire thread and transport take from the passes */
    double busy_seconds; /* seconds that the bucket keeps the link, or the wire thread if longer, of
                            a rank of the busier role, if all buckets share the servers evenly */
    double seconds; /* seconds of the bucket alone, from its gradient to its new parameters; 0 until
                       simulate_group has played it */
};

/* True if a server on an engine with memory of its own should update its chunks there, by the
 * measured rates. The host reads values, sums and history and writes two of them; engine memory
 * needs two transfers of each chunk over the bus. */
bool cost_updates_remotely(const struct cost_cluster *cluster);

/* Returns the bytes of parameters per second that the host updates. */
double cost_host_update_rate(const struct cost_cluster *cluster);

/* Sizes used while nothing is known of the network. */
#define COST_USUAL_SIZES                                                                           \
    ((struct plan_sizes){.chunk = 512 << 10,                                                       \
                         .merge = 64 << 10,                                                        \
                         .window = 8 << 20,                                                        \
                         .latency = PLAN_USUAL_LATENCY_BYTES})
#define COST_SIZE_CHOSEN ((size_t)-1) /* placeholder in options: the size is to be chosen */
#define COST_NO_SIZES                                                                              \
    ((struct plan_sizes){COST_SIZE_CHOSEN, COST_SIZE_CHOSEN, COST_SIZE_CHOSEN, COST_SIZE_CHOSEN})

/* Returns `sizes`, each replaced by the given one unless that is COST_SIZE_CHOSEN. */
struct plan_sizes cost_sizes_keep(struct plan_sizes sizes, const struct plan_sizes *given);

/* Returns the sizes that suit a network, within bounds that overheads and memory set. Sending a
 * chunk takes 20 latencies (so cutting costs 5 %), a bucket 4, on a link no faster than a rank's
 * thread. The window holds sixteen chunks of the whole link, two to a rank (sync's queue): fewer
 * let a link fall idle, more make an urgent chunk wait longer (tests/bench/RESULTS.md). */
struct plan_sizes cost_sizes_for(const struct cost_cluster *cluster);

/* Computes all buckets' costs in O(leaders + shares log shares). out: plan->nbuckets places. */
void cost_plan(const struct cost_cluster *cluster, const struct plan *plan, struct cost *out);

/* Computes the costs of every group, unmerged, by every way. out: row g, of ways->n places, is
 * group g's. how: plan options; comm, ways and merging are ignored. Fails for want of memory, or
 * where no such plan can be. */
int cost_table(const struct cost_cluster *cluster, const struct plan_options *how,
               const struct ways *ways, int ngroups, const struct group *groups, struct cost *out);

/* Returns the part of the bucket's sum_seconds before anything travels, in which the ranks of a
 * node add up whole gradients, a slice each. */
double cost_node_seconds(const struct cost_cluster *cluster, const struct plan *plan, int bucket);

/* ---- for schemes ---- */

/* Returns the bytes of the bucket that a worker's device gives to the host and gets back: gradient
 * and new parameters, or its own and the others' factors. Zero if every rank updates alone. */
struct cost_side cost_device_bytes(const struct plan *plan, int bucket);

/* Returns the seconds to update `bytes` of parameters on the host. */
double cost_update_seconds(const struct cost_cluster *cluster, double bytes);

/* Returns the seconds to update `bytes` on a serving worker, in engine memory if that is faster. */
double cost_worker_update_seconds(const struct cost_cluster *cluster, double bytes);

/* Returns the seconds to update `bytes` on a worker's engine. */
double cost_device_update_seconds(const struct cost_cluster *cluster, double bytes);

/* Return the seconds to copy a worker's factors out of the next pass's way, to decode all workers'
 * factors, and to rebuild the gradient from these. Backprop leaves the rank's own outer products to
 * the rebuilding, so only the others' are extra. */
double cost_stage_seconds(const struct cost_cluster *cluster, const struct plan *plan, int bucket);
double cost_decode_seconds(const struct cost_cluster *cluster, const struct plan *plan, int bucket);
double cost_rebuild_seconds(const struct cost_cluster *cluster, const struct plan *plan,
                            int bucket);

#endif
