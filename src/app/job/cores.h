/* The cores that a rank may run on, how many of them are its own, and which of its threads run
 * where.
 *
 * Where a rank has cores to itself and one of them is left over, the wire's thread has the last one
 * and everything that computes has the others: the threads of a pass wait for the slowest of them,
 * so whoever takes a turn on one core of theirs holds up all. Threads that read and write files may
 * run on all of them. Where ranks share cores, or each has a compute thread on it, nothing is
 * bound: the system's scheduler then knows better. */
#ifndef POSEIDON_JOB_CORES_H
#define POSEIDON_JOB_CORES_H

#include <mpi.h>
#include <sched.h>

#include <stdbool.h>

#include "util/log.h"
#include "util/strbuf.h"
#include "util/topology.h"

enum { CORES_TEXT_BYTES = 96, CORES_PLACE_BYTES = 320 };

/* From 20 cores on, one is kept for the wire's thread whether --threads leaves one over or not: it
 * costs the passes a twentieth at most. */
enum { CORES_KEEP_FROM = 20 };

/* A rank's threads, by where they run. */
enum cores_use {
    CORES_ALL,     /* readers, writers: on all cores that the rank may use */
    CORES_COMPUTE, /* the compute thread and the engine's helpers, or a server's */
    CORES_WIRE,    /* the wire's thread */
    CORES_USES
};

struct cores {
    int allowed; /* that this rank may run on */
    int sharers; /* ranks of the machine, this one included, that may run on any of them */
    int threads; /* this rank's share: each core counts once over all ranks; at least 1 */
    int idle;    /* cores of the machine that no rank may run on */
    bool bound;  /* settings of OpenMP's (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY) say where
                    the engine's threads run, and stay in force */
    bool placed; /* the wire has a core that nothing computes on */
    cpu_set_t set[CORES_USES];
    char list[CORES_TEXT_BYTES]; /* those allowed, "0-3,8"; cut where there are too many pieces */
};

/* Divides a machine's `online` cores among its ranks. masks: where each of its ranks may run, this
 * rank's at `mine`. */
void cores_divide(const cpu_set_t *masks, int ranks, int mine, int online, struct cores *cores);

/* Gathers the masks of all ranks of each machine. Collective over `world`, whose topology that is;
 * fails on all ranks together. */
int cores_find(MPI_Comm world, const struct topology *topology, struct cores *out);

/* Divides the rank's cores between computing and communication. threads: what shall compute, 0: as
 * many as may. Returns how many do. Binds nothing yet. */
int cores_place(struct cores *cores, int threads);

/* From now on the calling thread runs there, and so do the threads that it starts. Nothing happens
 * where all kinds of threads run on the same cores, or where the system does not let it. */
void cores_enter(const struct cores *cores, enum cores_use use);

/* CORES_COMPUTE for the calling thread and the helpers of OpenMP that it has, or starts, for so
 * many threads; 0: the library's number. */
void cores_enter_team(const struct cores *cores, int threads);

/* "0-6" */
void cores_list(const struct cores *cores, enum cores_use use, char text[CORES_TEXT_BYTES]);

/* The lists of a machine's ranks, each once: "0,1". lists: that of rank 0; the next rank's is so
 * many bytes behind it. */
void cores_list_machine(const char *lists, size_t stride, const struct topology *topology,
                        int machine, struct strbuf *out);

/* "7 compute threads on cores 0-6, communication on core 7". threads: what compute, 0: the library
 * chooses. */
void cores_describe(const struct cores *cores, int threads, char text[CORES_PLACE_BYTES]);

/* One line for each text that ranks have, "Ranks 0-3 each: " before it, in the order of the first
 * rank that has it; "" is nobody's. After CORES_LINES lines one says how many more ranks there are.
 */
enum { CORES_LINES = 16 };
void cores_list_ranks(const char (*texts)[CORES_PLACE_BYTES], int ranks, struct strbuf *out);

/* The same of the texts of all ranks, in rank 0's `out`. Collective; fails on all ranks together.
 */
int cores_gather(MPI_Comm world, const char text[CORES_PLACE_BYTES], struct strbuf *out);

/* Warnings where the rank has one core and others of the machine are nobody's, where compute
 * threads take turns, and where the environment leaves the rank one thread for several cores.
 * threads: of this rank, 0: not known; asked: --threads says so. */
void cores_warn(const struct cores *cores, int threads, bool asked, int rank, struct log *log);

#endif
