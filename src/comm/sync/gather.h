/* The seam of gathering: how the ranks of a leader add up their gradients before the leader sends
 * the sum, and how they get the new parameters from the leader. Each rank chooses one table:
 *     gather_alone  every worker leads itself
 *     gather_node   ranks of a machine add up in shared memory
 *     gather_team   devices that reach each other add up (NCCL) */
#ifndef POSEIDON_SYNC_GATHER_H
#define POSEIDON_SYNC_GATHER_H

#include <mpi.h>
#include <stdbool.h>

#include "wire/wire.h"

struct sync;

struct gather_i {
    bool sums_on_device; /* the sum of a leader's ranks is in the leader's device memory alone */
    bool sums_nothing;   /* every worker leads only itself: its gradient is the sum */
    /* Returns the array of the sums, fixed from the start. NULL: the model's gradients. */
    float *(*sums)(const struct sync *sync);
    /* Opens the gathering. The sync owns its allocations and the node's window, closed last.
     * Collective over world; the ranks then agree on the status. NULL: nothing to open. */
    int (*open)(struct sync *sync, MPI_Comm world);
    /* Returns the bucket's memory for factors that all ranks of the node share. Call after open.
     * NULL slot: each rank has memory of its own. */
    float *(*rows)(const struct sync *sync, int bucket);
    /* Compute thread: marks the end of the computation so far, after which the bucket's gradient is
     * final. NULL: no mark needed, for a gradient that is final where it is added up. */
    int (*mark)(struct sync *sync, int bucket);
    /* Wire thread: posts the marked gradient. A leader whose sum is complete calls bucket_await. */
    int (*post)(struct sync *sync, int bucket);
    /* Wire thread: does pending work; returns the steps done, -1 with a message. NULL: none. */
    int (*poll)(struct sync *sync);
    /* Returns the pace that the open buckets need. NULL: no bucket ever is open. */
    enum wire_pace (*pace)(const struct sync *sync);
    /* Wire thread: publishes the new parameters that this rank, a leader, has put in place. True if
     * the parameters of the node's other leaders are in place, too; else bucket_brought is called
     * when they are. NULL: no other rank waits for this rank's parameters. */
    bool (*publish)(struct sync *sync, int bucket);
    /* Wire thread: ends waits that may never end since some rank failed. NULL: no such waits. */
    void (*abort)(struct sync *sync);
};

extern const struct gather_i gather_alone, gather_node, gather_team;

/* Opens zeroed memory that the node's ranks share, in sync->window; for implementations of `open`.
 * A rank that is alone gets none, and gathers as gather_alone does. Collective over world. */
int gather_open_window(struct sync *sync, MPI_Comm world, size_t bytes, const char *what);

#endif
