/* The workers of each node: all workers of a machine, or a given number of them. A node adds up its
 * gradients before its leader sends them (sync/node.h). No MPI. */
#ifndef POSEIDON_SYNC_NODE_MAP_H
#define POSEIDON_SYNC_NODE_MAP_H

#include <stdbool.h>

struct node_map {
    int nworkers;
    int *node; /* per worker: its node; nodes are numbered by their first workers. Owned */
    int nnodes;
    int most;             /* workers of the largest node */
    int leaders_per_host; /* most leaders on one host, with dedicated servers */
    bool team;            /* devices of a node add up (device_team_i); set by the caller */
};

/* Makes the map. machine: per rank the number of its machine, below nmachines. Workers are the
 * lowest ranks. each: largest number of workers in a node, in rank order within a machine; 0: all.
 * Not collective; the same on all ranks, unless a rank lacks memory. */
int node_map_create(const int *machine, int nmachines, int nranks, int nworkers, int each,
                    struct node_map *out);
void node_map_free(struct node_map *map);

#endif
