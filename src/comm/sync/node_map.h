/* Which workers are together: the workers of a machine, or a given number of them, form a node,
 * which adds up its gradients before its leader sends them (sync/node.h). No MPI. */
#ifndef POSEIDON_SYNC_NODE_MAP_H
#define POSEIDON_SYNC_NODE_MAP_H

#include <stdbool.h>

struct node_map {
    int nworkers;
    int *node; /* per worker; numbered as they first come. Owned */
    int nnodes;
    int most;             /* workers of the largest node */
    int leaders_per_host; /* most, dedicated servers included: they share its link */
    bool team; /* whoever is together adds up by its devices (device_team_i); the caller's to say */
};

/* machine: per rank the number of its machine, below nmachines. Workers are the lowest ranks. each:
 * at most that many workers form a node, in rank order, among those of one machine; 0: all of them
 * do. Not collective; the same on all ranks, unless memory is lacking on one. */
int node_map_create(const int *machine, int nmachines, int nranks, int nworkers, int each,
                    struct node_map *out);
void node_map_free(struct node_map *map);

#endif
