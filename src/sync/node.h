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

#include "util/topology.h"

/* Which workers are together. */
struct node_map {
    int nworkers;
    int *node; /* per worker; numbered as they first come. Owned */
    int nnodes;
    int most;             /* workers of the largest node */
    int leaders_per_host; /* most, dedicated servers included: they share its link */
    bool team; /* whoever is together adds up by its engines (engine_team_i); the caller's to say */
};

/* each: at most that many workers form a node, in rank order, among those of one machine; 0: all of
 * them do. Workers are the lowest ranks of `topology`. Not collective; the same on all ranks,
 * unless memory is lacking on one. */
int node_map_create(const struct topology *topology, int nworkers, int each, struct node_map *out);
void node_map_free(struct node_map *map);

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

/* This rank's node. topology: of world, the map's. elems: of the net's arenas, which the node
 * shares unless it is a team. Without a node, *out is NULL and the map freed: where no worker has
 * company; where one machine has all workers, who share its memory, and `messages` are asked for;
 * and where that memory is too small and `yields`: 1, and this thread's message is the warning.
 * Collective over world, with the same result. */
int node_create(MPI_Comm world, const struct topology *topology, struct node_map *map, size_t elems,
                bool messages, bool yields, struct node **out);

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
