/* Threads under one mutex, and on top of the threads two rings: jobs to do, and finished jobs. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "util/workers.h"

#include "util/alloc.h"
#include "util/thread.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* ---- threads ---- */

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct workers *w = worker->workers;
    int number = (int)(worker - w->worker);

    if (w->o.name)
        prctl(PR_SET_NAME, w->o.name);
    pthread_mutex_lock(&w->mutex);
    while (!w->stop)
        if (!w->o.step(w->o.context, number))
            pthread_cond_wait(&w->wanted, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

/* Starts a thread on the cores of the first, even if the owner is bound. Returns an errno value. */
static int start_one(struct workers *w)
{
    struct worker *worker = &w->worker[w->count];
    int status;

    worker->workers = w;
    status = thread_start(&worker->thread, w->count > 0 ? &w->worker[0].thread : NULL, worker_main,
                          worker);
    w->count += status == 0;
    return status;
}

int workers_create(const struct workers_options *o, struct workers **out)
{
    int most = o->most > o->threads ? o->most : o->threads, status = 0;
    size_t bytes = sizeof(struct workers) + (size_t)most * sizeof(struct worker);
    struct workers *w = alloc_array(1, bytes, "helping threads");

    *out = w;
    if (!w)
        return -1;
    assert(o->threads >= 1);
    w->o = *o;
    w->o.most = most;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->wanted, NULL);
    pthread_cond_init(&w->told, NULL);
    pthread_mutex_lock(&w->mutex); /* no step runs before *out is set */
    while (w->count < o->threads && status == 0)
        status = start_one(w);
    pthread_mutex_unlock(&w->mutex);
    if (w->count > 0)
        return 0;
    workers_destroy(w);
    *out = NULL;
    return error_set("cannot start a helper thread: %s", strerror(status));
}

bool workers_add(struct workers *w)
{
    return w->count < w->o.most && start_one(w) == 0;
}

void workers_destroy(struct workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    pthread_cond_broadcast(&w->wanted);
    pthread_mutex_unlock(&w->mutex);
    for (int t = 0; t < w->count; t++)
        pthread_join(w->worker[t].thread, NULL);
    pthread_cond_destroy(&w->told);
    pthread_cond_destroy(&w->wanted);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

int workers_usual(void)
{
    cpu_set_t mask;
    int cores = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;

    return cores < 1 ? 1 : cores > 64 ? 64 : cores;
}

/* ---- jobs ---- */

struct jobs {
    struct jobs_options o;
    struct workers *workers;
    uint64_t given, begun; /* number of jobs given, and begun */
    _Atomic uint64_t over; /* number of finished jobs; written under the mutex */
    uint64_t taken, next;  /* the giver's counts of jobs: taken, and returned by jobs_next */
    uint64_t *todo, *done; /* rings of o.places job numbers */
    bool *ready;           /* the giver's, per place: job finished, but not yet returned */
    bool failed;
    char failure[512]; /* message of the first job that failed */
};

static bool job_do(void *context, int thread)
{
    struct jobs *jobs = context;
    uint64_t places = (uint64_t)jobs->o.places, job, over;
    int status;

    (void)thread;
    if (jobs->begun == jobs->given)
        return false;
    job = jobs->todo[jobs->begun++ % places];
    pthread_mutex_unlock(&jobs->workers->mutex);
    status = jobs->o.work(jobs->o.context, job);
    pthread_mutex_lock(&jobs->workers->mutex);
    if (status && !jobs->failed) {
        jobs->failed = true;
        snprintf(jobs->failure, sizeof jobs->failure, "%s", error_text());
    }
    over = atomic_load_explicit(&jobs->over, memory_order_relaxed);
    jobs->done[over % places] = job;
    atomic_store_explicit(&jobs->over, over + 1, memory_order_release);
    pthread_cond_signal(&jobs->workers->told);
    return true;
}

int jobs_create(const struct jobs_options *o, struct jobs **out)
{
    const size_t places = (size_t)o->places;
    const char *what = "jobs of helping threads";
    struct jobs *jobs = alloc_array(1, sizeof *jobs, what);
    struct workers_options threads = {.threads = o->threads, .step = job_do, .context = jobs};

    *out = NULL;
    if (!jobs)
        return -1;
    jobs->o = *o;
    if (ALLOC(jobs->todo, places, what) || ALLOC(jobs->done, places, what) ||
        ALLOC(jobs->ready, places, what) || workers_create(&threads, &jobs->workers)) {
        jobs_destroy(jobs);
        return -1;
    }
    *out = jobs;
    return 0;
}

void jobs_give(struct jobs *jobs, uint64_t job)
{
    assert(jobs->given - jobs->taken < (uint64_t)jobs->o.places);
    pthread_mutex_lock(&jobs->workers->mutex);
    jobs->todo[jobs->given++ % (uint64_t)jobs->o.places] = job;
    pthread_cond_signal(&jobs->workers->wanted);
    pthread_mutex_unlock(&jobs->workers->mutex);
}

int jobs_take(struct jobs *jobs, uint64_t *job)
{
    int status;

    if (atomic_load_explicit(&jobs->over, memory_order_acquire) == jobs->taken)
        return 0;
    pthread_mutex_lock(&jobs->workers->mutex);
    *job = jobs->done[jobs->taken++ % (uint64_t)jobs->o.places];
    status = jobs->failed ? error_set("%s", jobs->failure) : 1;
    pthread_mutex_unlock(&jobs->workers->mutex);
    return status;
}

bool jobs_busy(const struct jobs *jobs)
{
    return jobs && jobs->given != jobs->taken; /* the giver alone writes both counts */
}

/* Waits until a job is finished; returns false when interrupted. */
static bool jobs_wait(struct jobs *jobs)
{
    struct workers *w = jobs->workers;
    struct timespec until;
    bool stop = false;

    pthread_mutex_lock(&w->mutex);
    while (atomic_load_explicit(&jobs->over, memory_order_relaxed) == jobs->taken &&
           !(stop = jobs->o.interrupted && jobs->o.interrupted())) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&w->told, &w->mutex, &until);
    }
    pthread_mutex_unlock(&w->mutex);
    return !stop;
}

bool jobs_next(struct jobs *jobs, uint64_t count, uint64_t *job)
{
    uint64_t places = (uint64_t)jobs->o.places, done;
    bool *ready = &jobs->ready[jobs->next % places];

    while (jobs->given < count && jobs->given < jobs->next + places)
        jobs_give(jobs, jobs->given);
    if (jobs->next == count)
        return false;
    while (!*ready) {
        if (!jobs_wait(jobs))
            return false;
        jobs_take(jobs, &done);
        jobs->ready[done % places] = true;
    }
    *ready = false;
    *job = jobs->next++;
    return true;
}

void jobs_destroy(struct jobs *jobs)
{
    if (!jobs)
        return;
    workers_destroy(jobs->workers);
    free(jobs->todo);
    free(jobs->done);
    free(jobs->ready);
    free(jobs);
}
