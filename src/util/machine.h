/* What this machine has for a process: memory, disk, network interfaces. Not collective. */
#ifndef POSEIDON_UTIL_MACHINE_H
#define POSEIDON_UTIL_MACHINE_H

#include "util/strbuf.h"

#include <stdint.h>

/* Bytes that this process could still get if `sharers` processes of this machine get equal parts:
 * the kernel's estimate, or what limits leave where that is less. 0: not known. */
uint64_t machine_free_memory(int sharers);

/* The same by limits alone: those of the control groups of this process and their parents (of a
 * job, a container), and ulimit -v. UINT64_MAX: there is no limit. root: the folder of
 * /proc and /sys, "" for this machine's. */
uint64_t machine_limited_memory(const char *root, int sharers);

/* Bytes of this process that lie in memory now. 0: not known. */
uint64_t machine_resident(void);

/* What a machine's first processor calls itself, with the numbers of its family and model where it
 * has them: "NAME (6, 167)". cpuinfo: the kernel's file, MACHINE_CPUINFO of this machine. "" where
 * it says nothing. */
enum { MACHINE_PROCESSOR_WORDS = 96 };
#define MACHINE_CPUINFO "/proc/cpuinfo"
void machine_processor(const char *cpuinfo, char words[MACHINE_PROCESSOR_WORDS]);

/* Bytes that a user may still write where `path` lies, or would lie: the nearest folder that is
 * there counts. 0 with *known false: not known. */
uint64_t machine_free_disk(const char *path, int *known);

/* The network interfaces that are up, but for the loopback; each text is cut at its end. */
struct machine_interfaces {
    char all[512]; /* "docker0 172.17.0.1/16, e0 10.1.0.3/24 (10 Gbit/s)"; or that there is none */
    char inside[128]; /* ",docker0": those whose address other hosts may have, too */
    char network[32]; /* of the first other one, "10.1.0.0/24" */
};

void machine_list_interfaces(struct machine_interfaces *out);

/* Appends where the job's messages might go astray and how mpirun is told, with this host's
 * interfaces; nothing where the launcher started all ranks on this host. */
void machine_put_network_advice(struct strbuf *out);

#endif
