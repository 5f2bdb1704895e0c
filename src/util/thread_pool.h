/* Threads that work ahead: jobs 0, 1, 2, ... are done by several threads and taken in their order.
 */
#ifndef POSEIDON_INPUT_POOL_H
#define POSEIDON_INPUT_POOL_H

#include <stdint.h>

struct pool;

struct pool_options {
    uint64_t njobs;
    int threads; /* at least 1 */
    int places;  /* room for results, at least threads + 1: how far the threads may be ahead */
    /* Does the job and leaves its result, or its error, at `place` (0 .. places-1) of the context.
     */
    void (*work)(void *context, uint64_t job, int place);
    void *context;
};

/* Starts the threads, all signals blocked. */
int pool_create(const struct pool_options *o, struct pool **out);

/* Waits for the next job in order and returns its place, the caller's until the next call; -1 after
 * the last one. Called from one thread. */
int pool_next(struct pool *pool);

/* Waits for the jobs in work, begins no others, and ends the threads. */
void pool_destroy(struct pool *pool);

/* As many threads as this process has cores. */
int pool_default_threads(void);

#endif
