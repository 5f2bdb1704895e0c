/* Nodes: workers that share memory add up their gradients among themselves, through a shared-memory
 * window of MPI's, before the first of them, their leader, sends the sum to the other nodes (the
 * multi-GPU nodes of Zhang et al., USENIX ATC'17, section 4.2, have one client each, too).
 * Gradients lie in the window from the start, so that nobody copies them to have them added, and
 * there is one array of parameters that all train from.
 *
 * Where workers compute on devices of their own that reach each other, these add up instead, and
 * bring the leader's parameters to the others.
 *
 * How the adding goes is gather_node.c's, or gather_team.c's; who sends how much, the plan's. */
#ifndef POSEIDON_SYNC_NODE_H
#define POSEIDON_SYNC_NODE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "sync/node_map.h"
#include "util/topology.h"

/* A piece of memory that the ranks of a node share. */
struct node_window {
    MPI_Win window; /* MPI_WIN_NULL: none */
    void *memory;   /* aligned to a cache line, here in this rank's addresses */
};

/* This rank's node. */
struct node {
    MPI_Comm comm;    /* its ranks, in their order; MPI_COMM_NULL where this rank is alone */
    MPI_Comm machine; /* all ranks that share this one's memory, of other nodes, too */
    int rank, nranks; /* there; 0 leads */
    bool team;        /* as the map says: no memory is shared for adding up */
    struct node_window arenas;
    size_t elems;
    float *values; /* elems parameters, the same memory on all ranks; NULL where this rank is alone,
                      or in a team */
    float *grads;  /* nranks x elems: every rank's gradients */
};

/* This rank's node of the map; NULL where no node has several workers. topology: of world. elems:
 * of the net's arenas, which the node shares unless it is a team; fails where that memory is too
 * small. Collective over world, with the same result. */
int node_create(MPI_Comm world, const struct topology *topology, const struct node_map *map,
                size_t elems, struct node **out);

/* After what uses its arenas. Collective over the node. */
void node_destroy(struct node *node);

/* Whether its ranks train from one arena; not where this one is alone or in a team. NULL: no. */
static inline bool node_shares_memory(const struct node *node)
{
    return node && node->values;
}

static inline float *node_grads(const struct node *node, int rank)
{
    return node->grads + (size_t)rank * node->elems;
}

/* Memory for the node's ranks; nothing on ranks that are alone. `what` is for messages. Collective
 * over world. The closing is collective over the node. */
int node_window_open(MPI_Comm world, const struct node *node, size_t bytes, const char *what,
                     struct node_window *out);
void node_window_close(struct node_window *window);

#endif
