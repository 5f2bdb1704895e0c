/* Threads that work beside their owner, and sleep when there is nothing to do. */
#ifndef POSEIDON_UTIL_WORKERS_H
#define POSEIDON_UTIL_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- threads that look for work themselves, under one mutex ---- */

struct workers_options {
    int threads;      /* threads at the start, at least 1 */
    int most;         /* most threads that workers_add may reach; 0: the threads of the start */
    const char *name; /* thread's name for debuggers; NULL: the process's */
    /* Does a piece of work, or returns false if there is none. Called with the mutex held; releases
     * the mutex for as long as the work takes. thread: index of the calling thread, from 0. */
    bool (*step)(void *context, int thread);
    void *context;
};

struct workers {
    struct workers_options o;
    pthread_mutex_t mutex; /* held in steps, and by the owner while it reads what steps share */
    pthread_cond_t wanted; /* signalled by the owner that has work for sleeping threads */
    pthread_cond_t told;   /* signalled by a step that has something for the waiting owner */
    bool stop;             /* no further step begins */
    int count;             /* number of running threads; for the owner alone */
    struct worker {
        struct workers *workers;
        pthread_t thread;
    } worker[];
};

/* Starts the threads with all signals blocked, or fewer if the system gives fewer. Returns -1 with
 * a message if the system gives none. Sets *out before the first step. */
int workers_create(const struct workers_options *options, struct workers **out);

/* Starts a thread on the first's cores. Returns false if the system has none or `most` run. */
bool workers_add(struct workers *workers);

/* Ends the threads after their current steps. Does nothing if NULL. */
void workers_destroy(struct workers *workers);

/* Returns the number of cores of this process, at most 64. */
int workers_usual(void);

/* ---- threads that get numbered jobs ---- */

struct jobs;

struct jobs_options {
    int threads; /* threads at the start, at least 1 */
    int places;  /* most jobs that are given and not taken. Their numbers differ modulo `places`, so
                    that job j may leave its result at place j % places */
    int (*work)(void *context, uint64_t job); /* does a job on a thread: 0, or -1 with a message */
    bool (*interrupted)(void); /* true ends jobs_next, which asks every second; NULL: never */
    void *context;
};

/* Starts the threads like workers_create. */
int jobs_create(const struct jobs_options *options, struct jobs **out);

/* Gives a job to the threads. Allocates nothing; locks. */
void jobs_give(struct jobs *jobs, uint64_t job);

/* Takes a finished job: 1. Returns 0 if there is none, without a lock, or -1 if a job failed. */
int jobs_take(struct jobs *jobs, uint64_t *job);

/* Returns true if jobs were given and not taken; false if `jobs` is NULL. */
bool jobs_busy(const struct jobs *jobs);

/* Replaces jobs_give and jobs_take: does jobs 0, 1, ... count-1 and returns their numbers in order.
 * Waits for the next job, whose place is the caller's until the next call; keeps the threads busy.
 * Returns false after the last job or an interruption. A failed job must mark its place. */
bool jobs_next(struct jobs *jobs, uint64_t count, uint64_t *job);

/* Ends the threads after their current jobs, and begins no others. Does nothing if NULL. */
void jobs_destroy(struct jobs *jobs);

#endif
