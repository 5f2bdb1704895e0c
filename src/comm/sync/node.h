/* Nodes: workers that share memory add up their gradients among themselves, through a shared-memory
 * window of MPI, before the first of them, the leader, sends the sum to the other nodes (the
 * multi-GPU nodes of Zhang et al., USENIX ATC'17, section 4.2, have one client each, too).
 * Gradients are in the window from the start, so that adding needs no copy, and all workers train
 * from one array of parameters.
 *
 * Workers on devices of their own that reach each other form a team: the devices add up, and bring
 * the leader's parameters to the others.
 *
 * gather_node.c and gather_team.c do the adding; the plan decides the traffic. */
#ifndef POSEIDON_SYNC_NODE_H
#define POSEIDON_SYNC_NODE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "sync/node_map.h"
#include "util/topology.h"

/* Memory that the ranks of a node share. */
struct node_window {
    MPI_Win window; /* MPI_WIN_NULL: none */
    void *memory;   /* aligned to a cache line; an address in this rank's process */
};

/* This rank's node. */
struct node {
    MPI_Comm comm;    /* ranks of the node, in rank order; MPI_COMM_NULL where this rank is alone */
    MPI_Comm machine; /* all ranks of this rank's machine, also of other nodes */
    int rank, nranks; /* rank and size in the node; rank 0 leads */
    bool team;        /* devices add up the gradients (node_map.team); the ranks share no arenas */
    struct node_window arenas;
    size_t elems;
    float *values; /* elems parameters, shared by all ranks; NULL if alone, or in a team */
    float *grads;  /* nranks x elems: every rank's gradients */
};

/* Creates this rank's node of the map; NULL where no node has several workers. topology: the
 * world's. elems: size of the net's arenas, which the node shares unless it is a team; fails where
 * memory lacks. Collective over world, with the same result. */
int node_create(MPI_Comm world, const struct topology *topology, const struct node_map *map,
                size_t elems, struct node **out);

/* Frees the node, after everything that uses its arenas. Collective over the node. */
void node_destroy(struct node *node);

/* True if the node's ranks train from one arena; false if alone, in a team, or NULL. */
static inline bool node_shares_memory(const struct node *node)
{
    return node && node->values;
}

static inline float *node_grads(const struct node *node, int rank)
{
    return node->grads + (size_t)rank * node->elems;
}

/* Opens memory for the node's ranks; nothing on ranks that are alone. what: names it in messages.
 * Collective over world; closing is collective over the node. */
int node_window_open(MPI_Comm world, const struct node *node, size_t bytes, const char *what,
                     struct node_window *out);
void node_window_close(struct node_window *window);

#endif
