/* A discrete-event simulator of training: plays the program's own plan through the wire's own queue
 * (order, window, share of a peer, cap), message by message, on a virtual clock. So it shows ranks
 * that wait for each other, incast at a home, a full window, and gradients that become ready while
 * the link is busy. Every predicted time of communication comes from here. No MPI, no processes, no
 * threads; the same input gives the same bits.
 *
 * What is played: each worker computes layer by layer, forward waits for parameters and backward
 * posts gradients as "overlap" says. A message leaves through its node's link, which all ranks of
 * the node share and which serves in the order of arrival, costs its sender message_seconds, comes
 * a latency later to the receiver's link, which is taken for its bytes in the order of arrival, and
 * leaves the window when its last byte has arrived. Links carry both directions at once. Ranks of
 * one node exchange at local_Bps and without latency. A rank's wire thread moves what is sent and
 * received where that is limited, adds gradients up and updates, one after another. What travels
 * may have to be copied from a device's memory first and back to it at last, either way by an
 * engine of its own. Nodes may be joined by leaf switches whose ways up are narrower than what
 * hangs on them, and workers may be unequally fast, in every iteration anew or for good, with
 * unlike shares of the batch.
 *
 * What is approximated:
 * - Switches have room for all that waits for a link.
 * - A node that adds up first is its leader.
 * - A ring's steps are a time and no messages (ring.c).
 * - What a bucket costs the processors is what the cost model says (struct cost: sum_seconds over
 *   its homes and the gradients that come there, compute_seconds before the layer's next forward).
 *   What the wire thread takes from the passes (stolen_seconds) bounds the iteration from below.
 * - Sums that passes wait for go up a tree of the workers and down again, behind what is on the
 *   links at that time. They take no time of the links, and are not counted in bytes.
 * - Of workers that are unlike, products, passes and bytes of factors alone are: wire threads are
 *   equally fast.
 * - The weight of updates is not known: of one bucket, a rank sends chunk after chunk.
 * - A home's chunks of one bucket are equally large; where an iteration would have more than some
 *   millions of messages, several of them travel as one, and so do slices of factors.
 * - Rounds of factors do not wait for one another.
 * - Over most_endpoints leaders, neighbouring nodes are one block: they do the same at the same
 * time, a message between two blocks stands for those between all their ranks, and a block's link
 * is as fast as theirs together (for homes that are fewer than its nodes, as fast as those homes').
 *   A tree's messages within a block are a delay and a load of its link, not messages. */
#ifndef POSEIDON_SIMULATE_SIMULATE_H
#define POSEIDON_SIMULATE_SIMULATE_H

#include "plan/cost.h"
#include "wire/link_meter.h"

#define SIMULATE_ENDPOINTS 128 /* usual most_endpoints: more take longer than they teach */

/* Sums of a few values over all workers, which a pass of a layer waits for: BatchNorm's. */
struct layer_join {
    int sums;
    double bytes; /* of all of them */
};

/* The computation of one iteration on one rank, and which layer of it each group hangs on. */
struct layer_times {
    int nlayers;
    double *forward, *backward; /* seconds per layer */
    struct layer_join *join;    /* per layer's forward, then per layer's backward from the last
                                   layer down; NULL: no pass joins those of other workers */
    int ngroups;
    int *layer; /* per group: the lowest layer that reads it. Its backward makes the gradient
                   final, its next forward waits for the parameters */
};

double layer_times_total(const struct layer_times *times);

/* In what another system differs from training, beside its plan; zero: it does not. */
struct simulate_manner {
    bool fifo;        /* as struct queue_options, and no window */
    bool copies_wait; /* between host and device: all before the first send, all after the last
                         answer, while the device does nothing else */
    bool syncs_alone; /* a single worker copies and updates through its server, too */
    bool sums_late;   /* a home adds up when all gradients are there, and nobody gets parameters
                         before all of them are updated */
    /* calls_Bps > 0, instead of a wire thread that does everything: a message takes its receiver
     * call_seconds and its bytes at calls_Bps, half that rate where it has half_rate_bytes, and its
     * sender its bytes at called_Bps; a server and a worker have threads of their own for either */
    double call_seconds, calls_Bps, half_rate_bytes, called_Bps;
    bool ring; /* one ring allreduce after the other, instead of the plan's messages: of what
                  is ready when a cycle ends, up to a size */
    size_t fusion_bytes;
    double cycle_seconds;
};

