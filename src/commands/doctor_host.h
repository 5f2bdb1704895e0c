/* What poseidon doctor looks at on one host. Not collective. */
#ifndef POSEIDON_COMMANDS_DOCTOR_HOST_H
#define POSEIDON_COMMANDS_DOCTOR_HOST_H

#include "util/strbuf.h"

/* The network cards that are up, but for the loopback, with their speed where the system knows it:
 * "eth0 10.1.0.3 (10 Gbit/s)"; "none". out: of `size` bytes, cut where there are too many. */
void host_list_cards(char *out, size_t size);

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

#endif
