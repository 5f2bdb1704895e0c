/* What comes through between hosts, and how fast, while all of them send: what one slow cable, card
 * or switch port does to a training stands out here, and is lost in the figures of all ranks
 * together. */
#ifndef POSEIDON_COMMANDS_DOCTOR_NETWORK_H
#define POSEIDON_COMMANDS_DOCTOR_NETWORK_H

#include <mpi.h>
#include <stdatomic.h>

#include "commands/doctor_links.h"
#include "util/topology.h"

/* The first rank of every host, in the order of machines. All zero: none. */
struct network {
    const struct topology *topology; /* borrowed */
    const char *const *names;        /* of machines; borrowed */
    MPI_Comm world, comm;            /* comm: of these ranks, MPI_COMM_NULL on others. Owned */
    char *memory;                    /* two messages. Owned */
    char missing[2 * TOPOLOGY_HOST_BYTES + 400];
    atomic_bool is_missing; /* `missing` says what this rank waits for: other threads may read it */
};

/* Several machines only. Collective over world; fails on all ranks together. */
int network_create(MPI_Comm world, const struct topology *topology, const char *const *names,
                   struct network *out);

/* A small message along every link of the rings of links_rings, then a large one. A wait for one
 * that does not come does not end: it is the caller's to limit. Collective, as network_create. */
int network_touch(struct network *network);

/* Fills the links of these rings, LINKS_RINGS * topology->nmachines places, on rank 0. Takes about
 * a second, longer where links are slow. Collective, as network_create. */
int network_measure(struct network *network, struct link *links);

void network_free(struct network *network);

#endif
