/* What this machine has left for a process: memory and disk. Not collective. */
#ifndef POSEIDON_UTIL_MACHINE_H
#define POSEIDON_UTIL_MACHINE_H

#include <stdint.h>

/* Bytes that processes could still get: the kernel's estimate, or what is left of the limit of a
 * control group (a job's or a container's) where that is less. 0: not known. */
uint64_t machine_free_memory(void);

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
