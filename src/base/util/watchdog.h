/* Limits how long ranks wait for each other in calls of MPI, from a program's first message to its
 * last, while no wire checks for signs of life. A rank that is stopped or cut off, or a network
 * that drops large packets, leaves all other ranks in a call that never returns; no other call can
 * be made beside it. So a thread that never calls MPI watches how long the call lasts, reports the
 * wait at growing intervals, and at last ends the process.
 *
 * A process has one watchdog. Only waiting is limited, not what a rank does between two calls.
 *
 *     watchdog_begin(&(struct watchdog_options){.command = "train", .silence_seconds = 60,
 *                                               .lost_seconds = 300, .status = 76});
 *     watchdog_step("comparing the options of all ranks");
 *     MPI_CHECK(MPI_Bcast(...));          // MPI_CHECK and error_agree (util/agree.h) are watched
 *     ...
 *     watchdog_end();
 *
 * A rank in watchdog_wait tells rank 0 that it waits, and rank 0 answers. Rank 0 then names the
 * silent ranks, and ranks that got an answer do not report. Nothing here is collective. */
#ifndef POSEIDON_UTIL_WATCHDOG_H
#define POSEIDON_UTIL_WATCHDOG_H

#include <mpi.h>

enum {
    WATCHDOG_STOPPED_SECONDS = 6, /* a look this late means that this rank itself was stopped */
    WATCHDOG_GRACE_SECONDS = 15   /* most seconds that other ranks let one rank report first */
};

struct watchdog_options {
    const char *command;    /* "train", for messages. All texts here are borrowed */
    double silence_seconds; /* seconds of waiting before the first report; 0: no reports */
    double lost_seconds;    /* a wait longer than this ends the process; 0: never */
    int status;             /* exit status of a process that the watchdog ends */
    const char *advice;     /* end of the last message: "--resume goes on"; NULL: none */
    /* Replaces the last message and the exit, on the watching thread: must not call MPI and must
     * end the process. text: "rank 0 on a has waited 30 s for other ranks while ...". NULL: none */
    void (*lost)(void *context, const char *text);
    void *context;
};

/* Starts the watch after MPI_Init, unless the job has one rank. Fails if no thread can start. */
int watchdog_begin(const struct watchdog_options *options);

/* Sets other limits and another exit status, and drops the advice. A call under way counts from its
 * start. */
void watchdog_change(double silence_seconds, double lost_seconds, int status);

/* Names what the ranks do together from now on, for messages: "sharing the first parameters".
 * Borrows `what`, a constant. */
void watchdog_step(const char *what);

/* Names the ranks' hosts for messages; borrowed until NULL is given. */
struct topology;
void watchdog_hosts(const struct topology *topology);

/* Waits until a nonblocking collective of all ranks is complete; `call` names the collective.
 * Returns MPI's code. To be called by the thread that calls MPI. */
int watchdog_wait(const char *call, MPI_Request *request);

/* Stand around each MPI call that waits for other ranks, in MPI_STATUS. Cost: two stores. */
void watchdog_enter(const char *call);
void watchdog_leave(void);

/* Ends the watch. Does nothing without watchdog_begin. */
void watchdog_end(void);

#endif