/* When bytes leave, for who wants to see bursts: an earlier run of the same options says when the
 * measured iterations begin and how long one is; they are laid over one another. */
struct simulate_watch {
    double begin, seconds; /* simulate_result's */
    int intervals;         /* that an iteration is cut into */
    double *bytes;         /* per interval, of all links and all measured iterations; the caller's,
                              added to */
    struct link_meter *worst; /* the caller's: is given the greatest results of all leaders, over
                                 the measured iterations; stays as it is where a ring is played,
                                 which is no messages */
};

/* A worker beside the one whose passes and rates work and cluster are. */
struct simulate_pace {
    double speed; /* how many times as fast it computes; above 0 */
    double share; /* how many times the samples its passes have; above 0 */
};

struct simulate_options {
    const struct cost_cluster *cluster;
    const struct layer_times *work;
    const struct plan *plan; /* of the work's groups; its window is that of one not dilated */
    enum cost_overlap overlap;
    const struct simulate_pace *paces; /* of each worker, by world rank; NULL: all are alike */
    int ranks_per_node;      /* world ranks that share a link, in their order; at least 1 */
    bool fifo;               /* as struct queue_options */
    double bytes_per_second; /* as struct queue_options: most that a rank sends; 0: no limit */
    int most_endpoints;      /* more leaders are folded into blocks; 0: SIMULATE_ENDPOINTS */
    int iterations;          /* that are measured, after two that are not; 0: until three in a row
                                last as long to 1e-4, or 2 to 20, as many as are played in a second
                                or so */
    struct simulate_manner manner;
    int leaf_nodes;          /* nodes on one leaf switch; 0: all are on one switch */
    double oversubscription; /* the links of a leaf's nodes over its link up; at least 1 */
    double stragglers; /* every worker's passes take exp(stragglers z - stragglers^2 / 2) times as
                          long, z normal, drawn for each iteration: mean 1 */
    uint64_t seed;     /* of these draws */
    const struct simulate_watch *watch; /* or NULL */
};

/* Seconds of one iteration, passes alone, of the slowest of the workers. */
double simulate_passes(const struct simulate_options *options, int nworkers);

/* One leader; of a block, the mean of its leaders. */
struct simulate_rank {
    double sent, received; /* bytes per iteration */
    double stall_seconds;  /* per iteration: its passes wait for parameters */
    double ended;          /* when its last backward ended */
};

struct simulate_result {
    double begin;            /* of the measured iterations, on the virtual clock */
    int iterations;          /* that were measured */
    double seconds;          /* of an iteration, until the slowest worker is through */
    double stall_share;      /* of that, mean over the workers */
    double join_share;       /* likewise: passes wait for the same layer of all others, and for its
                                sums */
    uint64_t sent, received; /* bytes of all ranks in one iteration */
    int members;             /* leaders of the largest block; 1: every one is played by itself */
};

/* Plays one simulation. ranks: plan->nleaders places, or NULL. Fails without memory. Not
 * collective. */
int simulate_run(const struct simulate_options *options, struct simulate_result *out,
                 struct simulate_rank *ranks);

/* How long the group takes by itself in that way, from its gradient to its new parameters: an
 * iteration of passes that take no time. like: its plan, work, overlap and stragglers are not read;
 * how: nor comm, ways and merging. Fails as simulate_run and plan_create do. */
int simulate_group(const struct simulate_options *like, const struct plan_options *how,
                   const struct group *group, struct way way, double *seconds);

/* Fills the seconds of a cost_table. */
int simulate_table(const struct simulate_options *like, const struct plan_options *how,
                   const struct ways *ways, int ngroups, const struct group *groups,
                   struct cost *table);

#endif
