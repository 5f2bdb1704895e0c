/* Threads that do jobs for one other thread, which goes on meanwhile and asks what is over. They
 * sleep when nothing is to be done. */
#ifndef POSEIDON_UTIL_CREW_H
#define POSEIDON_UTIL_CREW_H

#include <stdbool.h>

struct crew;

struct crew_options {
    int threads; /* at least 1 */
    int jobs;    /* numbers of jobs: 0 .. jobs-1; each given again only when it was taken */
    int (*work)(void *context, int job); /* on one of the threads: 0, or -1 with a message */
    void *context;
};

/* Starts the threads, all signals blocked; fewer where the system gives fewer, -1 with a message
 * where it gives none. */
int crew_create(const struct crew_options *options, struct crew **out);

/* Hands the job over. Allocates nothing; locks. */
void crew_give(struct crew *crew, int job);

/* A job that is over: 1; none yet: 0, without a lock; or -1 with the message of one that failed. */
int crew_take(struct crew *crew, int *job);

/* Whether jobs were given and not taken; of NULL: no. */
bool crew_busy(const struct crew *crew);

/* Ends the threads when their jobs are over; begins no others. NULL: nothing. */
void crew_destroy(struct crew *crew);

#endif
