/* An ordered pool: job j leaves its result at place j mod places, which is free again once the
 * caller has asked for the job after it. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "util/thread_pool.h"

#include "util/error.h"
#include "util/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct pool {
    struct pool_options o;
    pthread_mutex_t mutex;
    pthread_cond_t room, ready;
    uint64_t begun, taken; /* jobs given to threads; jobs the caller has asked for */
    bool *done;            /* per place */
    bool stop;
    pthread_t *thread;
    int nthreads;
};

static void *pool_main(void *argument)
{
    struct pool *pool = argument;
    uint64_t places = (uint64_t)pool->o.places;

    pthread_mutex_lock(&pool->mutex);
    while (!pool->stop && pool->begun < pool->o.njobs) {
        uint64_t job = pool->begun;

        /* The job that the caller holds keeps its place. */
        if (job >= places && job - places + 1 >= pool->taken) {
            pthread_cond_wait(&pool->room, &pool->mutex);
            continue;
        }
        pool->begun++;
        pthread_mutex_unlock(&pool->mutex);
        pool->o.work(pool->o.context, job, (int)(job % places));
        pthread_mutex_lock(&pool->mutex);
        pool->done[job % places] = true;
        pthread_cond_signal(&pool->ready);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

static int threads_start(struct pool *pool)
{
    int status = 0;

    while (pool->nthreads < pool->o.threads && status == 0) {
        status = thread_start(&pool->thread[pool->nthreads], NULL, pool_main, pool);
        pool->nthreads += status == 0;
    }
    return pool->nthreads ? 0
                          : error_set("a working thread cannot be started: %s", strerror(status));
}

int pool_create(const struct pool_options *o, struct pool **out)
{
    struct pool *pool = calloc(1, sizeof *pool);

    *out = NULL;
    if (!pool)
        return error_memory(sizeof *pool, "a pool of threads");
    pool->o = *o;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->room, NULL);
    pthread_cond_init(&pool->ready, NULL);
    pool->done = calloc((size_t)o->places, sizeof *pool->done);
    pool->thread = calloc((size_t)o->threads, sizeof *pool->thread);
    if (!pool->done || !pool->thread) {
        error_memory((unsigned long long)o->threads * sizeof *pool->thread, "a pool of threads");
        goto fail;
    }
    if (threads_start(pool))
        goto fail;
    *out = pool;
    return 0;

fail:
    pool_destroy(pool);
    return -1;
}

int pool_next(struct pool *pool)
{
    uint64_t job;
    int place;

    pthread_mutex_lock(&pool->mutex);
    job = pool->taken;
    if (job == pool->o.njobs) {
        pthread_mutex_unlock(&pool->mutex);
        return -1;
    }
    pool->taken++;
    pthread_cond_broadcast(&pool->room);
    place = (int)(job % (uint64_t)pool->o.places);
    while (!pool->done[place])
        pthread_cond_wait(&pool->ready, &pool->mutex);
    pool->done[place] = false;
    pthread_mutex_unlock(&pool->mutex);
    return place;
}

void pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->stop = true;
    pthread_cond_broadcast(&pool->room);
    pthread_mutex_unlock(&pool->mutex);
    for (int t = 0; t < pool->nthreads; t++)
        pthread_join(pool->thread[t], NULL);
    pthread_cond_destroy(&pool->ready);
    pthread_cond_destroy(&pool->room);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->thread);
    free(pool->done);
    free(pool);
}

int pool_default_threads(void)
{
    cpu_set_t mask;
    int cores = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;

    return cores < 1 ? 1 : cores > 64 ? 64 : cores;
}
