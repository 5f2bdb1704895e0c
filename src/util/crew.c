/* Two rings: jobs to do, and jobs that are over. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "util/crew.h"

#include "util/error.h"
#include "util/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct crew {
    struct crew_options o;
    pthread_mutex_t mutex;
    pthread_cond_t wanted;
    uint64_t given, begun; /* so many jobs */
    _Atomic uint64_t over; /* written under the mutex */
    uint64_t taken;        /* the giver's */
    int *todo, *done;      /* rings of o.jobs places */
    bool stop, failed;
    char failure[512]; /* of the first that failed */
    int nthreads;
    pthread_t thread[];
};

static void *crew_main(void *argument)
{
    struct crew *crew = argument;
    uint64_t jobs = (uint64_t)crew->o.jobs;

    pthread_mutex_lock(&crew->mutex);
    while (!crew->stop) {
        int job, status;
        uint64_t over;
        if (crew->begun == crew->given) {
            pthread_cond_wait(&crew->wanted, &crew->mutex);
            continue;
        }
        job = crew->todo[crew->begun++ % jobs];
        pthread_mutex_unlock(&crew->mutex);
        status = crew->o.work(crew->o.context, job);
        pthread_mutex_lock(&crew->mutex);
        if (status && !crew->failed) {
            crew->failed = true;
            snprintf(crew->failure, sizeof crew->failure, "%s", error_text());
        }
        over = atomic_load_explicit(&crew->over, memory_order_relaxed);
        crew->done[over % jobs] = job;
        atomic_store_explicit(&crew->over, over + 1, memory_order_release);
    }
    pthread_mutex_unlock(&crew->mutex);
    return NULL;
}

static int threads_start(struct crew *crew)
{
    int status = 0;

    while (crew->nthreads < crew->o.threads && status == 0) {
        status = thread_start(&crew->thread[crew->nthreads], NULL, crew_main, crew);
        crew->nthreads += status == 0;
    }
    return crew->nthreads ? 0
                          : error_set("a helping thread cannot be started: %s", strerror(status));
}

int crew_create(const struct crew_options *o, struct crew **out)
{
    size_t bytes = sizeof(struct crew) + (size_t)o->threads * sizeof(pthread_t);
    struct crew *crew = calloc(1, bytes);

    *out = NULL;
    if (!crew)
        return error_memory(bytes, "helping threads");
    crew->o = *o;
    pthread_mutex_init(&crew->mutex, NULL);
    pthread_cond_init(&crew->wanted, NULL);
    crew->todo = calloc((size_t)o->jobs, sizeof *crew->todo);
    crew->done = calloc((size_t)o->jobs, sizeof *crew->done);
    if (!crew->todo || !crew->done) {
        error_memory((size_t)o->jobs * sizeof *crew->todo, "jobs of helping threads");
        goto fail;
    }
    if (threads_start(crew))
        goto fail;
    *out = crew;
    return 0;

fail:
    crew_destroy(crew);
    return -1;
}

void crew_give(struct crew *crew, int job)
{
    pthread_mutex_lock(&crew->mutex);
    crew->todo[crew->given++ % (uint64_t)crew->o.jobs] = job;
    pthread_cond_signal(&crew->wanted);
    pthread_mutex_unlock(&crew->mutex);
}

int crew_take(struct crew *crew, int *job)
{
    int status;

    if (atomic_load_explicit(&crew->over, memory_order_acquire) == crew->taken)
        return 0;
    pthread_mutex_lock(&crew->mutex);
    *job = crew->done[crew->taken++ % (uint64_t)crew->o.jobs];
    status = crew->failed ? error_set("%s", crew->failure) : 1;
    pthread_mutex_unlock(&crew->mutex);
    return status;
}

bool crew_busy(const struct crew *crew)
{
    return crew && crew->given != crew->taken; /* both are the giver's to write */
}

void crew_destroy(struct crew *crew)
{
    if (!crew)
        return;
    pthread_mutex_lock(&crew->mutex);
    crew->stop = true;
    pthread_cond_broadcast(&crew->wanted);
    pthread_mutex_unlock(&crew->mutex);
    for (int t = 0; t < crew->nthreads; t++)
        pthread_join(crew->thread[t], NULL);
    pthread_cond_destroy(&crew->wanted);
    pthread_mutex_destroy(&crew->mutex);
    free(crew->todo);
    free(crew->done);
    free(crew);
}
