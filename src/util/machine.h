/* What this machine has left for a process: memory and disk. Not collective. */
#ifndef POSEIDON_UTIL_MACHINE_H
#define POSEIDON_UTIL_MACHINE_H

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

#endif
