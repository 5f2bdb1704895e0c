/* What the scenarios of wire_ranks share: the rank's wire, and MPI's profiling interface, which
 * notes the order of sends and, where a seed asks for it, delays sends and lets arrivals and
 * completions be seen late and out of order. */
#ifndef POSEIDON_TESTS_WIRE_WIRE_RIG_H
#define POSEIDON_TESTS_WIRE_WIRE_RIG_H

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/error.h"
#include "wire/wire.h"

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, %s:%d: %s: ", rank, __FILE__, __LINE__, #condition);         \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

extern int rank, nranks;
extern MPI_Comm data;
extern struct wire *wire;
extern pthread_t wire_thread;   /* from `enter` on */
extern uint64_t chaos;          /* state of the random delays; 0: none */
extern int order[4096], norder; /* tags of data messages as MPI got them */
extern int replies;             /* how many of them end when their receiver has matched them */
extern _Atomic int64_t received, sent, called, warned;
extern char warning[1024];
extern double moved_bytes; /* as `account` saw it */

uint64_t mix(uint64_t x);

/* Options with all that the rig looks after; accept is the scenario's. */
struct wire_options usual(void);
void open_wire(const struct wire_options *options);

/* Everybody ends the same way: 0, or the same message everywhere. */
void close_wire(int status, int expected);

/* The end of a send of malloc'ed memory. */
int say_sent(void *context, const struct wire_message *message);

/* Takes in one float, which nobody looks at; counts what was received. */
int accept_float(void *context, int peer, int tag, size_t bytes, struct wire_message *out);
int take_float(void *context, const struct wire_message *message);

/* Scenarios; arguments follow the name. */
void traffic(int argc, char **argv);
void stopped(int argc, char **argv);
void by_urgency(int argc, char **argv);
void window(int argc, char **argv);
void failing(int argc, char **argv);
void unstarted(int argc, char **argv);
void stall(int argc, char **argv);

#endif
