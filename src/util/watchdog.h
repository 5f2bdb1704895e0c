/* How long ranks wait for each other where no wire's signs of life stand yet, or any more: from the
 * first message of a program to its last. A rank that is stopped or cut off, or a network that
 * swallows large packets, leaves all others in a call of MPI that never returns, and no other call
 * can be made beside it. So a thread that makes none looks from outside how long the call lasts:
 * it says so, again at growing intervals, and at last ends the process.
 *
 * There is one of it in a process, as there is one MPI. What a rank does by itself, between two
 * calls, may last as long as it likes; that others wait for it is limited.
 *
 *     watchdog_begin(&(struct watchdog_options){.command = "train", .silence_seconds = 60,
 *                                               .lost_seconds = 300, .status = 76});
 *     watchdog_step("comparing the options of all ranks");
 *     MPI_CHECK(MPI_Bcast(...));          // of util/agree.h: is watched, as error_agree is
 *     ...
 *     watchdog_end();
 *
 * Who waits by watchdog_wait tells rank 0 so meanwhile, and rank 0 answers: it then names those of
 * which it has not heard, and the others keep quiet. Nothing here is collective. */
#ifndef POSEIDON_UTIL_WATCHDOG_H
#define POSEIDON_UTIL_WATCHDOG_H

#include <mpi.h>

enum {
    WATCHDOG_STOPPED_SECONDS =
        6,                      /* who looks so late was stopped itself: that is nobody's silence */
    WATCHDOG_GRACE_SECONDS = 15 /* one rank speaks first; others so much later, at most */
};

struct watchdog_options {
    const char *command;    /* "train", for messages. Borrowed, as all of these */
    double silence_seconds; /* a wait longer than that is told of on standard error; 0: never */
    double lost_seconds;    /* one longer than that ends the process; 0: never */
    int status;             /* with which it ends */
    const char *advice;     /* follows the last message: "--resume goes on"; NULL: none */
    /* Instead of that message and end, on the thread of the watch; must not call MPI, and must end
     * the process. text: "rank 0 on a has waited 30 s for other ranks while ...". NULL: none. */
    void (*lost)(void *context, const char *text);
    void *context;
};

/* After MPI_Init. Without effect in a job of one rank. Fails where no thread can be started. */
int watchdog_begin(const struct watchdog_options *options);

/* Other limits and another end from now on; the call that is under way counts from its beginning.
 */
void watchdog_change(double silence_seconds, double lost_seconds, int status);

/* What the ranks are about to do together: "sharing the first parameters". Lasts to the next one.
 * Kept as it is, so a constant. */
void watchdog_step(const char *what);

/* Where the ranks are, for messages; borrowed until NULL is given. */
struct topology;
void watchdog_hosts(const struct topology *topology);

/* Waits until a nonblocking collective of all ranks is over, which stands for `call`; returns MPI's
 * code. The thread that calls MPI. */
int watchdog_wait(const char *call, MPI_Request *request);

/* Around each call of MPI that waits for other ranks; MPI_STATUS does it. Two stores. */
void watchdog_enter(const char *call);
void watchdog_leave(void);

/* No more is watched. Without watchdog_begin: nothing. */
void watchdog_end(void);

#endif
