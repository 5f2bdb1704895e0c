/* Ends a process after another rank was lost, when no collective call can end any more. */
#ifndef POSEIDON_EXCHANGE_LOST_H
#define POSEIDON_EXCHANGE_LOST_H

enum { EXCHANGE_LOST = 76 }; /* exit status of such a process */

struct exchange_end {
    const char *program;         /* first words of the message: "poseidon train" */
    const char *what;            /* subject of the message: "The run" */
    const char *advice;          /* end of the message: how to go on; or "" */
    int save_seconds;            /* time limit of `save` */
    void (*save)(void *context); /* writes what must not be lost; may be NULL */
    void *context;               /* argument of `save` */
};

/* Prints `text`, which names the lost rank, calls end->save, and ends the process with status
 * EXCHANGE_LOST: by MPI_Abort, or by _exit if the launcher does not answer. On the wire's thread.
 * Does not return. */
void exchange_lost(const struct exchange_end *end, const char *text);

#endif
