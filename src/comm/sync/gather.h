/* The seam of gathering: how the ranks that a leader leads add up their gradients before the leader
 * takes part in the traffic, and how they get its new parameters. Chosen once per rank:
 *     alone (gather_alone.c)  every worker leads itself
 *     node  (gather_node.c)   ranks of a machine, in shared memory
 *     team  (gather_team.c)   ranks whose devices reach each other (NCCL) */
#ifndef POSEIDON_SYNC_GATHER_H
#define POSEIDON_SYNC_GATHER_H

#include <mpi.h>
#include <stdbool.h>

#include "wire/wire.h"

struct sync;

struct gather_i {
    bool sums_on_device; /* the leader finds its ranks' sum in its device's memory alone */
    bool sums_nothing;   /* every worker leads itself alone: its own gradient is the sum */
    /* Where the sums lie, from the start on. NULL: where the model's gradients do. */
    float *(*sums)(const struct sync *sync);
    /* Collective over world, whose ranks then agree on the status. What it allocates is the sync's,
     * and the window of the node, which is closed last. NULL: there is nothing. */
    int (*open)(struct sync *sync, MPI_Comm world);
    /* Where this rank's room for the bucket's factors is, which all ranks of the node share; NULL
     * slot: each has its own. After open. */
    float *(*rows)(const struct sync *sync, int bucket);
    /* Compute thread: the bucket's gradient is final when what was run so far is over. NULL: it
     * lies where it is added up, and is final. */
    int (*mark)(struct sync *sync, int bucket);
    /* Wire thread: the gradient that was marked is posted. Once all ranks' gradients are added up,
     * the leader goes on with bucket_await. */
    int (*post)(struct sync *sync, int bucket);
    /* Wire thread: what is to be done meanwhile: how much came of it, -1 with a message. NULL:
     * nothing. */
    int (*poll)(struct sync *sync);
    /* Whether buckets are open, and how pressing that is. NULL: none ever is. */
    enum wire_pace (*pace)(const struct sync *sync);
    /* Wire thread: the new parameters that this rank, a leader, brings are in place. Returns
     * whether those of the node's other leaders are, too; else bucket_brought is called when they
     * are. NULL: nobody waits for them. */
    bool (*publish)(struct sync *sync, int bucket);
    /* Wire thread: some rank failed; ends what others may never come to. NULL: nothing can. */
    void (*abort)(struct sync *sync);
};

extern const struct gather_i gather_alone, gather_node, gather_team;

/* For `open`: zeroed memory that the ranks of the node share, in sync->window. A rank that is alone
 * has none, and gathers as gather_alone does. Collective over world. */
int gather_open_window(struct sync *sync, MPI_Comm world, size_t bytes, const char *what);

#endif
