/* A discrete-event simulator of training. Plays a plan's messages on a virtual clock, through the
 * wire's own send queue (order, window, share of a peer, cap). Every predicted time of
 * communication comes from here: ranks that wait for each other, incast at a home, a full window,
 * gradients that become ready while the link is busy. No MPI, processes or threads; the same input
 * gives the same bits.
 *
 * The model:
 * - A worker computes layer by layer: forward waits for parameters, backward posts gradients.
 * - A message occupies its node's link, which all ranks of the node share, for its bytes and
 *   message_seconds. A latency later the message occupies the receiver's link. Links serve messages
 *   in order of arrival, both directions at once. The window is free again when the last byte has
 *   arrived.
 * - Ranks of one node exchange at local_Bps, without latency.
 * - A rank's wire thread does one thing at a time: moves bytes (at thread_Bps), adds up, updates.
 * - Copies between device and host memory, if needed, have one copy engine for each direction.
 * - Leaf switches may have uplinks slower than the links of their nodes together.
 * - Workers may differ in speed, for good or drawn anew for each iteration, and in batch share.
 *
 * Approximations:
 * - Switches have room for all messages that wait for a link.
 * - The leader stands for a node that adds up first.
 * - A ring's steps are a duration, not messages (ring.c).
 * - The cost model gives a bucket's processor time (struct cost): sum_seconds over its homes and
 *   the gradients that arrive there, compute_seconds before the layer's next forward.
 *   stolen_seconds only bounds the iteration from below.
 * - A layer_join's sums go up and down a tree of workers, behind the traffic then on the links.
 *   These sums occupy no link and count no bytes.
 * - Unequal workers differ in compute speed and factor bytes only; wire threads are equally fast.
 * - A rank sends a bucket chunk after chunk, because the weight of updates is unknown.
 * - The chunks of one bucket at one home are equally large. Above some millions of messages an
 *   iteration, several chunks or slices of factors travel as one.
 * - Rounds of factors do not wait for one another.
 * - Above most_endpoints leaders, neighbouring nodes form one block, whose ranks act at the same
 *   time. A message between blocks stands for the messages between all their ranks. A block's link
 *   is as fast as its nodes' links together, or as its homes' links if the homes are fewer. A
 *   tree's messages within a block are a delay and a load on the block's link. */
#ifndef POSEIDON_SIMULATE_SIMULATE_H
#define POSEIDON_SIMULATE_SIMULATE_H

#include "plan/cost.h"
#include "wire/link_meter.h"

#define SIMULATE_ENDPOINTS 128 /* usual most_endpoints; more take longer and teach little */

/* Sums of a few values over all workers that a layer's pass waits for (BatchNorm). */
struct layer_join {
    int sums;
    double bytes; /* bytes of all sums together */
};

/* The computation of one iteration on one rank, and the layer that each group belongs to. */
struct layer_times {
    int nlayers;
    double *forward, *backward; /* seconds per layer */
    struct layer_join *join;    /* forward passes by layer, then backward passes from the last layer
                                   down; NULL: no pass waits for sums */
    int ngroups;
    int *layer; /* per group: the lowest layer that reads the group. This layer's backward completes
                   the gradient, and its next forward waits for the parameters */
};

double layer_times_total(const struct layer_times *times);

/* Differences between another system and training, beside the plan; zero: none. */
struct simulate_manner {
    bool fifo;        /* no order by urgency and no window (struct queue_options.fifo) */
    bool copies_wait; /* copies between host and device overlap nothing: gradients before the first
                         send, parameters after the last answer */
    bool syncs_alone; /* a single worker copies and updates through its server, too */
    bool sums_late;   /* a home adds up when all gradients are there; no answer leaves before all
                         parameters are updated */
    /* If calls_Bps > 0, remote calls replace the wire thread. A message costs its receiver
     * call_seconds and its bytes at calls_Bps (half that rate at half_rate_bytes), its sender its
     * bytes at called_Bps. Server and worker each have one thread for receiving and one for
     * sending. */
    double call_seconds, calls_Bps, half_rate_bytes, called_Bps;
    bool ring; /* ring allreduces one after another, not the plan's messages; each takes what is
                  ready at a cycle's end, up to fusion_bytes */
    size_t fusion_bytes;
    double cycle_seconds;
};

/* A worker compared with the reference worker, which `work` and `cluster` describe. */
struct simulate_pace {
    double speed; /* compute speed over the reference worker's; above 0 */
    double share; /* samples per pass over the reference worker's; above 0 */
};

struct simulate_options {
    const struct cost_cluster *cluster;
    const struct layer_times *work;
    const struct plan *plan; /* plan of the groups of `work`; sizes.window is given undilated */
    enum cost_overlap overlap;
    const struct simulate_pace *paces; /* per worker, by world rank; NULL: all workers are equal */
    int ranks_per_node;                /* consecutive world ranks that share a link; at least 1 */
    bool fifo;                         /* see struct queue_options */
    double bytes_per_second;           /* most that a rank sends; 0: no limit */
    int most_endpoints; /* with more leaders nodes are folded into blocks; 0: SIMULATE_ENDPOINTS */
    int iterations;     /* measured iterations, after two of warm-up; 0: 2 to 20, about a second
                           of playing, or fewer if three in a row last equally long to 1e-4 */
    struct simulate_manner manner;
    int leaf_nodes;          /* nodes on one leaf switch; 0: one switch joins all nodes */
    double oversubscription; /* bandwidth of a leaf's nodes over its uplink's; at least 1 */
    bool meters;             /* links are measured, for simulate_result.burst */
};

/* Returns the seconds of one iteration's passes on the slowest worker, without communication. */
double simulate_passes(const struct simulate_options *options, int nworkers);

/* Figures of one leader; in a block, the mean over its leaders. */
struct simulate_rank {
    double sent, received; /* bytes per iteration */
    double stall_seconds;  /* seconds per iteration that passes wait for parameters */
    double ended;          /* time when the last backward ended */
};

struct simulate_result {
    double seconds;          /* duration of an iteration, until the slowest worker ends it */
    double stall_share;      /* mean fraction of `seconds` that workers wait for parameters */
    double join_share;       /* mean fraction of `seconds` that workers wait in a layer_join */
    uint64_t sent, received; /* bytes of all ranks in one iteration */
    int members;             /* number of leaders in the largest block; 1: no blocks */
    struct link_meter burst; /* with options.meters: the greatest figures of any leader in the
                                measured iterations, full_seconds of one; all zero if manner.ring */
};

/* Plays one simulation. ranks: plan->nleaders places, or NULL. Fails without memory. Not
 * collective. */
int simulate_run(const struct simulate_options *options, struct simulate_result *out,
                 struct simulate_rank *ranks);

/* Computes the seconds from the group's gradient to its new parameters, if the group travels alone
 * in the given way and passes take no time. Ignores plan, work and overlap of `like`,
 * and comm, ways and merging of `how`. Fails as simulate_run and plan_create do. */
int simulate_group(const struct simulate_options *like, const struct plan_options *how,
                   const struct group *group, struct way way, double *seconds);

/* Fills the seconds of a cost_table by simulate_group. */
int simulate_table(const struct simulate_options *like, const struct plan_options *how,
                   const struct ways *ways, int ngroups, const struct group *groups,
                   struct cost *table);

#endif
