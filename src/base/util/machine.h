/* Resources of this machine: memory, disk, network interfaces. Not collective. */
#ifndef POSEIDON_UTIL_MACHINE_H
#define POSEIDON_UTIL_MACHINE_H

#include "util/strbuf.h"

#include <stdint.h>

/* Returns the bytes that this process could still get if `sharers` processes of this machine get
 * equal parts: the kernel's estimate, or what limits leave if that is less. 0: unknown. */
uint64_t machine_free_memory(int sharers);

/* Returns the bytes that limits alone leave: of this process's control groups and their parents (a
 * job, a container), and ulimit -v. UINT64_MAX: no limit. root: the folder of /proc and /sys, ""
 * for this machine's. */
uint64_t machine_limited_memory(const char *root, int sharers);

/* Returns the resident bytes of this process. 0: unknown. */
uint64_t machine_resident(void);

/* Writes the first processor's name, with the numbers of family and model if known: "NAME (6,
 * 167)"; "" if cpuinfo has none. cpuinfo: the kernel's file, MACHINE_CPUINFO of this machine. */
enum { MACHINE_PROCESSOR_WORDS = 96 };
#define MACHINE_CPUINFO "/proc/cpuinfo"
void machine_processor(const char *cpuinfo, char words[MACHINE_PROCESSOR_WORDS]);

/* Returns the bytes that a user may still write at `path`, or at its nearest existing folder.
 * Returns 0 with *known false if unknown. */
uint64_t machine_free_disk(const char *path, int *known);

/* The network interfaces that are up, without the loopback; each text is cut at its end. */
struct machine_interfaces {
    char all[512]; /* "docker0 172.17.0.1/16, e0 10.1.0.3/24 (10 Gbit/s)", or that there is none */
    char inside[128]; /* ",docker0": interfaces whose address other hosts may have, too */
    char network[32]; /* network of the first interface that is not in `inside`, "10.1.0.0/24" */
};

void machine_list_interfaces(struct machine_interfaces *out);

/* Appends this host's interfaces, and the mpirun options that choose a network, for messages that
 * do not arrive. Appends nothing if the launcher started all ranks on this host. */
void machine_put_network_advice(struct strbuf *out);

#endif
