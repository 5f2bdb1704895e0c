/* What poseidon doctor looks at: on one host (doctor_host.c, not collective), and between hosts
 * (doctor_network.c): what comes through, and how fast, while all of them send. What one slow
 * cable, card or switch port does to a training stands out there, and is lost in the figures of all
 * ranks together. */
#ifndef POSEIDON_COMMANDS_DOCTOR_INTERNAL_H
#define POSEIDON_COMMANDS_DOCTOR_INTERNAL_H

#include <mpi.h>
#include <stdatomic.h>

#include "commands/doctor_links.h"
#include "util/strbuf.h"
#include "util/topology.h"

/* InfiniBand ports as the system names them, "mlx5_0 (200 Gb/sec (4X HDR))"; "" where there are
 * none. */
void host_list_infiniband(char *out, size_t size);

/* By what this process's MPI talks to other hosts, seen from the files that it has open once it has
 * done so: "InfiniBand verbs", "TCP over eth0 (MTU 1500)"; "" where it shows none of them. Returns
 * the MTU; 0: not known. */
int host_find_transport(char *out, size_t size);

/* TCP segments that this host has sent since it started, and sent again because they were not
 * acknowledged in time; 0 where the system does not tell. */
void host_count_segments(double *sent, double *resent);

/* MPI's choices of transports as mpirun or the environment set them, "pml ^ucx, btl tcp,self". */
void host_put_settings(struct strbuf *out);

/* The GPUs that the CUDA engine finds, in words, or why it finds none. */
void host_describe_gpus(char *words, size_t size);

/* The first rank of every host, in the order of machines. All zero: none. */
struct network {
    const struct topology *topology; /* borrowed */
    const char *const *names;        /* of machines; borrowed */
    MPI_Comm world, comm;            /* comm: of these ranks, MPI_COMM_NULL on others. Owned */
    char *memory;                    /* two messages. Owned */
    const char *advice;              /* on interfaces; borrowed */
    char missing[2 * TOPOLOGY_HOST_BYTES + 1600];
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
