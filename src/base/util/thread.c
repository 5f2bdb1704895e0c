/* Starts threads. A new thread inherits the signal mask and cores of its creator, so the creator
 * blocks all signals for the start and then restores its mask. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "util/thread.h"

#include <sched.h>
#include <signal.h>

int thread_start(pthread_t *out, const pthread_t *like, void *(*run)(void *), void *argument)
{
    sigset_t all, old;
    cpu_set_t cores;
    int status;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    status = pthread_create(out, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!status && like && !pthread_getaffinity_np(*like, sizeof cores, &cores))
        (void)pthread_setaffinity_np(*out, sizeof cores, &cores);
    return status;
}
