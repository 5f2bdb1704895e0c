/* Threads that work beside the one that owns them, and sleep when nothing is to be done. */
#ifndef POSEIDON_UTIL_WORKERS_H
#define POSEIDON_UTIL_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- threads that look for work themselves, under one mutex ---- */

struct workers_options {
    int threads;      /* to start with, at least 1 */
    int most;         /* that workers_add may make of them; 0: no more */
    const char *name; /* for debuggers; NULL: the process's */
    /* Called with the mutex held: does a piece of work, without it for as long as that takes,
     * or returns false where there is none. thread: from 0 on, whose call it is. */
    bool (*step)(void *context, int thread);
    void *context;
};

struct workers {
    struct workers_options o;
    pthread_mutex_t mutex; /* held in steps, and by the owner while it looks at what they share */
    pthread_cond_t wanted; /* the owner has work: threads that found none look again */
    pthread_cond_t told;   /* a step has something for the owner, who waits */
    bool stop;             /* no further step */
    int count;             /* threads; the owner's */
    struct worker {
        struct workers *workers;
        pthread_t thread;
    } worker[];
};

/* Starts the threads, all signals blocked; fewer where the system gives fewer, -1 with a message
 * where it gives none. *out is set before the first step. */
int workers_create(const struct workers_options *options, struct workers **out);

/* One more, which runs where the first may; false if the system gives none or there are `most`. */
bool workers_add(struct workers *workers);

/* Ends the threads when their steps are over. NULL: nothing. */
void workers_destroy(struct workers *workers);

/* As many threads as this process has cores. */
int workers_usual(void);

/* ---- threads that get numbered jobs ---- */

struct jobs;

struct jobs_options {
    int threads; /* at least 1 */
    int places;  /* how many jobs may be under way or not taken; no two of the same number modulo
                    it, which is where a job may leave its result */
    int (*work)(void *context, uint64_t job); /* on one of the threads: 0, or -1 with a message */
    bool (*interrupted)(void);                /* asked every second by jobs_next, which ends
                                                 where it is true; NULL: never */
    void *context;
};

/* As workers_create. */
int jobs_create(const struct jobs_options *options, struct jobs **out);

/* Hands the job over. Allocates nothing; locks. */
void jobs_give(struct jobs *jobs, uint64_t job);

/* A job that is over: 1; none yet: 0, without a lock; or -1 with the message of one that failed. */
int jobs_take(struct jobs *jobs, uint64_t *job);

/* Whether jobs were given and not taken; of NULL: no. */
bool jobs_busy(const struct jobs *jobs);

/* Instead of giving and taking: jobs 0, 1, ... count-1 in their order. Waits for the next, whose
 * place is the caller's until the next call, and keeps the threads busy with those behind it; false
 * after the last, and when it is interrupted. What fails leaves word of it at its place. */
bool jobs_next(struct jobs *jobs, uint64_t count, uint64_t *job);

/* Ends the threads when their jobs are over; begins no others. NULL: nothing. */
void jobs_destroy(struct jobs *jobs);

#endif
