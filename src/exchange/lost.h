/* How a process ends that has lost a rank: nothing collective will ever end. */
#ifndef POSEIDON_EXCHANGE_LOST_H
#define POSEIDON_EXCHANGE_LOST_H

enum { EXCHANGE_LOST = 76 }; /* the status of such a process */

struct exchange_end {
    const char *program; /* "poseidon train": whose message it is */
    const char *what;    /* "The run": what ends */
    const char *advice;  /* behind the status: how to go on; or "" */
    int save_seconds;    /* that `save` may take */
    /* What must not be lost is written. NULL: there is nothing. */
    void (*save)(void *context);
    void *context;
};

/* Says which rank was lost (text), saves, and ends the process: by MPI_Abort, or without it where
 * the launcher is out of reach. On the wire's thread. Does not return. */
void exchange_lost(const struct exchange_end *end, const char *text);

#endif
