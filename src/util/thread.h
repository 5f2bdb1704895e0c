/* Threads beside the main one. */
#ifndef POSEIDON_UTIL_THREAD_H
#define POSEIDON_UTIL_THREAD_H

#include <pthread.h>

/* Starts a thread with all signals blocked: they are for the main thread. It runs where `like` may,
 * another running thread, or NULL: where the caller may. Returns an errno value, 0: *out runs. */
int thread_start(pthread_t *out, const pthread_t *like, void *(*run)(void *), void *argument);

#endif
