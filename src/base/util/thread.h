/* Threads beside the main one. */
#ifndef POSEIDON_UTIL_THREAD_H
#define POSEIDON_UTIL_THREAD_H

#include <pthread.h>

/* Starts a thread with all signals blocked, which are for the main thread, on the cores of `like`,
 * a running thread (NULL: the caller's cores). Returns 0, or an errno value. */
int thread_start(pthread_t *out, const pthread_t *like, void *(*run)(void *), void *argument);

#endif
