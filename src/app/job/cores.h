/* Finds the cores that a rank may run on, its share of them, and the cores of each kind of thread.
 *
 * If a rank shares no core and has one to spare, the wire's thread gets the last core and compute
 * threads get the rest. A second thread on a compute thread's core would delay the whole pass,
 * which waits for its slowest thread. Threads that read and write files may run on all cores. If
 * ranks share cores, or each core has a compute thread, the system's scheduler places all
 * threads. */
#ifndef POSEIDON_JOB_CORES_H
#define POSEIDON_JOB_CORES_H

#include <mpi.h>
#include <sched.h>

#include <stdbool.h>

#include "util/log.h"
#include "util/strbuf.h"
#include "util/topology.h"

enum { CORES_TEXT_BYTES = 96, CORES_PLACE_BYTES = 320 };

/* Least number of cores from which a rank without --threads keeps one core for the wire's thread.
 * Passes then lose a twentieth of their cores at most. */
enum { CORES_KEEP_FROM = 20 };

/* Kinds of threads, by the cores that they run on. */
enum cores_use {
    CORES_ALL,     /* readers and writers: all cores that the rank may use */
    CORES_COMPUTE, /* the compute thread and the engine's helpers, also a server's */
    CORES_WIRE,
    CORES_USES
};

struct cores {
    int allowed; /* cores that this rank may run on */
    int sharers; /* ranks of the machine, including this one, that may run on some of these cores */
    int threads; /* this rank's share of the machine's cores, each counted once; at least 1 */
    int idle;    /* cores of the machine that no rank may run on */
    bool bound;  /* OpenMP's settings (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY) bind the
                    engine's threads, and stay in force */
    bool placed; /* the wire's thread has a core without compute threads */
    cpu_set_t set[CORES_USES];
    char list[CORES_TEXT_BYTES]; /* the allowed cores, such as "0-3,8"; cut if too long */
};

/* Divides a machine's `online` cores among its ranks. masks: per rank, the cores that it may run
 * on; this rank's mask is number `mine`. */
void cores_divide(const cpu_set_t *masks, int ranks, int mine, int online, struct cores *cores);

/* Gathers the masks of all ranks and finds this rank's share. Collective over `world`, whose
 * topology is `topology`; fails on all ranks together. */
int cores_find(MPI_Comm world, const struct topology *topology, struct cores *out);

/* Divides the rank's cores between computing and communication, without binding any thread.
 * threads: compute threads; 0: as many as possible. Returns the number of compute threads. */
int cores_place(struct cores *cores, int threads);

/* Binds the calling thread, and threads that it starts from now on, to the cores of `use`. Does
 * nothing if all kinds of threads run on the same cores, or if the system refuses. */
void cores_enter(const struct cores *cores, enum cores_use use);

/* Binds the calling thread and its `threads` OpenMP helpers, started if need be, to CORES_COMPUTE.
 * threads 0: the library's number. */
void cores_enter_team(const struct cores *cores, int threads);

/* Writes the cores of `use`, such as "0-6". */
void cores_list(const struct cores *cores, enum cores_use use, char text[CORES_TEXT_BYTES]);

/* Appends each different list of cores of a machine's ranks once, as in "0,1". lists: text of each
 * rank, `stride` bytes apart. */
void cores_list_machine(const char *lists, size_t stride, const struct topology *topology,
                        int machine, struct strbuf *out);

/* Writes "7 compute threads on cores 0-6, communication on core 7". threads: compute threads; 0:
 * the library chooses. */
void cores_describe(const struct cores *cores, int threads, char text[CORES_PLACE_BYTES]);

/* Appends a line for each different text, "Ranks 0-3 each: TEXT", in order of ranks; "" gets no
 * line. A line after the first CORES_LINES counts the texts left out. */
enum { CORES_LINES = 16 };
void cores_list_ranks(const char (*texts)[CORES_PLACE_BYTES], int ranks, struct strbuf *out);

/* Appends the lines of cores_list_ranks, for the texts of all ranks, to rank 0's `out`. Collective;
 * fails on all ranks together. */
int cores_gather(MPI_Comm world, const char text[CORES_PLACE_BYTES], struct strbuf *out);

/* Warns if the rank has one core while the machine has idle cores, if compute threads share cores,
 * or if OMP_NUM_THREADS leaves the rank one thread for several cores. threads: this rank's compute
 * threads; 0: unknown. asked: --threads is given. */
void cores_warn(const struct cores *cores, int threads, bool asked, int rank, struct log *log);

#endif
