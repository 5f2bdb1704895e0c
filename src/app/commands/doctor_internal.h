/* Checks of poseidon doctor: facts of one host (doctor_host.c, not collective), and links between
 * hosts while all hosts send (doctor_network.c). A slow cable, card or switch port stands out
 * between hosts, but is lost in figures of all ranks together. */
#ifndef POSEIDON_COMMANDS_DOCTOR_INTERNAL_H
#define POSEIDON_COMMANDS_DOCTOR_INTERNAL_H

#include <mpi.h>
#include <stdatomic.h>

#include "commands/doctor_links.h"
#include "util/strbuf.h"
#include "util/topology.h"

/* Lists InfiniBand ports as the system names them, "mlx5_0 (200 Gb/sec (4X HDR))"; "": none. */
void host_list_infiniband(char *out, size_t size);

/* Finds how MPI reaches other hosts, from this process's open files after a first message:
 * "InfiniBand verbs", "TCP over eth0 (MTU 1500)", or "" if not known. Returns the MTU; 0: not
 * known. */
int host_find_transport(char *out, size_t size);

/* Counts TCP segments that this host sent since its start, and segments sent again for lack of an
 * acknowledgement; 0 if the system has no counts. */
void host_count_segments(double *sent, double *resent);

/* Appends MPI's settings of transports from mpirun or the environment, "pml ^ucx, btl tcp,self". */
void host_put_settings(struct strbuf *out);

/* Describes the GPUs that the CUDA engine finds, or says why it finds none. */
void host_describe_gpus(char *words, size_t size);

/* Connects the first rank of every host, in the order of machines. All zero: not created. */
struct network {
    const struct topology *topology; /* borrowed */
    const char *const *names;        /* names of machines; borrowed */
    MPI_Comm world, comm; /* comm: the first ranks, MPI_COMM_NULL on other ranks. Owned */
    char *memory;         /* room for two messages. Owned */
    const char *advice;   /* advice on interfaces; borrowed */
    char missing[2 * TOPOLOGY_HOST_BYTES + 1600];
    atomic_bool is_missing; /* this rank waits, `missing` says for what; read by other threads */
};

/* Creates the network of several machines. Collective over world; fails on all ranks together. */
int network_create(MPI_Comm world, const struct topology *topology, const char *const *names,
                   struct network *out);

/* Sends a small message along every link of the rings of links_rings, then a large one. Waits
 * without limit for a missing message: the caller sets a limit. Collective over world. */
int network_touch(struct network *network);

/* Measures the links of the rings, LINKS_RINGS * topology->nmachines places, on rank 0. Takes about
 * a second, more if links are slow. Collective over world. */
int network_measure(struct network *network, struct link *links);

void network_free(struct network *network);

#endif
